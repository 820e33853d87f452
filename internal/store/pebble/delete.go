package pebble

import (
	"context"

	"github.com/stator-db/stator/internal/store"
)

// DeleteRange deletes the keys of [start, end). It is called every few minutes for ranges
// that are mostly empty, so it looks first, and writes nothing for an empty range.
func (e *Engine) DeleteRange(ctx context.Context, start, end []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	lower, upper := bounds(start, end)
	if string(lower) >= string(upper) {
		return ctx.Err()
	}
	// A caller that finds the range empty must wait until the delete that emptied it is
	// durable.
	if e.disk.is(isMissing) {
		return e.disk.folder.err()
	}
	e.deleting.Lock()
	defer e.deleting.Unlock()
	found := false
	err := e.ReadRange(ctx, store.Range{Start: start, End: end, KeysOnly: true}, func(store.Pair) (more bool) {
		found = true
		return false
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if err == nil && !found {
		return nil
	}
	// A range that cannot be read can still be deleted. A full disk is no reason to
	// refuse: deletes free space.
	if e.feed.on.Load() {
		err = e.deleteRecorded(ctx, lower, upper)
	} else if err = e.db.DeleteRange(lower, upper, e.sync()); err != nil {
		err = failure("delete range", err)
	}
	if err != nil {
		return err
	}
	e.values.RemoveRange(lower, upper)
	e.idle.wrote()
	e.disk.compacts.reset()
	e.reclaim.deletes.Add(rangeDeletes)
	return nil
}
