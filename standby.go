package stator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// source returns what a standby can follow; nil if the engine has none.
func source(engine store.Engine, d *db.DB) *standby.Source {
	e, ok := engine.(*pebble.Engine)
	if !ok {
		return nil
	}
	return &standby.Source{Engine: e, Database: d.ID}
}

// StandbyOptions configure a standby.
type StandbyOptions struct {
	// Options are those of the database that the standby becomes. Dir is required:
	// it is empty or absent at first, and then has the copy.
	Options

	// Of is the URL of the server to follow. Its data must be in a folder, without
	// Relaxed.
	Of string

	// Sign signs a request to that server with AWS Signature Version 4.
	Sign func(r *http.Request, body []byte) error

	// Client sends the requests to that server; it defaults to http.DefaultClient.
	Client *http.Client
}

// StandbyStatus is what a standby does.
type StandbyStatus = standby.Status

// ErrNoCopy is returned when a standby without a complete copy is to be promoted.
var ErrNoCopy = standby.ErrNoCopy

// Standby is a copy of a server's data that follows the server, until it is promoted to
// a database of its own.
type Standby struct {
	o        StandbyOptions
	follower *standby.Follower
	clock    *clock.Clock
	starting server.Starting

	stopClock func() // ends followClock, and returns when it has ended

	mu       sync.Mutex
	promoted bool
	db       *DB // once it is promoted and serves
}

// OpenStandby opens a standby, which begins to follow its server. The caller closes it
// with Close.
func OpenStandby(ctx context.Context, o StandbyOptions) (*Standby, error) {
	if o.Dir == "" || o.Engine != "" || o.Relaxed {
		return nil, errors.New("a standby needs a data folder, and cannot have relaxed durability")
	}
	if o.Access != nil && o.Access.store.HasKeys() && !o.Access.store.HasFile() {
		return nil, errors.New("a standby needs a file of access keys: it does not use those of the database before it is promoted")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := o.loadKey(ctx); err != nil {
		return nil, err
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	now := o.clock(nil)
	f, err := standby.Open(ctx, standby.Options{Of: o.Of, Engine: o.storage(now), Sign: o.Sign, Client: o.Client, Log: o.Log})
	if err != nil {
		return nil, err
	}
	s := &Standby{o: o, follower: f, clock: now}
	s.followClock()
	s.starting.Follow(&server.Standby{Status: f.Status, Metrics: f.Metrics, Promote: s.promote, Hosts: o.AllowedHosts, Verifier: o.verifier(), Access: o.permitted(), Log: o.Log})
	return s, nil
}

// clockInterval is how often followClock compares the clock with the wall clock.
const clockInterval = 5 * time.Second

// followClock lets the clock follow the wall clock until the standby is promoted or closed.
// Otherwise a difference that began long ago would be taken for a new step at the promotion.
// No data has a time of this clock yet, so a step needs no record.
func (s *Standby) followClock() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			s.clock.Accept()
			lead.Wait(ctx, clockInterval)
		}
	})
	s.stopClock = func() {
		cancel()
		running.Wait()
	}
}

// Status returns what the standby does.
func (s *Standby) Status() StandbyStatus { return s.follower.Status() }

// Handler answers requests for the status and for the promotion over HTTP, and once the
// standby is promoted all requests of the DynamoDB API.
func (s *Standby) Handler() http.Handler { return &s.starting }

// Promote makes the standby a database of its own, which does not follow the server any
// more. Changes that the standby has not received are not in it. Close closes it.
func (s *Standby) Promote(ctx context.Context) (*DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		return s.db, nil
	}
	engine, err := s.promotedEngine()
	if err != nil {
		return nil, err
	}
	s.stopClock() // the database follows it
	d, err := openOn(context.WithoutCancel(ctx), engine, s.o.Options, s.clock)
	if err != nil {
		return nil, fmt.Errorf("the standby is promoted, but its data cannot be served; promote it again, or start stator serve: %w", err)
	}
	s.db = d
	s.starting.Open(d.Handler())
	last := s.follower.LastStatus()
	s.o.Log.Info("promoted: this server is no longer a standby", "of", last.Of, "state", last.State, "lagSeconds", last.LagSeconds, "lagUnknown", last.LagUnknown, "lagBytes", last.LagBytes)
	return d, nil
}

// promotedEngine promotes the follower, or opens its data if an earlier promotion could not
// serve it. The caller holds mu.
func (s *Standby) promotedEngine() (store.Engine, error) {
	if s.promoted {
		return openLocal(s.o.Options, s.clock)
	}
	engine, err := s.follower.Promote()
	if err != nil {
		return nil, err
	}
	s.promoted = true
	return engine, nil
}

// promote promotes the standby, and returns its status when the following ended.
func (s *Standby) promote(ctx context.Context) (StandbyStatus, error) {
	_, err := s.Promote(ctx)
	return s.follower.LastStatus(), err
}

// Close stops the standby, or the database that it was promoted to.
func (s *Standby) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopClock()
	err := s.follower.Close()
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return err
}
