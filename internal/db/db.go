// Package db implements tables and their items on a storage engine.
//
// It executes plans (Write, Get, Range), not requests: package ops decides what
// a request and its expressions mean, package store how bytes are kept. Every
// change of an item passes through apply. DESIGN.md explains how a change of a
// table reaches all servers, the background work, and the lock order.
package db

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/store"
)

// Options configures a database. The zero value is usable.
type Options struct {
	// Clock defaults to the system's. It is shared if the engine has a clock of its
	// own, from which it takes the stamps of several servers.
	Clock *clock.Clock
	Log   *slog.Logger // defaults to no log

	// TableDelay is how long a table is CREATING, UPDATING and DELETING. With 0
	// a table can be used as soon as the call has returned.
	TableDelay time.Duration

	// DelayUpdatesOnly leaves the creation and deletion of tables without the delay: then it
	// applies to their updates, among them new and deleted indexes.
	DelayUpdatesOnly bool

	// ExpiryInterval is the interval at which expired items are removed. It
	// defaults to 1 s.
	ExpiryInterval time.Duration

	// HideExpired omits expired items that are not removed yet from all reads.
	HideExpired bool

	// ShardDuration is how long a shard of a stream is open before its child
	// replaces it. It defaults to 4 h, and applies to streams that are enabled
	// from now on.
	ShardDuration time.Duration

	// OpenBackup opens the items of a backup, for tables that are restored from
	// one.
	OpenBackup func(ctx context.Context, id string) (*Contents, error)

	// Throttle rejects requests that exceed the throughput of a table, a global
	// index or a partition. The limits are those of this process.
	Throttle bool

	// WithoutHeat does not count units by hash range.
	WithoutHeat bool

	// Writing, if set, is called before items are changed, with their keys as in
	// keyspace.Item, and the function that it returns when the change is visible or has
	// failed. That are all changes of items by this process.
	Writing func(keys [][]byte) (written func())

	// SharedCache is the cache of this server, if the engine is a store.Fleet; nil without
	// one.
	SharedCache *SharedCache

	// KeepChanges records the changes of all tables for some minutes, for Faults.Lag.
	KeepChanges bool

	// MaxCollectionBytes limits the size of an item collection in a table with
	// local indexes. It defaults to 10 GB.
	MaxCollectionBytes int64
}

// DB is a database. Its methods are safe for concurrent use.
type DB struct {
	engine store.Engine
	clock  *clock.Clock
	log    *slog.Logger
	delay  time.Duration
	// lifeDelay is the delay of the creation and deletion of tables: delay, or 0.
	lifeDelay time.Duration

	sharedStamps bool
	newRuns      []newRun  // of the clock; used by followClock, as runHasEnd
	runHasEnd    bool      // the stored run of the clock has an end
	latestTime   time.Time // that was shown before the last start or step of the clock

	collectionLimit int64
	expiryInterval  time.Duration
	hideExpired     bool
	writing         func(keys [][]byte) (written func()) // may be nil
	shardDuration   time.Duration

	catalog catalog
	meter   *meter.Registry

	past        *history.Recent // what was read of the past
	keepChanges bool            // of all tables

	decoded sync.Map // by the name of the table: the *decodedStream that was read last

	units     *unitsExchange                // nil if no other server shares the data
	announcer *announcer                    // nil if no other server shares the data
	elsewhere *meter.Registry               // what other servers consume
	building  atomic.Pointer[indexProgress] // nil while no index is built
	swept     atomic.Pointer[Sweep]         // the last removal of expired items; nil before the first

	minutely    sync.Mutex
	everyMinute []func(now time.Time) // guarded by minutely; it is replaced, not changed

	listeners map[string]func(context.Context, string) error // by topic; guarded by catalog.mu

	restores *restoreQueue
	saving   chan struct{} // has room for one; filled while item counts are saved or read

	stop   context.CancelFunc
	work   sync.WaitGroup // background work of every server
	leader lead.Work      // background work of the leader only
	terms  atomic.Int64   // number of times that the leader's work was started
	drop   *clock.Wake    // wakes dropStep
	build  *clock.Wake    // wakes buildStep
}
