package server

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

const (
	// maxUnderWay is how many requests are carried out at once. More would not
	// be faster, and each may need memory for a page of a megabyte.
	maxUnderWay = 512
	// turnPatience is how long a request waits for its turn.
	turnPatience = time.Second
	// refusalGap is the time between two refusals. One costs about as much as
	// a small request, so that they take a hundredth of a processor.
	refusalGap = 2500 * time.Microsecond
	// maxWait is when a request is refused at the latest, however many there
	// are: before clients take the server for dead.
	maxWait = 10 * time.Second
)

// turns bounds the requests under way. A request that has found no place in
// time is refused with an error after which clients wait and try again, so
// that the others are answered as fast as ever.
//
// Refusals are late and have a pace. A client that is refused comes again, and
// of a large crowd that is refused as fast as it comes a server would do little
// but refuse. Who waits to be refused holds nobody up, and gets a turn after
// all when nobody else wants it.
type turns struct {
	patience time.Duration

	mu      sync.Mutex
	free    int
	waiting line[*waiter]
	refusal time.Time // the latest that has been fixed
	waiters sync.Pool
}

func newTurns(places int, patience time.Duration) *turns {
	return &turns{free: places, patience: patience, waiters: sync.Pool{New: newWaiter}}
}

// enter waits for a turn, which is given back by leave. Those who wait have it
// in the order in which they came, and one with a handicap as if it had come
// that much later.
func (t *turns) enter(ctx context.Context, handicap time.Duration) error {
	t.mu.Lock()
	if t.free > 0 { // so nobody waits
		t.free--
		t.mu.Unlock()
		return nil
	}
	w := t.waiters.Get().(*waiter)
	defer t.waiters.Put(w)
	w.since, w.late = time.Now().Add(handicap), false
	t.waiting.add(w)
	t.mu.Unlock()
	w.over.Reset(t.patience)
	defer w.over.Stop()
	for late := false; ; late = true {
		select {
		case <-w.turn:
			return nil
		case <-ctx.Done():
			return t.end(w, ctx.Err())
		case <-w.over.C:
			if late {
				return t.end(w, apierror.Throttled())
			}
			w.over.Reset(t.stepBack(w))
		}
	}
}

// leave gives a turn to the next one.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	t.waiting.next().turn <- struct{}{}
}

// stepBack lets all others pass, and tells how long it is until the refusal.
func (t *turns) stepBack(w *waiter) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.place == gone {
		return 0
	}
	w.late = true
	t.waiting.changed(w.place)
	now := time.Now()
	t.refusal = t.refusal.Add(refusalGap)
	if t.refusal.Before(now) {
		t.refusal = now
	}
	if latest := now.Add(maxWait - t.patience); t.refusal.After(latest) {
		t.refusal = latest
	}
	return t.refusal.Sub(now)
}

// end gives a place in the line up for a reason, unless its turn has come.
func (t *turns) end(w *waiter, reason error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.place == gone {
		<-w.turn
		return nil
	}
	t.waiting.remove(w.place)
	return reason
}

// waiter is one who waits for a turn.
type waiter struct {
	since time.Time
	late  bool
	place int           // in the line
	turn  chan struct{} // tells that it has come
	over  *time.Timer   // the patience
}

func newWaiter() any {
	return &waiter{turn: make(chan struct{}, 1), over: time.NewTimer(maxWait)}
}

func (w *waiter) before(other *waiter) bool {
	if w.late != other.late {
		return other.late
	}
	return w.since.Before(other.since)
}

func (w *waiter) moved(place int) { w.place = place }
