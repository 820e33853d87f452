// Package leadtest simulates servers that share one engine, in one process, for
// tests of their coordination.
package leadtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// Fleet is a set of servers that share one engine. At first none of them leads.
type Fleet struct {
	engine store.Engine

	mu      sync.Mutex
	servers []*Server
}

// New makes a fleet without servers. The engine stays the caller's to close.
func New(engine store.Engine) *Fleet { return &Fleet{engine: engine} }

// Server is the engine of one server of a fleet.
type Server struct {
	store.Engine
	fleet   *Fleet
	leads   atomic.Bool
	handler func(context.Context, []byte) error
}

// Join adds a server.
func (f *Fleet) Join() *Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &Server{Engine: f.engine, fleet: f}
	f.servers = append(f.servers, s)
	return s
}

// Lead sets whether a server leads. The other servers are not notified.
func (s *Server) Lead(leads bool) { s.leads.Store(leads) }

// Leads returns what Lead has set.
func (s *Server) Leads() bool { return s.leads.Load() }

// Subscribe sets the handler of messages of this server.
func (s *Server) Subscribe(handler func(context.Context, []byte) error) {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.handler = handler
}

// Broadcast calls the handlers of all servers.
func (s *Server) Broadcast(ctx context.Context, message []byte) error {
	s.fleet.mu.Lock()
	var handlers []func(context.Context, []byte) error
	for _, other := range s.fleet.servers {
		if other.handler != nil {
			handlers = append(handlers, other.handler)
		}
	}
	s.fleet.mu.Unlock()
	var all sync.WaitGroup
	failed := make([]error, len(handlers))
	for i, handle := range handlers {
		all.Go(func() { failed[i] = handle(ctx, message) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// Miss notifies this server that it may have missed messages.
func (s *Server) Miss(ctx context.Context) error { return s.handler(ctx, nil) }

// Close ends the subscription of this server. The engine stays open.
func (s *Server) Close() error {
	s.Subscribe(nil)
	return nil
}
