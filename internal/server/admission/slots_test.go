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

// A single request is rejected at the end of its wait. Many requests are rejected
// one after the other, the last before clients give the server up for dead.
func TestRejectionsAreRateLimited(t *testing.T) {
	for _, c := range []struct {
		name    string
		clients int
		last    time.Duration
	}{
		{"one", 1, time.Second},
		{"some", 401, 2 * time.Second},
		{"as many as can be rejected one by one", 3600, maxRejectionWait - rejectionInterval},
		{"more than that", 20_000, maxRejectionWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slots := NewSlots(1, time.Second)
				acquire(t, slots, 1)
				var mu sync.Mutex
				var rejected []time.Duration
				var waiting sync.WaitGroup
				began := time.Now()
				for range c.clients {
					waiting.Go(func() {
						err := slots.Acquire(t.Context(), 0)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							rejected = append(rejected, time.Since(began))
						}
					})
				}
				waiting.Wait()
				if len(rejected) != c.clients || rejected[0] != time.Second || rejected[len(rejected)-1] != c.last {
					t.Fatalf("%d of %d requests are rejected, the first after %v and the last after %v, want %v", len(rejected), c.clients, rejected[0], rejected[len(rejected)-1], c.last)
				}
				within := func(d time.Duration) int {
					n, _ := slices.BinarySearch(rejected, time.Second+d)
					return n
				}
				for at := rejectionInterval; time.Second+at < c.last; at += rejectionInterval {
					if got, want := within(at), int(at/rejectionInterval); got != want {
						t.Fatalf("%d requests are rejected in the first %v, want %d", got, at, want)
					}
				}
				slots.Release()
				idle(t, slots, 1)
			})
		})
	}
}

// A request that waits to be rejected lets others pass, and still gets a slot when
// no other request waits.
func TestDemotedRequestsLetOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1, time.Second)
		acquire(t, slots, 1)
		order := make(chan string, 4)
		var waiting sync.WaitGroup
		arrive := func(name string) {
			time.Sleep(time.Microsecond) // so that arrival times differ
			waiting.Go(func() {
				if err := slots.Acquire(t.Context(), 0); err != nil {
					name = "rejected: " + name
				}
				order <- name
			})
			synctest.Wait()
		}
		arrive("rejected at once")
		arrive("demoted")
		time.Sleep(time.Second)
		synctest.Wait()
		arrive("first")
		arrive("second")
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
		if want := []string{"rejected: rejected at once", "first", "second", "demoted"}; !slices.Equal(got, want) {
			t.Errorf("the order is %q, want %q", got, want)
		}
		idle(t, slots, 1)
	})
}

// A request whose context ends leaves the queue.
func TestCancelledRequestLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1, time.Second)
		acquire(t, slots, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- slots.Acquire(ctx, 0) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire returns %v", err)
		}
		slots.Release()
		idle(t, slots, 1)
	})
}

// acquire acquires n free slots.
func acquire(t *testing.T, slots *Slots, n int) {
	t.Helper()
	for range n {
		if err := slots.Acquire(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// idle checks that all slots are free and that no request waits.
func idle(t *testing.T, slots *Slots, n int) {
	t.Helper()
	if slots.free != n || len(slots.queue) != 0 {
		t.Errorf("%d of %d slots are free, and %d requests wait", slots.free, n, len(slots.queue))
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

// Waiters are reused.
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
