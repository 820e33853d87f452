package server

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/stator-db/stator/internal/server/door"
)

// Late is a handler that is there before what it serves is. Until it is opened
// it says so, in a way that clients try again.
type Late struct {
	handler atomic.Pointer[Handler]
}

// Open has h, which is a *Handler, answer from now on.
func (l *Late) Open(h http.Handler) { l.handler.Store(h.(*Handler)) }

// ServeHTTP answers a request that net/http has read.
func (l *Late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.handler.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.Error(w, "stator is starting, or waits for its storage", http.StatusServiceUnavailable)
}

// Takes tells whether the door may have a request answered by itself. Until it
// is opened net/http says that it is not.
func (l *Late) Takes(r *door.Request) bool {
	h := l.handler.Load()
	return h != nil && h.Takes(r)
}

// Answer answers a request that Takes has agreed to.
func (l *Late) Answer(ctx context.Context, r *door.Request, a *door.Reply) {
	l.handler.Load().Answer(ctx, r, a)
}
