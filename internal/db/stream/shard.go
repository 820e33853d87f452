package stream

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
)

// ShardKey identifies a shard within its stream.
type ShardKey struct {
	Span  int    // which of the stream's spans
	Epoch uint32 // number of rolls before it
}

// Shard is the changes of one span with stamps from From, inclusive, to To, exclusive.
type Shard struct {
	ShardKey
	From, To uint64
	Closed   bool // no more changes can be added
	ID       string
	Parent   string // empty if there is none, or if it was trimmed

	first, last uint64 // hashes of partition keys
	horizon     uint64 // as of which it was computed
}

// First returns the lower bound of the positions of the changes in a shard.
func (s *Shard) First() Position { return Position{Stamp: s.From} }

// Last returns the upper bound of the positions. It is final once the shard is
// closed.
func (s *Shard) Last() Position { return Position{s.To - 1, maxN} }

// shardList computes the shards of a stream as of a horizon.
type shardList struct {
	db.Stream
	spans   []schema.ShardSpan
	horizon uint64
}

func newShardList(v *db.StreamView) *shardList {
	return &shardList{v.Stream, v.Spans, v.Horizon}
}

// Shards iterates over the shards of a stream that can still be read and whose ids are after
// one, in the order of their ids: each one after its parent. The id may be empty, or that of a
// shard that does not exist.
func (r *Reader) Shards(ctx context.Context, s db.Stream, after string) (iter.Seq[Shard], error) {
	l, err := r.list(ctx, s)
	if err != nil {
		return nil, err
	}
	trimmed := r.DB.TrimHorizon()
	return func(yield func(Shard) bool) {
		for epoch := max(epochOf(s, trimmed), epochAfter(s, after)); epoch <= epochOf(s, l.horizon); epoch++ {
			var shards []Shard
			for span := range l.spans {
				// The halves of a shard appear when it is closed.
				shard, ok := l.find(ShardKey{span, epoch})
				if ok && shard.To > trimmed && (l.spans[span].Parent < 0 || shard.From <= l.horizon) {
					shards = append(shards, shard)
				}
			}
			slices.SortFunc(shards, func(a, b Shard) int { return cmp.Compare(a.ID, b.ID) })
			for _, shard := range shards {
				if shard.ID <= after {
					continue
				}
				if shard.From <= trimmed { // so its parent ends before that
					shard.Parent = ""
				}
				if !yield(shard) {
					return
				}
			}
		}
	}, nil
}

// epochAfter returns the first epoch that can have shards after an id, by the time in the id: those
// of earlier epochs need not be computed.
func epochAfter(s db.Stream, id string) uint32 {
	text, found := strings.CutPrefix(id, "shardId-")
	text, _, _ = strings.Cut(text, "-")
	milliseconds, err := strconv.ParseInt(text, 10, 64)
	if !found || len(text) != 20 || err != nil || milliseconds < 0 || milliseconds > maxMilliseconds {
		return 0
	}
	return epochOf(s, db.StampAt(time.UnixMilli(milliseconds)))
}

// maxMilliseconds is a time after that of any shard.
const maxMilliseconds = 1 << 42

// Shard returns the shard with an id.
func (r *Reader) Shard(ctx context.Context, s db.Stream, id string) (Shard, error) {
	l, err := r.list(ctx, s)
	if err != nil {
		return Shard{}, err
	}
	if key, ok := parseID(id); ok {
		if shard, ok := l.find(key); ok && shard.ID == id && shard.To > r.DB.TrimHorizon() {
			return shard, nil
		}
	}
	return Shard{}, apierror.NotFound("Requested resource not found: Shard does not exist")
}

func (r *Reader) list(ctx context.Context, s db.Stream) (*shardList, error) {
	v, err := r.view(ctx, s)
	if err != nil {
		return nil, err
	}
	return newShardList(v), v.Close()
}

// view returns a view of a stream. Its horizon is not before the latest roll that is
// due, so that shards are closed and opened in time even without writes.
func (r *Reader) view(ctx context.Context, s db.Stream) (*db.StreamView, error) {
	return r.DB.ViewStream(ctx, s, startStamp(s, epochOf(s, db.StampAt(r.DB.Now()))))
}

