// Package stator embeds a DynamoDB-compatible database in a Go program.
//
//	db, err := stator.Open(ctx, stator.Options{Dir: "data"})
//	…
//	defer db.Close()
//	http.ListenAndServe("127.0.0.1:8000", db.Handler())
//
// It opens the parts under internal/, connects them and closes them.
package stator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/db/transfer"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/trigger"
)

// Options configure a database. The zero value is a database in memory, which
// is lost when it is closed.
type Options struct {
	// Dir is the data folder. Without one, the data is in memory.
	Dir string

	// Engine is the URL of a TiKV cluster that holds the data instead of a
	// folder: tikv://pd1:2379,pd2:2379?prefix=prod. Any number of servers can
	// open the same cluster. Engine requires Backups; see docs/scale-out.md.
	Engine string

	// Backups is where backups of tables are stored: a folder, or a file:// or
	// s3:// URL. It defaults to Dir with the suffix "-backups", or to memory
	// when there is no Dir.
	Backups string

	// Buckets maps each S3Bucket name that exports and imports may use to a
	// folder or URL. Other buckets are refused.
	Buckets map[string]string

	// CacheBytes is the size of the cache of data in a folder or in memory; it
	// defaults to 64 MiB. It is allocated as it fills, and the garbage
	// collector may need as much again.
	CacheBytes int64

	// Relaxed acknowledges a write before it is on disk. A crash can lose the
	// most recent writes.
	Relaxed bool

	// TableDelay is how long a table stays CREATING, UPDATING and DELETING. It
	// defaults to 0: the change is complete when the request returns.
	TableDelay time.Duration

	// ExpiryInterval is the time between two searches for items whose time to
	// live has passed; it defaults to 1 s. HideExpired omits such items from
	// reads even before they are deleted.
	ExpiryInterval time.Duration
	HideExpired    bool

	// ShardDuration is how long a shard of a stream accepts records before a
	// successor replaces it; it defaults to 4 h. It applies to streams that are
	// enabled from now on.
	ShardDuration time.Duration

	// Triggers post the changes of streams to HTTP endpoints.
	Triggers []Trigger

	// NoBackground disables background work such as exports, restores and the
	// deletion of expired items. It resumes when the data is next opened
	// without this option.
	NoBackground bool

	Log *slog.Logger     // defaults to a logger that discards everything
	Now func() time.Time // defaults to time.Now
}

// Trigger configures which changes of a stream are posted to which endpoint.
type Trigger = trigger.Config

// TriggerPattern is one of a trigger's filters.
type TriggerPattern = trigger.Pattern

// TriggerFault is the error that reports an invalid trigger.
type TriggerFault = trigger.Fault

// DB is an open database.
type DB struct {
	engine      store.Engine
	db          *db.DB
	backups     *backup.Store
	backupFiles blob.Place
	buckets     map[string]blob.Place
	transfers   *transfer.Store
	handler     http.Handler

	triggers *trigger.Set
}

// ErrUnavailable is returned when the cluster does not answer. The call may be
// retried.
var ErrUnavailable = store.ErrUnavailable

// LockedError is returned when another process has the data folder open.
type LockedError = pebble.LockedError

// Open opens a database. The caller closes it with Close.
func Open(ctx context.Context, o Options) (*DB, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	engine, err := openEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.NoBackground {
		engine = noBackground{engine}
	}
	return openOn(ctx, engine, o)
}

// noBackground is an engine that never leads, so that no background work starts
// on it.
type noBackground struct{ store.Engine }

func (noBackground) Leads() bool { return false }

// openOn opens a database on an engine. DB.Close closes the engine, and so does
// openOn when it fails.
func openOn(ctx context.Context, engine store.Engine, o Options) (*DB, error) {
	backupFiles, err := blob.Open(ctx, o.backups())
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	d, err := db.Open(ctx, engine, db.Options{Now: o.Now, Log: o.Log, TableDelay: o.TableDelay, ExpiryInterval: o.ExpiryInterval, HideExpired: o.HideExpired, ShardDuration: o.ShardDuration, OpenBackup: backup.Contents(backupFiles)})
	if err != nil {
		return nil, errors.Join(err, backupFiles.Close(), engine.Close())
	}
	s := &DB{engine: engine, backupFiles: backupFiles, db: d, backups: backup.Open(ctx, d, backupFiles, o.Log)}
	if err := s.openBuckets(ctx, o.Buckets); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.transfers, err = transfer.Open(ctx, d, s.buckets, o.Log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	service := ops.New(ops.Parts{DB: d, Backups: s.backups, Transfers: s.transfers})
	s.handler = server.New(service, o.Log)
	s.triggers, err = trigger.Start(ctx, trigger.Options{Service: service, Log: o.Log}, o.Triggers...)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openEngine(ctx context.Context, o Options) (store.Engine, error) {
	if o.Engine != "" {
		if o.Dir != "" || o.Backups == "" {
			return nil, errors.New("a database on a cluster cannot have a data folder, and requires a location for backups that all its servers can reach")
		}
		return openCluster(ctx, o.Engine, o.Log)
	}
	storage := pebble.InMemory()
	if o.Dir != "" {
		storage = pebble.Options{Dir: o.Dir}
	}
	if o.Relaxed {
		storage.Durability = pebble.Relaxed
	}
	storage.CacheBytes, storage.Log, storage.Now = o.CacheBytes, o.Log, o.Now
	storage.PrefixBytes = keyspace.PartitionBytes
	return pebble.Open(storage)
}

func (d *DB) openBuckets(ctx context.Context, buckets map[string]string) error {
	d.buckets = make(map[string]blob.Place)
	for name, location := range buckets {
		bucket, err := blob.Open(ctx, location)
		if err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
		d.buckets[name] = bucket
	}
	return nil
}

// backups is the location of backups.
func (o *Options) backups() string {
	switch {
	case o.Backups != "":
		return o.Backups
	case o.Dir != "":
		return filepath.Clean(o.Dir) + "-backups"
	}
	return "mem://"
}

// Handler serves the DynamoDB API over HTTP, for AWS SDKs and the AWS CLI.
func (d *DB) Handler() http.Handler { return d.handler }

// TableReport is the result of Verify for one table.
type TableReport struct {
	Table   string           `json:"table"`
	Items   int64            `json:"items"`
	Entries map[string]int64 `json:"entries"` // by index name
	Faults  int64            `json:"faults"`
	First   []string         `json:"first"` // descriptions of the first faults
}

// Verify reads all tables and checks that items and index entries agree. It
// calls progress from time to time.
func (d *DB) Verify(ctx context.Context, progress func(table string, items int64)) ([]TableReport, error) {
	reports, err := d.db.Verify(ctx, progress)
	found := make([]TableReport, len(reports))
	for i, r := range reports {
		found[i] = TableReport(r)
	}
	return found, err
}

// Close waits for background work to stop and closes the database. The handler
// must no longer be in use.
func (d *DB) Close() error {
	var triggersErr error
	if d.triggers != nil {
		triggersErr = d.triggers.Close()
	}
	d.backups.Close()
	if d.transfers != nil {
		d.transfers.Close()
	}
	var bucketsErr error
	for _, bucket := range d.buckets {
		bucketsErr = errors.Join(bucketsErr, bucket.Close())
	}
	return errors.Join(triggersErr, bucketsErr, d.db.Close(), d.backupFiles.Close(), d.engine.Close())
}
