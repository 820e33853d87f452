package tikv_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/tikv"
	"github.com/stator-db/stator/internal/store/tikv/tikvtest"
)

// The time of a server is that of the cluster, whatever the wall clock of the machine
// is. A difference is logged.
func TestSharedTime(t *testing.T) {
	for _, ahead := range []time.Duration{0, -23 * time.Hour, 11 * time.Minute} {
		cluster, log := tikvtest.New(t), new(logtest.Log)
		cluster.Ahead = ahead
		e := cluster.Open(t, tikv.Options{Log: log.Logger()})
		for range 3 {
			before, err := e.Horizon(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Update(context.Background(), [][]byte{[]byte("k")}, func(tx store.Tx) error {
				tx.Set([]byte("k"), []byte("v"))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			now := e.SharedTime()
			if off := now.Sub(time.Now().Add(ahead)); off.Abs() > time.Minute {
				t.Errorf("the cluster is ahead by %v: the time is off by %v", ahead, off)
			}
			if off := now.Sub(before.Time()); off.Abs() > time.Minute {
				t.Errorf("the cluster is ahead by %v: the time is %v from the stamps", ahead, off)
			}
		}
		if strings.Contains(log.String(), "differs from that of the cluster") != (ahead != 0) {
			t.Errorf("the cluster is ahead by %v: the log is %s", ahead, log.String())
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Between timestamps the clock runs on, also when a wall clock is stepped, and a
// timestamp that took long does not set it.
func TestSharedTimeRunsOn(t *testing.T) {
	log := new(logtest.Log)
	c := tikv.NewClock(log.Logger())
	begun := time.Now() // with a monotonic reading
	cluster := time.UnixMilli(1_800_000_000_000).UTC()
	check := func(passed, want time.Duration) {
		t.Helper()
		if got := c.At(begun.Add(passed)).Sub(cluster); got != want {
			t.Errorf("after %v the time is %v, want %v", passed, got, want)
		}
	}
	observe := func(of, requested, took time.Duration) {
		c.Observe(uint64(store.StampAt(cluster.Add(of))), begun.Add(requested), begun.Add(requested+took))
	}
	observe(0, -10*time.Millisecond, 20*time.Millisecond)
	check(0, 0)
	check(time.Hour, time.Hour) // the cluster does not answer
	observe(2*time.Hour, time.Hour, 10*time.Second)
	check(time.Hour, time.Hour)
	observe(2*time.Hour, time.Hour, 0)
	check(time.Hour, 2*time.Hour)
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("a difference is logged %d times", n)
	}
	c.Observe(uint64(store.StampAt(begun)), begun, begun)
	if !strings.Contains(log.String(), "agrees with that of the cluster again") {
		t.Errorf("the log is %s", log.String())
	}
}
