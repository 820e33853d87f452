package db

import (
	"context"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

const (
	saveInterval = time.Second     // how often unsaved counts are saved
	readInterval = 5 * time.Second // how often the counts of other processes are read
)

// saveCounts adds the unsaved changes of this process to the stored counts.
func (d *DB) saveCounts(ctx context.Context) error {
	d.saving.Lock()
	defer d.saving.Unlock()
	var changed []*table
	var keys [][]byte
	var ours []countMap
	for _, t := range d.all() {
		if c := t.counts.pending(); len(c) > 0 {
			changed, ours, keys = append(changed, t), append(ours, c), append(keys, keyspace.ItemCount(t.ID))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	sums := make([]countMap, len(keys))
	err := d.engine.Update(ctx, keys, func(tx store.Tx) (err error) {
		for i, key := range keys {
			stored, _ := tx.Get(key)
			if sums[i], err = decodeCounts(stored); err != nil {
				return fmt.Errorf("table %s: %w", changed[i].Name, err)
			}
			for id, c := range ours[i] {
				sums[i].add(id, c.Items, c.Bytes)
			}
			sums[i].keep(changed[i].Table)
			writeCounts(tx, key, sums[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, t := range changed {
		t.counts.merge(sums[i], ours[i])
	}
	return nil
}

// readCounts reads the stored counts, to which all processes add.
func (d *DB) readCounts(ctx context.Context) error {
	d.saving.Lock() // a concurrent save would be counted twice or not at all
	defer d.saving.Unlock()
	tables := d.all()
	if len(tables) == 0 {
		return nil
	}
	keys := make([][]byte, len(tables))
	for i, t := range tables {
		keys[i] = keyspace.ItemCount(t.ID)
	}
	values, err := d.engine.Get(ctx, store.Strong, keys...)
	if err != nil {
		return err
	}
	for i, t := range tables {
		stored, err := decodeCounts(values[i])
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		t.counts.merge(stored, nil)
	}
	return nil
}

// writeCounts stores counts, or deletes the record if there are none.
func writeCounts(tx store.Tx, key []byte, c countMap) {
	if len(c) == 0 {
		tx.Delete(key)
		return
	}
	tx.Set(key, c.encode())
}

// resetCounts sets the counts of a table to zero, stored and unsaved.
func (d *DB) resetCounts(ctx context.Context, t *table) error {
	d.saving.Lock()
	defer d.saving.Unlock()
	key := keyspace.ItemCount(t.ID)
	err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
		tx.Delete(key)
		return nil
	})
	if err == nil {
		t.counts.merge(make(countMap), t.counts.pending())
	}
	return err
}