// find computes a shard. ok is false if it does not exist.
func (l *shardList) find(key ShardKey) (shard Shard, ok bool) {
	// A shard exists as soon as its parent is closed.
	if key.Span >= len(l.spans) || key.Epoch > epochOf(l.Stream, l.horizon) {
		return Shard{}, false
	}
	span := &l.spans[key.Span]
	rolled := startStamp(l.Stream, key.Epoch)
	shard = Shard{ShardKey: key, From: max(rolled, span.Start), To: startStamp(l.Stream, key.Epoch+1), first: span.First, last: span.Last, horizon: l.horizon}
	for _, end := range [2]uint64{l.End, span.End} {
		if end != 0 {
			shard.To = min(shard.To, end)
		}
	}
	if shard.From >= shard.To {
		return Shard{}, false
	}
	shard.Closed = l.horizon >= shard.To
	shard.ID = l.id(key)
	switch parent, ok := l.parent(key.Span); {
	case ok && span.Start >= rolled:
		shard.Parent = l.id(ShardKey{parent, epochOf(l.Stream, span.Start-1)})
	case key.Epoch > 0:
		shard.Parent = l.id(ShardKey{key.Span, key.Epoch - 1})
	}
	return shard, true
}

// parent returns the span that a span is a part of. Spans that were split at once, and so
// have no shards, are passed over.
func (l *shardList) parent(span int) (parent int, ok bool) {
	start := l.spans[span].Start
	for parent = span; parent >= 0 && l.spans[parent].Start == start; {
		parent = l.spans[parent].Parent
	}
	return parent, parent >= 0
}

// id returns the id of a shard: its start in milliseconds, and its key. Ids sort by time, and
// that of a half after that of the shard that was split.
func (l *shardList) id(key ShardKey) string {
	start := startTime(l.Stream, key.Epoch)
	if span := &l.spans[key.Span]; span.Parent >= 0 && span.Start > startStamp(l.Stream, key.Epoch) {
		start = db.StampTime(span.Start)
	}
	if key.Span < longID {
		return fmt.Sprintf("shardId-%020d-%x%07x", start.UnixMilli(), key.Span, key.Epoch)
	}
	return fmt.Sprintf("shardId-%020d-%x%03x%07x", start.UnixMilli(), longID, key.Span, key.Epoch)
}

// longID is the first span whose number does not fit into one digit of an id. That
// digit is then longID.
const longID = 0xf

// parseID returns the key in the id of a shard.
func parseID(id string) (key ShardKey, ok bool) {
	_, text, _ := strings.Cut(strings.TrimPrefix(id, "shardId-"), "-")
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 8 && len(text) != 11 {
		return ShardKey{}, false
	}
	return ShardKey{Span: int(n >> 28 & 0xfff), Epoch: uint32(n & maxEpoch)}, true
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

// maxEpoch leaves four bits for the span in a short id.
const maxEpoch = 1<<28 - 1

// changes returns the range of changes of a shard that start at a position.
func (r *Reader) changes(s Shard, t *schema.Table, from Position, limit int) db.ChangeRange {
	slot, last := keyspace.SlotOf(s.first), keyspace.SlotOf(s.last)
	c := db.ChangeRange{
		Table: t.ID, Slot: slot, Slots: last - slot + 1,
		From: from.Stamp, FromN: min(from.N, math.MaxUint16), To: s.To,
		Limit: limit, MaxBytes: pageBytes,
	}
	if s.first == keyspace.FirstOf(slot) && s.last == keyspace.FirstOf(last+1)-1 {
		return c
	}
	var key []byte
	c.Keep = func(c *change.Record) bool {
		key = keyspace.Item(key[:0], t, c.Image())
		hash := keyspace.Hash(key)
		return s.first <= hash && hash <= s.last
	}
	c.MaxSkipped = cmp.Or(r.MaxSkipped, 64<<20)
	return c
}
