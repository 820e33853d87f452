package db

import (
	"context"
	"fmt"
	"iter"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// View is all tables as they are at one moment. It holds resources until it is
// closed.
type View struct {
	snap store.Snapshot
	room int // bytes that may be kept of changed items at a time, about
}

// View takes a view of now.
func (d *DB) View(ctx context.Context) (*View, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return &View{snap, stretchBytes}, nil
}

// Table is one table as it was.
func (v *View) Table(ctx context.Context, name string) (*schema.Table, error) {
	stored, err := v.snap.Get(ctx, keyspace.Catalog(name))
	if err != nil {
		return nil, err
	}
	if stored[0] == nil {
		return nil, apierror.NoTableNamed(name)
	}
	t, err := decodeTable(stored[0])
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	return t, nil
}

// Tables are all tables as they were, in order of their names.
func (v *View) Tables(ctx context.Context) (tables []*schema.Table, err error) {
	start, end := keyspace.CatalogSpan()
	for pair, err := range v.snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return nil, err
		}
		t, err := decodeTable(pair.Value)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", pair.Key[1:], err)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// Items goes through the items of a table. An item is valid until the next.
func (v *View) Items(ctx context.Context, table uint32) iter.Seq2[item.Item, error] {
	start, end := keyspace.IndexSpan(table, 0)
	return func(yield func(item.Item, error) bool) {
		for pair, err := range v.snap.Scan(ctx, store.Range{Start: start, End: end}) {
			if err != nil {
				yield(nil, err)
				return
			}
			it, err := decode(pair.Value)
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// Close releases the view.
func (v *View) Close() error { return v.snap.Close() }
