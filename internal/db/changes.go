package db

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
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

// ChangeRange selects changes of one slot of a table, or of several, with stamps in
// [From, To).
type ChangeRange struct {
	Table    uint32 // the table's id; it may have been dropped
	Slot     int
	Slots    int // how many, from Slot on; 0 means 1
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
	r.To = min(r.To, horizon)
	var found []storedChange
	for slot := r.Slot; slot < r.Slot+max(1, r.Slots); slot++ {
		if found, err = r.appendSlot(ctx, snap, found, slot); err != nil {
			return nil, err
		}
	}
	if r.Slots > 1 {
		slices.SortFunc(found, r.compare)
	}
	return r.within(found), nil
}

// storedChange is a change and the size of its record.
type storedChange struct {
	Change
	size int
}

// appendSlot appends the changes of one slot, up to the limits of the range.
func (r *ChangeRange) appendSlot(ctx context.Context, snap store.Snapshot, found []storedChange, slot int) ([]storedChange, error) {
	_, end := keyspace.ChangeSpan(r.Table, slot, 0, r.To)
	span := store.Range{Start: keyspace.Change(r.Table, slot, r.From, r.FromN), End: end, Reverse: r.Reverse}
	if bytes.Compare(span.Start, span.End) >= 0 {
		return found, nil
	}
	count, size := 0, 0
	for pair, err := range snap.Scan(ctx, span) {
		if err != nil {
			return nil, err
		}
		record, err := change.Decode(bytes.Clone(pair.Value))
		if err != nil {
			return nil, fmt.Errorf("change record of table %d: %w: %w", r.Table, err, store.ErrCorrupt)
		}
		_, stamp, n := keyspace.ChangeOf(pair.Key)
		found = append(found, storedChange{Change{stamp, n, record}, len(pair.Value)})
		count, size = count+1, size+len(pair.Value)
		if r.ends(count, size) {
			break
		}
	}
	return found, nil
}

// ends reports whether a number of changes of some size reaches a limit.
func (r *ChangeRange) ends(count, size int) bool {
	return count == r.Limit || r.MaxBytes > 0 && size >= r.MaxBytes
}

// compare orders changes by their stamps, which no two updates share.
func (r *ChangeRange) compare(a, b storedChange) int {
	if r.Reverse {
		a, b = b, a
	}
	return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), cmp.Compare(a.N, b.N))
}

// within returns the changes up to the limits. The changes of several slots may be
// more.
func (r *ChangeRange) within(found []storedChange) (changes []Change) {
	size := 0
	for i := range found {
		changes = append(changes, found[i].Change)
		if size += found[i].size; r.ends(len(changes), size) {
			break
		}
	}
	return changes
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
