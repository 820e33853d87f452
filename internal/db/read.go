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

	// Free reads are neither throttled nor charged.
	Free bool

	// Throttled, if set, is called for each key, by its position, that is not read
	// because of a limit. Without it the whole read is throttled.
	Throttled func(i int, err error)
}

// open returns the table to read.
func (d *DB) open(g Get) (*table, error) {
	t, err := d.use(g.Table)
	if err != nil {
		return nil, err
	}
	if g.Fit != nil {
		if err := g.Fit(t.Table); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Get reads items by their keys. The result is nil for each that does not exist.
func (d *DB) Get(ctx context.Context, g Get, keys ...item.Item) ([]item.Item, error) {
	return d.GetWithin(ctx, g, math.MaxInt, keys...)
}

// GetWithin reads items by their keys, in order, until their sizes exceed maxBytes
// in total: the item that does is the last of the result. If maxBytes is negative,
// it only checks the request. The result is nil for each item that does not exist, and
// leaves out those that are throttled.
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
		buf = keyspace.Item(buf, t.Table, key)
		stored[i] = buf[from:len(buf):len(buf)]
	}
	bill := billOf(ctx)
	admitted, keys, err := d.admitKeys(bill, t, g, stored, keys)
	if err != nil {
		return nil, err
	}
	read := func(keys [][]byte) ([][]byte, error) {
		return d.engine.Get(ctx, consistency(g.Consistent), keys...)
	}
	var lag *lagReader
	if f := bill.faults(); f != nil && !g.Consistent {
		if lag, err = d.newLagReader(ctx, f, t.Table, g.Memory); err != nil {
			return nil, err
		}
	}
	defer lag.close()
	items, over, err := d.readWithin(ctx, read, maxBytes, admitted, func(int) *schema.Table { return t.Table }, lag, g.Memory)
	returned := len(items)
	if over {
		returned--
	}
	d.consumeKeys(bill, t, g, admitted, keys, items[:returned])
	return items, err
}

// admitKeys returns the keys that can be read without exceeding a limit.
func (d *DB) admitKeys(b *Bill, t *table, g Get, stored [][]byte, keys []item.Item) (admitted [][]byte, of []item.Item, err error) {
	if t.limits == nil && b.faults() == nil {
		return stored, keys, nil
	}
	for i := range keys {
		at := access{stored: stored[i], item: keys[i]}
		err := d.admitRead(b, t, at)
		switch {
		case err == nil:
			d.chargeRead(b, t, at, readUnits(nil, g.Consistent)) // what it costs at least
			admitted, of = append(admitted, stored[i]), append(of, keys[i])
		case g.Throttled == nil:
			return nil, nil, err
		default:
			g.Throttled(i, err)
		}
	}
	return admitted, of, nil
}

// consumeKeys records the units of the items that are part of the reply, and charges
// to the limits what admitKeys has not charged yet. The last of the admitted keys may
// not be part of the reply.
func (d *DB) consumeKeys(b *Bill, t *table, g Get, admitted [][]byte, keys, returned []item.Item) {
	b.expect(len(admitted))
	charged := readUnits(nil, g.Consistent)
	for i := range admitted {
		at, units := access{stored: admitted[i], item: keys[i]}, 0.0
		if i < len(returned) {
			units = readUnits(returned[i], g.Consistent)
			d.meterRead(b, t, at, units)
		}
		d.chargeRead(b, t, at, units-charged)
	}
}

// readWithin reads and decodes items, in order, until their sizes exceed maxBytes
// in total; over is set if they do. Each read has at most one key more than maxBytes has room for, if the
// items are of the largest size, and one key only while there is no such memory.
func (d *DB) readWithin(ctx context.Context, read func(keys [][]byte) ([][]byte, error), maxBytes int, keys [][]byte, tableOf func(i int) *schema.Table, lag *lagReader, memory *buffer.Tally) (items []item.Item, over bool, err error) {
	items = make([]item.Item, 0, len(keys))
	for left := maxBytes; left >= 0 && len(items) < len(keys); {
		from := len(items)
		n := memory.Ahead(min(len(keys)-from, 1+left/item.MaxSize), item.MaxSize)
		values, err := read(keys[from : from+n])
		if err != nil {
			return nil, false, err
		}
		if !memory.Add(n, bytesOf(values)) {
			return nil, false, buffer.ErrNoRoom
		}
		for i, v := range values {
			it, err := d.decodeVisible(tableOf(from+i), keys[from+i], v)
			if err == nil {
				it, err = lag.read(ctx, keys[from+i], it)
			}
			if err != nil {
				return nil, false, err
			}
			items = append(items, it)
			if left -= it.Size(); left < 0 {
				return items, true, nil
			}
		}
	}
	return items, false, nil
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
	stored := keyspace.Item(nil, t.Table, key)
	bill := billOf(ctx)
	if !g.Free {
		if err := d.admitRead(bill, t, access{stored: stored, item: key}); err != nil {
			return nil, err
		}
	}
	values, err := d.engine.Get(ctx, consistency(g.Consistent), stored)
	if err != nil {
		return nil, err
	}
	if !g.Memory.Add(1, len(values[0])) {
		return nil, buffer.ErrNoRoom
	}
	it, err := d.decodeVisible(t.Table, stored, values[0])
	if f := bill.faults(); f != nil && err == nil && !g.Consistent {
		var lag *lagReader
		if lag, err = d.newLagReader(ctx, f, t.Table, g.Memory); err == nil {
			it, err = lag.read(ctx, stored, it)
			lag.close()
		}
	}
	if err == nil && !g.Free {
		d.consumeRead(bill, t, access{stored: stored, item: key}, readUnits(it, g.Consistent))
	}
	return it, err
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

// HidesExpired reports whether items of a table disappear from reads without a write.
func (d *DB) HidesExpired(t *schema.Table) bool {
	return d.hideExpired && t.TimeToLive.Attribute != ""
}

func consistency(consistent bool) store.Consistency {
	if consistent {
		return store.Strong
	}
	return store.Recent
}
