package db

import (
	"context"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// Get reads items of one table by their keys.
type Get struct {
	Table      string
	Consistent bool

	// Fit, if set, returns a fault if the request does not fit the table. It is
	// called before the keys are checked.
	Fit func(t *schema.Table) error
}

// open returns the table to read.
func (d *DB) open(g Get) (*schema.Table, error) {
	t, err := d.use(g.Table)
	if err != nil {
		return nil, err
	}
	if g.Fit != nil {
		if err := g.Fit(t.Table); err != nil {
			return nil, err
		}
	}
	return t.Table, nil
}

// Get reads items by their keys. The result is nil for each that does not exist.
func (d *DB) Get(ctx context.Context, g Get, keys ...item.Item) ([]item.Item, error) {
	t, err := d.open(g)
	if err != nil {
		return nil, err
	}
	stored := make([][]byte, len(keys))
	var buf []byte // holds all keys
	for i, key := range keys {
		if err := t.CheckKey(key); err != nil {
			return nil, err
		}
		from := len(buf)
		buf = keyspace.Item(buf, t, key)
		stored[i] = buf[from:len(buf):len(buf)]
	}
	values, err := d.engine.Get(ctx, consistency(g.Consistent), stored...)
	if err != nil {
		return nil, err
	}
	return d.decodeVisible(t, values)
}

// GetOne reads an item by its key. It returns nil if the item does not exist.
func (d *DB) GetOne(ctx context.Context, g Get, key item.Item) (item.Item, error) {
	t, err := d.open(g)
	if err != nil {
		return nil, err
	}
	if err := t.CheckKey(key); err != nil {
		return nil, err
	}
	values, err := d.engine.Get(ctx, consistency(g.Consistent), keyspace.Item(nil, t, key))
	if err != nil {
		return nil, err
	}
	it, err := codec.DecodeItem(values[0])
	if d.hidden(t, it) {
		it = nil
	}
	return it, err
}

// decodeVisible decodes stored items. The result is nil for each that is absent
// or hidden.
func (d *DB) decodeVisible(t *schema.Table, values [][]byte) (items []item.Item, err error) {
	items = make([]item.Item, len(values))
	for i, v := range values {
		if items[i], err = codec.DecodeItem(v); err != nil {
			return nil, err
		}
		if d.hidden(t, items[i]) {
			items[i] = nil
		}
	}
	return items, nil
}

// hidden reports whether reads omit an item because it has expired.
func (d *DB) hidden(t *schema.Table, it item.Item) bool {
	return d.hideExpired && it != nil && t.Expired(it, d.now())
}

func consistency(consistent bool) store.Consistency {
	if consistent {
		return store.Strong
	}
	return store.Recent
}
