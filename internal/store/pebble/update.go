package pebble

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"github.com/stator-db/stator/internal/store"
)

// errNoWrites is what apply returns when fn wrote nothing.
var errNoWrites = errors.New("nothing written")

// Update latches the declared keys, runs fn, hands its writes to Pebble,
// releases the latches, and only then waits for the disk: the next Update of
// the same key goes into the same sync.
func (e *Engine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := e.admit(ctx, keys); err != nil {
		return err
	}
	var room [fewKeys]int
	latched, err := e.stripes.Lock(ctx, room[:0], keys)
	if err != nil {
		return err
	}
	batch := e.db.NewBatch()
	stamp, size, err := e.apply(batch, latched, keys, fn)
	if err != nil {
		_ = batch.Close()
		return e.abort(ctx, keys, err)
	}
	return e.waitDurable(batch, stamp, size)
}

// admit refuses what need not be tried.
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
	return e.disk.admit()
}

// apply runs fn and makes its writes visible. It releases the latches. Without
// an error the stamp is in flight and must land.
func (e *Engine) apply(batch *pebble.Batch, latched []int, keys [][]byte, fn func(store.Tx) error) (_ store.Stamp, size int, _ error) {
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
	if err := e.recordWindow(batch, stamp); err != nil {
		return 0, 0, failure("record window", err)
	}
	written := batch.Reader() // Pebble takes the bytes of a large batch away when it applies it
	size = batch.Len()
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
		t.cached.Abort()
		return 0, 0, failure("apply", err)
	}
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

func eachKey(r batchrepr.Reader, fn func(key []byte)) {
	for {
		_, key, _, ok, err := r.Next()
		if err != nil {
			panic(fmt.Sprintf("a batch that we made cannot be read: %v", err))
		}
		if !ok {
			return
		}
		fn(key)
	}
}

// land waits until an applied batch is durable.
func (e *Engine) waitDurable(batch *pebble.Batch, stamp store.Stamp, size int) error {
	if e.durability == Durable {
		if err := batch.SyncWait(); err != nil {
			// Readers are waiting for what may never be on disk. Only a new
			// start can tell what is. The flight does not end: nobody is shown
			// the write if exit is a test's and returns.
			e.fatal("sync the log: %v", err)
			return fmt.Errorf("sync the log: %w: %w", store.ErrUnknownOutcome, err)
		}
	}
	_ = batch.Close()
	e.windows.Recorded(stamp)
	e.inFlight.End(stamp)
	e.idle.wrote()
	e.disk.wrote(size)
	e.compaction.wrote(size)
	return nil
}

// abort returns the error of an Update that wrote nothing, once what fn
// saw is durable: a failed condition is a read.
func (e *Engine) abort(ctx context.Context, keys [][]byte, err error) error {
	if waitErr := e.waitReadDurable(ctx, keys...); waitErr != nil {
		return waitErr
	}
	if errors.Is(err, errNoWrites) {
		return nil
	}
	return err
}
