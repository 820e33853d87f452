package pebble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// disk decides which writes the folder has space for. Pebble itself ends the process when
// the WAL cannot grow, and waits without a bound when it is behind.
//
// A reserve of free space is not available to ordinary writes. Half of it is held by a
// file, so that other programs cannot use it up. Deletes may use five eighths of the
// reserve, compactions seven eighths, flushes all of it.
type disk struct {
	fs       vfs.FS // changes nothing in another folder
	usage    func() (vfs.DiskUsage, error)
	held     *heldSpace
	folder   *dataFolder
	backlog  *backlog
	compacts *compactionSpace
	failures *failures
	interval time.Duration
	log      *slog.Logger

	opened     time.Time // with its monotonic time
	totalBytes uint64    // of the disk, when it was opened; 0 if unknown

	state    atomic.Uint32 // the reasons for which writes are rejected
	sparse   bool          // nothing is allocated before it is written
	low      atomic.Bool   // space is short: WAL files are neither kept nor preallocated
	waits    atomic.Bool   // for space: not while the database is opened or closed
	fullTill atomic.Int64  // until when the disk counts as full, as a time since opened
	written  atomic.Int64  // bytes since the last check
	maxBytes atomic.Int64  // that may be written between two checks
	free     atomic.Uint64 // bytes at the last check, with those that are held
	reserve  atomic.Uint64
	tight    atomic.Bool // level 0 needs the free space to be compacted
	wake     chan struct{}

	usageFailed atomic.Bool // the last check did not learn the free space
}

// Reasons to reject writes.
const (
	isFull    = 1 << iota // less is free than the reserve
	noDeletes             // and not enough for deletes
	isMissing             // the folder was removed or replaced
	isBehind              // memtables or tables of level 0 pile up
)

const (
	maxReserveBytes = 128 << 20
	minReserveBytes = 4 << 20
	// reservePart is the part of a disk, as a divisor, that is kept in reserve.
	reservePart = 16
	// uncheckedPart is the part of the reserve, as a divisor, that may be written
	// between two checks of the free space.
	uncheckedPart = 16
	// lowReserves is how many reserves must be free for WAL files to be kept for reuse.
	lowReserves = 4
	// noSpacePause is how long a write that found a full disk waits for its retry.
	noSpacePause = 100 * time.Millisecond
	// noSpaceTime is how long the disk counts as full after that, whatever its free
	// space: it may be out of inodes.
	noSpaceTime = 5 * noSpacePause
	// deleteWait is how long a delete waits for space that compactions in progress use,
	// and deletePause the pause between its checks.
	deleteWait  = time.Second
	deletePause = 20 * time.Millisecond
)

func newDisk(o Options) *disk {
	folder := newFolder(o.FS, o.Dir)
	o.FS = &folderFS{o.FS, folder}
	d := &disk{
		fs:       o.FS,
		usage:    func() (vfs.DiskUsage, error) { return o.FS.GetDiskUsage(o.Dir) },
		sparse:   o.NoPreallocation,
		held:     &heldSpace{fs: o.FS, path: o.FS.PathJoin(o.Dir, reserveName)},
		folder:   folder,
		backlog:  &backlog{patience: o.BacklogWait},
		compacts: newCompactionSpace(),
		failures: newFailures(o.Log, failureLogInterval),
		interval: o.DiskCheck,
		log:      o.Log,
		opened:   time.Now(),
		wake:     make(chan struct{}, 1),
	}
	d.held.release() // opening the database may need it
	d.maxBytes.Store(maxReserveBytes / uncheckedPart)
	d.check()
	if u, err := d.usage(); err == nil {
		d.totalBytes = u.TotalBytes
	}
	return d
}

// reserve returns the space that ordinary writes leave free, on a disk of this size. It is
// at least that of all memtables, which a flush writes to tables.
func reserve(totalBytes uint64) uint64 {
	return min(maxReserveBytes, max(minReserveBytes, totalBytes/reservePart))
}

// is reports whether writes are rejected for a reason.
func (d *disk) is(reason uint32) bool { return d.state.Load()&reason != 0 }

