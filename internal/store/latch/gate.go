package latch

import (
	"math"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// Gate counts the calls in progress, so that Close can wait for them. A call may make
// another call, which a sync.RWMutex would not allow.
type Gate struct {
	inside atomic.Int64 // plus math.MinInt64 once the gate is shut
	empty  chan struct{}
}

// NewGate returns an open Gate.
func NewGate() *Gate { return &Gate{empty: make(chan struct{}, 1)} }

// Enter returns ErrClosed when the gate is shut. Otherwise Leave must follow.
func (g *Gate) Enter() error {
	if g.inside.Add(1) > 0 {
		return nil
	}
	g.Leave()
	return store.ErrClosed
}

// Leave ends a call that Enter began.
func (g *Gate) Leave() {
	if g.inside.Add(-1) == math.MinInt64 {
		// The channel buffers one, and Shut needs one: later ones are of calls that were
		// rejected.
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// Shut rejects new calls and waits for those in progress. It is called once.
func (g *Gate) Shut() {
	if g.inside.Add(math.MinInt64) == math.MinInt64 {
		return
	}
	<-g.empty
}
