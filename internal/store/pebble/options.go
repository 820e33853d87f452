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

// Options say how to open an Engine. The zero value of all but Dir is usable.
type Options struct {
	Dir        string     // created with mode 0700 if absent
	FS         vfs.FS     // nil is the disk
	Durability Durability // Durable unless set
	CacheBytes int64      // of what was read lately; 64 MiB unless set; filled on use
	Log        *slog.Logger
	Now        func() time.Time

	// IdleFlush is how long after the last write memory is written out to
	// tables; 300 ms unless set, never if negative.
	IdleFlush time.Duration
	// DiskCheck is how often free space is looked at; 1 s unless set.
	DiskCheck time.Duration

	// Patience is how long an Update waits for others of the same key before
	// it gives up with store.ErrConflict; 5 s unless set.
	Patience time.Duration

	// PrefixBytes is with how many bytes keys begin that are asked for together: a
	// range of keys that share so many need not look into all tables.
	PrefixBytes int

	// noWAL leaves the log out, which is of no use to memory that goes with the
	// process. It counts for a Relaxed engine.
	noWAL bool

	exit            func(code int)
	memtableBytes   uint64
	compactInterval time.Duration
	compactMinBytes int64
	skipFirstFlush  bool // control for a test: what the flush of a raised format is good for
	skipMarks       bool // control for a test: what marks are good for
	skipDurableWait bool // control for a test: what a crash takes back from readers
}

// Durability says what an Update waits for.
type Durability int

const (
	// Durable waits until the write is on disk.
	Durable Durability = iota
	// Relaxed does not wait. A crash, of this process or of the machine, can
	// take back the writes of the last moments, though never a part of an
	// Update, and what it takes back may have been read.
	Relaxed
)

// InMemory are the options of an engine that keeps nothing when it is closed.
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

// valueCacheBytes is how much of the cache may hold values by their keys, when they
// are asked for so or written. All else holds blocks of tables, which serve ranges too.
func (o Options) valueCacheBytes() int64 { return o.CacheBytes / 8 * 3 }

// OutsideHeap is how much of a full cache lies where Go does not count it: the blocks, in
// a program that is built with cgo.
func OutsideHeap(cacheBytes int64) int64 {
	if !blocksOutside {
		return 0
	}
	return cacheBytes - Options{CacheBytes: cacheBytes}.valueCacheBytes()
}

// newCache makes the cache. Memtables are taken from it; most of the time there
// are two at most.
func (o Options) newCache() *pebble.Cache {
	return pebble.NewCache(o.CacheBytes + 2*int64(o.memtableBytes))
}

// pebble translates the options. What watches the engine comes in from Open.
func (o Options) pebble(fs vfs.FS, lock *pebble.Lock, cache *pebble.Cache, log *logger, events *pebble.EventListener) *pebble.Options {
	p := &pebble.Options{
		Cache:         cache,
		FS:            fs,
		Lock:          lock,
		Logger:        log,
		EventListener: events,

		// Unset means the oldest, whose log hides damage: records after a
		// flipped bit are lost without a word.
		FormatMajorVersion: pebble.FormatNewest,

		// Pebble begins with a small memtable and doubles it up to this size.
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
		// Large enough that a table's index is one block: a second level costs
		// each read another look into the cache.
		p.Levels[i].IndexBlockSize = 1 << 20
	}
	return p
}

// sizeClasses are the sizes of memory that Go gives out, near that of a block. Blocks
// are cut where they fill one, as a cache has them.
var sizeClasses = []int{4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384}
