package migrate

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// drive lets a follower have a round in each interval, and a record now and then
// until some time. No records come if records is 0.
func drive(ctx context.Context, f *streamFollower, every, records time.Duration, until time.Time) {
	next := time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		time.Sleep(every)
		if records > 0 && time.Now().After(next) && time.Now().Before(until) {
			f.readRecord()
			next = time.Now().Add(records)
		}
		f.finish(began, began)
	}
}

// The wait for the end of writes sees the records of all streams, whatever the
// lengths of their rounds are.
func TestWaitQuiet(t *testing.T) {
	for _, c := range []struct {
		name                    string
		records, stop           time.Duration // how often records come, and until when
		quiet, timeout, atLeast time.Duration
		fails                   bool
	}{
		{"writes go on", 60 * time.Millisecond, time.Hour, 500 * time.Millisecond, 2 * time.Second, 2 * time.Second, true},
		{"writes stop", 60 * time.Millisecond, time.Second, 500 * time.Millisecond, 10 * time.Second, 1400 * time.Millisecond, false},
		{"no pause is asked for", 0, 0, 1, time.Minute, 100 * time.Millisecond, false},
		{"a pause that is longer than the timeout", 0, 0, 90 * time.Second, time.Minute, 90 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				busy, slow := &streamFollower{table: "busy"}, &streamFollower{table: "slow"}
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				var group sync.WaitGroup
				group.Go(func() { drive(ctx, busy, 2*time.Millisecond, c.records, began.Add(c.stop)) })
				group.Go(func() { drive(ctx, slow, 100*time.Millisecond, 0, began) })
				g := &following{all: []*streamFollower{slow, busy}, poll: time.Millisecond}
				err := g.waitQuiet(ctx, c.quiet, c.timeout)
				if waited := time.Since(began); (err != nil) != c.fails || waited < c.atLeast {
					t.Errorf("after %s: %v", waited, err)
				}
				cancel()
				group.Wait()
			})
		})
	}
}
