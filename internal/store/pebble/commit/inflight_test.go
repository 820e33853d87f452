package commit

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/virtualtime"
)

func TestStampsGrow(t *testing.T) {
	f := NewInFlight(10)
	for _, c := range []struct{ atLeast, want store.Stamp }{{5, 11}, {20, 20}, {20, 21}, {0, 22}} {
		if got := f.Begin(c.atLeast); got != c.want {
			t.Errorf("Begin(%d) = %d, want %d", c.atLeast, got, c.want)
		}
	}
}

func TestHorizonIsTheSmallestStampInFlight(t *testing.T) {
	f := NewInFlight(10)
	a, b, c := f.Begin(0), f.Begin(0), f.Begin(0)
	for _, step := range []struct {
		end, want store.Stamp
	}{{b, a}, {a, c}, {c, c + 1}} {
		f.End(step.end)
		if got := f.Horizon(); got != step.want {
			t.Errorf("after the end of %d the horizon is %d, want %d", step.end, got, step.want)
		}
	}
}

func TestWaitDurableWaitsForSmallerStamps(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := NewInFlight(10)
		a, b, c := f.Begin(0), f.Begin(0), f.Begin(0)
		durable := make(chan error, 1)
		go func() { durable <- f.WaitDurable(context.Background(), b) }()
		f.End(b)
		synctest.Wait()
		if len(durable) != 0 {
			t.Error("WaitDurable did not wait for a smaller stamp")
		}
		f.End(a)
		if err := <-durable; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.WaitDurable(ctx, c); !errors.Is(err, context.Canceled) {
			t.Errorf("WaitDurable with a cancelled context: %v", err)
		}
		f.End(c)
		if err := f.WaitDurable(context.Background(), c+100); err != nil {
			t.Error(err)
		}
	})
}

// However commits begin and end, Horizon and durable agree with a plain set.
func TestInFlightAgainstASet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f := NewInFlight(0)
	var open []store.Stamp
	for range 10_000 {
		if len(open) == 0 || r.IntN(40) > len(open) {
			open = append(open, f.Begin(store.Stamp(r.IntN(2))))
		} else {
			i := r.IntN(len(open))
			f.End(open[i])
			open = append(open[:i], open[i+1:]...)
		}
		least := f.Newest() + 1
		for _, s := range open {
			least = min(least, s)
		}
		if f.Horizon() != least || store.Stamp(f.durable.Load()) != least-1 {
			t.Fatalf("horizon %d, durable %d, want %d", f.Horizon(), f.durable.Load(), least)
		}
	}
}
