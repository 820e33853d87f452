package db

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// Filling a table reports the error of a writer or of the items, once.
func TestErrorsOfBulkWrites(t *testing.T) {
	broken := func(err error) iter.Seq2[item.Item, error] {
		return func(yield func(item.Item, error) bool) {
			for it := range strayItems(10) {
				if !yield(it, nil) {
					return
				}
			}
			yield(nil, err)
		}
	}
	for name, c := range map[string]struct {
		full  bool
		items iter.Seq2[item.Item, error]
		want  error
	}{
		"a writer fails":                {true, strayItems(5 * bulkItems), store.ErrFull},
		"the items end with an error":   {false, broken(store.ErrCorrupt), store.ErrCorrupt},
		"the source of items is closed": {false, broken(context.Canceled), context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fullEngine{Engine: newEngine(t, pebble.InMemory())}
			d := newDB(t, e, Options{})
			if _, err := d.BeginImport(t.Context(), orders("Orders"), "job"); err != nil {
				t.Fatal(err)
			}
			table, _ := d.find("Orders")
			items := func(yield func(item.Item, error) bool) {
				e.full.Store(c.full)
				defer e.full.Store(false)
				c.items(yield)
			}
			none := func(int) {}
			for by, err := range map[string]error{
				"loadItems": d.loadItems(t.Context(), table, items, none),
				"Import":    d.Import(t.Context(), "Orders", "job", items, func(error) {}, none),
			} {
				if !errors.Is(err, c.want) || err.Error() != c.want.Error() {
					t.Errorf("%s returns %q, want %q", by, err, c.want)
				}
			}
		})
	}
}
