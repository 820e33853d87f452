package pebble

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// ReadRange reads the range with one iterator, and waits at the end until all that it
// returned is durable. That is far cheaper than a snapshot: an iterator keeps what it
// returns alive by itself, while a snapshot takes Pebble's central mutex when it is
// made, and has Pebble look for compactions when it is closed.
func (e *Engine) ReadRange(ctx context.Context, r store.Range, fn func(store.Pair) (more bool)) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	o := e.prefixes.options(r)
	it, err := e.db.NewIterWithContext(ctx, o)
	if err != nil {
		return failure("scan", err)
	}
	// Every write that the iterator can see or lack has a stamp by now.
	newest := store.Stamp(0)
	if !e.skipReadWait {
		if prefix, ok := e.prefixes.of(o.LowerBound, o.UpperBound); ok {
			newest = e.stripes.NewestWithPrefix(prefix)
		} else {
			newest = e.inFlight.Newest()
		}
	}
	if err := scanAndClose(ctx, it, r, fn); err != nil {
		return err
	}
	return e.inFlight.WaitDurable(ctx, newest)
}

// scanAndClose closes the iterator even if fn panics.
func scanAndClose(ctx context.Context, it *pebble.Iterator, r store.Range, fn func(store.Pair) (more bool)) (err error) {
	defer func() {
		if closed := it.Close(); err == nil && closed != nil {
			err = failure("scan", closed)
		}
	}()
	return scan(ctx, it, r, func(p store.Pair, _ error) bool { return fn(p) })
}

// scan yields the pairs of an iterator. It returns nil when yield returns false.
func scan(ctx context.Context, it *pebble.Iterator, r store.Range, yield func(store.Pair, error) bool) (err error) {
	ok := false
	if r.Reverse {
		ok = it.Last()
	} else {
		ok = it.First()
	}
	for ok {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := store.Pair{Key: it.Key()}
		if !r.KeysOnly {
			if p.Value, err = it.ValueAndErr(); err != nil {
				return failure("scan", err)
			}
		}
		if !yield(p, nil) {
			return nil
		}
		if r.Reverse {
			ok = it.Prev()
		} else {
			ok = it.Next()
		}
	}
	if err := it.Error(); err != nil {
		return failure("scan", err)
	}
	return nil
}
