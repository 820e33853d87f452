package pebble

import (
	"context"
	"sync/atomic"
	"time"
)

// idleFlush calls flush when no write has followed the last one for a while.
type idleFlush struct {
	after  time.Duration                     // never if negative
	flush  func(context.Context) (done bool) // retried later if not done
	writes atomic.Uint64
	clean  atomic.Uint64 // how many of them are flushed
	wake   chan struct{}
}

func newIdleFlush(after time.Duration, flush func(context.Context) bool) *idleFlush {
	return &idleFlush{after: after, flush: flush, wake: make(chan struct{}, 1)}
}

// wrote counts a write.
func (f *idleFlush) wrote() {
	f.writes.Add(1)
	if len(f.wake) == 0 {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// dirty reports whether there were writes since the last flush.
func (f *idleFlush) dirty() bool { return f.writes.Load() != f.clean.Load() }

// run flushes until the context ends. It sleeps while there are no writes.
func (f *idleFlush) run(ctx context.Context) {
	if f.after < 0 {
		return
	}
	quiet := time.NewTimer(f.after)
	defer quiet.Stop()
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		for f.dirty() {
			before := f.writes.Load()
			quiet.Reset(f.after)
			select {
			case <-quiet.C:
			case <-ctx.Done():
				return
			}
			if f.writes.Load() == before && f.flush(ctx) {
				f.clean.Store(before)
			}
		}
	}
}
