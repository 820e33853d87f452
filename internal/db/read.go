package db

import (
	"context"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Get reads items by their keys, nil for each that does not exist.
func (d *DB) Get(ctx context.Context, name string, consistent bool, keys ...item.Item) ([]item.Item, error) {
	t, err := d.use(name)
	if err != nil {
		return nil, err
	}
	stored := make([][]byte, len(keys))
	for i, key := range keys {
		if err := t.CheckKey(key); err != nil {
			return nil, err
		}
		stored[i] = keyspace.Item(nil, t.Table, key)
	}
	values, err := d.engine.Get(ctx, consistency(consistent), stored...)
	if err != nil {
		return nil, err
	}
	items := make([]item.Item, len(keys))
	for i, v := range values {
		if items[i], err = decode(v); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func consistency(consistent bool) store.Consistency {
	if consistent {
		return store.Strong
	}
	return store.Recent
}

// CollectionBytes is the size of an item's collection: all items of its
// partition, and their entries in the local indexes.
func (d *DB) CollectionBytes(ctx context.Context, name string, key item.Item) (int, error) {
	t, err := d.use(name)
	if err != nil {
		return 0, err
	}
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer snap.Close()
	v, _ := key.Get(t.Key.Partition[0].Name)
	spaces := []uint16{0}
	for _, x := range t.Indexes {
		if !x.Global {
			spaces = append(spaces, x.ID)
		}
	}
	size := 0
	for _, space := range spaces {
		start, end := keyspace.Bound{}.Span(keyspace.Partition(nil, t.ID, space, []item.Value{v}))
		for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
			if err != nil {
				return 0, err
			}
			it, err := decode(pair.Value)
			if err != nil {
				return 0, err
			}
			size += it.Size()
		}
	}
	return size, nil
}
