package stream

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
)

// ShardKey tells the shards of one stream apart.
type ShardKey struct {
	Slot  int
	Epoch uint32 // how many shards the slot had before
}

// Shard is the changes of one slot with stamps from From up to, and without,
// To.
type Shard struct {
	ShardKey
	From, To uint64
	Closed   bool // no change can come any more
	ID       string
	Parent   string // none when it is gone, or never was
}

// First and Last bound the sequence numbers of the changes that a shard can
// have.
func (s *Shard) First() Position { return Position{Stamp: s.From} }

// Last is the other bound. It means something once the shard is closed.
func (s *Shard) Last() Position { return Position{s.To - 1, maxN} }

// Shards are the shards of a stream that can be read, in order of their ids:
// each behind its parent.
func (r *Reader) Shards(ctx context.Context, s db.Stream) (iter.Seq[Shard], error) {
	horizon, err := r.horizon(ctx, s)
	if err != nil {
		return nil, err
	}
	trimmed := r.trimHorizon()
	first := epochOf(s, trimmed)
	return func(yield func(Shard) bool) {
		for epoch := first; epoch <= epochOf(s, horizon); epoch++ {
			for slot := range keyspace.Slots {
				shard, ok := findShard(s, ShardKey{slot, epoch}, horizon)
				if !ok || shard.To <= trimmed {
					continue
				}
				if epoch == first {
					shard.Parent = ""
				}
				if !yield(shard) {
					return
				}
			}
		}
	}, nil
}

// Shard is the shard with an id.
func (r *Reader) Shard(ctx context.Context, s db.Stream, id string) (Shard, error) {
	horizon, err := r.horizon(ctx, s)
	if err != nil {
		return Shard{}, err
	}
	place, ok := parseID(id)
	if ok {
		if shard, ok := findShard(s, place, horizon); ok && shard.ID == id && shard.To > r.trimHorizon() {
			return shard, nil
		}
	}
	return Shard{}, apierror.NotFound("Requested resource not found: Shard does not exist")
}

// horizon is a stamp up to which nothing can change in a stream. It is behind
// the last roll whose time has come, so that shards close and others open
// although nobody writes.
func (r *Reader) horizon(ctx context.Context, s db.Stream) (uint64, error) {
	if s.End != 0 {
		return r.DB.Horizon(ctx)
	}
	return r.DB.HorizonFrom(ctx, startStamp(s, epochOf(s, db.StampAt(r.DB.Now()))))
}

// findShard works out a shard; not ok if there is none.
func findShard(s db.Stream, p ShardKey, horizon uint64) (Shard, bool) {
	// A shard is there as soon as the one before it is closed.
	if p.Slot >= keyspace.Slots || p.Epoch > epochOf(s, horizon) {
		return Shard{}, false
	}
	shard := Shard{ShardKey: p, From: startStamp(s, p.Epoch), To: startStamp(s, p.Epoch+1)}
	if s.End != 0 {
		shard.To = min(shard.To, s.End)
	}
	if shard.From >= shard.To {
		return Shard{}, false
	}
	shard.Closed = horizon >= shard.To
	shard.ID = idOf(s, p)
	if p.Epoch > 0 {
		shard.Parent = idOf(s, ShardKey{p.Slot, p.Epoch - 1})
	}
	return shard, true
}

// startStamp is the first stamp of an epoch. Rolls are counted from the time of the
// stream's own first stamp.
func startStamp(s db.Stream, epoch uint32) uint64 {
	if epoch == 0 {
		return s.Start
	}
	return db.StampAt(startTime(s, epoch))
}

func startTime(s db.Stream, epoch uint32) time.Time {
	return db.StampTime(s.Start).Add(time.Duration(epoch) * s.Roll)
}

// epochOf is the epoch that a stamp lies in.
func epochOf(s db.Stream, stamp uint64) uint32 {
	since := db.StampTime(stamp).Sub(db.StampTime(s.Start))
	return uint32(min(max(0, since/s.Roll), maxEpoch))
}

// maxEpoch leaves room for the slot in an id.
const maxEpoch = 1<<28 - 1

// idOf is the id of a shard: when it starts, in milliseconds, and its place.
// Ids sort by time.
func idOf(s db.Stream, p ShardKey) string {
	return fmt.Sprintf("shardId-%020d-%x%07x", startTime(s, p.Epoch).UnixMilli(), p.Slot, p.Epoch)
}

const idLength = len("shardId-") + 20 + len("-") + 8

func parseID(id string) (ShardKey, bool) {
	if len(id) != idLength {
		return ShardKey{}, false
	}
	n, err := strconv.ParseUint(id[idLength-8:], 16, 32)
	if err != nil {
		return ShardKey{}, false
	}
	return ShardKey{Slot: int(n >> 28), Epoch: uint32(n & maxEpoch)}, true
}

// changes is which changes of a shard to read.
func (s *Shard) changes(of db.Stream, from Position, limit int) db.ChangeRange {
	return db.ChangeRange{
		Table: of.Table.ID, Slot: s.Slot,
		From: from.Stamp, FromN: min(from.N, math.MaxUint16), To: s.To,
		Limit: limit, MaxBytes: pageBytes,
	}
}
