package db

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
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

	// Keep selects changes; nil means all. Reading ends too with the change that
	// takes the size of the others to MaxSkipped.
	Keep       func(*change.Record) bool
	MaxSkipped int
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
	changes, _, err := r.read(ctx, snap)
	return changes, err
}

// read returns the changes of the slots, merged, up to the limits, and the last change
// that was read, which may be none of them. It is nil if all were read.
func (r *ChangeRange) read(ctx context.Context, snap store.Snapshot) (changes []Change, last *Change, err error) {
	var slots []*slotReader
	defer func() {
		for _, s := range slots {
			s.stop()
		}
	}()
	for slot := r.Slot; slot < r.Slot+max(1, r.Slots); slot++ {
		s := r.openSlot(ctx, snap, slot)
		slots = append(slots, s)
		if err := s.advance(); err != nil {
			return nil, nil, err
		}
	}
	size, skipped := 0, 0
	for {
		first := slices.MinFunc(slots, r.compare)
		if first.ended {
			return changes, nil, nil
		}
		record, err := change.Decode(bytes.Clone(first.value))
		if err != nil {
			return nil, nil, fmt.Errorf("change record of table %d: %w: %w", r.Table, err, store.ErrCorrupt)
		}
		if r.Keep == nil || r.Keep(&record) {
			changes = append(changes, Change{first.stamp, first.n, record})
			size += len(first.value)
		} else {
			skipped += len(first.value)
		}
		if r.ends(len(changes), size) || skipped > 0 && skipped >= r.MaxSkipped {
			return changes, &Change{Stamp: first.stamp, N: first.n}, nil
		}
		if err := first.advance(); err != nil {
			return nil, nil, err
		}
	}
}

// slotReader is at one change of a slot, or at its end.
type slotReader struct {
	next  func() (store.Pair, error, bool)
	stop  func()
	stamp uint64
	n     int
	value []byte // of the record
	ended bool
}

func (r *ChangeRange) openSlot(ctx context.Context, snap store.Snapshot, slot int) *slotReader {
	_, end := keyspace.ChangeSpan(r.Table, slot, 0, r.To)
	span := store.Range{Start: keyspace.Change(r.Table, slot, r.From, r.FromN), End: end, Reverse: r.Reverse}
	pairs := snap.Scan(ctx, span)
	if bytes.Compare(span.Start, span.End) >= 0 {
		pairs = func(func(store.Pair, error) bool) {}
	}
	next, stop := iter.Pull2(pairs)
	return &slotReader{next: next, stop: stop}
}

// advance moves to the next change, or to the end.
func (s *slotReader) advance() error {
	pair, err, ok := s.next()
	if !ok {
		s.ended = true
		return nil
	}
	s.value = pair.Value
	if err == nil {
		_, s.stamp, s.n = keyspace.ChangeOf(pair.Key)
	}
	return err
}

// compare orders slots by their changes' stamps, which no two updates share, and
// those at their end last.
func (r *ChangeRange) compare(a, b *slotReader) int {
	switch {
	case a.ended != b.ended && a.ended:
		return 1
	case a.ended != b.ended:
		return -1
	case r.Reverse:
		a, b = b, a
	}
	return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.n, b.n))
}

// ends reports whether a number of changes of some size reaches a limit.
func (r *ChangeRange) ends(count, size int) bool {
	return count > 0 && count == r.Limit || r.MaxBytes > 0 && size >= r.MaxBytes
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
