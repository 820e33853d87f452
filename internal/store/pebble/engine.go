// Package pebble implements store.Engine on one machine, with the library Pebble.
//
// DESIGN.md in this folder explains why it has this shape.
package pebble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/latch"
	"github.com/stator-db/stator/internal/store/pebble/commit"
	"github.com/stator-db/stator/internal/store/pebble/encrypted"
	"github.com/stator-db/stator/internal/store/pebble/valuecache"
	"github.com/stator-db/stator/internal/store/pebble/walguard"
)

// Engine is a store.Engine in a folder, or in memory.
type Engine struct {
	db         *pebble.DB
	log        *slog.Logger
	now        func() time.Time
	durability Durability
	fatal      func(format string, args ...any)

	gate       *latch.Gate
	stripes    *commit.Stripes
	values     *valuecache.Cache
	prefixes   prefixes
	inFlight   *commit.InFlight
	windows    commit.Windows
	idle       *idleFlush
	compaction *idleCompaction
	manual     *manualCompactions
	disk       *disk
	damage     *damage
	reclaim    reclaim
	feed       feed
	marks      *walguard.SyncMarks
	keys       *encrypted.KeyRing // nil if the folder is not encrypted
	walSyncs   metrics.Durations

	deleting sync.Mutex // held by DeleteRange until the delete is durable

	skipReadWait bool // reads return before what they have read is durable

	handle func(context.Context, []byte) error // of messages; may be nil

	opening atomic.Bool // until Open returns
	guarded atomic.Bool // Pebble is neither opening nor closing, so it would panic if the WAL failed

	mu        sync.Mutex
	snapshots map[*snapshot]struct{} // open ones, for Close

	close func() error // runs once
}

var _ store.Engine = (*Engine)(nil)

var limits = store.Limits{
	MaxKeyBytes:    4096,
	MaxValueBytes:  8 << 20,
	MaxUpdateBytes: 160 << 20,
	MaxUpdateKeys:  100_000,
}

// Limits returns the limits above which Update fails with ErrTooLarge.
func (e *Engine) Limits() store.Limits { return limits }

