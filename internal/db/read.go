package db

import (
	"context"
	"math"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Get reads items of one table by their keys.
type Get struct {
	Table      string
	Consistent bool

	// Fit, if set, returns a fault if the request does not fit the table. It is
	// called before the keys are checked.
	Fit func(t *schema.Table) error

	// Memory, if set, reserves the memory of the items.
	Memory *buffer.Tally
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
	return d.GetWithin(ctx, g, math.MaxInt, keys...)
}

// GetWithin reads items by their keys, in order, until their sizes exceed maxBytes
// in total: the item that does is the last of the result. If maxBytes is negative,
// it only checks the request. The result is nil for each item that does not exist.
func (d *DB) GetWithin(ctx context.Context, g Get, maxBytes int, keys ...item.Item) ([]item.Item, error) {
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
	read := func(keys [][]byte) ([][]byte, error) {
		return d.engine.Get(ctx, consistency(g.Consistent), keys...)
	}
	return d.readWithin(read, maxBytes, stored, func(int) *schema.Table { return t }, g.Memory)
}

// readWithin reads and decodes items, in order, until their sizes exceed maxBytes
// in total. Each read has at most one key more than maxBytes has room for, if the
// items are of the largest size, and one key only while there is no such memory.
func (d *DB) readWithin(read func(keys [][]byte) ([][]byte, error), maxBytes int, keys [][]byte, tableOf func(i int) *schema.Table, memory *buffer.Tally) ([]item.Item, error) {
	items := make([]item.Item, 0, len(keys))
	for left := maxBytes; left >= 0 && len(items) < len(keys); {
		from := len(items)
		n := memory.Ahead(min(len(keys)-from, 1+left/item.MaxSize), item.MaxSize)
		values, err := read(keys[from : from+n])
		if err != nil {
			return nil, err
		}
		if !memory.Add(n, bytesOf(values)) {
			return nil, buffer.ErrNoRoom
		}
		for i, v := range values {
			it, err := d.decodeVisible(tableOf(from+i), keys[from+i], v)
			if err != nil {
				return nil, err
			}
			items = append(items, it)
			if left -= it.Size(); left < 0 {
				break
			}
		}
	}
	return items, nil
}

func bytesOf(values [][]byte) (bytes int) {
	for _, v := range values {
		bytes += len(v)
	}
	return bytes
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
	stored := keyspace.Item(nil, t, key)
	values, err := d.engine.Get(ctx, consistency(g.Consistent), stored)
	if err != nil {
		return nil, err
	}
	if !g.Memory.Add(1, len(values[0])) {
		return nil, buffer.ErrNoRoom
	}
	return d.decodeVisible(t, stored, values[0])
}

// decodeVisible decodes a stored item. The result is nil if it is absent or
// hidden.
func (d *DB) decodeVisible(t *schema.Table, key, stored []byte) (item.Item, error) {
	it, err := decodeItem(t, key, stored)
	if d.hidden(t, it) {
		it = nil
	}
	return it, err
}

// hidden reports whether reads omit an item because it has expired.
func (d *DB) hidden(t *schema.Table, it item.Item) bool {
	return d.hideExpired && it != nil && t.Expired(it, d.Now())
}

func consistency(consistent bool) store.Consistency {
	if consistent {
		return store.Strong
	}
	return store.Recent
}
