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
	buildItems    = 256             // items of one step, at most
	buildBytes    = 1 << 20         // bytes of one step, about
	buildProgress = 5 * time.Second // between two lines in the log
)

// syncWriters waits until every write under way, in any process, knows the table as
// it is now. Who altered it has waited, too, unless it crashed before.
func (d *DB) syncWriters(ctx context.Context, name string, id uint32) (*table, bool, error) {
	if err := d.broadcastTable(ctx, name); err != nil {
		return nil, false, err
	}
	t, ok := d.find(name)
	return t, ok && t.ID == id, nil
}

// backfill goes through the items of a table in steps, from where it came to
// before. It is not ok when a step says that there is nothing more to do.
func (d *DB) backfill(ctx context.Context, t *schema.Table, progress []byte, log *slog.Logger, add func(buildBatch) (bool, error)) (ok bool, err error) {
	began, logged, done := d.now(), d.now(), 0
	saved, err := d.engine.Get(ctx, store.Strong, progress)
	if err != nil {
		return false, err
	}
	at := saved[0]
	for d.engine.Leads() { // else another goes on from here
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
			log.Info("the items of a table are gone through", "items", done)
		}
	}
	return false, nil
}

// finishBackfill forgets how far it came with what is done.
func (d *DB) finishBackfill(ctx context.Context, progress []byte, log *slog.Logger, items int, took time.Duration) error {
	err := d.engine.Update(ctx, [][]byte{progress}, func(tx store.Tx) error {
		tx.Delete(progress)
		return nil
	})
	if err == nil {
		log.Info("the items of a table were gone through", "items", items, "took", took.Round(time.Millisecond))
	}
	return err
}

// buildBatch is some items of a table, as a snapshot shows them.
type buildBatch struct {
	keys  [][]byte
	items []item.Item

	progress, at []byte // where to note, in the same update, how far this comes
}

// readBatch reads the items that come next; at is where the step before ended.
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

// addEntries writes what belongs to a batch's items beside them, and returns those of
// which it did. of tells what belongs to the i-th item, and where.
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
				// It was written since, and who moved what belongs to it has
				// put that in place. Who did not has left it to us.
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
