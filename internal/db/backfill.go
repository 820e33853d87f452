package db

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

const (
	buildItems    = 256             // the most items in a batch
	buildBytes    = 1 << 20         // a batch ends with the item that reaches this size
	buildProgress = 5 * time.Second // between two progress lines in the log
)

// syncWriters waits until every write in flight, in any process, uses the current
// description of a table. alter has waited for that, too, unless its process
// crashed before. It is not ok if the table does not exist any more.
func (d *DB) syncWriters(ctx context.Context, name string, id uint32) (*table, bool, error) {
	if err := d.broadcastTable(ctx, name); err != nil {
		return nil, false, err
	}
	t, ok := d.find(name)
	return t, ok && t.ID == id, nil
}

// backfillLog logs the progress of a backfill.
type backfillLog struct {
	*slog.Logger
	running, finished string // messages
}

// backfill calls add for the items of a table, in batches, and continues from the
// stored progress. It is not ok if it stopped early, because add was not ok or
// this server no longer leads.
func (d *DB) backfill(ctx context.Context, t *schema.Table, progress []byte, log backfillLog, add func(buildBatch) (bool, error)) (ok bool, err error) {
	began, logged, done := d.now(), d.now(), 0
	saved, err := d.engine.Get(ctx, store.Strong, progress)
	if err != nil {
		return false, err
	}
	at := saved[0]
	for d.engine.Leads() { // otherwise the new leader continues from the stored progress
		batch, err := d.readBatch(ctx, t, at)
		if err != nil {
			return false, err
		}
		if len(batch.keys) == 0 {
			return true, d.finishBackfill(ctx, progress, log, done, d.now().Sub(began))
		}
		at = append(batch.keys[len(batch.keys)-1], 0)
		batch.progress, batch.at = progress, at
		if ok, err := add(batch); !ok || err != nil {
			return false, err
		}
		done += len(batch.keys)
		if now := d.now(); now.Sub(logged) >= buildProgress {
			logged = now
			log.Info(log.running, "items", done)
		}
	}
	return false, nil
}

// finishBackfill deletes the stored progress of a backfill that is complete.
func (d *DB) finishBackfill(ctx context.Context, progress []byte, log backfillLog, items int, took time.Duration) error {
	err := d.engine.Update(ctx, [][]byte{progress}, func(tx store.Tx) error {
		tx.Delete(progress)
		return nil
	})
	if err == nil {
		log.Info(log.finished, "items", items, "took", took.Round(time.Millisecond))
	}
	return err
}

// buildBatch is a part of a table's items, as read from a snapshot.
type buildBatch struct {
	keys  [][]byte
	items []item.Item

	// progress is the key, and at the value, of the progress after this batch. It
	// is stored in the update that adds the batch's entries.
	progress, at []byte
}

// readBatch reads the next items, from the key at or, if it is nil, from the
// beginning of the table.
func (d *DB) readBatch(ctx context.Context, t *schema.Table, at []byte) (buildBatch, error) {
	start, end := keyspace.IndexSpan(t.ID, 0)
	if at != nil {
		start = at
	}
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return buildBatch{}, err
	}
	defer snap.Close()
	var batch buildBatch
	size := 0
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return buildBatch{}, err
		}
		it, err := codec.DecodeItem(bytes.Clone(pair.Value))
		if err != nil {
			return buildBatch{}, err
		}
		batch.keys = append(batch.keys, bytes.Clone(pair.Key))
		batch.items = append(batch.items, it)
		if size += len(pair.Value); len(batch.keys) == buildItems || size >= buildBytes {
			break
		}
	}
	return batch, nil
}

// addEntries adds the missing entries of a batch's items, and stores the progress
// in the same update. It returns the items, as they are now, whose entries it
// added. entry returns the entry of the i-th item; a nil key means that it has
// none.
func (d *DB) addEntries(ctx context.Context, batch buildBatch, entry func(i int, it item.Item) (key, value []byte)) (added []item.Item, err error) {
	declared := append(slices.Clone(batch.keys), batch.progress)
	keys, values := make([][]byte, len(batch.keys)), make([][]byte, len(batch.keys))
	for i, it := range batch.items {
		if keys[i], values[i] = entry(i, it); keys[i] != nil {
			declared = append(declared, keys[i])
		}
	}
	err = d.engine.Update(ctx, declared, func(tx store.Tx) error {
		added = added[:0]
		for i, key := range keys {
			if key == nil {
				continue
			}
			now, err := currentItem(tx, batch.keys[i])
			if err != nil {
				return err
			}
			value := values[i]
			if !now.Equal(batch.items[i]) {
				// The item was written since the snapshot. If that write moved
				// the entry, it also added it; if not, we add it.
				var at []byte
				if at, value = entry(i, now); !bytes.Equal(at, key) {
					continue
				}
			}
			if _, exists := tx.Get(key); exists {
				continue
			}
			tx.Set(key, value)
			added = append(added, now)
		}
		tx.Set(batch.progress, batch.at)
		return nil
	})
	return added, err
}

func currentItem(tx store.Tx, key []byte) (item.Item, error) {
	stored, _ := tx.Get(key)
	return codec.DecodeItem(stored)
}
