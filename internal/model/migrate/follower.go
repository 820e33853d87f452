package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/apply"
)

// changeRecord is a record of a stream.
type changeRecord struct {
	keys, old item.Item // old is nil for a new item, or if the stream has no old images
	new       item.Item // nil for a removed item, or if the stream has no new images
	inserted  bool
	expired   bool // the server removed the item after its time to live
}

// written returns the records of writes. An item that expires is no write of the
// application, and expires on the other side too.
func written(records []changeRecord) []changeRecord {
	return slices.DeleteFunc(slices.Clone(records), func(r changeRecord) bool { return r.expired })
}

// streamFollower reads the stream of one table, shard by shard. The order of shards
// does not matter, since the handler reads the current items.
type streamFollower struct {
	c      *endpointClient
	store  *stateStore
	table  string
	arn    string
	poll   time.Duration
	counts *copyCounts
	handle func(ctx context.Context, records []changeRecord) error

	now      func() time.Time
	followed time.Time // all changes before this time are handled

	starts     map[string]string // iterators of shards that have no position
	shards     map[string]*followedShard
	incomplete bool // the last list of shards lacked some
	mutex      sync.Mutex
	progress   followProgress
}

// followProgress is how far a follower has come.
type followProgress struct {
	rounds int64     // how often the stream was read to its end
	began  time.Time // when the last of these rounds began
	wall   time.Time // the same by the clock that is stored
	record time.Time // when the last record of a write was read

	lengths [3]time.Duration // of the last complete rounds
}

// longRound is the length of a round above which a follower may be too slow.
const longRound = time.Minute

// isBehind reports whether each of the last rounds took longer than the one
// before. A round reads what was written before it, so more is written than read.
func (p followProgress) isBehind() bool {
	longer := func(a, b time.Duration) bool { return a > b+b/20 }
	return p.lengths[0] > longRound && longer(p.lengths[1], p.lengths[0]) && longer(p.lengths[2], p.lengths[1])
}

// at returns how far the follower has come.
func (f *streamFollower) at() followProgress {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.progress
}

// finish records the end of a round, and when it began by both clocks.
func (f *streamFollower) finish(began, wall time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.progress.rounds++
	f.progress.began, f.progress.wall = began, wall
	f.progress.lengths = [...]time.Duration{f.progress.lengths[1], f.progress.lengths[2], time.Since(began)}
}

// readRecord records that the stream had the record of a write just now.
func (f *streamFollower) readRecord() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.progress.record = time.Now()
}

// run follows the stream until the context ends.
func (f *streamFollower) run(ctx context.Context) error {
	if err := f.load(ctx); err != nil {
		return err
	}
	for {
		began, wall := time.Now(), f.now()
		if !f.isRecent() {
			return fmt.Errorf("follow the stream of table %s: it was last read at %s: %w", f.table, f.followed.Format(time.DateTime), errTrimmed)
		}
		if err := f.round(ctx); err != nil {
			return fmt.Errorf("follow the stream of table %s: %w", f.table, err)
		}
		if !f.incomplete {
			f.finish(began, wall)
			f.followed = wall
		}
		if err := apply.Sleep(ctx, f.poll); err != nil {
			return err
		}
	}
}

func (f *streamFollower) part(shard string) string { return shardKind + f.table + "#" + shard }

// load reads the stored positions.
func (f *streamFollower) load(ctx context.Context) error {
	f.shards = make(map[string]*followedShard)
	all, err := f.store.positions(ctx, shardKind+f.table+"#")
	for id, iterator := range f.starts {
		f.shards[id] = &followedShard{id: id, iterator: iterator, current: true}
	}
	for id, at := range all {
		f.shards[id] = &followedShard{id: id, after: at, ended: at == endedAt}
	}
	return err
}

// maxShards is how many shards of a stream are read at the same time. A page has
// up to a megabyte, and streams of large tables have thousands of shards.
const maxShards = 64

// round reads all shards to their present ends.
func (f *streamFollower) round(ctx context.Context) error {
	if err := f.list(ctx); err != nil {
		return err
	}
	var open []*followedShard
	for _, s := range f.shards {
		if !s.ended {
			open = append(open, s)
		}
	}
	return parallel(ctx, maxShards, len(open), func(ctx context.Context, i int) error {
		return f.readShard(ctx, open[i])
	})
}

// list adds the shards that the stream has now.
func (f *streamFollower) list(ctx context.Context) error {
	for _, s := range f.shards {
		s.inStream, s.isParent = false, false
	}
	var parents []string
	body := map[string]any{"StreamArn": f.arn}
	for {
		var reply struct {
			StreamDescription struct {
				StreamStatus string
				Shards       []struct {
					ShardId             string
					ParentShardId       string
					SequenceNumberRange struct{ EndingSequenceNumber string }
				}
				LastEvaluatedShardId string
			}
		}
		if err := f.c.askStreams(ctx, "DescribeStream", body, &reply); err != nil {
			return err
		}
		// A disabled stream can be read for a day, but has no records of new changes.
		if status := reply.StreamDescription.StreamStatus; status != "ENABLED" && status != "ENABLING" {
			return streamLost(f.table)
		}
		for _, s := range reply.StreamDescription.Shards {
			if f.shards[s.ShardId] == nil {
				f.shards[s.ShardId] = &followedShard{id: s.ShardId}
			}
			f.shards[s.ShardId].inStream = true
			f.shards[s.ShardId].closed = s.SequenceNumberRange.EndingSequenceNumber != ""
			parents = append(parents, s.ParentShardId)
		}
		if reply.StreamDescription.LastEvaluatedShardId == "" {
			break
		}
		body["ExclusiveStartShardId"] = reply.StreamDescription.LastEvaluatedShardId
	}
	for _, id := range parents {
		if s := f.shards[id]; s != nil {
			s.isParent = true
		}
	}
	f.incomplete = false
	for id, s := range f.shards {
		f.incomplete = f.incomplete || s.lacksChildren()
		if s.ended || s.inStream {
			continue
		}
		if !f.isRecent() {
			return fmt.Errorf("shard %s is no longer in the stream: %w", id, errTrimmed)
		}
		s.ended = true // it had no more records
	}
	return nil
}

// isRecent reports whether the stream still has the records of all changes that
// are not handled.
func (f *streamFollower) isRecent() bool {
	return f.now().Round(0).Sub(f.followed.Round(0)) < streamHours
}

// streamLost returns the error for a stream that is not the table's any more.
func streamLost(table string) error {
	return fmt.Errorf("the stream of table %s %w", table, errReplaced)
}

// Errors of records that the migration cannot read any more.
var (
	errTrimmed  = errors.New("its records are older than 24 hours and are lost")
	errReplaced = errors.New("was replaced or disabled, and records may be lost")
)
