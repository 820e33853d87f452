// Package stator is a DynamoDB-compatible database that a Go program can carry
// inside: it opens the parts, joins them and closes them.
//
//	s, err := stator.Open(ctx, stator.Options{Dir: "data"})
//	…
//	http.ListenAndServe("127.0.0.1:8000", s.Handler())
package stator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// Options say what to open. Without a Dir the database is in memory and gone
// when it is closed.
type Options struct {
	Dir string

	// Relaxed answers a write before it is on disk. A crash can take back the
	// writes of the last moments.
	Relaxed bool

	// TableDelay is how long a table stays CREATING, UPDATING and DELETING,
	// as it does on AWS. With none a table is ready when the answer arrives.
	TableDelay time.Duration

	// ExpiryInterval is how often items whose time to live is over are looked
	// for; 1 s unless set. HideExpired leaves them out of reads even before.
	ExpiryInterval time.Duration
	HideExpired    bool

	Log *slog.Logger     // nothing is logged unless set
	Now func() time.Time // the system's clock unless set
}

// Stator is an open database.
type Stator struct {
	engine  store.Engine
	db      *db.DB
	handler http.Handler
}

// LockedError is the error of a folder that another process has open.
type LockedError = pebble.LockedError

// Open opens a database. What it holds is released by Close.
func Open(ctx context.Context, o Options) (*Stator, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	storage := pebble.InMemory()
	if o.Dir != "" {
		storage = pebble.Options{Dir: o.Dir}
	}
	if o.Relaxed {
		storage.Durability = pebble.Relaxed
	}
	storage.Log, storage.Now = o.Log, o.Now
	engine, err := pebble.Open(storage)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, engine, db.Options{Now: o.Now, Log: o.Log, TableDelay: o.TableDelay, ExpiryInterval: o.ExpiryInterval, HideExpired: o.HideExpired})
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &Stator{engine: engine, db: d, handler: server.New(ops.New(d), o.Log)}, nil
}

// Handler answers the requests of AWS's SDKs, the AWS CLI and their like.
func (s *Stator) Handler() http.Handler { return s.handler }

// Verified is what Verify found in one table.
type Verified struct {
	Table   string           `json:"table"`
	Items   int64            `json:"items"`
	Entries map[string]int64 `json:"entries"` // of each index
	Faults  int64            `json:"faults"`
	First   []string         `json:"first"` // the first faults, in words
}

// Verify walks through all tables and proves that items and index entries
// agree. progress is called now and then.
func (s *Stator) Verify(ctx context.Context, progress func(table string, items int64)) ([]Verified, error) {
	reports, err := s.db.Verify(ctx, progress)
	found := make([]Verified, len(reports))
	for i, r := range reports {
		found[i] = Verified(r)
	}
	return found, err
}

// Close waits for what goes on in the background and closes the database. The
// handler must no longer be in use.
func (s *Stator) Close() error {
	return errors.Join(s.db.Close(), s.engine.Close())
}
