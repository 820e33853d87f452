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

// ShardKey identifies a shard within its stream.
type ShardKey struct {
	Slot  int    // which of the shards at a time
	Epoch uint32 // number of earlier shards with this Slot
}

// Shard is the changes of one slot, or of several, with stamps from From,
// inclusive, to To, exclusive.
type Shard struct {
	ShardKey
	From, To uint64
	Closed   bool // no more changes can be added
	ID       string
	Parent   string // empty if there is none, or if it was trimmed
}

// First returns the lower bound of the positions of the changes in a shard.
func (s *Shard) First() Position { return Position{Stamp: s.From} }

// Last returns the upper bound of the positions. It is final once the shard is
// closed.
func (s *Shard) Last() Position { return Position{s.To - 1, maxN} }

// Shards iterates over the shards of a stream that can still be read, in the order
// of their ids: each one after its parent.
func (r *Reader) Shards(ctx context.Context, s db.Stream) (iter.Seq[Shard], error) {
	horizon, err := r.horizon(ctx, s)
	if err != nil {
		return nil, err
	}
	trimmed := r.DB.TrimHorizon()
	first := epochOf(s, trimmed)
	return func(yield func(Shard) bool) {
		for epoch := first; epoch <= epochOf(s, horizon); epoch++ {
			for slot := range shardCount(s) {
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

// Shard returns the shard with an id.
func (r *Reader) Shard(ctx context.Context, s db.Stream, id string) (Shard, error) {
	horizon, err := r.horizon(ctx, s)
	if err != nil {
		return Shard{}, err
	}
	if key, ok := parseID(id); ok {
		if shard, ok := findShard(s, key, horizon); ok && shard.ID == id && shard.To > r.DB.TrimHorizon() {
			return shard, nil
		}
	}
	return Shard{}, apierror.NotFound("Requested resource not found: Shard does not exist")
}

// horizon returns a stamp below which the changes of a stream are final. It is not
// before the latest roll that is due, so that shards are closed and opened in time
// even without writes.
func (r *Reader) horizon(ctx context.Context, s db.Stream) (uint64, error) {
	if s.End != 0 {
		return r.DB.Horizon(ctx)
	}
	return r.DB.HorizonFrom(ctx, startStamp(s, epochOf(s, db.StampAt(r.DB.Now()))))
}

// findShard computes a shard. ok is false if it does not exist.
func findShard(s db.Stream, key ShardKey, horizon uint64) (shard Shard, ok bool) {
	// A shard exists as soon as its parent is closed.
	if key.Slot >= shardCount(s) || key.Epoch > epochOf(s, horizon) {
		return Shard{}, false
	}
	shard = Shard{ShardKey: key, From: startStamp(s, key.Epoch), To: startStamp(s, key.Epoch+1)}
	if s.End != 0 {
		shard.To = min(shard.To, s.End)
	}
	if shard.From >= shard.To {
		return Shard{}, false
	}
	shard.Closed = horizon >= shard.To
	shard.ID = idOf(s, key)
	if key.Epoch > 0 {
		shard.Parent = idOf(s, ShardKey{key.Slot, key.Epoch - 1})
	}
	return shard, true
}

// shardCount is how many shards of a stream take changes at a time.
func shardCount(s db.Stream) int {
	if s.Shards == 0 || keyspace.Slots%s.Shards != 0 {
		return keyspace.Slots
	}
	return s.Shards
}

// startStamp returns the first stamp of an epoch. Rolls are counted from the time of
// the stream's first stamp.
func startStamp(s db.Stream, epoch uint32) uint64 {
	if epoch == 0 {
		return s.Start
	}
	return db.StampAt(startTime(s, epoch))
}

func startTime(s db.Stream, epoch uint32) time.Time {
	return db.StampTime(s.Start).Add(time.Duration(epoch) * s.Roll)
}

// epochOf returns the epoch of a stamp.
func epochOf(s db.Stream, stamp uint64) uint32 {
	since := db.StampTime(stamp).Sub(db.StampTime(s.Start))
	return uint32(min(max(0, since/s.Roll), maxEpoch))
}

// maxEpoch leaves four bits for the slot in an id.
const maxEpoch = 1<<28 - 1

// idOf returns the id of a shard: its start in milliseconds, and its key. Ids sort
// by time.
func idOf(s db.Stream, key ShardKey) string {
	return fmt.Sprintf("shardId-%020d-%x%07x", startTime(s, key.Epoch).UnixMilli(), key.Slot, key.Epoch)
}

const idLength = len("shardId-") + 20 + len("-") + 8

// parseID returns the key in the id of a shard.
func parseID(id string) (key ShardKey, ok bool) {
	if len(id) != idLength {
		return ShardKey{}, false
	}
	n, err := strconv.ParseUint(id[idLength-8:], 16, 32)
	if err != nil {
		return ShardKey{}, false
	}
	return ShardKey{Slot: int(n >> 28), Epoch: uint32(n & maxEpoch)}, true
}

// changes returns the range of changes of a shard that start at a position.
func (s *Shard) changes(stream db.Stream, from Position, limit int) db.ChangeRange {
	slots := keyspace.Slots / shardCount(stream)
	return db.ChangeRange{
		Table: stream.Table.ID, Slot: s.Slot * slots, Slots: slots,
		From: from.Stamp, FromN: min(from.N, math.MaxUint16), To: s.To,
		Limit: limit, MaxBytes: pageBytes,
	}
}
