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
