// Package db is tables and their items: the catalog, the one write path and
// the one range reader.
//
// It speaks of plans, not of requests: what an expression means is decided
// above it, what a disk is below it.
package db

import (
	"context"
	"log/slog"
	"sync"
	"time"

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
	shardDuration   time.Duration

	catalog catalog

	listeners map[string]func(context.Context, string) error // by topic; guarded by catalog.mu

	restores *restoreQueue
	saving   sync.Mutex // held by who saves or reads tallies

	stop   context.CancelFunc
	work   sync.WaitGroup // what every server does in the background
	leader lead.Work      // what only the leader does
	drop   lead.Wake      // a table was deleted
	build  lead.Wake      // an index or a time to live was changed
}
