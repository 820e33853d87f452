package pebble

import (
	"context"

	"github.com/stator-db/stator/internal/store"
)

// DeleteRange deletes the keys of [start, end). It is called every few minutes for
// what is seldom there, so that it first looks, and writes nothing for nothing.
func (e *Engine) DeleteRange(ctx context.Context, start, end []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	lower, upper := bounds(start, end)
	if string(lower) >= string(upper) {
		return ctx.Err()
	}
	e.deleting.Lock() // who finds nothing must not return before who deleted it
	defer e.deleting.Unlock()
	any := false
	err := e.ReadRange(ctx, store.Range{Start: start, End: end, KeysOnly: true}, func(store.Pair) (more bool) {
		any = true
		return false
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	if err == nil && !any {
		return nil
	}
	// What cannot be read can be deleted. Not refused on a full disk: it is how
	// space is won back.
	if err := e.db.DeleteRange(lower, upper, e.sync()); err != nil {
		return failure("delete range", err)
	}
	e.values.RemoveRange(lower, upper)
	e.idle.wrote()
	return nil
}
