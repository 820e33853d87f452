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
// those at it or later: the smallest stamp of a change at that time or later.
//
// A change with a larger stamp counts as later whatever its time says, because
// the change that it builds on, or another of its transaction, is later. It was
// in flight at that time: a change that had been acknowledged has a smaller
// stamp.
func (v *View) cut(ctx context.Context, table uint32, at time.Time) (uint64, error) {
	cut := uint64(math.MaxUint64)
	for slot := range keyspace.Slots { // all of them: a transaction may be in several
		// Stamps are never behind the clock, but may be ahead of it.
		for stamp, r := range v.changes(ctx, table, slot, uint64(store.StampAt(at))) {
			if r.err != nil {
				return 0, r.err
			}
			if !r.At.Before(at) {
				cut = min(cut, stamp)
				break
			}
		}
	}
	return cut, nil
}

// logged is a change record, or the error of reading it.
type logged struct {
	change.Record
	err error
}

// changes returns the changes of a slot from a stamp on, oldest first. A record
// is valid until the next.
func (v *View) changes(ctx context.Context, table uint32, slot int, from uint64) iter.Seq2[uint64, logged] {
	start, end := keyspace.ChangeSpan(table, slot, from, math.MaxUint64)
	return func(yield func(uint64, logged) bool) {
		for pair, err := range v.snap.Scan(ctx, store.Range{Start: start, End: end}) {
			if err != nil {
				yield(0, logged{err: err})
				return
			}
			_, stamp, _ := keyspace.ChangeOf(pair.Key)
			r, err := change.Decode(pair.Value)
			if err != nil {
				err = fmt.Errorf("a change record of table %d: %w: %w", table, err, store.ErrCorrupt)
			}
			if !yield(stamp, logged{r, err}) || err != nil {
				return
			}
		}
	}
}
