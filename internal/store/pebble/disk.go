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

// disk refuses writes before the disk is full. Pebble itself ends the process
// when the log cannot grow, and tries a flush again without a pause. It needs
// the rest of the space to compact, which is what wins space back. If others
// take that as well, writes that are under way wait.
type disk struct {
	usage func() (vfs.DiskUsage, error)
	every time.Duration
	log   *slog.Logger

	full    atomic.Bool
	waits   atomic.Bool  // for space: not while the data is opened or closed
	met     atomic.Int64 // when there was none last, in Unix nanoseconds
	written atomic.Int64 // since the last check
	most    atomic.Int64 // that may be written between two checks
	look    chan struct{}
}

const (
	reserveBytes = 64 << 20
	// This part of the reserve may be written between two checks of the free
	// space.
	uncheckedPart = 16
	// So long a write waits that met a full disk, before it is tried once more.
	noSpacePause = 100 * time.Millisecond
	// So long a disk is full after that, whatever it says of itself: it may be
	// out of something else than bytes.
	noSpaceTime = 5 * noSpacePause
)

func newDisk(o Options) *disk {
	d := &disk{
		usage: func() (vfs.DiskUsage, error) { return o.FS.GetDiskUsage(o.Dir) },
		every: o.DiskCheck,
		log:   o.Log,
		look:  make(chan struct{}, 1),
	}
	d.most.Store(reserveBytes / uncheckedPart)
	d.check()
	return d
}

// reserve is the space that is left to Pebble, of a disk of this size.
func reserve(totalBytes uint64) uint64 { return min(reserveBytes, totalBytes/20) }

// admit refuses a write while the disk is full.
func (d *disk) admit() error {
	if !d.full.Load() {
		return nil
	}
	return fmt.Errorf("%w: writes are refused until there is space", store.ErrFull)
}

// wrote counts what was written, and looks at the disk before it can be full.
func (d *disk) wrote(bytes int) {
	if d.written.Add(int64(bytes)) > d.most.Load() {
		d.check()
	}
}

// check looks at the free space. A file system that does not know it is never
// full.
func (d *disk) check() {
	d.written.Store(0)
	u, err := d.usage()
	if errors.Is(err, vfs.ErrUnsupported) {
		d.full.Store(false)
		return
	}
	if err != nil {
		d.log.Warn("free space is unknown", "error", err)
		return
	}
	keep := reserve(u.TotalBytes)
	d.most.Store(int64(keep / uncheckedPart))
	switch {
	case u.AvailBytes < keep && !d.full.Swap(true):
		d.log.Error("disk is almost full: writes are refused, reads go on", "free", u.AvailBytes, "reserve", keep)
	// A little more is asked for to go on than to stop, so as not to flutter.
	case u.AvailBytes >= keep+keep/4 && time.Now().UnixNano()-d.met.Load() > int64(noSpaceTime) && d.full.Swap(false):
		d.log.Info("disk has space again: writes go on", "free", u.AvailBytes)
	}
}

// has tells whether so much can be written and leave the reserve.
func (d *disk) has(bytes uint64) bool {
	if d.full.Load() {
		return false
	}
	u, err := d.usage()
	return errors.Is(err, vfs.ErrUnsupported) || err == nil && u.AvailBytes >= reserve(u.TotalBytes)+bytes
}

// noSpace is called by the file system when a write found no space, before it
// is tried once more. All writes wait meanwhile, so Pebble's retries do too.
func (d *disk) noSpace() {
	d.met.Store(time.Now().UnixNano())
	if !d.full.Swap(true) {
		d.log.Error("no space on disk: writes are refused, reads go on")
	}
	time.Sleep(noSpacePause)
}

// waitForSpace tries something again until it finds space. The pauses are
// those of noSpace.
func (d *disk) waitForSpace(try func() error) error {
	for {
		if err := try(); !errors.Is(err, syscall.ENOSPC) || !d.waits.Load() {
			return err
		}
	}
}

// run looks at the disk from time to time.
func (d *disk) run(ctx context.Context) {
	t := time.NewTicker(d.every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			d.check()
		case <-d.look:
			d.check()
		case <-ctx.Done():
			return
		}
	}
}

// lookSoon makes run look at the disk, without waiting for it.
func (d *disk) lookSoon() {
	select {
	case d.look <- struct{}{}:
	default:
	}
}
