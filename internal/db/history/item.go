package history

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Kept returns since when all changes of a table are recorded: as long as its recovery
// or its stream needs them, whichever is longer. It is not enabled if it has neither.
func (r Runs) Kept(t *schema.Table, now time.Time) schema.Recovery {
	kept := t.Recovery
	if s, ok := t.Stream(); ok {
		streamed := schema.Recovery{Enabled: true, Since: s.Created, Start: s.Start, Days: 1}
		if !kept.Enabled || r.KeptFrom(streamed, now).Before(r.KeptFrom(kept, now)) {
			kept = streamed
		}
	}
	return kept
}

// Readable returns nil if the past of a table can be read as it was at the end of a
// second, and ErrNoRecovery or ErrNotRestorable if not. It also returns the first and the
// last second that can be read.
func (v *View) Readable(ctx context.Context, t *schema.Table, second, now time.Time) (earliest, latest time.Time, err error) {
	runs, err := v.Runs(ctx)
	if err != nil {
		return earliest, latest, err
	}
	kept := runs.Kept(t, now)
	if !kept.Enabled {
		return earliest, latest, ErrNoRecovery
	}
	earliest, latest = runs.Window(kept, now)
	if second.Before(earliest) || second.After(latest) || second.Add(time.Second).After(now) {
		err = ErrNotRestorable
	}
	return earliest, latest, err
}

// KeptSince returns the stamp and the time from which on all changes of a table are
// recorded; ErrNoRecovery if they are not.
func (v *View) KeptSince(ctx context.Context, t *schema.Table, now time.Time) (uint64, time.Time, error) {
	runs, err := v.Runs(ctx)
	if err != nil {
		return 0, time.Time{}, err
	}
	kept := runs.Kept(t, now)
	if !kept.Enabled {
		return 0, time.Time{}, ErrNoRecovery
	}
	from := runs.KeptFrom(kept, now)
	start := kept.Start
	if start == 0 {
		start = uint64(store.StampAt(kept.Since))
	}
	return max(start, uint64(store.StampAt(now.AddDate(0, 0, -kept.Days)))), from.UTC(), nil
}

// Revision is a change of an item, with its place in the change log.
type Revision struct {
	Stamp uint64
	N     int // of the change among those of its update
	change.Record
}

// Revisions are changes of one item, the newest first.
type Revisions struct {
	Found []Revision
	// Next is where to continue; nil at the end.
	Next *Revision
	// Looked is how many records were read, of all items.
	Looked int
}

// ItemChanges returns the changes of an item before one of them, or with nil the newest,
// with stamps that are not smaller than from: up to limit of them, and no more than
// maxBytes with their images, but for the last. It reads as much of the change log as a
// request may; the result may be empty and have a Next.
func (r *Reader) ItemChanges(ctx context.Context, t *schema.Table, key item.Item, from uint64, before *Revision, limit, maxBytes int) (Revisions, error) {
	stored := keyspace.Item(nil, t, key)
	slot := keyspace.Slot(stored)
	start, end := keyspace.ChangeSpan(t.ID, slot, from, math.MaxUint64)
	if before != nil {
		if end = keyspace.Change(t.ID, slot, before.Stamp, before.N); bytes.Compare(start, end) >= 0 {
			return Revisions{}, nil
		}
	}
	var found Revisions
	var buf []byte
	left, size := r.recent.LogBytes, 0
	for pair, err := range r.view.snap.Scan(ctx, store.Range{Start: start, End: end, Reverse: true}) {
		if err != nil {
			return Revisions{}, err
		}
		c, err := decodeChange(t.ID, pair.Value)
		if err != nil {
			return Revisions{}, err
		}
		found.Looked++
		left -= recordBytes + len(c.Before) + len(c.After)
		at := Revision{}
		_, at.Stamp, at.N = keyspace.ChangeOf(pair.Key)
		if buf = keyspace.Item(buf[:0], t, c.Image()); bytes.Equal(buf, stored) {
			at.Record = c
			at.Before, at.After = bytes.Clone(c.Before), bytes.Clone(c.After)
			found.Found = append(found.Found, at)
			size += len(c.Before) + len(c.After)
		}
		if len(found.Found) >= limit || size >= maxBytes || left <= 0 {
			found.Next = &Revision{Stamp: at.Stamp, N: at.N, Record: change.Record{At: c.At}}
			break
		}
	}
	return found, nil
}

// Revision returns a change of an item; not ok if the log does not have it.
func (r *Reader) Revision(ctx context.Context, t *schema.Table, key item.Item, stamp uint64, n int) (found Revision, ok bool, err error) {
	stored := keyspace.Item(nil, t, key)
	values, err := r.view.snap.Get(ctx, keyspace.Change(t.ID, keyspace.Slot(stored), stamp, n))
	if err != nil || values[0] == nil {
		return found, false, err
	}
	c, err := decodeChange(t.ID, values[0])
	if err != nil || !bytes.Equal(keyspace.Item(nil, t, c.Image()), stored) {
		return found, false, err
	}
	return Revision{Stamp: stamp, N: n, Record: c}, true, nil
}

// Item returns an item as it is in the view.
func (r *Reader) Item(ctx context.Context, t *schema.Table, key item.Item) (item.Item, error) {
	return (&Past{view: r.view, table: t}).present(ctx, keyspace.Item(nil, t, key))
}
