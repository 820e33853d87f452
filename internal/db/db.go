// Package db is tables and their items: the catalog, the one write path and
// the one range reader.
//
// It speaks of plans, not of requests: what an expression means is decided
// above it, what a disk is below it.
package db

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// Options say how a database behaves. The zero value is usable.
type Options struct {
	Now func() time.Time // the system's clock unless set
	Log *slog.Logger

	// TableDelay is how long a table is CREATING, UPDATING and DELETING.
	// With none it can be used as soon as the answer arrives.
	TableDelay time.Duration

	// ExpiryInterval is how often expired items are looked for; 1 s unless set.
	ExpiryInterval time.Duration

	// HideExpired leaves expired items out of what is read, also when they
	// have not been removed yet.
	HideExpired bool

	// ShardDuration is how long a shard of a stream takes changes before another
	// follows it; 4 h unless set. It counts for streams that are enabled from
	// now on.
	ShardDuration time.Duration

	// OpenBackup finds the items of a backup, for tables that are made of one.
	OpenBackup func(ctx context.Context, id string) (*Contents, error)

	// MaxCollectionBytes is how large the items of one partition may become
	// in a table with local indexes; 10 GB unless set.
	MaxCollectionBytes int64
}

// DB is a database. Its methods may be called at once from many goroutines.
type DB struct {
	engine store.Engine
	now    func() time.Time
	log    *slog.Logger
	delay  time.Duration

	collectionLimit int64
	expiryInterval  time.Duration
	hideExpired     bool
	shardRoll       time.Duration

	catalog catalog

	listeners map[string]func(context.Context, string) error // by topic; guarded by catalog.mu

	restores *restores
	saving   sync.Mutex // held by who saves or reads tallies

	stop   context.CancelFunc
	work   sync.WaitGroup // what every server does in the background
	leader lead.Work      // what only the leader does
	drop   lead.Wake      // a table was deleted
	build  lead.Wake      // an index or a time to live was changed
}

// Open reads the catalog of an engine and starts the work that goes on beside
// requests. The engine stays the caller's to close, after Close.
func Open(ctx context.Context, engine store.Engine, o Options) (*DB, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	d := &DB{
		engine: engine, now: o.Now, log: o.Log, delay: o.TableDelay,
		collectionLimit: cmp.Or(o.MaxCollectionBytes, maxCollection),
		expiryInterval:  cmp.Or(o.ExpiryInterval, time.Second),
		hideExpired:     o.HideExpired,
		shardRoll:       cmp.Or(o.ShardDuration, shardRoll),
		drop:            lead.NewWake(),
		build:           lead.NewWake(),
		restores:        newRestores(o.OpenBackup),
		catalog:         catalog{unsettled: make(map[string]*unsettled)},
		listeners:       make(map[string]func(context.Context, string) error),
	}
	engine.Subscribe(d.hear) // before the catalog is read, so that no change of it is missed
	if err := d.load(ctx); err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	if err := d.readTally(ctx); err != nil {
		return nil, fmt.Errorf("read the item counts: %w", err)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.work.Go(func() {
		lead.Run(background, nil,
			lead.Every(tallyInterval, d.saveTally, d.warn("item counts could not be saved")),
			lead.Every(lookInterval, d.readTally, d.warn("item counts could not be read")))
	})
	d.leader.Start(ctx, engine.Leads, d.lead)
	return d, nil
}

// lead does the background work of the leader during one term.
func (d *DB) lead(ctx context.Context, begun func()) {
	begun()
	warned := make(map[uint32]bool)
	lead.Run(ctx, d.engine.Leads,
		lead.Loop{Step: d.dropStep, Wake: d.drop, Retry: 5 * time.Second, Failed: d.warn("deleted tables could not be removed; trying again")},
		lead.Loop{Step: d.buildStep, Wake: d.build, Failed: d.warn("an index could not be built; trying again")},
		lead.Loop{Step: d.restoreStep, Wake: d.restores.wake, Workers: restoreWorkers},
		lead.Every(forgetInterval, d.forgetTokens, d.warn("old transaction tokens could not be removed")),
		lead.Every(trimInterval, d.Trim, d.warn("old changes could not be removed")),
		lead.Every(d.expiryInterval, func(ctx context.Context) error { return d.expire(ctx, warned) }, d.warn("expired items could not be removed")))
}

// warn logs an error of background work.
func (d *DB) warn(message string) func(error) {
	return func(err error) { d.log.Warn(message, "error", err) }
}

// Now is the time by the database's clock.
func (d *DB) Now() time.Time { return d.now() }

// Healthy tells whether the storage answers.
func (d *DB) Healthy(ctx context.Context) error {
	_, err := d.engine.Get(ctx, store.Strong, keyspace.Meta("last table id"))
	return err
}

// Verify checks that what is stored is consistent, as it is at one moment. It
// calls progress at intervals.
func (d *DB) Verify(ctx context.Context, progress func(table string, items int64)) ([]verify.Report, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	return verify.Tables(ctx, snap, progress)
}

// Close ends the work beside requests. The caller has stopped asking.
func (d *DB) Close() error {
	d.stop()
	d.work.Wait()
	d.leader.Close()
	d.restores.close()
	return d.saveTally(context.Background())
}
