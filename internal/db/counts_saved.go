package db

import (
	"context"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

const (
	saveInterval = time.Second     // how often unsaved counts are saved
	readInterval = 5 * time.Second // how often the counts of other processes are read
)

// lockCounts makes the caller the only one that saves or reads item counts. The one before it may
// wait for the keys of other updates, so the wait ends with the context.
func (d *DB) lockCounts(ctx context.Context) error {
	select {
	case d.saving <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *DB) unlockCounts() { <-d.saving }

// SaveCounts stores the item counts as they are now. A fork begins with those that are stored.
func (d *DB) SaveCounts(ctx context.Context) error { return d.saveCounts(ctx) }

// saveCounts adds the unsaved changes of this process to the stored counts of the tables
// that exist. A table may have been dropped meanwhile, with its count.
func (d *DB) saveCounts(ctx context.Context) error {
	if err := d.lockCounts(ctx); err != nil {
		return err
	}
	defer d.unlockCounts()
	var changed []*table
	var keys [][]byte
	var ours []countMap
	for _, t := range d.all() {
		if c := t.counts.pending(); len(c) > 0 {
			changed, ours = append(changed, t), append(ours, c)
			keys = append(keys, keyspace.ItemCount(t.ID), keyspace.Catalog(t.Name))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	sums := make([]countMap, len(changed))
	err := d.update(store.Freeing(ctx), keys, func(tx store.Tx) (err error) {
		for i, t := range changed {
			if sums[i], err = addCounts(tx, t, ours[i]); err != nil {
				return fmt.Errorf("table %s: %w", t.Name, err)
			}
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

// addCounts adds changes to the stored counts of a table, and returns the sums. It stores
// nothing for a table that the catalog does not have any more.
func addCounts(tx store.Tx, t *table, ours countMap) (countMap, error) {
	key := keyspace.ItemCount(t.ID)
	stored, _ := tx.Get(key)
	sums, err := codec.DecodeCounts(stored)
	if err != nil {
		return nil, err
	}
	for id, c := range ours {
		countMap(sums).add(id, c.Items, c.Bytes)
	}
	countMap(sums).keep(t.Table)
	value, ok := tx.Get(keyspace.Catalog(t.Name))
	if !ok {
		return sums, nil
	}
	def, err := codec.DecodeTable(value)
	if err == nil && def.ID == t.ID {
		writeCounts(tx, key, sums)
	}
	return sums, err
}

// readCounts reads the stored counts, to which all processes add.
func (d *DB) readCounts(ctx context.Context) error {
	// A concurrent save would be counted twice or not at all.
	if err := d.lockCounts(ctx); err != nil {
		return err
	}
	defer d.unlockCounts()
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
		stored, err := codec.DecodeCounts(values[i])
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
	tx.Set(key, codec.EncodeCounts(c))
}

// resetCounts sets the counts of a table to zero, stored and unsaved.
func (d *DB) resetCounts(ctx context.Context, t *table) error {
	if err := d.lockCounts(ctx); err != nil {
		return err
	}
	defer d.unlockCounts()
	key := keyspace.ItemCount(t.ID)
	err := d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error {
		tx.Delete(key)
		return nil
	})
	if err == nil {
		t.counts.merge(make(countMap), t.counts.pending())
	}
	return err
}
