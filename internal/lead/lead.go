// Package lead runs background work on the one server that leads those that
// share a database.
//
// What the work is, and how another server continues it, is up to the caller.
package lead

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/clock"
)

// interval is how often a server checks whether it leads.
const interval = 500 * time.Millisecond

// ErrNotLeader is returned by Check when this server no longer leads.
var ErrNotLeader = errors.New("this server does not lead any more")

// Check returns nil while this server leads and the context has not ended. Work
// that takes long calls it between its steps, to stop sooner than the context
// does.
func Check(ctx context.Context, leads func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if leads != nil && !leads() {
		return ErrNotLeader
	}
	return nil
}

// Work runs a function while this server leads. The zero value is ready for
// Start.
type Work struct {
	on    *clock.Clock
	leads func() bool
	stop  context.CancelFunc
	done  chan struct{}
	look  chan struct{} // makes run check at once whether this server leads

	mu      sync.Mutex
	current *term         // nil between terms
	changed chan struct{} // closed when a term has begun, and when the work is closed
	closed  bool
}

// term is the time from when this server begins to lead until it stops.
type term struct {
	cancel context.CancelFunc
	over   chan struct{} // closed when the function has returned
	begun  bool
}

// Term does the work of one term. Its context ends when this server stops to
// lead; the next term begins after Term has returned, so it must leave nothing
// running. If it returns earlier, it is called again soon. It calls begun once
// it is ready, which releases the callers of Begun.
type Term func(ctx context.Context, begun func())

// Start calls run whenever this server leads, until Close. A nil leads stands
// for a server that always does: then only Cancel and Restart end a term. The
// function is busy by a clock (clock.Clock.Begin); nil is the system's.
func (w *Work) Start(ctx context.Context, on *clock.Clock, leads func() bool, run Term) {
	if leads == nil {
		leads = func() bool { return true }
	}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.on, w.leads, w.done, w.look = on, leads, make(chan struct{}), make(chan struct{}, 1)
	w.mu.Lock()
	w.changed = make(chan struct{})
	w.mu.Unlock()
	on.Begin() // the clock waits for the first term to begin
	go func() {
		defer close(w.done)
		w.run(ctx, run)
	}()
}

// Close ends the work and waits for it. It does nothing before Start.
func (w *Work) Close() {
	if w.stop == nil {
		return
	}
	w.stop()
	<-w.done
}

// Cancel ends the current term without waiting for it. If this server leads,
// another term begins once the function has returned. It is for a server that
// may have missed that others led, and may be called before Start.
func (w *Work) Cancel() { w.cancel() }

// Restart is Cancel, and waits until the function has returned.
func (w *Work) Restart() {
	if t := w.cancel(); t != nil {
		<-t.over
	}
}

func (w *Work) cancel() *term {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.current != nil {
		w.current.cancel()
	}
	return w.current
}

// Begun reports whether a term has begun on this server. If this server leads
// and its term has not begun yet, Begun waits for it.
func (w *Work) Begun(ctx context.Context) bool {
	for {
		w.mu.Lock()
		begun, closed, changed := w.current != nil && w.current.begun, w.closed, w.changed
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
		case <-changed:
		case <-time.After(interval): // it may have stopped to lead
		}
	}
}

// run runs terms until the context ends.
func (w *Work) run(ctx context.Context, run Term) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if w.leads() {
			w.term(ctx, run, tick.C)
		} else {
			w.on.End()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-w.look:
		}
		w.on.Begin()
	}
	w.on.End()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	close(w.changed)
}

// term runs one term. It ends what the caller began of the clock.
func (w *Work) term(ctx context.Context, run Term, tick <-chan time.Time) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &term{cancel: cancel, over: make(chan struct{})}
	w.mu.Lock()
	w.current = t
	w.mu.Unlock()
	// Leadership is checked after Cancel can reach the term: what is missed
	// before that ends the lead first.
	if Check(ctx, w.leads) == nil {
		go func() {
			defer close(t.over)
			defer w.on.End()
			run(ctx, func() { w.begin(t) })
		}()
		w.watch(ctx, t, tick)
		cancel()
		<-t.over
	} else {
		w.on.End()
		close(t.over)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = nil
}

// watch returns when the term is to end, or has ended by itself.
func (w *Work) watch(ctx context.Context, t *term, tick <-chan time.Time) {
	for w.leads() {
		select {
		case <-ctx.Done():
			return
		case <-t.over:
			return
		case <-tick:
		}
	}
}

// begin releases the callers of Begun.
func (w *Work) begin(t *term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.begun = true
	close(w.changed)
	w.changed = make(chan struct{})
}
