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
	Stamp uint64 // of two changes of one item, the later has the larger
	N     int    // tells changes of one update apart
	change.Record
}

// ChangeRange says which changes to read: those of one slot with stamps from
// From up to, and without, To.
type ChangeRange struct {
	Table    uint32 // the table's id: it may be gone by now
	Slot     int
	From, To uint64
	FromN    int // of those with the stamp From, the first to read
	Reverse  bool
	Limit    int // how many to read; 0 is no limit
	MaxBytes int // ends reading once so many bytes are read; 0 is no limit
}

// Changes reads changes in the order of their stamps. What it returns will
// never have another change between: it stops where a write may still be under
// way.
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
			return nil, fmt.Errorf("a change of table %d: %w: %w", r.Table, err, store.ErrCorrupt)
		}
		_, stamp, n := keyspace.ChangeOf(pair.Key)
		found = append(found, Change{stamp, n, record})
		if size += len(pair.Value); len(found) == r.Limit || r.MaxBytes > 0 && size >= r.MaxBytes {
			break
		}
	}
	return found, nil
}

// Horizon is a stamp such that no change with a smaller one can still come.
func (d *DB) Horizon(ctx context.Context) (uint64, error) {
	h, err := d.engine.Horizon(ctx)
	return uint64(h), err
}

// StampAt is the smallest stamp that a change at a time can have.
func StampAt(t time.Time) uint64 { return uint64(store.StampAt(t)) }

// StampTime is about when a change was made.
func StampTime(stamp uint64) time.Time { return store.Stamp(stamp).Time() }
