package db

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// interposedEngine calls a function before the next update of a table's
// description.
type interposedEngine struct {
	store.Engine
	beforeAlter atomic.Pointer[func()]
}

func (e *interposedEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if bytes.Equal(keys[0], keyspace.Catalog("Orders")) {
		if before := e.beforeAlter.Swap(nil); before != nil {
			(*before)()
		}
	}
	return e.Engine.Update(ctx, keys, fn)
}

// Ending or dropping an import does not touch a table that a customer has created
// under the same name in the meantime.
func TestImportSparesANewTable(t *testing.T) {
	for name, end := range map[string]func(d *DB) error{
		"drop": func(d *DB) error { return d.DropImport(context.Background(), "Orders", "job") },
		"end":  func(d *DB) error { return d.EndImport(context.Background(), "Orders", "job") },
	} {
		t.Run(name, func(t *testing.T) {
			e := &interposedEngine{Engine: newEngine(t, pebble.InMemory())}
			d := newDB(t, e, Options{})
			if _, err := d.BeginImport(t.Context(), orders("Orders"), "job"); err != nil {
				t.Fatal(err)
			}
			var mine Description
			before := func() {
				if err := d.DropImport(t.Context(), "Orders", "job"); err != nil {
					t.Error(err)
				}
				var err error
				if mine, err = d.CreateTable(t.Context(), orders("Orders")); err != nil {
					t.Error(err)
				}
			}
			e.beforeAlter.Store(&before)
			if err := end(d); (err != nil) != (name == "end") {
				t.Errorf("the import ends with %v", err)
			}
			is, err := d.Describe("Orders")
			if err != nil || is.UUID != mine.UUID || is.Status != schema.Active {
				t.Errorf("the new table is %+v, %v", is, err)
			}
		})
	}
}
