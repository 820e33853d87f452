package pebble

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// Load writes pairs to an engine that has none. state returns the standby's state: that of an
// unfinished copy, which is stored first, and then that of a complete one.
func (e *Engine) Load(ctx context.Context, pairs func(yield func(store.Pair, error) bool), next store.Stamp, state func(complete bool) []byte) error {
	const batchBytes = 4 << 20
	if err := e.feed.markFormat(); err != nil {
		return err
	}
	if err := e.applyLoaded(ctx, next, state(false)); err != nil {
		return err
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	for p, err := range pairs {
		if err != nil {
			return err
		}
		if err := batch.Set(p.Key, p.Value, nil); err != nil {
			return failure("load", err)
		}
		if batch.Len() < batchBytes {
			continue
		}
		if err := e.admitLoad(ctx, batch.Len()); err != nil {
			return err
		}
		if err := batch.Commit(pebble.NoSync); err != nil {
			return failure("load", err)
		}
		_ = batch.Close()
		batch = e.db.NewBatch()
	}
	if err := e.admitLoad(ctx, batch.Len()); err != nil {
		return err
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return failure("load", err)
	}
	if err := e.db.Flush(); err != nil {
		return failure("load", err)
	}
	return e.applyLoaded(ctx, next, state(true))
}

// applyLoaded stores the state of a copy, when Pebble is not behind.
func (e *Engine) applyLoaded(ctx context.Context, next store.Stamp, state []byte) error {
	return retryBehind(ctx, func() error { return e.Apply(ctx, nil, next, state) })
}

// loadPause is the pause between the attempts of a load.
const loadPause = 50 * time.Millisecond

// admitLoad waits until Pebble is not behind, and takes space for a batch. A load writes
// faster than Pebble compacts, and beginning again would not help.
func (e *Engine) admitLoad(ctx context.Context, bytes int) error {
	return retryBehind(ctx, func() error {
		if err := e.disk.admit(ctx); err != nil {
			return err
		}
		return e.disk.take(ctx, bytes)
	})
}

// retryBehind calls try, with pauses, as long as it returns store.ErrBehind and the context has not
// ended.
func retryBehind(ctx context.Context, try func() error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := try(); !errors.Is(err, store.ErrBehind) {
			return err
		}
		select {
		case <-time.After(loadPause):
		case <-ctx.Done():
		}
	}
}
