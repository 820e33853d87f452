package server

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/stator-db/stator/internal/server/door"
)

// Starting is a handler that exists before the database it serves is open. Until
// Open it answers 503, after which clients retry.
type Starting struct {
	Hosts []string // as in OnlyHosts, until Open

	handler atomic.Pointer[Handler]
	before  atomic.Pointer[Standby]
}

// Follow makes a standby answer until Open.
func (s *Starting) Follow(h *Standby) { s.before.Store(h) }

// Open makes h, which is a *Handler, answer from now on.
func (s *Starting) Open(h http.Handler) { s.handler.Store(h.(*Handler)) }

// ServeHTTP answers a request that net/http has read.
func (s *Starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := s.handler.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	if h := s.before.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	x := door.Begin(w, r)
	defer x.End()
	x.Reply.ID = newID()
	switch {
	case !(&Handler{}).OnlyHosts(s.Hosts).acceptsHost(r.Host):
		rejectHost(&x.Reply)
	case r.URL.Path == "/livez" && isRead(&x.Request):
		alive(&x.Reply)
	default:
		plain(&x.Reply, http.StatusServiceUnavailable, "stator is starting, or waiting for its storage\n")
	}
	_ = x.Reply.Send(w) // the client has disconnected
}

// Drain makes the handler report that the process is about to end. It returns false if no
// requests are served yet.
func (s *Starting) Drain() (serves bool) {
	h := s.handler.Load()
	if h != nil {
		h.Drain()
	}
	return h != nil
}

// Accepts reports whether the door may answer a request itself. Until Open it may
// not: net/http answers.
func (s *Starting) Accepts(r *door.Request) bool {
	h := s.handler.Load()
	return h != nil && h.Accepts(r)
}

// Answer answers a request for which Accepts returned true.
func (s *Starting) Answer(ctx context.Context, r *door.Request, a *door.Reply) {
	s.handler.Load().Answer(ctx, r, a)
}
