package pebble

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/stator-db/stator/internal/store"
)

var _ store.BranchReporter = (*Engine)(nil)

// Apply writes changes, of which next follows the last, and the standby's state in one
// batch. Stamps that this engine gives out later are larger than next. Nothing may have
// been read from the engine before: Apply does not know its caches.
func (e *Engine) Apply(ctx context.Context, changes []Change, next store.Stamp, state []byte) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := e.disk.admit(ctx); err != nil {
		return err
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	for _, c := range changes {
		if err := addEdits(batch, c.Edits); err != nil {
			return err
		}
	}
	if err := batch.Set(standbyKey, state, nil); err != nil {
		return failure("apply", err)
	}
	stamp := e.inFlight.Begin(next)
	defer e.inFlight.End(stamp)
	if err := e.recordWindow(batch, stamp); err != nil {
		return failure("apply", err)
	}
	if err := e.disk.take(ctx, batch.Len()); err != nil {
		return err
	}
	if err := batch.Commit(e.sync()); err != nil {
		return failure("apply", err)
	}
	e.windows.Recorded(stamp)
	e.idle.wrote()
	return nil
}

// StandbyState returns the state of a standby; nil if the engine is not that of one.
func (e *Engine) StandbyState() ([]byte, error) {
	if err := e.gate.Enter(); err != nil {
		return nil, err
	}
	defer e.gate.Leave()
	return e.reserved(standbyKey)
}

// EndStandby removes the standby's state: the engine is from now on like any other. Its
// data has a new branch, as it differs from the server's from now on. If the folder was removed
// or replaced, it does nothing and returns store.ErrRemoved.
func (e *Engine) EndStandby() error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if !e.disk.folder.present() { // now, not at the last check of the disk
		return e.disk.folder.err()
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	err := errors.Join(batch.Delete(standbyKey, nil), batch.Set(branchKey, []byte(rand.Text()), nil))
	if err == nil {
		err = batch.Commit(e.sync())
	}
	if err != nil {
		return failure("promote", err)
	}
	return nil
}

// Branch returns an id that the data has since the last promotion; empty if there was none.
func (e *Engine) Branch() (string, error) {
	if err := e.gate.Enter(); err != nil {
		return "", err
	}
	defer e.gate.Leave()
	branch, err := e.reserved(branchKey)
	return string(branch), err
}
