package clock

import (
	"context"
	"sync/atomic"
	"time"
)

// Waiting says for what background work waits.
type Waiting struct {
	For  time.Duration // at most; math.MaxInt64 is without an end. There is no wait if it is not positive
	Wake *Wake         // ends it early; may be nil

	// What follows has a meaning for a Manual only.

	// Due returns when there is something to do; not ok if there is nothing. Then the wait ends
	// after a multiple of For, when there is something, and not each time. It may be nil.
	Due func(context.Context) (at time.Time, ok bool, err error)

	// Polls says that the work looks for what others have done. Then the wait ends when other
	// background work did something that it may not have seen, and after For by the system's
	// clock. Seen is what Clock.Acted returned before it last looked.
	Polls bool
	Seen  uint64

	// Quiet says that nobody looks for what the work does: no other work polls because of it.
	Quiet bool

	// Retries says that the wait is a pause after an error. It ends after For by the system's
	// clock, too.
	Retries bool
}

// Wait waits until it is over or the context ends. The goroutine is busy, by Begin, if the time is
// that of a Manual. A nil Clock is the system's.
func (c *Clock) Wait(ctx context.Context, w Waiting) {
	if c != nil && c.manual != nil {
		c.manual.wait(ctx, c, w)
		return
	}
	if w.For <= 0 {
		return
	}
	timer := time.NewTimer(w.For)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.Wake.channel():
	case <-timer.C:
	}
}

// Begin says that a goroutine of background work is busy, which a Manual waits for. It is called
// before the goroutine starts, and a goroutine that waits for anything but work in progress uses
// Wait.
func (c *Clock) Begin() {
	if c != nil && c.manual != nil {
		c.manual.begin()
	}
}

// End ends what Begin began.
func (c *Clock) End() {
	if c != nil && c.manual != nil {
		c.manual.release()
	}
}

// Acted returns a number that grows when background work does something that work on this clock
// may look for. It is 0 without a Manual.
func (c *Clock) Acted() uint64 {
	if c == nil || c.manual == nil {
		return 0
	}
	c.manual.mu.Lock()
	defer c.manual.mu.Unlock()
	return c.manual.actedFor(c)
}

// Fail says that background work has failed, which Manual.Advance returns.
func (c *Clock) Fail(err error) {
	if c != nil && c.manual != nil {
		c.manual.fail(err)
	}
}

// Manual returns the clock that a test sets; nil if the time is not that of one.
func (c *Clock) Manual() *Manual { return c.manual }

// Parallel runs functions concurrently, and returns when all have returned. The caller and each
// of them are busy: they may wait.
func (c *Clock) Parallel(all ...func()) {
	if len(all) == 0 {
		return
	}
	left, done := atomic.Int64{}, make(chan struct{})
	left.Store(int64(len(all)))
	for range len(all) - 1 { // the caller, which waits, is busy for one of them
		c.Begin()
	}
	for _, f := range all {
		go func() {
			f()
			if left.Add(-1) == 0 {
				close(done) // the caller is busy from here on
				return
			}
			c.End()
		}()
	}
	<-done
}

// Wake ends a wait. A signal that is sent while nobody waits ends the next wait.
type Wake struct {
	c  chan struct{}
	on *Clock
}

// NewWake returns a Wake without a signal, for waits on a clock. A nil Clock is the system's.
func (c *Clock) NewWake() *Wake {
	return &Wake{c: make(chan struct{}, 1), on: c}
}

// Signal ends the wait of one goroutine.
func (w *Wake) Signal() {
	if w.on != nil && w.on.manual != nil {
		w.on.manual.signal(w)
		return
	}
	select {
	case w.c <- struct{}{}:
	default:
	}
}

func (w *Wake) channel() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.c
}
