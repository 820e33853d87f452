package db

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

const (
	buildItems    = 256             // the most items in a batch
	buildBytes    = 1 << 20         // a batch ends with the item that reaches this size
	buildProgress = 5 * time.Second // between two progress lines in the log

	alteredPause = 10 * time.Millisecond // before a batch is tried again, because its table is being altered
)

// syncWriters waits until every write in flight, in any process, uses the current
// description of a table. alter has waited for that, too, unless its process
// crashed before. It is not ok if the table does not exist any more. It ignores the
// cancellation of ctx: a broadcast that ends between its two rounds would leave the
// table blocked on all servers until settleTimeout.
func (d *DB) syncWriters(ctx context.Context, name string, id uint32) (*table, bool, error) {
	if err := d.broadcastStored(ctx, name); err != nil {
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
// this server no longer leads. The caller deletes the progress in the update that
// ends its work, so that it does not begin again if that update fails.
func (d *DB) backfill(ctx context.Context, t *schema.Table, progress []byte, log backfillLog, add func(buildBatch) (bool, error)) (ok bool, err error) {
	began, logged, done := d.Now(), d.Now(), 0
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
			log.Info(log.finished, "items", done, "took", d.Now().Sub(began).Round(time.Millisecond))
			return true, nil
		}
		at = append(batch.keys[len(batch.keys)-1], 0)
		batch.progress, batch.at = progress, at
		if ok, err := add(batch); !ok || err != nil {
			return false, err
		}
		done += len(batch.keys)
		if now := d.Now(); now.Sub(logged) >= buildProgress {
			logged = now
			log.Info(log.running, "items", done)
		}
	}
	return false, nil
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
		it, err := decodeItem(t, pair.Key, bytes.Clone(pair.Value))
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

// errAltered ends an attempt to add entries to a table that is being altered.
var errAltered = errors.New("the table is being altered")

// addEntries adds the missing entries of a batch's items, and stores the progress
// in the same update. entry returns the entry of the i-th item; a nil key means that it
// has none. count is called with the items, as they are now, whose entries were added.
// The error is errAltered if t is no longer the table's copy.
func (d *DB) addEntries(ctx context.Context, t *table, batch buildBatch, entry func(i int, it item.Item) (key, value []byte), count func(added []item.Item)) error {
	declared := append(slices.Clone(batch.keys), batch.progress)
	keys, values := make([][]byte, len(batch.keys)), make([][]byte, len(batch.keys))
	for i, it := range batch.items {
		if keys[i], values[i] = entry(i, it); keys[i] != nil {
			declared = append(declared, keys[i])
		}
	}
	return d.outlast(ctx, func() error {
		locked := false
		defer func() {
			if locked {
				t.inUse.RUnlock()
			}
		}()
		var added []item.Item
		err := d.engine.Update(ctx, declared, func(tx store.Tx) error {
			// A change of the table, and all writes behind it, would wait for as long as
			// this update waits for the items, if the table were locked before.
			locked = locked || t.inUse.TryRLock()
			if now, err := d.useNow(t.Name); !locked || err != nil || now != t {
				return errAltered
			}
			var err error
			added, err = addMissing(tx, batch, keys, values, entry)
			return err
		})
		if err == nil {
			count(added)
		}
		return err
	})
}

// addMissing adds the entries that are not there, and the progress.
func addMissing(tx store.Tx, batch buildBatch, keys, values [][]byte, entry func(i int, it item.Item) (key, value []byte)) (added []item.Item, err error) {
	for i, key := range keys {
		if key == nil {
			continue
		}
		now, err := currentItem(tx, batch.keys[i])
		if err != nil {
			return nil, err
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
	return added, nil
}

// whileAltered repeats attempt, which takes the table's copy as it is then, until the
// error is not errAltered.
func (d *DB) whileAltered(ctx context.Context, name string, attempt func(t *table) (ok bool, err error)) (ok bool, err error) {
	for {
		t, err := d.use(name) // waits for the change
		if err != nil {
			return false, nil // the table was deleted
		}
		if ok, err := attempt(t); !errors.Is(err, errAltered) || ctx.Err() != nil {
			return ok, err
		}
		lead.Wait(ctx, alteredPause)
	}
}

func currentItem(tx store.Tx, key []byte) (item.Item, error) {
	stored, _ := tx.Get(key)
	return codec.DecodeItem(stored)
}
