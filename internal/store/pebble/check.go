package pebble

import (
	"context"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble/commit"
)

var _ store.Checker = (*Engine)(nil)

// Check reads the engine's own records, and all keys of all levels, and checks
// that these are in order.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.gate.Enter(); err != nil {
		return err
	}
	defer e.gate.Leave()
	if err := e.checkOwn(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.db.CheckLevels(nil); err != nil {
		return failure("check levels", err)
	}
	return nil
}

// checkOwn checks the records of windows and those for a standby, and that the engine has no
// others.
func (e *Engine) checkOwn() error {
	it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{store.Reserved}})
	if err != nil {
		return failure("check", err)
	}
	defer func() { _ = it.Close() }() // its error is that of it.Error
	windows := 0
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return failure("check", err)
		}
		switch key := it.Key(); {
		case commit.IsWindow(key, value):
			windows++
		case !isStandbyRecord(key, value):
			return fmt.Errorf("check: the key %x is none of the engine's: %w", key, store.ErrCorrupt)
		}
	}
	if err := it.Error(); err != nil {
		return failure("check", err)
	}
	if windows == 0 {
		return fmt.Errorf("check: no window of stamps is recorded: %w", store.ErrCorrupt)
	}
	return nil
}

// Exists reports whether a folder has the data of an engine.
func Exists(dir string) (bool, error) {
	if _, err := os.Stat(dir); err != nil {
		return false, err
	}
	desc, err := pebble.Peek(dir, vfs.Default)
	if err != nil {
		return false, failure("look for data", err)
	}
	return desc.Exists, nil
}
