// Package leadtest is servers that share one engine, in one process, for tests
// of what servers do together.
package leadtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/stator-db/stator/internal/store"
)

// Fleet is servers that share one engine. None of them leads at first.
type Fleet struct {
	engine store.Engine

	mu      sync.Mutex
	servers []*Server
}

// New makes a fleet without servers. The engine stays the caller's to close.
func New(engine store.Engine) *Fleet { return &Fleet{engine: engine} }

// Server is the engine as one server of a fleet has it.
type Server struct {
	store.Engine
	fleet *Fleet
	leads atomic.Bool
	hear  func(context.Context, []byte) error
}

// Join adds a server.
func (f *Fleet) Join() *Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &Server{Engine: f.engine, fleet: f}
	f.servers = append(f.servers, s)
	return s
}

// Lead says whether a server leads. Nobody is told of it.
func (s *Server) Lead(leads bool) { s.leads.Store(leads) }

// Leads is what Lead has said.
func (s *Server) Leads() bool { return s.leads.Load() }

// Subscribe sets the handler of messages of this server.
func (s *Server) Subscribe(hear func(context.Context, []byte) error) {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.hear = hear
}

// Broadcast calls the handlers of all servers.
func (s *Server) Broadcast(ctx context.Context, message []byte) error {
	s.fleet.mu.Lock()
	var hear []func(context.Context, []byte) error
	for _, other := range s.fleet.servers {
		if other.hear != nil {
			hear = append(hear, other.hear)
		}
	}
	s.fleet.mu.Unlock()
	var all sync.WaitGroup
	failed := make([]error, len(hear))
	for i, hear := range hear {
		all.Go(func() { failed[i] = hear(ctx, message) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// Miss has this server hear that it may have missed anything.
func (s *Server) Miss(ctx context.Context) error { return s.hear(ctx, nil) }

// Close ends what this server hears. The engine stays open.
func (s *Server) Close() error {
	s.Subscribe(nil)
	return nil
}
