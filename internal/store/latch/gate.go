package latch

import (
	"math"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// Gate counts the calls in progress, so that Close can wait for them. A call
// may make another one while it is inside, which a sync.RWMutex would not
// allow.
type Gate struct {
	inside atomic.Int64 // plus math.MinInt64 once the gate is shut
	empty  chan struct{}
}

// NewGate makes an open Gate.
func NewGate() *Gate { return &Gate{empty: make(chan struct{}, 1)} }

// Enter fails when the gate is shut. Otherwise Leave must follow.
func (g *Gate) Enter() error {
	if g.inside.Add(1) > 0 {
		return nil
	}
	g.Leave()
	return store.ErrClosed
}

// Leave ends what Enter began.
func (g *Gate) Leave() {
	if g.inside.Add(-1) == math.MinInt64 {
		// The channel has room for one, and one is all that Shut needs: later
		// ones come from calls that were turned away.
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// Shut lets nobody in any more and waits until all have left. It is called
// once.
func (g *Gate) Shut() {
	if g.inside.Add(math.MinInt64) == math.MinInt64 {
		return
	}
	<-g.empty
}