// set sets or clears a reason, and reports whether that changed it.
func (d *disk) set(reason uint32, holds bool) (changed bool) {
	if holds {
		return d.state.Or(reason)&reason == 0
	}
	return d.state.And(^reason)&reason != 0
}

// admit rejects a write that there is no space for, and delays one for which Pebble is
// behind.
func (d *disk) admit(ctx context.Context) error {
	if d.state.Load() == 0 {
		return nil
	}
	// On a full disk, a delete is attempted once as a write that does not free space.
	if d.is(isBehind) && !d.is(isFull|isMissing) && !store.IsFreeing(ctx) {
		if err := d.backlog.wait(ctx); err != nil {
			return err
		}
	}
	if d.is(noDeletes) && store.IsFreeing(ctx) {
		d.awaitCompactions(ctx)
	}
	return d.rejection(ctx)
}

// rejection returns why a write is rejected, nil if it is not.
func (d *disk) rejection(ctx context.Context) error {
	state := d.state.Load()
	switch {
	case state&isMissing != 0:
		return d.folder.err()
	case state&noDeletes != 0:
		return fmt.Errorf("%w: writes and deletes are rejected until there is space", store.ErrNoSpaceToDelete)
	case state&isFull != 0 && !store.IsFreeing(ctx):
		return fmt.Errorf("%w: writes are rejected until there is space", store.ErrFull)
	}
	return nil
}

// awaitCompactions waits, but not for long, until deletes are accepted. A compaction may
// use most of the reserve, and returns it when it ends.
func (d *disk) awaitCompactions(ctx context.Context) {
	for began := time.Now(); d.is(noDeletes) && d.compacts.inProgress() && time.Since(began) < deleteWait; d.checkSpace() {
		select {
		case <-time.After(deletePause):
		case <-ctx.Done():
			return
		}
	}
}

// take counts bytes that are about to be written, and checks the disk before it can be
// full, and Pebble before it can be far behind.
func (d *disk) take(ctx context.Context, bytes int) error {
	if d.written.Add(int64(bytes)) <= d.maxBytes.Load() {
		return nil
	}
	d.check()
	if d.backlog.isLast.Load() || d.backlog.isHard.Load() && !store.IsFreeing(ctx) {
		return d.backlog.err()
	}
	if err := d.rejection(ctx); err != nil {
		return err
	}
	// The WAL and then a table need the space of a large write.
	if d.free.Load() < d.reserve.Load()+2*uint64(bytes) && !store.IsFreeing(ctx) && !d.usageFailed.Load() {
		return fmt.Errorf("%w: it has no space for %d bytes", store.ErrFull, bytes)
	}
	return nil
}

// check checks the folder, its free space and Pebble's backlog.
func (d *disk) check() {
	d.written.Store(0)
	if present := d.folder.present(); d.set(isMissing, !present) {
		d.folder.report(d.log, present)
	}
	d.held.check()
	now := d.backlog.measure()
	waits := d.checkCompactionSpace(now)
	d.set(isBehind, d.backlog.check(now, waits))
	if !d.is(isMissing) {
		d.checkSpace()
	}
}

// checkCompactionSpace checks whether level 0 can be compacted. Otherwise it would only
// grow. It reports whether writes wait until it is compacted; if it is not, and there is no
// space for that, the disk is full.
func (d *disk) checkCompactionSpace(now load) (waits bool) {
	u, err := d.usage()
	if err != nil {
		d.tight.Store(false)
		return false // checkSpace handles it
	}
	// Compactions in progress have used some of the space already.
	free, keep := u.AvailBytes+d.held.bytes()+now.doneBytes, reserve(u.TotalBytes)
	fits := free >= keep/8+now.compactBytes
	isTight := free < keep+now.compactBytes
	waits = isTight && fits && now.compacts
	d.tight.Store(isTight && !waits)
	return waits
}

