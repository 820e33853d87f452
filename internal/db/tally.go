package db

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// tally counts a table's items and their bytes. It is kept in memory and saved
// now and then, so a crash can leave it off by the writes of the last second;
// DynamoDB's own is six hours old.
type tally struct {
	items, bytes atomic.Int64
	saved        [2]int64
}

// tallyInterval is how often changed tallies are saved.
const tallyInterval = time.Second

// note counts a committed write.
func (t *tally) note(before, after item.Item) {
	items, bytes := int64(0), int64(0)
	if before != nil {
		items, bytes = -1, -int64(before.Size())
	}
	if after != nil {
		items, bytes = items+1, bytes+int64(after.Size())
	}
	t.items.Add(items)
	t.bytes.Add(bytes)
}

func (t *tally) load(ctx context.Context, snap store.Snapshot, table uint32) error {
	values, err := snap.Get(ctx, keyspace.Tally(table))
	if err != nil || values[0] == nil {
		return err
	}
	if len(values[0]) != 16 {
		return fmt.Errorf("tally of table %d has %d bytes: %w", table, len(values[0]), store.ErrCorrupt)
	}
	t.saved = [2]int64{int64(binary.BigEndian.Uint64(values[0])), int64(binary.BigEndian.Uint64(values[0][8:]))}
	t.items.Store(t.saved[0])
	t.bytes.Store(t.saved[1])
	return nil
}

func (d *DB) saveTallies(ctx context.Context) {
	tick := time.NewTicker(tallyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.saveTally(ctx); err != nil && ctx.Err() == nil {
				d.log.Warn("item counts could not be saved", "error", err)
			}
		}
	}
}

// saveTally saves the tallies that have changed.
func (d *DB) saveTally(ctx context.Context) error {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	var keys, values [][]byte
	for _, t := range d.catalog.tables {
		now := [2]int64{t.tally.items.Load(), t.tally.bytes.Load()}
		if now == t.tally.saved {
			continue
		}
		t.tally.saved = now
		keys = append(keys, keyspace.Tally(t.ID))
		values = append(values, slices.Concat(
			binary.BigEndian.AppendUint64(nil, uint64(now[0])),
			binary.BigEndian.AppendUint64(nil, uint64(now[1]))))
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := d.engine.Update(ctx, keys, func(tx store.Tx) error {
		for i, key := range keys {
			tx.Set(key, values[i])
		}
		return nil
	})
	return err
}
