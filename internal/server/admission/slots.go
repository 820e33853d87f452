package admission

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
)

const (
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

// Slots is a semaphore of requests, and of the memory that large ones need, with
// wait queues. A request that waits too long is rejected with an error after which
// clients back off and retry, so that accepted requests stay fast.
//
// Rejections are delayed and rate-limited: clients reconnect, and rejecting
// thousands at once would leave no time to serve. A request that waits to be
// rejected stands behind all others, and is still served if a slot is free.
//
// Requests that wait for memory have a queue of their own, so that small requests
// do not wait for them.
type Slots struct {
	total   int
	maxWait time.Duration
	memory  int64 // in total

	mu            sync.Mutex
	free          int // 0 while a request waits that needs no memory
	freeBytes     int64
	small, large  waitQueue[*slotWaiter] // large requests wait for a slot and for memory
	lastRejection time.Time              // the latest time that a rejection is scheduled for
	waiters       sync.Pool
	replies       *Replies // cuts slow replies while requests wait for memory; nil for none
}

// NewSlots returns n free slots and this many bytes of memory. A request that
// waits longer than maxWait is demoted, and then rejected.
func NewSlots(n int, memory int64, maxWait time.Duration) *Slots {
	return &Slots{total: n, free: n, memory: memory, freeBytes: memory, maxWait: maxWait, waiters: sync.Pool{New: newSlotWaiter}}
}

// Acquire waits for a slot, which the caller gives back with Release, and for
// memory, at most all of it, for which there is Room. Slots are granted in the
// order of arrival, where a request with a penalty counts as having arrived that
// much later.
func (s *Slots) Acquire(ctx context.Context, penalty time.Duration, bytes int64) error {
	s.mu.Lock()
	if s.free > 0 && (bytes == 0 || bytes <= s.freeBytes && len(s.large) == 0) {
		s.free--
		s.freeBytes -= bytes
		s.mu.Unlock()
		return nil
	}
	w := s.waiters.Get().(*slotWaiter)
	defer s.waiters.Put(w)
	w.since, w.demoted, w.bytes = time.Now().Add(penalty), false, bytes
	s.queueOf(w).push(w)
	s.mu.Unlock()
	if bytes > 0 {
		s.replies.cutSlow()
	}
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

// Release frees a slot, or passes it to a waiter.
func (s *Slots) Release() { s.release(true, 0) }

// release frees a slot, if the request has one, and memory. A negative number of
// bytes takes memory that is not free.
func (s *Slots) release(slot bool, bytes int64) {
	if !slot && bytes == 0 {
		return
	}
	s.mu.Lock()
	if slot {
		s.free++
	}
	s.freeBytes += bytes
	s.grant()
	s.mu.Unlock()
	if bytes < 0 {
		s.replies.cutSlow()
	}
}

// take takes memory if it is free and no request waits for it. If force is set,
// it takes memory that is not free.
func (s *Slots) take(bytes int64, force bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !force && (bytes > s.freeBytes || len(s.large) > 0) {
		return false
	}
	s.freeBytes -= bytes
	return true
}

// missing is how much memory has to be freed for the first request that waits for
// it, or for what was taken by force.
func (s *Slots) missing() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.large) > 0 {
		return max(0, s.large[0].bytes-s.freeBytes)
	}
	return max(0, -s.freeBytes)
}

// grant grants slots and memory, to the earliest waiter first. A large request
// that finds too little memory does not block the small ones.
func (s *Slots) grant() {
	for s.free > 0 {
		q := &s.small
		if s.largeFits() && (len(s.small) == 0 || s.large[0].before(s.small[0])) {
			q = &s.large
		}
		if len(*q) == 0 {
			return
		}
		w := q.pop()
		s.free--
		s.freeBytes -= w.bytes
		w.granted <- struct{}{}
	}
}

func (s *Slots) largeFits() bool { return len(s.large) > 0 && s.large[0].bytes <= s.freeBytes }

func (s *Slots) queueOf(w *slotWaiter) *waitQueue[*slotWaiter] {
	if w.bytes > 0 {
		return &s.large
	}
	return &s.small
}

// InUse returns how many requests have a slot or wait for one.
func (s *Slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total - s.free + len(s.small) + len(s.large)
}

// Waiting returns how many requests wait for a slot or for memory.
func (s *Slots) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.small) + len(s.large)
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
	s.queueOf(w).fix(w.index)
	s.grant()
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
	s.queueOf(w).remove(w.index)
	s.grant() // there may be enough for the next waiter
	return reason
}

// slotWaiter is a request that waits for a slot.
type slotWaiter struct {
	since   time.Time // of its arrival, with the penalty
	demoted bool
	bytes   int64         // of memory
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