// Open opens the data in a folder, or creates it. It returns a *LockedError
// when another engine has the folder open, a *FormatError when a newer version has
// written to it, a *OtherFilesError when the folder has files but no data of an
// engine, and a *encryption.NeedsKeyError, *encryption.WrongKeyError or
// *encrypted.PlainFolderError when Options.Key is not the one of the folder.
func Open(o Options) (*Engine, error) {
	o = o.withDefaults()
	if o.FS == vfs.Default {
		// Pebble identifies its locks by the name of the folder.
		dir, err := filepath.Abs(o.Dir)
		if err != nil {
			return nil, err
		}
		o.Dir, o.FS = dir, privateFS{o.FS}
	}
	if err := checkOwn(o); err != nil {
		return nil, err
	}
	lock, err := lockDir(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	if err := checkFolderFormat(o.FS, o.Dir); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	if _, onDisk := o.FS.(privateFS); onDisk {
		if err := makePrivate(o.Dir, o.Log); err != nil {
			return nil, errors.Join(err, lock.release())
		}
	}
	if o.keys, err = openKeys(o); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	e, err := open(o, lock)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return e, nil
}

func open(o Options, lock *dirLock) (*Engine, error) {
	log := &logger{log: o.Log, exit: o.exit}
	e := &Engine{
		log:          o.Log,
		now:          o.Now,
		durability:   o.Durability,
		fatal:        log.Fatalf,
		gate:         latch.NewGate(),
		prefixes:     newPrefixes(o.PrefixBytes),
		disk:         newDisk(o),
		damage:       newDamage(o.Log),
		keys:         o.keys,
		skipReadWait: o.skipDurableWait || o.Durability == Relaxed,
		snapshots:    make(map[*snapshot]struct{}),
	}
	o = o.forDisk(e.disk.totalBytes)
	o.FS, lock.fs = e.disk.fs, e.disk.fs
	e.feed = feed{markFormat: func() error { return markStandbyFormat(o.FS, o.Dir) }, hasFormat: func() (bool, error) { return hasStandbyFormat(o.FS, o.Dir) }, maxBytes: cmp.Or(o.FeedBytes, defaultFeedBytes), exceeded: make(chan struct{}, 1), removed: make(chan struct{}, 1), added: make(chan struct{}, 1)}
	e.feed.limit.Store(e.feed.maxBytes)
	e.compaction = &idleCompaction{interval: o.compactInterval, minBytes: o.compactMinBytes, rangeBytes: compactRangeBytes, levels: e.levelBytes, compact: e.compact}
	e.opening.Store(true)
	defer e.opening.Store(false)
	var ready sync.WaitGroup // Pebble's Open mostly waits for the disk
	cache := o.newCache()
	defer cache.Unref() // Pebble has its own reference
	tables := pebble.NewFileCache(min(runtime.GOMAXPROCS(0), o.OpenTables), o.OpenTables)
	defer tables.Unref()
	takeFromBlocks := func(bytes int) { cache.Reserve(bytes) }
	ready.Go(func() {
		e.stripes, e.values = commit.NewStripes(o.Patience, o.PrefixBytes), valuecache.New(o.valueCacheBytes(), takeFromBlocks)
	})
	spare, newest := newSpareFiles(o.FS), newestWAL(o.FS, o.Dir)
	files := o.encrypt(&diskFS{vfs.OnDiskFull(o.FS, e.disk.noSpace), e.disk, spare})
	fs := e.guardWAL(files, o)
	raised, events := false, e.events(o.corruptionPause)
	events.FormatUpgrade = func(pebble.FormatMajorVersion) { raised = true }
	options := o.pebble(fs, lock.lock, cache, tables, log, events)
	err := e.checkManifest(o, files, options)
	if err == nil {
		e.db, err = e.openPebble(o.Dir, options)
	}
	ready.Wait()
	if err != nil {
		return nil, errors.Join(failure("open", err), e.marks.Close())
	}
	e.guarded.Store(true)
	e.idle = newIdleFlush(o.IdleFlush, e.flush)
	if err := e.begin(raised && !o.skipFirstFlush); err != nil {
		e.guarded.Store(false)
		return nil, errors.Join(failure("open", err), e.db.Close(), e.marks.Close())
	}
	e.disk.waits.Store(true)
	e.disk.backlog.open(e.db.Metrics, o.memtableBytes, options.LBaseMaxBytes)
	e.reclaim.patience = reclaimPatience
	if sum(e.levelBytes()) < e.compaction.minBytes {
		e.reclaim.deletes.Store(1) // there may be deletes from before
	}
	lowSpace := func() { e.removeObsoleteWALs(o.FS, o.Dir, newest) }

	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.idle.run(ctx) })
	running.Go(func() { e.disk.run(ctx, spare.take, lowSpace) })
	running.Go(func() { e.runReclaim(ctx) })
	running.Go(func() { e.compaction.run(ctx) })
	running.Go(func() { e.marks.Run(ctx) })
	running.Go(func() { e.runFeed(ctx) })
	e.close = sync.OnceValue(func() error {
		e.disk.waits.Store(false) // a write that waits for space would block Close
		e.disk.failures.stop()
		e.damage.failures.stop()
		e.gate.Shut()
		stop()
		running.Wait()
		err := e.shutDown()
		spare.close()
		return errors.Join(err, lock.release())
	})
	return e, nil
}

// openPebble opens the database. Pebble panics with an error when a folder cannot be
// synced; openPebble returns it.
func (e *Engine) openPebble(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error: // a bug
			panic(p)
		case error:
			db, err = nil, p
		default:
			panic(p)
		}
	}()
	if err := markNewestFormat(o.FS, dir); err != nil {
		return nil, err
	}
	scheduler := newCompactionScheduler(e.damage.failures)
	o.Experimental.CompactionScheduler, e.manual = scheduler, newManualCompactions(scheduler)
	return pebble.Open(dir, o)
}

// guardWAL wraps a file system. An engine without a WAL has no marks.
func (e *Engine) guardWAL(fs vfs.FS, o Options) vfs.FS {
	e.marks = new(walguard.SyncMarks)
	if !o.withoutWAL() && !o.skipMarks {
		e.marks = walguard.OpenMarks(o.FS, o.Dir, o.Log)
	}
	if o.keys != nil {
		e.marks.Keyed = o.keys.Keyed()
	}
	return &walguard.FS{FS: fs, Marks: e.marks, Synced: e.walSyncs.Observe, WaitForSpace: e.disk.waitForSpace, Failed: func(doing, name string, err error) {
		if e.guarded.Load() {
			e.fatal("%s %s: %v: only a restart can determine what is on disk; repair the disk first", doing, name, err)
		}
	}}
}

