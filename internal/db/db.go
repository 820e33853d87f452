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

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
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

	terms terms

	stop  context.CancelFunc
	work  sync.WaitGroup // the goroutines of this database
	drop  chan struct{}  // wakes the one that removes dropped tables
	build chan struct{}  // wakes the one that builds indexes
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
		drop:            make(chan struct{}, 1),
		build:           make(chan struct{}, 1),
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
	d.work.Go(func() { d.removeDropped(background) })
	d.work.Go(func() { d.buildIndexes(background) })
	warned := make(map[uint32]bool)
	d.every(background, tallyInterval, "item counts could not be saved", d.saveTally)
	d.every(background, lookInterval, "item counts could not be read", d.readTally)
	d.every(background, forgetInterval, "old transaction tokens could not be removed", d.leading(d.forgetTokens))
	d.every(background, trimInterval, "old changes could not be removed", d.leading(d.Trim))
	d.every(background, d.expiryInterval, "expired items could not be removed", d.leading(func(ctx context.Context) error { return d.expire(ctx, warned) }))
	for range restoreWorkers {
		d.work.Go(func() { d.restoreTables(background) })
	}
	return d, nil
}

// Now is the time by the database's clock.
func (d *DB) Now() time.Time { return d.now() }

// Healthy tells whether the storage answers.
func (d *DB) Healthy(ctx context.Context) error {
	_, err := d.engine.Get(ctx, store.Strong, keyspace.Meta("last table id"))
	return err
}

// every does some work again and again until the context ends. failed says
// what did not work; it is tried again the next time.
func (d *DB) every(ctx context.Context, interval time.Duration, failed string, work func(context.Context) error) {
	d.work.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := work(ctx); err != nil && ctx.Err() == nil {
					d.log.Warn(failed, "error", err)
				}
			}
		}
	})
}

// leading is some work as the process does it that leads the others.
func (d *DB) leading(work func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if !d.engine.Leads() {
			return nil
		}
		return work(ctx)
	}
}

// leadInterval is how often a process that does not lead looks whether it does.
const leadInterval = time.Second

// led waits until this process leads; it does not once the context ends. What
// would wake its work is not needed meanwhile: it looks at everything when it
// begins.
func (d *DB) led(ctx context.Context, woken <-chan struct{}) bool {
	for !d.engine.Leads() {
		select {
		case <-ctx.Done():
			return false
		case <-woken:
		case <-time.After(leadInterval):
		}
	}
	return true
}

// Close ends the work beside requests. The caller has stopped asking.
func (d *DB) Close() error {
	d.stop()
	d.work.Wait()
	d.restores.close()
	return d.saveTally(context.Background())
}

// A stored item begins with the number of its format, so that it is never
// empty and can change.
const formatItem = 1

func encode(it item.Item) []byte {
	return append(append(make([]byte, 0, len(it)+1), formatItem), it...)
}

func decode(value []byte) (item.Item, error) {
	if value == nil {
		return nil, nil
	}
	if len(value) < 2 || value[0] != formatItem {
		return nil, fmt.Errorf("a stored item begins with %x: %w", value[:min(4, len(value))], store.ErrCorrupt)
	}
	return item.Item(value[1:]), nil
}
