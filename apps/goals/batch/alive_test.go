package batch

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/internal/virtualtime"
)

// unfinished leaves a run unfinished and changes its entry in the ledger.
func (b *bank) unfinished(day string, change func(*loaded)) {
	b.Helper()
	of, err := strconv.Atoi(day[8:])
	if err != nil {
		b.Fatal(err)
	}
	b.saving(day, 50000+of, 50000) // more each day, so that each has a reward
	if _, err := b.run(day, func(o *Options) {
		o.Reward = func(context.Context, []goals.Reward) error { return errors.New("Kafka does not respond") }
	}); err == nil {
		b.Fatal("the run is finished")
	}
	table, err := tableID(b.Context(), b.home.DB)
	if err != nil {
		b.Fatal(err)
	}
	l, err := openLedger(b.Context(), b.options.State, table)
	if err != nil {
		b.Fatal(err)
	}
	change(&l.Unfinished[0])
	if err := l.save(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// In a container the process is 1, before and after a restart, and the host's name
// changes when the container is replaced. An unfinished run does not block the next
// day: a run of this process has ended, and one of another is alive for ten minutes
// after it last recorded so.
func TestUnfinishedRunInAContainer(t *testing.T) {
	b := newBank(t)
	b.unfinished("2026-05-14", func(u *loaded) { u.Process = 1 })
	b.saving("2026-05-15", 50000, 50000)
	b.mustRun("2026-05-15") // the same process
	for i, change := range []func(*loaded){
		func(u *loaded) { u.Process, u.Instance = 1, "the process before a restart" },
		func(u *loaded) { u.Process, u.Instance, u.Host = 1, "another container", "another host" },
	} {
		day := [][2]string{{"2026-05-16", "2026-05-17"}, {"2026-05-18", "2026-05-19"}}[i]
		b.unfinished(day[0], change)
		b.saving(day[1], 50000, 50000)
		if _, err := b.run(day[1]); err == nil || !strings.Contains(err.Error(), "--take-over") {
			t.Fatalf("while the other run may be in progress: %v", err)
		}
		b.mustRun(day[1], func(o *Options) { o.Now = func() time.Time { return noon.Add(11 * time.Minute) } })
	}
	b.unfinished("2026-05-20", func(u *loaded) {})
	b.mustRun("2026-05-20") // continued
	if day, at, err := LoadedDay(t.Context(), b.home.DB, b.options.State); err != nil || day != "2026-05-20" || !at.Equal(noon) {
		t.Errorf("loaded is %s at %s, %v", day, at, err)
	}
	for list := b.options.State.List(nil); ; {
		found, err := list.Next(t.Context())
		if err != nil {
			break
		}
		if strings.Contains(found.Key, "alive-") {
			t.Errorf("%s is left", found.Key)
		}
	}
}

// A run records each minute that it is alive, and ends if it cannot for half the time
// after which another may begin.
func TestAlive(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var records []time.Duration
		began, fails := time.Now(), false
		record := func(context.Context) error {
			if fails {
				return errors.New("the bucket does not respond")
			}
			records = append(records, time.Since(began))
			return nil
		}
		work := func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(150 * time.Second):
				return nil
			}
		}
		if err := whileAlive(t.Context(), time.Now, record, work); err != nil || len(records) != 3 || records[2] != 2*time.Minute {
			t.Errorf("recorded after %v, %v", records, err)
		}
		err := whileAlive(t.Context(), time.Now, record, func(ctx context.Context) error {
			fails = true
			<-ctx.Done()
			return ctx.Err()
		})
		if err == nil || !strings.Contains(err.Error(), "the bucket does not respond") {
			t.Errorf("without records: %v", err)
		}
	})
}
