package db

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Change is one recorded change of a table.
type Change struct {
	Stamp uint64 // increases with each change of an item
	N     int    // distinguishes the changes of one update
	change.Record
}

// ChangeRange selects changes of one slot of a table, with stamps in [From, To).
type ChangeRange struct {
	Table    uint32 // the table's id; it may have been dropped
	Slot     int
	From, To uint64
	FromN    int // the smallest N to read among the changes with stamp From
	Reverse  bool
	Limit    int // the most changes to read; 0 means no limit
	MaxBytes int // reading ends with the change that reaches this size; 0 means no limit
}

// Changes reads changes in the order of their stamps, up to the horizon. So no
// change can appear later between those that it returns.
func (d *DB) Changes(ctx context.Context, r ChangeRange) ([]Change, error) {
	horizon, err := d.Horizon(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	_, end := keyspace.ChangeSpan(r.Table, r.Slot, 0, min(r.To, horizon))
	span := store.Range{Start: keyspace.Change(r.Table, r.Slot, r.From, r.FromN), End: end, Reverse: r.Reverse}
	if bytes.Compare(span.Start, span.End) >= 0 {
		return nil, nil
	}
	var found []Change
	size := 0
	for pair, err := range snap.Scan(ctx, span) {
		if err != nil {
			return nil, err
		}
		record, err := change.Decode(bytes.Clone(pair.Value))
		if err != nil {
			return nil, fmt.Errorf("change record of table %d: %w: %w", r.Table, err, store.ErrCorrupt)
		}
		_, stamp, n := keyspace.ChangeOf(pair.Key)
		found = append(found, Change{stamp, n, record})
		if size += len(pair.Value); len(found) == r.Limit || r.MaxBytes > 0 && size >= r.MaxBytes {
			break
		}
	}
	return found, nil
}

// Horizon returns a stamp such that no change with a smaller one can still
// commit.
func (d *DB) Horizon(ctx context.Context) (uint64, error) {
	h, err := d.engine.Horizon(ctx)
	return uint64(h), err
}

// StampAt returns the smallest stamp that a change at a time can have.
func StampAt(t time.Time) uint64 { return uint64(store.StampAt(t)) }

// StampTime returns the time of a stamp, which is about when the change was made.
func StampTime(stamp uint64) time.Time { return store.Stamp(stamp).Time() }
