package pebble

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store"
)

// A panic of fn leaves no iterator open.
func TestReadRangeClosesAfterPanic(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(), Dir: "d", IdleFlush: -1})
	fill(t, e, 3)
	func() {
		defer func() { _ = recover() }()
		_ = e.ReadRange(t.Context(), store.Range{}, func(store.Pair) bool { panic("in fn") })
	}()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
