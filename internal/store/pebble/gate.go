package pebble

import (
	"math"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// gate counts the calls in progress, so that Close can wait for them. A call
// may make another one while it is inside, which a sync.RWMutex would not
// allow.
type gate struct {
	inside atomic.Int64 // plus math.MinInt64 once the gate is shut
	empty  chan struct{}
}

func newGate() *gate { return &gate{empty: make(chan struct{}, 1)} }

// enter fails when the gate is shut. Otherwise leave must follow.
func (g *gate) enter() error {
	if g.inside.Add(1) > 0 {
		return nil
	}
	g.leave()
	return store.ErrClosed
}

func (g *gate) leave() {
	if g.inside.Add(-1) == math.MinInt64 {
		// The channel has room for one, and one is all that shut needs: later
		// ones come from calls that were turned away.
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// shut lets nobody in any more and waits until all have left. It is called
// once.
func (g *gate) shut() {
	if g.inside.Add(math.MinInt64) == math.MinInt64 {
		return
	}
	<-g.empty
}
