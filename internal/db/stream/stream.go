// Package stream reads the changes of a table as the shards of a stream.
//
// Shards are computed, not stored. The changes of a table are stored in slots, by
// the hash of their partition, and within a slot in the order of their stamps. A
// stream has as many shards at a time as its table had partitions when it was
// enabled, each of one slot or of several. A shard is the part of its slots between
// two rolls of the stream, and the parent of the shard that follows it. So the position of a reader is a stamp and a number,
// and a server keeps no state for its readers.
package stream

import (
	"context"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
)

// Reader reads the streams of a database.
type Reader struct {
	DB *db.DB
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
func (r *Reader) Read(ctx context.Context, s db.Stream, it Iterator, limit int) (Page, error) {
	shard, horizon, err := r.check(ctx, s, it)
	if err != nil {
		return Page{}, err
	}
	from := it.At
	if it.Oldest {
		from = Position{Stamp: max(from.Stamp, r.DB.TrimHorizon())}
	}
	found, err := r.DB.Changes(ctx, shard.changes(s, from, limit))
	if err != nil {
		return Page{}, err
	}
	page := Page{Changes: found, Next: Iterator{Shard: it.Shard, Made: r.DB.Now()}}
	if n := len(found); n > 0 {
		page.Next.At = Position{found[n-1].Stamp, found[n-1].N + 1}
	} else {
		// The iterator advances with time, so that it is not overtaken by the trim
		// horizon while there are no changes.
		page.Next.At = Position{Stamp: max(from.Stamp, min(shard.To, horizon))}
		if from.Stamp == page.Next.At.Stamp {
			page.Next.At = from
		}
	}
	if horizon >= shard.To {
		left, err := r.DB.Changes(ctx, shard.changes(s, page.Next.At, 1))
		if err != nil {
			return Page{}, err
		}
		page.Ended = len(left) == 0
	}
	return page, nil
}

// check finds the shard of an iterator and validates the iterator against it. An
// iterator comes from the customer, so it may have any content.
func (r *Reader) check(ctx context.Context, s db.Stream, it Iterator) (shard Shard, horizon uint64, err error) {
	clock := r.DB.Clock()
	// Made may be later than now only if the clock has gone back since, or
	// slightly in another server.
	if clock.LastStep() == nil && it.Made.Sub(clock.Now()) > iteratorLife {
		return Shard{}, 0, errIterator
	}
	if clock.Since(it.Made) > iteratorLife {
		return Shard{}, 0, apierror.ExpiredIterator()
	}
	horizon, err = r.horizon(ctx, s)
	if err != nil {
		return Shard{}, 0, err
	}
	shard, ok := findShard(s, it.Shard, horizon)
	if !ok || it.At.before(Position{Stamp: shard.From}) || (Position{Stamp: shard.To}).before(it.At) {
		return Shard{}, 0, errIterator
	}
	if trimmed := r.DB.TrimHorizon(); shard.To <= trimmed || it.At.Stamp < trimmed && !it.Oldest {
		return Shard{}, 0, apierror.TrimmedData()
	}
	return shard, horizon, nil
}

var errIterator = apierror.Validation("Invalid ShardIterator")

// iteratorLife is how long an iterator is valid.
const iteratorLife = 15 * time.Minute
