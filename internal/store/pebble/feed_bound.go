package pebble

import (
	"context"
	"errors"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// defaultFeedBytes bounds the records that are kept for a standby.
const defaultFeedBytes = 1 << 30

// A slot is dropped when the free space is less than dropReserves quarters of the disk's
// reserve, before writes are rejected. None is made with less than attachReserves quarters.
const (
	dropReserves   = 6
	attachReserves = 8
)

// runFeed removes the slot when its records take too much space, or the disk is almost
// full.
func (e *Engine) runFeed(ctx context.Context) {
	e.feed.mu.Lock()
	err := e.countRecords(ctx)
	e.feed.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		e.log.Error("the changes for a standby cannot be read", "error", err)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.feed.exceeded:
		case <-e.feed.removed:
			e.compactFeed(ctx)
		case <-tick.C:
		}
		if e.feedIsTooLarge() {
			e.dropSlot(ctx)
		}
	}
}

// compactFeed returns the space of removed records to the disk. Pebble would do it when it has
// to, and the compactions of a full disk are those of other keys.
func (e *Engine) compactFeed(ctx context.Context) {
	if !e.flush(ctx) {
		return
	}
	switch err := e.compactRange(ctx, feedKey(0), feedEnd); {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, errOtherCompaction):
		signal(e.feed.removed) // again
	default:
		e.log.Warn("the space of the changes for a standby is not free yet", "error", err)
	}
}

// raiseLimit sets the limit for a copy: as many records as there is data. So a copy ends if changes
// are written more slowly than data is copied, however much there is.
func (e *Engine) raiseLimit() {
	data, err := e.db.EstimateDiskUsage([]byte{0}, []byte{store.Reserved})
	if err != nil {
		data = 0 // the usual limit holds
	}
	e.feed.limit.Store(max(e.feed.maxBytes, int64(data)))
}

// lowerLimit sets the usual limit, if the records are below it: the standby has a copy.
func (f *feed) lowerLimit() {
	if f.bytes.Load() <= f.maxBytes {
		f.limit.Store(f.maxBytes)
	}
}

// feedIsTooLarge reports whether the records take too much space.
func (e *Engine) feedIsTooLarge() bool {
	return e.feed.on.Load() && (e.feed.bytes.Load() > e.feed.limit.Load() || e.disk.hasLittle(dropReserves))
}

// dropSlot removes the slot, unless there was space meanwhile.
func (e *Engine) dropSlot(ctx context.Context) {
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if e.feed.slot == "" || !e.feedIsTooLarge() {
		return
	}
	kept, slot, lastRead := e.feed.bytes.Load(), e.feed.slot, e.feed.lastRead
	if err := e.detach(ctx); err != nil {
		if ctx.Err() == nil {
			e.log.Error("the changes for the standby take too much space, and cannot be removed", "error", err)
		}
		return
	}
	e.log.Error("changes are no longer kept for the standby, which needs a new copy: they took too much space, or the disk is almost full", "slot", slot, "bytes", kept, "limit", e.feed.limit.Load(), "lastRead", lastRead)
}
