package migrate

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/virtualtime"
)

// driveRounds lets a follower have rounds, each of which takes a factor longer
// than the one before, until the context ends.
func driveRounds(ctx context.Context, f *streamFollower, first time.Duration, factor float64) {
	for length := first; ctx.Err() == nil; length = time.Duration(float64(length) * factor) {
		began := time.Now()
		select {
		case <-time.After(length):
			f.finish(began, began)
		case <-ctx.Done():
		}
	}
}

// Items that differ wait together for the followers: the number of waits does not
// depend on the number of items.
func TestVerificationWaitsForManyItemsAtOnce(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		r, _ := limitedRun(t, copiedUsers)
		f := &streamFollower{table: "users"}
		r.followers = &following{all: []*streamFollower{f}, poll: time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { driveRounds(ctx, f, time.Minute, 1) })
		v := &verifier{phaseRun: r}
		began := time.Now()
		var reported atomic.Int64
		for i := range 900 {
			times := 0
			c := &itemComparison{
				compare: func(context.Context) (readPair, error) {
					times++
					source := item.Make(map[string]item.Value{"id": item.String("1")})
					if i == 2 { // it changes each time
						source = item.Make(map[string]item.Value{"id": item.String(strings.Repeat("x", times))})
					}
					return readPair{source: source, equal: i > 2 && times > 1}, nil
				},
				differs: func(context.Context, readPair) error { reported.Add(1); return nil },
			}
			if err := v.check(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := v.settle(ctx); err != nil {
			t.Fatal(err)
		}
		if reported.Load() != 2 || v.result.Moving != 1 || v.result.Compared != 900 {
			t.Errorf("%d items are reported, %+v", reported.Load(), v.result)
		}
		if took := time.Since(began); took > 3*maxTries*time.Minute {
			t.Errorf("it took %s", took)
		}
		cancel()
		group.Wait()
	})
}

// A verification ends if the application writes faster than the followers read,
// and not if a follower has a backlog or long rounds.
func TestVerificationEndsIfTheFollowerIsTooSlow(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  time.Duration // round
		factor float64
		slow   bool
	}{
		{"more is written than read", 2 * time.Minute, 1.5, true},
		{"a backlog", 10 * time.Hour, 0.5, false},
		{"long rounds", 5 * time.Minute, 1, false},
		{"short rounds", time.Millisecond, 1.5, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				f := &streamFollower{table: "tab"}
				g := &following{all: []*streamFollower{f}, poll: time.Second}
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				group.Go(func() { driveRounds(ctx, f, c.first, c.factor) })
				var err error
				for range 5 {
					if err = g.catchUp(ctx); err != nil {
						break
					}
				}
				if (err != nil) != c.slow || c.slow && !strings.Contains(err.Error(), "faster") {
					t.Error(err)
				}
				cancel()
				group.Wait()
			})
		})
	}
}
