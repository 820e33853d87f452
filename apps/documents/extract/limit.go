package extract

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLimit is the cause of a context whose limit was reached.
var ErrLimit = errors.New("the time limit for a document was reached")

// Limit returns a context that ends after a time of work, with the cause ErrLimit.
// The time in which a document waits for a slot of PDFReader or OCR, while others
// have it, does not count: a queue must not make documents fail.
func Limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &limit{left: d, began: time.Now(), timer: time.AfterFunc(d, func() { cancel(ErrLimit) })}
	return context.WithValue(ctx, limitKey{}, l), func() {
		l.timer.Stop()
		cancel(nil)
	}
}

type limitKey struct{}

// limit is the time that is left for a document.
type limit struct {
	mutex   sync.Mutex
	timer   *time.Timer
	left    time.Duration // at began
	began   time.Time
	waiting int // callers that wait; the timer is stopped if there are any
}

// pause stops the timer until resume is called.
func (l *limit) pause() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.waiting++; l.waiting == 1 {
		l.timer.Stop()
		l.left -= time.Since(l.began)
	}
}

func (l *limit) resume() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.waiting--; l.waiting == 0 {
		l.began = time.Now()
		l.timer.Reset(l.left)
	}
}

// slots limits how many documents do something at the same time.
type slots chan struct{}

// acquire waits for a slot. The caller must release it.
func (s slots) acquire(ctx context.Context) error {
	if l, ok := ctx.Value(limitKey{}).(*limit); ok {
		l.pause()
		defer l.resume()
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s slots) release() { <-s }
