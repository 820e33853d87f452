// Package stream is the changes of a table read as shards.
//
// Shards are worked out, not stored. The changes of a table lie in slots, by
// the hash of their partition, and in each slot in the order of their stamps.
// A shard is what one slot holds from one roll of its stream to the next, and
// the parent of the shard that follows. So a customer's position is a stamp
// and a number, and a server keeps nothing of who reads what.
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

// Position is a place between the changes of a slot: before the change with
// this stamp and number, or where it would be.
type Position struct {
	Stamp uint64
	N     int
}

func (p Position) before(q Position) bool {
	return p.Stamp < q.Stamp || p.Stamp == q.Stamp && p.N < q.N
}

// trimHorizon is the first stamp of the changes that can still be read.
func (r *Reader) trimHorizon() uint64 { return db.StampAt(r.DB.Now().Add(-db.StreamLife)) }

// Page is some changes of a shard.
type Page struct {
	Changes []db.Change

	// Next reads on behind them. Nothing comes behind the end of a shard that
	// is closed.
	Next  Iterator
	Ended bool
}

// pageBytes is how much a page holds; the change that reaches it is the last.
const pageBytes = 1 << 20

// Read reads up to limit changes at an iterator.
func (r *Reader) Read(ctx context.Context, s db.Stream, it Iterator, limit int) (Page, error) {
	shard, horizon, err := r.check(ctx, s, it)
	if err != nil {
		return Page{}, err
	}
	from := it.At
	if it.Oldest {
		from = Position{Stamp: max(from.Stamp, r.trimHorizon())}
	}
	found, err := r.DB.Changes(ctx, shard.changes(s, from, limit))
	if err != nil {
		return Page{}, err
	}
	page := Page{Changes: found, Next: Iterator{Shard: it.Shard, Made: r.DB.Now()}}
	if n := len(found); n > 0 {
		page.Next.At = Position{found[n-1].Stamp, found[n-1].N + 1}
	} else {
		// It moves on with time, so that it does not fall behind what is kept
		// while there is nothing to read.
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

// check finds the shard of an iterator and holds the iterator to it: a
// customer may send anything.
func (r *Reader) check(ctx context.Context, s db.Stream, it Iterator) (shard Shard, horizon uint64, err error) {
	age := r.DB.Now().Sub(it.Made)
	if age < -iteratorLife { // made in a future that no step of the clock explains
		return Shard{}, 0, errIterator
	}
	if age > iteratorLife {
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
	if shard.To <= r.trimHorizon() || it.At.Stamp < r.trimHorizon() && !it.Oldest {
		return Shard{}, 0, apierror.TrimmedData()
	}
	return shard, horizon, nil
}

var errIterator = apierror.Validation("Invalid ShardIterator")

// iteratorLife is how long an iterator can be used.
const iteratorLife = 15 * time.Minute
