package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// dropStep removes deleted tables that are due from the catalog, and then the
// items of dropped tables. After a crash it continues at the next start.
func (d *DB) dropStep(ctx context.Context) (wait time.Duration, err error) {
	// A table that cannot be dropped does not keep the items of others.
	if err := errors.Join(d.dropDue(ctx), d.removeItems(ctx)); err != nil {
		return 0, err
	}
	return d.nextDrop(), nil
}

// nextDrop returns how long it takes until the next DELETING table is due.
func (d *DB) nextDrop() time.Duration {
	next := lead.Idle
	for _, t := range d.all() {
		if t.State == schema.Deleting {
			next = min(next, t.SettlesIn(d.Now(), d.delay))
		}
	}
	return next
}

// removeItems removes the data of the tables that are marked as dropped.
func (d *DB) removeItems(ctx context.Context) error {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	start, end := keyspace.DroppedSpan()
	for marker, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return err
		}
		id := keyspace.DroppedTable(marker.Key)
		spans := []func(uint32) (start, end []byte){keyspace.TableSpan, keyspace.CollectionSpan, keyspace.BuildSpan, keyspace.ExpiriesSpan}
		streams, err := snap.Get(ctx, keyspace.DroppedStreams(id))
		if err != nil {
			return err
		}
		if streams[0] == nil { // otherwise trimDropped removes its changes
			spans = append(spans, keyspace.ChangesSpan)
		}
		for _, span := range spans {
			first, last := span(id)
			if err := d.engine.DeleteRange(ctx, first, last); err != nil {
				return fmt.Errorf("remove the items of table %d: %w", id, err)
			}
		}
		key := keyspace.Dropped(id)
		if err := d.update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error {
			tx.Delete(key)
			tx.Delete(keyspace.ItemCount(id))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
