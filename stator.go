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

// Options say what to open. Without a Dir the database is in memory and gone
// when it is closed.
type Options struct {
	Dir string

	// Engine is the URL of a TiKV cluster to keep the data in, instead of a
	// folder: tikv://pd1:2379,pd2:2379?prefix=prod. Any number of servers can
	// have it open. It needs Backups. docs/scale-out.md tells the rest.
	Engine string

	// Backups is where backups of tables are kept: a folder, or a URL that
	// begins with file:// or s3://. Unless set it is the folder beside Dir
	// that has "-backups" behind its name, or memory.
	Backups string

	// Buckets are where exports are written to and imports read from: of each
	// name that a request may have as an S3Bucket the folder, or the URL as
	// above. Nothing else can be reached.
	Buckets map[string]string

	// CacheBytes is how much of what was read lately is kept in memory, of data
	// in a folder or in memory; 64 MiB unless set. It is taken as it is used, and
	// the garbage collector may take as much again.
	CacheBytes int64

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

	// ShardDuration is how long a shard of a stream takes records before another
	// follows it; 4 h unless set. It counts for streams enabled from now on.
	ShardDuration time.Duration

	// Triggers post the changes of streams to HTTP endpoints.
	Triggers []Trigger

	// NoBackground leaves alone what goes on beside requests, such as exports,
	// restores and the removal of expired items: the next who opens the data
	// goes on with it.
	NoBackground bool

	Log *slog.Logger     // nothing is logged unless set
	Now func() time.Time // the system's clock unless set
}

// Trigger says what of a stream is posted where.
type Trigger = trigger.Config

// TriggerPattern is one of a trigger's filters.
type TriggerPattern = trigger.Pattern

// TriggerFault is the error of a trigger that makes no sense.
type TriggerFault = trigger.Fault

// DB is an open database.
type DB struct {
	engine    store.Engine
	place     blob.Place
	db        *db.DB
	backups   *backup.Store
	buckets   map[string]blob.Place
	transfers *transfer.Store
	handler   http.Handler

	triggers *trigger.Set
}

// ErrUnavailable is the error of a cluster that does not answer now.
var ErrUnavailable = store.ErrUnavailable

// LockedError is the error of a folder that another process has open.
type LockedError = pebble.LockedError

// Open opens a database. What it holds is released by Close.
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
	return join(ctx, engine, o)
}

// noBackground is an engine that never leads.
type noBackground struct{ store.Engine }

func (noBackground) Leads() bool { return false }

// join makes a database over an engine, which it closes in the end.
func join(ctx context.Context, engine store.Engine, o Options) (*DB, error) {
	place, err := blob.Open(ctx, o.backups())
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	d, err := db.Open(ctx, engine, db.Options{Now: o.Now, Log: o.Log, TableDelay: o.TableDelay, ExpiryInterval: o.ExpiryInterval, HideExpired: o.HideExpired, ShardDuration: o.ShardDuration, OpenBackup: backup.Contents(place)})
	if err != nil {
		return nil, errors.Join(err, place.Close(), engine.Close())
	}
	service := ops.New(d)
	service.Backups = backup.Open(ctx, d, place, o.Log)
	s := &DB{engine: engine, place: place, db: d, backups: service.Backups, handler: server.New(service, o.Log)}
	if err := s.openBuckets(ctx, o.Buckets); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.transfers, err = transfer.Open(ctx, d, s.buckets, o.Log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	service.Transfers = s.transfers
	s.triggers, err = trigger.Start(ctx, trigger.Options{Service: service, Log: o.Log}, o.Triggers...)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openEngine(ctx context.Context, o Options) (store.Engine, error) {
	if o.Engine != "" {
		if o.Dir != "" || o.Backups == "" {
			return nil, errors.New("a database on a cluster has no folder of its own, and needs a place for backups that all its servers reach")
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

func (s *DB) openBuckets(ctx context.Context, buckets map[string]string) error {
	s.buckets = make(map[string]blob.Place)
	for name, where := range buckets {
		place, err := blob.Open(ctx, where)
		if err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
		s.buckets[name] = place
	}
	return nil
}

// backups is where backups are kept.
func (o *Options) backups() string {
	switch {
	case o.Backups != "":
		return o.Backups
	case o.Dir != "":
		return filepath.Clean(o.Dir) + "-backups"
	}
	return "mem://"
}

// Handler answers the requests of AWS's SDKs, the AWS CLI and their like.
func (s *DB) Handler() http.Handler { return s.handler }

// TableReport is what Verify found in one table.
type TableReport struct {
	Table   string           `json:"table"`
	Items   int64            `json:"items"`
	Entries map[string]int64 `json:"entries"` // of each index
	Faults  int64            `json:"faults"`
	First   []string         `json:"first"` // the first faults, in words
}

// Verify walks through all tables and proves that items and index entries
// agree. progress is called now and then.
func (s *DB) Verify(ctx context.Context, progress func(table string, items int64)) ([]TableReport, error) {
	reports, err := s.db.Verify(ctx, progress)
	found := make([]TableReport, len(reports))
	for i, r := range reports {
		found[i] = TableReport(r)
	}
	return found, err
}

// Close waits for what goes on in the background and closes the database. The
// handler must no longer be in use.
func (s *DB) Close() error {
	var triggersErr error
	if s.triggers != nil {
		triggersErr = s.triggers.Close()
	}
	s.backups.Close()
	if s.transfers != nil {
		s.transfers.Close()
	}
	var bucketsErr error
	for _, bucket := range s.buckets {
		bucketsErr = errors.Join(bucketsErr, bucket.Close())
	}
	return errors.Join(triggersErr, bucketsErr, s.db.Close(), s.place.Close(), s.engine.Close())
}