// checkSpace checks the free space. A file system that does not know it counts as never
// full.
func (d *disk) checkSpace() {
	u, err := d.usage()
	if err != nil {
		if errors.Is(err, vfs.ErrUnsupported) {
			d.set(isFull|noDeletes, false)
			d.maxBytes.Store(d.backlog.uncheckedBytes())
		} else if !d.usageFailed.Load() {
			d.log.Warn("cannot determine free disk space", "error", err)
		}
		d.usageFailed.Store(true)
		return
	}
	d.usageFailed.Store(false)
	keep := reserve(u.TotalBytes)
	free := u.AvailBytes + d.held.bytes()
	d.free.Store(free)
	d.reserve.Store(keep)
	d.maxBytes.Store(min(int64(keep/uncheckedPart), d.backlog.uncheckedBytes()))
	d.low.Store(free < lowReserves*keep)
	d.set(noDeletes, free < keep/8*3)
	switch {
	case (free < keep || d.tight.Load()) && d.set(isFull, true):
		d.log.Error("disk is almost full: writes are rejected, reads and deletes are served; delete items or tables, or make room on the disk",
			"free", free, "reserve", keep)
	// Accepting writes again takes a little more space than rejecting them, so the
	// state does not flap.
	case free >= keep+keep/4 && !d.tight.Load() && time.Since(d.opened) >= time.Duration(d.fullTill.Load()) && d.set(isFull, false):
		d.log.Info("disk has space again: writes are accepted", "free", free)
	}
}

// hasSpace reports whether this many bytes can be written without touching the reserve.
func (d *disk) hasSpace(bytes uint64) bool {
	if d.is(isFull | isMissing) {
		return false
	}
	d.checkSpace()
	return d.usageFailed.Load() || d.free.Load() >= d.reserve.Load()+bytes
}

// hasLittle reports whether less than this many quarters of the reserve were free at the
// last check.
func (d *disk) hasLittle(quarters uint64) bool {
	return d.is(isFull) || !d.usageFailed.Load() && d.free.Load() < d.reserve.Load()/4*quarters
}

// canFlush reports whether there is space for a flush.
func (d *disk) canFlush() bool {
	d.check()
	return !d.is(isMissing) && (d.usageFailed.Load() || d.free.Load() >= d.reserve.Load()/16)
}

// canCompact reports whether there is space for a compaction. It must leave some to
// flushes.
func (d *disk) canCompact() bool {
	d.checkSpace()
	return !d.is(isMissing) && (d.usageFailed.Load() || d.free.Load() >= d.reserve.Load()/8)
}

// canCompactTo reports whether there may be space for the compaction that writes a table.
func (d *disk) canCompactTo(table string) bool {
	free, keep := d.free.Load(), d.reserve.Load()/8
	return d.usageFailed.Load() || d.compacts.mayWrite(table, free-min(free, keep))
}

// noSpace is called by the file system when a write found no space, before its retry. All
// writes wait meanwhile, so Pebble's retries do too.
func (d *disk) noSpace() {
	d.fullTill.Store(int64(time.Since(d.opened) + noSpaceTime))
	if d.set(isFull, true) {
		d.log.Error("no space on disk: writes are rejected, reads are served; make room on the disk")
	}
	if !d.held.release() {
		time.Sleep(noSpacePause)
	}
}

// waitForSpace calls try again until it finds space, and a free file descriptor. The
// pauses are those of noSpace and of diskFS.
func (d *disk) waitForSpace(try func() error) error {
	for {
		err := try()
		if !errors.Is(err, syscall.ENOSPC) && !isNoFiles(err) || !d.waits.Load() {
			return err
		}
	}
}

// run checks the disk at intervals until the context ends. It calls lowSpace after a check
// that found little space, and always after each check.
func (d *disk) run(ctx context.Context, always, lowSpace func()) {
	t := time.NewTicker(d.interval)
	defer t.Stop()
	for {
		d.check()
		d.holdReserve()
		always()
		if d.low.Load() && !d.is(isMissing) {
			lowSpace()
		}
		select {
		case <-t.C:
		case <-d.wake:
		case <-ctx.Done():
			return
		}
	}
}

// holdReserve allocates half of the reserve, unless writes are rejected then.
func (d *disk) holdReserve() {
	keep := d.reserve.Load()
	if d.sparse || d.state.Load() != 0 || d.usageFailed.Load() || d.held.bytes() > 0 || d.free.Load() < keep+keep/4 {
		return
	}
	d.held.hold(keep / 2)
}

// checkSoon has run check the disk, without waiting for it.
func (d *disk) checkSoon() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
