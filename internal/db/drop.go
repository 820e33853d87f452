package db

import (
	"context"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// removeDropped takes tables out when their time has come and removes the
// items of those that are gone. What a crash leaves undone is done after the
// next start.
func (d *DB) removeDropped(ctx context.Context) {
	for {
		if !d.led(ctx, d.drop) {
			return
		}
		if err := d.removeItems(ctx); err != nil && ctx.Err() == nil {
			d.log.Error("items of a deleted table could not be removed; trying again after the next deletion", "error", err)
		}
		var due <-chan time.Time
		if wait := d.nextDrop(); wait >= 0 {
			due = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.drop:
		case <-due:
			if err := d.dropDue(ctx, d.now()); err != nil && ctx.Err() == nil {
				d.log.Error("a deleted table could not be taken out of the catalog; trying again", "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	}
}

// wakeDropper tells the goroutine above that there is something to do.
func (d *DB) wakeDropper() {
	select {
	case d.drop <- struct{}{}:
	default:
	}
}

// nextDrop is how long it takes until a table that is DELETING is due;
// negative when there is none.
func (d *DB) nextDrop() time.Duration {
	next := time.Duration(-1)
	for _, t := range d.all() {
		if t.State == schema.Deleting {
			if wait := max(0, t.SettledAt.Sub(d.now())); next < 0 || wait < next {
				next = wait
			}
		}
	}
	return next
}

// removeItems removes what the notes say.
func (d *DB) removeItems(ctx context.Context) error {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	start, end := keyspace.DroppedSpan()
	for note, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return err
		}
		id := keyspace.DroppedTable(note.Key)
		spans := []func(uint32) (start, end []byte){keyspace.TableSpan, keyspace.CollectionSpan, keyspace.BuildSpan, keyspace.ExpiriesSpan}
		ghost, err := snap.Get(ctx, keyspace.Ghost(id))
		if err != nil {
			return err
		}
		if ghost[0] == nil { // else its changes go when nobody can read them any more
			spans = append(spans, keyspace.ChangesSpan)
		}
		for _, span := range spans {
			first, last := span(id)
			if err := d.engine.DeleteRange(ctx, first, last); err != nil {
				return fmt.Errorf("remove the items of table %d: %w", id, err)
			}
		}
		key := keyspace.Dropped(id)
		if err := d.engine.Update(ctx, [][]byte{key}, func(tx store.Tx) error {
			tx.Delete(key)
			tx.Delete(keyspace.Tally(id))
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
