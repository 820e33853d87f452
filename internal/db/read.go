package db

import (
	"context"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
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
	return d.shown(t.Table, values)
}

// shown are the items of stored values, without those that are hidden because
// they have expired.
func (d *DB) shown(t *schema.Table, values [][]byte) (items []item.Item, err error) {
	items = make([]item.Item, len(values))
	for i, v := range values {
		if items[i], err = decode(v); err != nil {
			return nil, err
		}
		if d.hidden(t, items[i]) {
			items[i] = nil
		}
	}
	return items, nil
}

func (d *DB) hidden(t *schema.Table, it item.Item) bool {
	return d.hideExpired && it != nil && t.Expired(it, d.now())
}

func consistency(consistent bool) store.Consistency {
	if consistent {
		return store.Strong
	}
	return store.Recent
}
