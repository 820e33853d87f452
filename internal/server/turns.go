package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

const (
	// maxUnderWay is how many requests are carried out at once. More would not
	// be faster, and each may need memory for a page of a megabyte.
	maxUnderWay = 512
	// maxWaiting is how many wait for their turn, and turnPatience for how
	// long. A burst of clients passes; what exceeds it is told to come again.
	maxWaiting   = 4096
	turnPatience = time.Second
)

// turns bounds the requests under way. A request that finds no place is
// refused with an error after which clients wait and try again, so that the
// others are answered as fast as ever. The refusal is late: a client that is
// refused at once comes again at once, and with many such a server would do
// little but refuse.
type turns struct {
	taken   chan struct{}
	waiting atomic.Int64
}

func newTurns() *turns { return &turns{taken: make(chan struct{}, maxUnderWay)} }

// enter waits for a turn. It is given back by leave.
func (t *turns) enter(ctx context.Context) error {
	select {
	case t.taken <- struct{}{}:
		return nil
	default:
	}
	line := t.taken
	if t.waiting.Add(1) > maxWaiting {
		line = nil // no place in it comes free for this one
	}
	defer t.waiting.Add(-1)
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case line <- struct{}{}:
		return nil
	case <-patience.C:
		return apierror.Throttled()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turns) leave() { <-t.taken }
