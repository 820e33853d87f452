// Package lead is work that one of the servers that share a database does for
// all: it begins when this server leads them, and ends when it no longer does.
//
// What the work is, and how another server goes on with it, is the caller's.
package lead

import (
	"context"
	"sync"
	"time"
)

// interval is how often it is looked at whether this server leads.
const interval = 500 * time.Millisecond

// Work is work that goes on while this server leads.
type Work struct {
	leads func() bool
	stop  context.CancelFunc
	done  chan struct{}
	look  chan struct{} // wakes the one that looks whether this server leads

	mu     sync.Mutex
	term   *term         // nil while there is none
	turned chan struct{} // closed when a term has begun, or none begins any more
	closed bool
}

// term is the time from when this server begins to lead until it does not.
type term struct {
	end   context.CancelFunc
	over  chan struct{} // closed when the work of it has ended
	begun bool
}

// Do is the work of one term. Its context ends with the lead, and another term
// begins after it has returned: nothing may be left of it then. If it returns
// before, it is done anew soon. It calls begun, for those who wait for that.
type Do func(ctx context.Context, begun func())

// Begin does some work whenever this server leads, until Close.
func Begin(ctx context.Context, leads func() bool, do Do) *Work {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &Work{leads: leads, stop: stop, done: make(chan struct{}), look: make(chan struct{}, 1), turned: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.run(ctx, do)
	}()
	return w
}

// Close ends the work and waits for it.
func (w *Work) Close() {
	w.stop()
	<-w.done
}

// Anew ends what goes on, waits for it, and has it done from the start if this
// server leads. It is for a server that may have missed that others led.
func (w *Work) Anew() {
	w.mu.Lock()
	t := w.term
	w.mu.Unlock()
	if t != nil {
		t.end()
		<-t.over
	}
}

// Begun tells whether the work goes on here. If this server leads and has not
// begun yet, it waits until it has.
func (w *Work) Begun(ctx context.Context) bool {
	for {
		w.mu.Lock()
		begun, closed, turned := w.term != nil && w.term.begun, w.closed, w.turned
		w.mu.Unlock()
		if begun || closed || !w.leads() {
			return begun
		}
		select {
		case w.look <- struct{}{}:
		default:
		}
		select {
		case <-ctx.Done():
			return false
		case <-turned:
		case <-time.After(interval): // it may have ceased to lead
		}
	}
}

// run looks whether this server leads until the context ends.
func (w *Work) run(ctx context.Context, do Do) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if w.leads() {
			w.lead(ctx, do, tick.C)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-w.look:
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	close(w.turned)
}

// lead is one term.
func (w *Work) lead(ctx context.Context, do Do, tick <-chan time.Time) {
	ctx, end := context.WithCancel(ctx)
	t := &term{end: end, over: make(chan struct{})}
	w.mu.Lock()
	w.term = t
	w.mu.Unlock()
	go func() {
		defer close(t.over)
		do(ctx, func() { w.begin(t) })
	}()
	for over := false; !over && w.leads(); {
		select {
		case <-ctx.Done():
			over = true
		case <-t.over:
			over = true
		case <-tick:
		}
	}
	end()
	<-t.over
	w.mu.Lock()
	defer w.mu.Unlock()
	w.term = nil
}

// begin lets those go on who wait for the beginning of a term.
func (w *Work) begin(t *term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.begun = true
	close(w.turned)
	w.turned = make(chan struct{})
}
