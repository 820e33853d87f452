// Package stream reads the changes of a table as the shards of a stream.
//
// Shards are computed, not stored. A stream begins with as many spans of hashes of
// partition keys as its table has partitions, and a span is split when a partition is
// (schema.Stream.Spans). A shard is the changes of a span between two rolls of the
// stream; its parent is the shard before the roll or the split. The changes of a table
// are stored in slots, by the hash of their partition key, and within a slot in the
// order of their stamps. A shard reads the slots that its span is in, and leaves out
// the changes of other spans. So the position of a reader is a stamp and a number, and
// a server keeps no state for its readers.
package stream

import (
	"context"
	"errors"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
)

// Reader reads the streams of a database.
type Reader struct {
	DB *db.DB

	// MaxSkipped bounds the bytes of changes of other shards that are read for a page; it
	// defaults to 64 MB. A page that ends by it may be empty, which clients may take for
	// the end of what there is.
	MaxSkipped int
}

// Position is a position between the changes of a slot: immediately before the
// change with this stamp and number, whether or not there is one.
type Position struct {
	Stamp uint64
	N     int
}

func (p Position) before(q Position) bool {
	return p.Stamp < q.Stamp || p.Stamp == q.Stamp && p.N < q.N
}

// Page is a number of consecutive changes of a shard.
type Page struct {
	Changes []db.Change

	Next  Iterator // continues after them
	Ended bool     // the shard is closed and has no more changes
}

// pageBytes bounds the size of a page. The change that reaches it is the last one.
const pageBytes = 1 << 20

// Read reads up to limit changes, starting at an iterator.
func (r *Reader) Read(ctx context.Context, s db.Stream, it Iterator, limit int) (page Page, err error) {
	if err := r.checkAge(it); err != nil {
		return Page{}, err
	}
	v, err := r.view(ctx, s)
	if err != nil {
		return Page{}, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	shard, err := r.shardOf(v, it)
	if err != nil {
		return Page{}, err
	}
	from := it.At
	if end := (Position{Stamp: shard.To}); end.before(from) {
		from = end
	}
	if it.Oldest {
		from = Position{Stamp: max(from.Stamp, r.DB.TrimHorizon())}
	}
	// The iterator advances with time, so that it is not overtaken by the trim
	// horizon while there are no changes.
	found, next, err := v.Changes(ctx, r.changes(shard, v.Table, from, limit))
	if err != nil {
		return Page{}, err
	}
	page = Page{Changes: found, Next: Iterator{Shard: it.Shard, Made: r.DB.Now(), At: Position{next.From, next.FromN}}}
	if v.Horizon >= shard.To {
		left, rest, err := v.Changes(ctx, r.changes(shard, v.Table, page.Next.At, 1))
		if err != nil {
			return Page{}, err
		}
		page.Ended = len(left) == 0 && rest.From >= shard.To
	}
	return page, nil
}

// checkAge checks the age of an iterator.
func (r *Reader) checkAge(it Iterator) error {
	clock := r.DB.Clock()
	// Made may be later than now only if the clock has gone back since, or
	// slightly in another server.
	if clock.LastStep() == nil && it.Made.Sub(clock.Now()) > iteratorLife {
		return errIterator
	}
	if clock.Since(it.Made) > iteratorLife {
		return apierror.ExpiredIterator()
	}
	return nil
}

// shardOf finds the shard of an iterator and validates the iterator against it. An
// iterator comes from the customer, so it may have any content.
func (r *Reader) shardOf(v *db.StreamView, it Iterator) (Shard, error) {
	shard, ok := newShardList(v).find(it.Shard)
	// An iterator may be beyond the end of a shard that was split meanwhile.
	if !ok || it.At.before(Position{Stamp: shard.From}) || !shard.Closed && (Position{Stamp: shard.To}).before(it.At) {
		return Shard{}, errIterator
	}
	if trimmed := r.DB.TrimHorizon(); shard.To <= trimmed || it.At.Stamp < trimmed && !it.Oldest {
		return Shard{}, apierror.TrimmedData()
	}
	return shard, nil
}

var errIterator = apierror.Validation("Invalid ShardIterator")

// iteratorLife is how long an iterator is valid.
const iteratorLife = 15 * time.Minute
