package pebble

import (
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configure an Engine. Only Dir is required.
type Options struct {
	Dir        string     // created with mode 0700 if absent
	FS         vfs.FS     // defaults to the disk
	Durability Durability // defaults to Durable
	CacheBytes int64      // of blocks and values; defaults to 64 MiB; filled on use
	Log        *slog.Logger
	Now        func() time.Time

	// IdleFlush is how long after the last write the memtables are flushed; defaults to
	// 300 ms, never if negative.
	IdleFlush time.Duration
	// DiskCheck is the interval between checks of the free space; defaults to 1 s.
	DiskCheck time.Duration

	// Patience is how long an Update waits for another Update of the same key before it
	// fails with store.ErrConflict; defaults to 5 s.
	Patience time.Duration

	// PrefixBytes is the length of the prefix that keys share which are read together.
	// A range of one prefix skips tables without it, and waits only for writes of keys
	// with it. 0 is no prefix.
	PrefixBytes int

	// noWAL disables the WAL, which is of no use if the data is lost with the process.
	// It applies to a Relaxed engine only.
	noWAL bool

	exit            func(code int)
	memtableBytes   uint64
	compactInterval time.Duration
	compactMinBytes int64
	skipFirstFlush  bool // control of a test: no flush after a format upgrade
	skipMarks       bool // control of a test: no sync marks
	skipDurableWait bool // control of a test: reads do not wait for durability
}

// Durability says what an Update waits for.
type Durability int

const (
	// Durable waits until the write is on disk.
	Durable Durability = iota
	// Relaxed does not wait. A crash, of this process or of the machine, can lose the
	// most recent Updates, though never a part of one, and even if they were read.
	Relaxed
)

// InMemory returns the options of an engine that loses its data when it is closed.
func InMemory() Options {
	return Options{FS: vfs.NewMem(), Dir: "stator", Durability: Relaxed, IdleFlush: -1, noWAL: true}
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.IdleFlush == 0 {
		o.IdleFlush = 300 * time.Millisecond
	}
	if o.DiskCheck == 0 {
		o.DiskCheck = time.Second
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	if o.exit == nil {
		o.exit = os.Exit
	}
	if o.memtableBytes == 0 {
		o.memtableBytes = 32 << 20
	}
	if o.compactInterval == 0 {
		o.compactInterval = 10 * time.Second
	}
	if o.compactMinBytes == 0 {
		o.compactMinBytes = 1 << 30 // a smaller store has few levels
	}
	return o
}

func (o Options) withoutWAL() bool { return o.noWAL && o.Durability == Relaxed }

// valueCacheBytes returns the capacity of the value cache. The rest of the cache holds blocks
// of tables, which serve ranges too.
func (o Options) valueCacheBytes() int64 { return o.CacheBytes / 8 * 3 }

// OutsideHeap returns how much of a full cache is outside of Go's heap: the blocks, in a
// program that is built with cgo.
func OutsideHeap(cacheBytes int64) int64 {
	if !blocksOffHeap {
		return 0
	}
	return cacheBytes - Options{CacheBytes: cacheBytes}.valueCacheBytes()
}

// newCache returns the block cache. It includes the memtables, of which there are mostly at
// most two.
func (o Options) newCache() *pebble.Cache {
	return pebble.NewCache(o.CacheBytes + 2*int64(o.memtableBytes))
}

// pebble returns the options of Pebble.
func (o Options) pebble(fs vfs.FS, lock *pebble.Lock, cache *pebble.Cache, log *logger, events *pebble.EventListener) *pebble.Options {
	p := &pebble.Options{
		Cache:         cache,
		FS:            fs,
		Lock:          lock,
		Logger:        log,
		EventListener: events,

		// The default is the oldest format, whose WAL hides damage: records after a
		// flipped bit are lost silently.
		FormatMajorVersion: pebble.FormatNewest,

		// Pebble starts with a small memtable and doubles its size up to this.
		MemTableSize:                o.memtableBytes,
		MemTableStopWritesThreshold: 4,
		DisableWAL:                  o.withoutWAL(),
		BlockPropertyCollectors:     newPrefixes(o.PrefixBytes).collectors(),
		AllocatorSizeClasses:        sizeClasses,
		CompactionConcurrencyRange:  func() (lower, upper int) { return 1, max(1, min(4, runtime.GOMAXPROCS(0)/2)) },
	}
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		p.Levels[i].BlockSize = 8 << 10
		// Large enough that a table's index is one block: a second level would cost
		// each read another lookup in the cache.
		p.Levels[i].IndexBlockSize = 1 << 20
	}
	return p
}

// sizeClasses are the size classes of Go's allocator near that of a block. Blocks are cut to
// fill one, since the cache allocates them so.
var sizeClasses = []int{4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384}
