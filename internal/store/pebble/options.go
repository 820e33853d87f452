package pebble

import (
	"log/slog"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store/pebble/encrypted"
)

// Options configure an Engine. Only Dir is required.
type Options struct {
	Dir        string     // created with mode 0700 if absent
	FS         vfs.FS     // defaults to the disk, on which files have mode 0600
	Durability Durability // defaults to Durable
	CacheBytes int64      // of blocks and values; defaults to 64 MiB; filled on use
	Log        *slog.Logger
	Now        func() time.Time

	// Key encrypts the files of a new folder, and decrypts those of an encrypted one. Open
	// returns an error if the folder needs another key, or none.
	Key *encryption.MasterKey

	// AllowOtherFiles creates data in a folder that has other files already.
	AllowOtherFiles bool

	// IdleFlush is how long after the last write the memtables are flushed; defaults to
	// 300 ms, never if negative.
	IdleFlush time.Duration
	// DiskCheck is the interval between checks of the free space; defaults to 1 s.
	DiskCheck time.Duration

	// BacklogWait is how long an Update waits while flushes or compactions are behind before
	// it fails with store.ErrBehind; defaults to 1 s.
	BacklogWait time.Duration

	// Patience is how long an Update waits for another Update of the same key before it
	// fails with store.ErrConflict; defaults to 5 s.
	Patience time.Duration

	// NoPreallocation allocates no space before it is written, neither for WAL files nor for a
	// full disk: for many databases on one disk.
	NoPreallocation bool

	// OpenTables is how many files of tables are kept open; defaults to 990.
	OpenTables int

	// PrefixBytes is the length of the prefix that keys share which are read together.
	// A range of one prefix skips tables without it, and waits only for writes of keys
	// with it. 0 is no prefix.
	PrefixBytes int

	// FeedBytes bounds the changes that are kept for a standby; defaults to 1 GiB. During a
	// copy the bound is at least the size of the data.
	FeedBytes int64

	// noWAL disables the WAL, which is of no use if the data is lost with the process.
	// It applies to a Relaxed engine only.
	noWAL bool

	keys            *encrypted.KeyRing // nil if the folder is not encrypted
	exit            func(code int)
	memtableBytes   uint64
	manifestBytes   int64   // after which Pebble begins a new manifest; its own default if zero
	small           float64 // the part of the sizes for a large disk that a small disk has
	compactInterval time.Duration
	compactMinBytes int64
	corruptionPause time.Duration // of reads of damaged bytes
	skipFirstFlush  bool          // control of a test: no flush after a format upgrade
	skipMarks       bool          // control of a test: no sync marks
	skipDurableWait bool          // control of a test: reads do not wait for durability
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

// InMemory returns the options of an engine that loses its data when it is closed. Such
// engines are mostly used by tests, on machines that may be busy, so Updates wait longer for
// flushes before they fail.
func InMemory() Options {
	return Options{FS: vfs.NewMem(), Dir: "stator", Durability: Relaxed, IdleFlush: -1, BacklogWait: 30 * time.Second, noWAL: true}
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
	if o.BacklogWait == 0 {
		o.BacklogWait = time.Second
	}
	if o.DiskCheck == 0 {
		o.DiskCheck = time.Second
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	if o.corruptionPause == 0 {
		o.corruptionPause = corruptionPause
	}
	if o.OpenTables == 0 {
		o.OpenTables = 990
	}
	if o.exit == nil {
		o.exit = os.Exit
	}
	if o.compactInterval == 0 {
		o.compactInterval = 10 * time.Second
	}
	if o.compactMinBytes == 0 {
		o.compactMinBytes = 1 << 30 // a smaller store has few levels
	}
	return o
}

const (
	maxMemtableBytes = 32 << 20
	minMemtableBytes = 512 << 10
	minTableBytes    = 256 << 10
	// memtablePart is the part of a small disk, as a divisor, that a memtable and its WAL
	// file may take.
	memtablePart = 128
)

// forDisk sets the sizes that depend on the size of the disk; 0 is an unknown size. They are
// smaller on disks of less than 4 GB: WAL files are allocated in advance, and several exist
// at once; a flush, and each compaction, must fit into the reserve.
func (o Options) forDisk(totalBytes uint64) Options {
	bytes := uint64(maxMemtableBytes)
	if totalBytes > 0 {
		bytes = min(maxMemtableBytes, max(minMemtableBytes, totalBytes/memtablePart))
	}
	o.small = float64(bytes) / maxMemtableBytes
	if o.memtableBytes == 0 {
		o.memtableBytes = bytes
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
func (o Options) pebble(fs vfs.FS, lock *pebble.Lock, cache *pebble.Cache, tables *pebble.FileCache, log *logger, events *pebble.EventListener) *pebble.Options {
	p := &pebble.Options{
		Cache:         cache,
		FileCache:     tables,
		FS:            fs,
		Lock:          lock,
		Logger:        log,
		EventListener: events,

		// The default is the oldest format, whose WAL hides damage: records after a
		// flipped bit are lost silently.
		FormatMajorVersion: pebble.FormatNewest,

		// Pebble starts with a small memtable and doubles its size up to this.
		MemTableSize:                o.memtableBytes,
		MaxManifestFileSize:         o.manifestBytes,
		MemTableStopWritesThreshold: pebbleFactor * maxMemtables,
		L0StopWritesThreshold:       pebbleFactor * maxSublevels,
		LBaseMaxBytes:               max(2*minTableBytes, int64(o.small*(64<<20))),
		DisableWAL:                  o.withoutWAL(),
		BlockPropertyCollectors:     newPrefixes(o.PrefixBytes).collectors(),
		AllocatorSizeClasses:        sizeClasses,
		// One more than compactionScheduler allows: a compaction that only removes
		// tables, and needs no space, does not wait for those that find none.
		CompactionConcurrencyRange: func() (lower, upper int) { return 1, maxCompactions() + 1 },
	}
	p.TargetFileSizes[0] = max(minTableBytes, int64(o.small*(2<<20)))
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
