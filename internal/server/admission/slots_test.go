package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A few too many are refused when their patience ends. Of a crowd, one after
// the other is, and the last before clients take the server for dead.
func TestRefusalsHaveAPace(t *testing.T) {
	for _, c := range []struct {
		name    string
		clients int
		last    time.Duration
	}{
		{"one", 1, time.Second},
		{"some", 401, 2 * time.Second},
		{"as many as can be told one by one", 3600, maxRejectionWait - rejectionInterval},
		{"more than that", 20_000, maxRejectionWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slots := NewSlots(1, time.Second)
				acquire(t, slots, 1)
				var mu sync.Mutex
				var refused []time.Duration
				var waiting sync.WaitGroup
				began := time.Now()
				for range c.clients {
					waiting.Go(func() {
						err := slots.Acquire(t.Context(), 0)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							refused = append(refused, time.Since(began))
						}
					})
				}
				waiting.Wait()
				if len(refused) != c.clients || refused[0] != time.Second || refused[len(refused)-1] != c.last {
					t.Fatalf("%d of %d are refused, the first after %v and the last after %v, want %v", len(refused), c.clients, refused[0], refused[len(refused)-1], c.last)
				}
				within := func(d time.Duration) int {
					n, _ := slices.BinarySearch(refused, time.Second+d)
					return n
				}
				for at := rejectionInterval; time.Second+at < c.last; at += rejectionInterval {
					if got, want := within(at), int(at/rejectionInterval); got != want {
						t.Fatalf("%d are refused in the first %v, want %d", got, at, want)
					}
				}
				slots.Release()
				idle(t, slots, 1)
			})
		})
	}
}

// Who waits to be refused lets the others pass, and has a turn after all when
// there are no others.
func TestLateOnesLetOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1, time.Second)
		acquire(t, slots, 1)
		order := make(chan string, 4)
		var waiting sync.WaitGroup
		come := func(name string) {
			time.Sleep(time.Microsecond) // after the one before
			waiting.Go(func() {
				if err := slots.Acquire(t.Context(), 0); err != nil {
					name = "refused: " + name
				}
				order <- name
			})
			synctest.Wait()
		}
		come("refused at once")
		come("late")
		time.Sleep(time.Second)
		synctest.Wait()
		come("first")
		come("second")
		for range 4 {
			slots.Release()
			synctest.Wait()
		}
		waiting.Wait()
		close(order)
		var got []string
		for name := range order {
			got = append(got, name)
		}
		if want := []string{"refused: refused at once", "first", "second", "late"}; !slices.Equal(got, want) {
			t.Errorf("they come in the order %q, want %q", got, want)
		}
		idle(t, slots, 1)
	})
}

// A client that goes away gives its place up.
func TestWhoGoesAwayHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1, time.Second)
		acquire(t, slots, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- slots.Acquire(ctx, 0) }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
		slots.Release()
		idle(t, slots, 1)
	})
}

// acquire takes turns that are free.
func acquire(t *testing.T, slots *Slots, n int) {
	t.Helper()
	for range n {
		if err := slots.Acquire(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// idle checks that nobody has a turn or waits for one.
func idle(t *testing.T, slots *Slots, places int) {
	t.Helper()
	if slots.free != places || len(slots.waiting) != 0 {
		t.Errorf("%d of %d places are free, and %d wait", slots.free, places, len(slots.waiting))
	}
}

func BenchmarkSlots(b *testing.B) {
	slots := NewSlots(MaxRequests, MaxSlotWait)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if slots.Acquire(b.Context(), 0) == nil {
				slots.Release()
			}
		}
	})
}

// Those that wait are not made anew each time.
func BenchmarkContendedSlots(b *testing.B) {
	slots := NewSlots(1, time.Hour)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if slots.Acquire(b.Context(), 0) == nil {
				slots.Release()
			}
		}
	})
}
