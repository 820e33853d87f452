// Package commit tracks the stamps of Updates that are in flight or durable.
package commit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// InFlight holds the Updates in flight: from the moment that they have a stamp until they
// are durable or have failed. It gives out the stamps.
type InFlight struct {
	durable atomic.Uint64 // no stamp up to this one is in flight
	newest  atomic.Uint64 // last, for readers without the mutex

	mu      sync.Mutex
	last    store.Stamp      // given out
	commits []inFlightCommit // ascending; the first is in flight, others may have ended
	array   []inFlightCommit // the array that commits is the end of, kept for reuse
}

type inFlightCommit struct {
	stamp   store.Stamp
	ended   bool
	durable chan struct{} // closed when this commit and all before it have ended; nil until a reader waits
}

// NewInFlight returns an InFlight whose stamps are larger than last.
func NewInFlight(last store.Stamp) *InFlight {
	f := &InFlight{last: last}
	f.durable.Store(uint64(last))
	f.newest.Store(uint64(last))
	return f
}

// Begin gives out a stamp that is larger than all before it and at least atLeast.
func (f *InFlight) Begin(atLeast store.Stamp) store.Stamp {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = max(f.last+1, atLeast)
	f.newest.Store(uint64(f.last))
	f.push(inFlightCommit{stamp: f.last})
	return f.last
}

// End is called when the writes of a stamp are durable, or will never be applied.
func (f *InFlight) End(stamp store.Stamp) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(stamp)
	if i == len(f.commits) || f.commits[i].stamp != stamp {
		panic(fmt.Sprintf("stamp %d is not in flight", stamp))
	}
	f.commits[i].ended = true
	n := 0
	for n < len(f.commits) && f.commits[n].ended {
		if c := f.commits[n].durable; c != nil {
			close(c)
		}
		n++
	}
	if n == 0 {
		return
	}
	f.commits = f.commits[n:]
	f.durable.Store(uint64(f.lowest() - 1))
}

// WaitDurable returns when no stamp up to this one is in flight.
func (f *InFlight) WaitDurable(ctx context.Context, stamp store.Stamp) error {
	if f.durable.Load() >= uint64(stamp) {
		return nil
	}
	durable := f.durableCh(stamp)
	if durable == nil {
		return nil
	}
	select {
	case <-durable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// durableCh is closed when no stamp up to this one is in flight; nil if none is.
func (f *InFlight) durableCh(stamp store.Stamp) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(stamp + 1)
	if i == 0 {
		return nil
	}
	c := &f.commits[i-1]
	if c.durable == nil {
		c.durable = make(chan struct{})
	}
	return c.durable
}

// Newest returns the largest stamp given out.
func (f *InFlight) Newest() store.Stamp { return store.Stamp(f.newest.Load()) }

// Horizon returns the smallest stamp in flight, or else the smallest that can follow.
func (f *InFlight) Horizon() store.Stamp {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lowest()
}

func (f *InFlight) lowest() store.Stamp {
	if len(f.commits) == 0 {
		return f.last + 1
	}
	return f.commits[0].stamp
}

// push appends to commits. At the end of the array it moves them to the front if half of
// the array is free, and else to a larger array.
func (f *InFlight) push(next inFlightCommit) {
	if len(f.commits) == cap(f.commits) {
		if 2*len(f.commits) >= cap(f.array) {
			f.array = make([]inFlightCommit, 2*len(f.commits)+16)
		}
		f.commits = append(f.array[:0], f.commits...)
	}
	f.commits = append(f.commits, next)
}

// find returns the position of the first commit with this stamp or a larger one.
func (f *InFlight) find(stamp store.Stamp) int {
	i, _ := slices.BinarySearchFunc(f.commits, stamp, func(have inFlightCommit, want store.Stamp) int {
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