// begin finds the next stamp, and ends a WAL file of an old format.
func (e *Engine) begin(oldWAL bool) error {
	w, ok, err := lastWindow(e.db)
	if err != nil {
		return err
	}
	if !ok {
		w = commit.WindowOf(store.StampAt(e.now()))
		if err := e.db.Set(w.Key(), []byte{1}, e.sync()); err != nil {
			return err
		}
		e.idle.wrote()
	}
	// Pebble creates a WAL file before it upgrades the format. An old format hides
	// damage; a flush starts the next file.
	if oldWAL {
		if err := e.db.Flush(); err != nil {
			return err
		}
	}
	e.windows.Start(w)
	e.inFlight = commit.NewInFlight(e.windows.Bound() - 1)
	return e.openFeed()
}

// lastWindow returns the largest window recorded in db. A new database has none.
func lastWindow(db *pebble.DB) (w commit.Window, ok bool, err error) {
	lower, upper := commit.WindowKeys()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return 0, false, err
	}
	if ok = it.Last(); ok {
		w = commit.WindowOfKey(it.Key())
	}
	return w, ok, it.Close()
}

// flush writes the memtables to tables, whose damage is always detected. At the end of a
// WAL file damage looks like a write that a crash interrupted.
func (e *Engine) flush(ctx context.Context) (done bool) {
	if !e.disk.canFlush() {
		return false // Pebble would retry it for ever
	}
	flushed, err := e.db.AsyncFlush()
	if err != nil {
		e.log.Error("flush failed", "error", err)
		return false
	}
	select {
	case <-flushed:
		return true
	case <-ctx.Done():
		return false
	}
}

// Healthy returns an error if the folder was removed or replaced.
func (e *Engine) Healthy(ctx context.Context) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if e.disk.is(isMissing) {
		return e.disk.folder.err()
	}
	return nil
}

// Writable returns an error if writes are rejected because the disk is almost full, or the
// folder was removed or replaced.
func (e *Engine) Writable() error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	return e.disk.rejection(context.Background())
}

// Close waits for the calls in progress and closes the folder.
func (e *Engine) Close() error { return e.close() }

// shutDown closes the database when no call is in progress.
func (e *Engine) shutDown() error {
	var errs []error
	for s := range e.snapshots {
		errs = append(errs, s.view.Close())
	}
	if e.idle.dirty() {
		const patience = 10 * time.Second
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_ = e.flush(ctx) // otherwise the WAL has it all
		cancel()
	}
	e.manual.stop() // before guarded: it may write to the WAL
	e.guarded.Store(false)
	errs = append(errs, e.db.Close(), e.marks.Close())
	if err := errors.Join(errs...); err != nil {
		return failure("close", err)
	}
	return nil
}

// Horizon returns the smallest stamp that is in flight or can follow.
func (e *Engine) Horizon(ctx context.Context) (store.Stamp, error) {
	if err := e.gate.Enter(); err != nil {
		return 0, err
	}
	defer e.gate.Leave()
	return e.horizon(), nil
}

// horizon never passes the recorded window: a stamp that was given out but wrote nothing
// could be given out again after a crash.
func (e *Engine) horizon() store.Stamp {
	return min(e.inFlight.Horizon(), e.windows.Bound())
}

// sync returns the options of a write that is as durable as the engine promises.
func (e *Engine) sync() *pebble.WriteOptions {
	if e.durability == Relaxed {
		return pebble.NoSync
	}
	return pebble.Sync
}

// failure wraps an error of Pebble with the operation, and with store.ErrCorrupt if it
// means that.
func failure(doing string, err error) error {
	if pebble.IsCorruptionError(err) {
		return fmt.Errorf("%s: %w: %w", doing, store.ErrCorrupt, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// bounds restricts a range to keys that are not reserved.
func bounds(start, end []byte) (lower, upper []byte) {
	lower, upper = []byte{0}, []byte{store.Reserved}
	if len(start) > 0 {
		lower = start
	}
	if len(end) > 0 && end[0] != store.Reserved {
		upper = end
	}
	return lower, upper
}
