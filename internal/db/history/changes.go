package history

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// cut returns the stamp that separates a table's changes before a time from
// those at it or later: the smallest stamp of a change at that time or later, in
// the run of the clock that the time belongs to, or else the end of that run.
//
// A change with a larger stamp counts as later whatever its time says, because
// the change that it builds on, or another of its transaction, is later. It was
// in flight at that time: a change that had been acknowledged has a smaller
// stamp.
func (v *View) cut(ctx context.Context, table uint32, at time.Time) (uint64, error) {
	runs, err := v.Runs(ctx)
	if err != nil {
		return 0, err
	}
	first, cut := runs.stamps(runs.at(at))
	// Stamps are never behind the clock, but may be ahead of it.
	first = max(first, uint64(store.StampAt(at)))
	for slot := range keyspace.Slots { // all of them: a transaction may be in several
		for r, err := range v.changes(ctx, table, slot, first) {
			if err != nil {
				return 0, err
			}
			if r.stamp >= cut {
				break
			}
			if !r.At.Before(at) {
				cut = r.stamp
				break
			}
		}
	}
	return cut, nil
}

// logged is a change record and its position in the change log of its slot.
type logged struct {
	logPosition
	change.Record
}

// logPosition identifies a change record within a slot.
type logPosition struct {
	stamp uint64
	n     int // of the change among those of its update
}

// changes returns the changes of a slot from a stamp on, oldest first. A record
// is valid until the next.
func (v *View) changes(ctx context.Context, table uint32, slot int, from uint64) iter.Seq2[logged, error] {
	start, end := keyspace.ChangeSpan(table, slot, from, math.MaxUint64)
	return func(yield func(logged, error) bool) {
		for pair, err := range v.snap.Scan(ctx, store.Range{Start: start, End: end}) {
			if err != nil {
				yield(logged{}, err)
				return
			}
			_, stamp, n := keyspace.ChangeOf(pair.Key)
			r, err := decodeChange(table, pair.Value)
			if !yield(logged{logPosition{stamp, n}, r}, err) || err != nil {
				return
			}
		}
	}
}

// records returns the change records at some positions of a slot.
func (v *View) records(ctx context.Context, table uint32, slot int, at ...logPosition) ([]change.Record, error) {
	keys := make([][]byte, len(at))
	for i, p := range at {
		keys[i] = keyspace.Change(table, slot, p.stamp, p.n)
	}
	values, err := v.snap.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	records := make([]change.Record, len(at))
	for i, value := range values {
		if value == nil {
			return nil, fmt.Errorf("a change record of table %d was removed: %w", table, ErrNotRestorable)
		}
		if records[i], err = decodeChange(table, value); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func decodeChange(table uint32, value []byte) (change.Record, error) {
	r, err := change.Decode(value)
	if err != nil {
		return r, fmt.Errorf("a change record of table %d: %w: %w", table, err, store.ErrCorrupt)
	}
	return r, nil
}
