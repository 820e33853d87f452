package db

import (
	"context"
	"errors"
	"time"

	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// conflictPause is the pause of background work after an update that conflicted with
// others for longer than a request waits.
const conflictPause = 200 * time.Millisecond

// update is Engine.Update, except that background work does not fail with
// store.ErrConflict or store.ErrBehind: it tries again until its context ends. A request
// gets the error, because its client can retry. Callers hold no lock that a request may
// wait for.
func (d *DB) update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	return d.outlast(ctx, func() error { return d.engine.Update(ctx, keys, fn) })
}

// outlast calls attempt, and in background work again until its context ends, while it
// returns store.ErrConflict or store.ErrBehind.
func (d *DB) outlast(ctx context.Context, attempt func() error) error {
	for {
		err := attempt()
		behind := errors.Is(err, store.ErrBehind)
		if !behind && !errors.Is(err, store.ErrConflict) || !lead.Background(ctx) {
			return err
		}
		if !behind { // it waits for its own bulk of writes
			d.log.Warn("background work waits for other updates of the same keys", "error", err)
		}
		lead.Wait(ctx, conflictPause)
		if ctx.Err() != nil {
			return err
		}
	}
}
