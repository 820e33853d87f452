// Package commit knows which Updates are in flight and which are durable, and gives out
// their stamps.
package commit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// InFlight is the Updates under way: from the moment when they have a stamp
// until they are durable, or have failed. They give out the stamps.
type InFlight struct {
	landed atomic.Uint64 // no stamp up to this one is in flight
	given  atomic.Uint64 // last, for who only looks

	mu   sync.Mutex
	last store.Stamp // given out
	open []flight    // ascending; the first is in flight, others may have ended
	all  []flight    // the array that open is the end of, kept to be used again
}

type flight struct {
	stamp  store.Stamp
	ended  bool
	landed chan struct{} // closed when this flight and all before have ended; nil until awaited
}

func NewInFlight(last store.Stamp) *InFlight {
	f := &InFlight{last: last}
	f.landed.Store(uint64(last))
	f.given.Store(uint64(last))
	return f
}

// Begin gives out a stamp that is larger than all before and at least atLeast.
func (f *InFlight) Begin(atLeast store.Stamp) store.Stamp {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last+1, atLeast)
	f.given.Store(uint64(f.last))
	f.push(flight{stamp: f.last})
	return f.last
}

// End tells that what stamp wrote is durable, or will never be written.
func (f *InFlight) End(stamp store.Stamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(stamp)
	if i == len(f.open) || f.open[i].stamp != stamp {
		panic(fmt.Sprintf("stamp %d is not in flight", stamp))
	}
	f.open[i].ended = true
	n := 0
	for n < len(f.open) && f.open[n].ended {
		if c := f.open[n].landed; c != nil {
			close(c)
		}
		n++
	}
	if n == 0 {
		return
	}
	f.open = f.open[n:]
	f.landed.Store(uint64(f.lowest() - 1))
}

// Wait returns when no stamp up to this one is in flight.
func (f *InFlight) Wait(ctx context.Context, stamp store.Stamp) error {
	if f.landed.Load() >= uint64(stamp) {
		return nil
	}
	landed := f.landing(stamp)
	if landed == nil {
		return nil
	}
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// landing is closed when no stamp up to this one is in flight; nil if none is
// already.
func (f *InFlight) landing(stamp store.Stamp) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(stamp + 1)
	if i == 0 {
		return nil
	}
	awaited := &f.open[i-1]
	if awaited.landed == nil {
		awaited.landed = make(chan struct{})
	}
	return awaited.landed
}

// Newest is the largest stamp given out.
func (f *InFlight) Newest() store.Stamp { return store.Stamp(f.given.Load()) }

// Horizon is the least stamp in flight, or else the least that can come.
func (f *InFlight) Horizon() store.Stamp {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lowest()
}

func (f *InFlight) lowest() store.Stamp {
	if len(f.open) == 0 {
		return f.last + 1
	}
	return f.open[0].stamp
}

// push appends to open. At the end of the array it moves open to the front, if
// that is half empty, and else to a larger array.
func (f *InFlight) push(next flight) {
	if len(f.open) == cap(f.open) {
		if 2*len(f.open) >= cap(f.all) {
			f.all = make([]flight, 2*len(f.open)+16)
		}
		f.open = append(f.all[:0], f.open...)
	}
	f.open = append(f.open, next)
}

// find is the position of the first open flight with this stamp or a larger.
func (f *InFlight) find(stamp store.Stamp) int {
	i, _ := slices.BinarySearchFunc(f.open, stamp, func(have flight, want store.Stamp) int {
		switch {
		case have.stamp < want:
			return -1
		case have.stamp > want:
			return 1
		}
		return 0
	})
	return i
}
