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

// disk rejects writes before the disk is full. Pebble itself ends the process when the WAL
// cannot grow, and retries a flush without a pause. It needs the remaining space for
// compactions, which free space. If other programs use that up too, writes in progress
// wait.
type disk struct {
	usage    func() (vfs.DiskUsage, error)
	interval time.Duration
	log      *slog.Logger

	full     atomic.Bool
	waits    atomic.Bool  // for space: not while the database is opened or closed
	lastFull atomic.Int64 // when a write last found no space, in Unix nanoseconds
	written  atomic.Int64 // bytes since the last check
	maxBytes atomic.Int64 // that may be written between two checks
	wake     chan struct{}
}

const (
	reserveBytes = 64 << 20
	// uncheckedPart is the part of the reserve, as a divisor, that may be written
	// between two checks of the free space.
	uncheckedPart = 16
	// noSpacePause is how long a write that found a full disk waits for its retry.
	noSpacePause = 100 * time.Millisecond
	// noSpaceTime is how long the disk counts as full after that, whatever its free
	// space: it may be out of inodes.
	noSpaceTime = 5 * noSpacePause
)

func newDisk(o Options) *disk {
	d := &disk{
		usage:    func() (vfs.DiskUsage, error) { return o.FS.GetDiskUsage(o.Dir) },
		interval: o.DiskCheck,
		log:      o.Log,
		wake:     make(chan struct{}, 1),
	}
	d.maxBytes.Store(reserveBytes / uncheckedPart)
	d.check()
	return d
}

// reserve returns the space that is left to Pebble, on a disk of this size.
func reserve(totalBytes uint64) uint64 { return min(reserveBytes, totalBytes/20) }

// admit rejects a write while the disk is full.
func (d *disk) admit() error {
	if !d.full.Load() {
		return nil
	}
	return fmt.Errorf("%w: writes are rejected until there is space", store.ErrFull)
}

// wrote counts written bytes, and checks the free space before the disk can be full.
func (d *disk) wrote(bytes int) {
	if d.written.Add(int64(bytes)) > d.maxBytes.Load() {
		d.check()
	}
}

// check checks the free space. A file system that does not know it counts as never full.
func (d *disk) check() {
	d.written.Store(0)
	u, err := d.usage()
	if errors.Is(err, vfs.ErrUnsupported) {
		d.full.Store(false)
		return
	}
	if err != nil {
		d.log.Warn("cannot determine free disk space", "error", err)
		return
	}
	keep := reserve(u.TotalBytes)
	d.maxBytes.Store(int64(keep / uncheckedPart))
	switch {
	case u.AvailBytes < keep && !d.full.Swap(true):
		d.log.Error("disk is almost full: writes are rejected, reads are served", "free", u.AvailBytes, "reserve", keep)
	// Accepting writes again takes a little more space than rejecting them, so the
	// state does not flap.
	case u.AvailBytes >= keep+keep/4 && time.Now().UnixNano()-d.lastFull.Load() > int64(noSpaceTime) && d.full.Swap(false):
		d.log.Info("disk has space again: writes are accepted", "free", u.AvailBytes)
	}
}

// hasSpace reports whether this many bytes can be written without touching the reserve.
func (d *disk) hasSpace(bytes uint64) bool {
	if d.full.Load() {
		return false
	}
	u, err := d.usage()
	return errors.Is(err, vfs.ErrUnsupported) || err == nil && u.AvailBytes >= reserve(u.TotalBytes)+bytes
}

// noSpace is called by the file system when a write found no space, before its retry. All
// writes wait meanwhile, so Pebble's retries do too.
func (d *disk) noSpace() {
	d.lastFull.Store(time.Now().UnixNano())
	if !d.full.Swap(true) {
		d.log.Error("no space on disk: writes are rejected, reads are served")
	}
	time.Sleep(noSpacePause)
}

// waitForSpace calls try again until it finds space. The pauses are those of noSpace.
func (d *disk) waitForSpace(try func() error) error {
	for {
		if err := try(); !errors.Is(err, syscall.ENOSPC) || !d.waits.Load() {
			return err
		}
	}
}

// run checks the free space at intervals until the context ends.
func (d *disk) run(ctx context.Context) {
	t := time.NewTicker(d.interval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.check()
		case <-d.wake:
			d.check()
		case <-ctx.Done():
			return
		}
	}
}

// checkSoon has run check the free space, without waiting for it.
func (d *disk) checkSoon() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
