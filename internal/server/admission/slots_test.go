package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
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
			virtualtime.Test(t, func(t *testing.T) {
				slots := NewSlots(1, 0, time.Second)
				acquire(t, slots, 1)
				var mu sync.Mutex
				var rejected []time.Duration
				var waiting sync.WaitGroup
				began := time.Now()
				for range c.clients {
					waiting.Go(func() {
						err := slots.Acquire(t.Context(), 0, 0)
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
	virtualtime.Test(t, func(t *testing.T) {
		slots := NewSlots(1, 0, time.Second)
		acquire(t, slots, 1)
		order := make(chan string, 4)
		var waiting sync.WaitGroup
		arrive := func(name string) {
			time.Sleep(time.Microsecond) // so that arrival times differ
			waiting.Go(func() {
				if err := slots.Acquire(t.Context(), 0, 0); err != nil {
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
	virtualtime.Test(t, func(t *testing.T) {
		slots := NewSlots(1, 0, time.Second)
		acquire(t, slots, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- slots.Acquire(ctx, 0, 0) }()
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
		if err := slots.Acquire(t.Context(), 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// idle checks that all slots are free and that no request waits.
func idle(t *testing.T, slots *Slots, n int) {
	t.Helper()
	if slots.free != n || len(slots.small)+len(slots.large) != 0 {
		t.Errorf("%d of %d slots are free, and %d requests wait", slots.free, n, len(slots.small)+len(slots.large))
	}
}

func BenchmarkSlots(b *testing.B) {
	slots := NewSlots(maxLimits.Requests, 0, MaxSlotWait)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if slots.Acquire(b.Context(), 0, 0) == nil {
				slots.Release()
			}
		}
	})
}

// Waiters are reused.
func BenchmarkContendedSlots(b *testing.B) {
	slots := NewSlots(1, 0, time.Hour)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if slots.Acquire(b.Context(), 0, 0) == nil {
				slots.Release()
			}
		}
	})
}

// Requests that wait for memory do not block small requests, smaller ones pass larger
// ones, and one that needs more than all memory gets all of it.
func TestRequestsWaitForMemory(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		slots := NewSlots(10, 100<<20, time.Hour)
		var first Room
		if err := first.Acquire(t.Context(), slots, 60<<20); err != nil {
			t.Fatal(err)
		}
		if !first.Reserve(70<<20) || first.Reserve(40<<20) || first.Needed() != 110<<20 {
			t.Errorf("of 100 MB the first request has %d MB and needs %d", first.held>>20, first.needed>>20)
		}
		var order []string
		var waiting sync.WaitGroup
		arrive := func(name string, bytes int64) {
			waiting.Go(func() {
				var r Room
				if err := r.Acquire(t.Context(), slots, bytes); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				order = append(order, name) // one at a time
				r.Release()
			})
			synctest.Wait()
		}
		arrive("all", 500<<20)
		arrive("half", 50<<20)
		arrive("small", 0)
		if want := []string{"small"}; !slices.Equal(order, want) {
			t.Errorf("without free memory %q are served, want %q", order, want)
		}
		first.Leave(20 << 20) // the reply is being sent
		synctest.Wait()
		if want := []string{"small", "half"}; !slices.Equal(order, want) {
			t.Errorf("with 80 MB free %q are served, want %q", order, want)
		}
		first.Release()
		waiting.Wait()
		if want := []string{"small", "half", "all"}; !slices.Equal(order, want) {
			t.Errorf("with all memory free %q are served, want %q", order, want)
		}
		idle(t, slots, 10)
		if slots.freeBytes != slots.memory {
			t.Errorf("%d of %d bytes are free", slots.freeBytes, slots.memory)
		}
	})
}

// A request that waits for memory is rejected like one that waits for a slot, and one
// whose reply is larger than expected counts with its size.
func TestMemoryIsThrottled(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		slots := NewSlots(10, 100<<20, time.Second)
		var first, second Room
		if err := first.Acquire(t.Context(), slots, 0); err != nil {
			t.Fatal(err)
		}
		first.Leave(150 << 20)
		began := time.Now()
		if err := second.Acquire(t.Context(), slots, 1); err == nil || time.Since(began) != time.Second {
			t.Errorf("a request without memory ends after %v with %v", time.Since(began), err)
		}
		first.Release()
		if err := second.Acquire(t.Context(), slots, 100<<20); err != nil {
			t.Error(err)
		}
		second.Release()
		idle(t, slots, 10)
	})
}

// Memory that a request frees is free for others at once, unless the request has
// acquired it with its slot. After Commit reservations do not fail.
func TestRoomIsFreed(t *testing.T) {
	s := NewSlots(2, 100, time.Second)
	var r, other Room
	for _, room := range []*Room{&r, &other} {
		if err := room.Acquire(t.Context(), s, 20); err != nil {
			t.Fatal(err)
		}
	}
	if !r.Reserve(80) || other.Reserve(30) {
		t.Fatal("a request cannot reserve what is free, or another one can reserve it, too")
	}
	if r.Free(70); !other.Reserve(80) { // 10 of the acquired 20 are used
		t.Error("memory that was freed is not free")
	}
	if other.Reserve(10) {
		t.Error("memory that was acquired is free")
	}
	if other.Commit(); !other.Reserve(10) {
		t.Error("a reservation fails after Commit")
	}
	r.Release()
	other.Release()
	if s.freeBytes != 100 || s.free != 2 {
		t.Errorf("%d bytes and %d slots are free at the end", s.freeBytes, s.free)
	}
}
