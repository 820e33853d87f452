package admission

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

const (
	// MaxRequests is how many requests a server executes at once. More would not
	// be faster, and each may need memory for a page of a megabyte.
	MaxRequests = 512
	// MaxSlotWait is how long a request waits for a slot before it is demoted.
	MaxSlotWait = time.Second
	// rejectionInterval is the time between two rejections. A rejection costs
	// about as much as a small request, so all of them together take about one
	// percent of a processor.
	rejectionInterval = 2500 * time.Microsecond
	// maxRejectionWait is the latest time at which a request is rejected, however
	// many wait: before clients give the server up for dead.
	maxRejectionWait = 10 * time.Second
)

// Slots is a semaphore with a wait queue. A request that waits too long is
// rejected with an error after which clients back off and retry, so that
// accepted requests stay fast.
//
// Rejections are delayed and rate-limited: clients reconnect, and rejecting
// thousands at once would leave no time to serve. A request that waits to be
// rejected stands behind all others, and is still served if a slot is free.
type Slots struct {
	maxWait time.Duration

	mu            sync.Mutex
	free          int // 0 while the queue is not empty
	queue         waitQueue[*slotWaiter]
	lastRejection time.Time // the latest time that a rejection is scheduled for
	waiters       sync.Pool
}

// NewSlots returns n free slots. A request that waits longer than maxWait is
// demoted, and then rejected.
func NewSlots(n int, maxWait time.Duration) *Slots {
	return &Slots{free: n, maxWait: maxWait, waiters: sync.Pool{New: newSlotWaiter}}
}

// Acquire waits for a slot, which the caller gives back with Release. Slots are
// granted in the order of arrival, where a request with a penalty counts as
// having arrived that much later.
func (s *Slots) Acquire(ctx context.Context, penalty time.Duration) error {
	s.mu.Lock()
	if s.free > 0 {
		s.free--
		s.mu.Unlock()
		return nil
	}
	w := s.waiters.Get().(*slotWaiter)
	defer s.waiters.Put(w)
	w.since, w.demoted = time.Now().Add(penalty), false
	s.queue.push(w)
	s.mu.Unlock()
	w.timer.Reset(s.maxWait)
	defer w.timer.Stop()
	for demoted := false; ; demoted = true {
		select {
		case <-w.granted:
			return nil
		case <-ctx.Done():
			return s.giveUp(w, ctx.Err())
		case <-w.timer.C:
			if demoted {
				return s.giveUp(w, apierror.Throttled())
			}
			w.timer.Reset(s.demote(w))
		}
	}
}

// Release frees a slot, or passes it to the first waiter.
func (s *Slots) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.free++
		return
	}
	s.queue.pop().granted <- struct{}{}
}

// demote moves a waiter behind all that are not demoted, schedules its rejection
// and returns the time until then.
func (s *Slots) demote(w *slotWaiter) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.index == notQueued {
		return 0
	}
	w.demoted = true
	s.queue.fix(w.index)
	now := time.Now()
	s.lastRejection = s.lastRejection.Add(rejectionInterval)
	if s.lastRejection.Before(now) {
		s.lastRejection = now
	}
	if latest := now.Add(maxRejectionWait - s.maxWait); s.lastRejection.After(latest) {
		s.lastRejection = latest
	}
	return s.lastRejection.Sub(now)
}

// giveUp removes a waiter from the queue and returns the reason, or nil if the
// waiter has been granted a slot in the meantime.
func (s *Slots) giveUp(w *slotWaiter, reason error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.index == notQueued {
		<-w.granted
		return nil
	}
	s.queue.remove(w.index)
	return reason
}

// slotWaiter is a request that waits for a slot.
type slotWaiter struct {
	since   time.Time // of its arrival, with the penalty
	demoted bool
	index   int           // in the queue
	granted chan struct{} // receives the slot
	timer   *time.Timer   // until it is demoted, then until it is rejected
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
