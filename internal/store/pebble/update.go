package pebble

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/stator-db/stator/internal/store"
)

// errNoWrites is returned by apply when fn wrote nothing.
var errNoWrites = errors.New("nothing written")

// Update runs fn as one atomic batch, in these steps:
//
//	latch the declared keys        stripes, in ascending order: no deadlock, no abort
//	take a stamp                   InFlight.Begin
//	read, run fn                   values are in memory, fn does not wait
//	raise the stripes' stamps      of every key written
//	apply                          visible from here on
//	release the latches
//	wait for the sync              shared by all Updates that wait: group commit
//	InFlight.End                   durable from here on
//
// The latches are released before the sync, so the next Update of the same key shares it.
func (e *Engine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := e.admit(ctx, keys); err != nil {
		return err
	}
	var buf [fewKeys]int
	latched, err := e.stripes.Lock(ctx, buf[:0], keys)
	if err != nil {
		return err
	}
	batch := e.db.NewBatch()
	stamp, size, err := e.apply(ctx, batch, latched, keys, fn)
	if err != nil {
		_ = batch.Close()
		return e.abort(ctx, keys, err)
	}
	return e.waitDurable(batch, stamp, size)
}

// admit rejects an Update that cannot succeed.
func (e *Engine) admit(ctx context.Context, keys [][]byte) error {
	store.CheckKeys(keys...)
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(keys) > limits.MaxUpdateKeys {
		return fmt.Errorf("%d keys declared, at most %d: %w", len(keys), limits.MaxUpdateKeys, store.ErrTooLarge)
	}
	for _, k := range keys {
		if len(k) > limits.MaxKeyBytes {
			return fmt.Errorf("key of %d bytes, at most %d: %w", len(k), limits.MaxKeyBytes, store.ErrTooLarge)
		}
	}
	return e.disk.admit(ctx)
}

// apply runs fn and makes its writes visible. It releases the latches. If it returns no
// error, the stamp is in flight, and waitDurable must follow.
func (e *Engine) apply(ctx context.Context, batch *pebble.Batch, latched []int, keys [][]byte, fn func(store.Tx) error) (_ store.Stamp, size int, _ error) {
	defer e.stripes.Unlock(latched)
	stamp := e.inFlight.Begin(store.StampAt(e.now()))
	applied := false
	defer func() {
		if !applied { // fn may have panicked
			e.inFlight.End(stamp)
		}
	}()

	t := txs.Get().(*tx)
	defer t.release()
	t.stamp, t.batch = stamp, batch
	if err := t.load(e, keys); err != nil {
		return 0, 0, err
	}
	if err := t.run(fn); err != nil {
		return 0, 0, err
	}
	if batch.Empty() {
		return 0, 0, errNoWrites
	}
	if e.feed.on.Load() {
		if err := e.feed.waitForDelete(ctx, stamp); err != nil {
			return 0, 0, err
		}
		if err := e.record(batch, stamp); err != nil {
			return 0, 0, failure("record a change", err)
		}
	}
	if err := e.recordWindow(batch, stamp); err != nil {
		return 0, 0, failure("record window", err)
	}
	written := batch.Reader() // Apply takes the bytes of a large batch away
	size = batch.Len()
	if err := e.disk.take(ctx, size); err != nil {
		e.feed.forget(written)
		return 0, 0, err
	}
	t.cached.Begin(e.values)
	defer t.cached.End()
	eachKey(written, func(key []byte) {
		e.stripes.Raise(key, stamp)
		t.cacheWrite(key)
	})
	var err error
	if e.durability == Relaxed {
		err = e.db.Apply(batch, pebble.NoSync)
	} else {
		err = e.db.ApplyNoSyncWait(batch, pebble.Sync)
	}
	if err != nil {
		return 0, 0, failure("apply", err)
	}
	t.cached.Commit()
	applied = true
	return stamp, size, nil
}

// recordWindow adds to the batch of an Update the record of its window, unless that is
// durable already.
func (e *Engine) recordWindow(b *pebble.Batch, stamp store.Stamp) error {
	current, last, due := e.windows.Due(stamp)
	if !due {
		return nil
	}
	if err := b.Set(current.Key(), []byte{1}, nil); err != nil {
		return err
	}
	return b.Delete(last.Key(), nil)
}

// eachKey calls fn with every key of a batch.
func eachKey(r batchrepr.Reader, fn func(key []byte)) {
	for {
		_, key, _, ok, err := r.Next()
		if err != nil {
			panic(fmt.Sprintf("a batch of our own cannot be read: %v", err))
		}
		if !ok {
			return
		}
		fn(key)
	}
}

// waitDurable waits until an applied batch is durable, and ends its stamp.
func (e *Engine) waitDurable(batch *pebble.Batch, stamp store.Stamp, size int) error {
	if e.durability == Durable {
		if err := batch.SyncWait(); err != nil {
			// Readers may be waiting for a write that never reaches the disk, and
			// only a restart can determine what did. The stamp stays in flight:
			// where a test's exit returns, no reader sees the write.
			e.fatal("sync the WAL: %v", err)
			return fmt.Errorf("sync the WAL: %w: %w", store.ErrUnknownOutcome, err)
		}
	}
	keys := uint64(batch.Count())
	_ = batch.Close()
	e.windows.Recorded(stamp)
	e.inFlight.End(stamp)
	if e.feed.on.Load() {
		signal(e.feed.added)
	}
	e.idle.wrote()
	e.compaction.wrote(size)
	if e.disk.is(isFull) {
		e.reclaim.deletes.Add(keys)
	}
	return nil
}

// abort returns the error of an Update that wrote nothing, once what fn has read is
// durable: a failed condition is a read.
func (e *Engine) abort(ctx context.Context, keys [][]byte, err error) error {
	if waitErr := e.waitReadDurable(ctx, keys...); waitErr != nil {
		return waitErr
	}
	if errors.Is(err, errNoWrites) {
		return nil
	}
	return err
}
