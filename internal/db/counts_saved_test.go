package db

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// savingEngine calls a function once, before the next update that begins with an item
// count.
type savingEngine struct {
	store.Engine
	beforeSave atomic.Pointer[func()]
}

func (e *savingEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if len(keys) > 0 && keys[0][0] == keyspace.KindItemCount {
		if before := e.beforeSave.Swap(nil); before != nil {
			(*before)()
		}
	}
	return e.Engine.Update(ctx, keys, fn)
}

// A table that is dropped while its count is being saved leaves no count. The control is
// a table that is not dropped.
func TestSavedCountOfADroppedTable(t *testing.T) {
	for _, dropped := range []bool{true, false} {
		e := &savingEngine{Engine: newEngine(t, pebble.InMemory())}
		d := newDB(t, e, Options{})
		create(t, d, orders("Orders"))
		count := keyspace.ItemCount(tableOf(t, d, "Orders").ID)
		drop := func() {
			if !dropped {
				return
			}
			if _, err := d.DeleteTable(t.Context(), "Orders"); err != nil {
				t.Error(err)
			}
			waitFor(t, func() bool { _, ok := d.find("Orders"); return !ok })
			waitDrops(t, d)
		}
		e.beforeSave.Store(&drop)
		put(t, d, "Orders", fullItem("a", 1))
		if err := d.saveCounts(t.Context()); err != nil || e.beforeSave.Load() != nil {
			t.Fatalf("saveCounts returns %v; it has saved: %v", err, e.beforeSave.Load() == nil)
		}
		if left := countStored(t, e, count, append(count[:len(count):len(count)], 0)) > 0; left == dropped {
			t.Errorf("dropped %v: a count is stored: %v", dropped, left)
		}
	}
}
