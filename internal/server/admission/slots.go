package admission

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

const (
	// MaxRequests is how many requests are carried out at once. More would not
	// be faster, and each may need memory for a page of a megabyte.
	MaxRequests = 512
	// MaxSlotWait is how long a request waits for its turn.
	MaxSlotWait = time.Second
	// rejectionInterval is the time between two refusals. One costs about as much as
	// a small request, so that they take a hundredth of a processor.
	rejectionInterval = 2500 * time.Microsecond
	// maxRejectionWait is when a request is refused at the latest, however many there
	// are: before clients take the server for dead.
	maxRejectionWait = 10 * time.Second
)

// turns bounds the requests under way. A request that has found no place in
// time is refused with an error after which clients wait and try again, so
// that the others are answered as fast as ever.
//
// Refusals are late and have a pace. A client that is refused comes again, and
// of a large crowd that is refused as fast as it comes a server would do little
// but refuse. Who waits to be refused holds nobody up, and gets a turn after
// all when nobody else wants it.
type Slots struct {
	maxWait time.Duration

	mu            sync.Mutex
	free          int
	waiting       waitQueue[*slotWaiter]
	nextRejection time.Time // the latest that has been fixed
	waiters       sync.Pool
}

func NewSlots(places int, maxWait time.Duration) *Slots {
	return &Slots{free: places, maxWait: maxWait, waiters: sync.Pool{New: newSlotWaiter}}
}

// enter waits for a turn, which is given back by leave. Those who wait have it
// in the order in which they came, and one with a penalty as if it had come
// that much later.
func (t *Slots) Acquire(ctx context.Context, penalty time.Duration) error {
	t.mu.Lock()
	if t.free > 0 { // so nobody waits
		t.free--
		t.mu.Unlock()
		return nil
	}
	w := t.waiters.Get().(*slotWaiter)
	defer t.waiters.Put(w)
	w.since, w.demoted = time.Now().Add(penalty), false
	t.waiting.add(w)
	t.mu.Unlock()
	w.timer.Reset(t.maxWait)
	defer w.timer.Stop()
	for late := false; ; late = true {
		select {
		case <-w.granted:
			return nil
		case <-ctx.Done():
			return t.end(w, ctx.Err())
		case <-w.timer.C:
			if late {
				return t.end(w, apierror.Throttled())
			}
			w.timer.Reset(t.demote(w))
		}
	}
}

// leave gives a turn to the next one.
func (t *Slots) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	t.waiting.next().granted <- struct{}{}
}

// demote lets all others pass, and tells how long it is until the refusal.
func (t *Slots) demote(w *slotWaiter) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.index == notQueued {
		return 0
	}
	w.demoted = true
	t.waiting.changed(w.index)
	now := time.Now()
	t.nextRejection = t.nextRejection.Add(rejectionInterval)
	if t.nextRejection.Before(now) {
		t.nextRejection = now
	}
	if latest := now.Add(maxRejectionWait - t.maxWait); t.nextRejection.After(latest) {
		t.nextRejection = latest
	}
	return t.nextRejection.Sub(now)
}

// end gives a place in the line up for a reason, unless its turn has come.
func (t *Slots) end(w *slotWaiter, reason error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.index == notQueued {
		<-w.granted
		return nil
	}
	t.waiting.remove(w.index)
	return reason
}

// waiter is one who waits for a turn.
type slotWaiter struct {
	since   time.Time
	demoted bool
	index   int           // in the line
	granted chan struct{} // tells that it has come
	timer   *time.Timer   // the patience
}

func newSlotWaiter() any {
	return &slotWaiter{granted: make(chan struct{}, 1), timer: time.NewTimer(maxRejectionWait)}
}

func (w *slotWaiter) before(other *slotWaiter) bool {
	if w.demoted != other.demoted {
		return other.demoted
	}
	return w.since.Before(other.since)
}

func (w *slotWaiter) setIndex(index int) { w.index = index }
