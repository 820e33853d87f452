package migrate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/apply"
)

// changeRecord is a record of a stream.
type changeRecord struct {
	keys, old item.Item // old is nil for a new item, or if the stream has no old images
	inserted  bool
	created   time.Time
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

	shards map[string]*followedShard
	rounds atomic.Int64 // how often the stream was read to its end
	quiet  atomic.Int64 // how many of the last rounds found no record
}

// run follows the stream until the context ends.
func (f *streamFollower) run(ctx context.Context) error {
	if err := f.load(ctx); err != nil {
		return err
	}
	for {
		n, err := f.round(ctx)
		if err != nil {
			return fmt.Errorf("follow the stream of table %s: %w", f.table, err)
		}
		if n == 0 {
			f.quiet.Add(1)
		} else {
			f.quiet.Store(0)
		}
		f.rounds.Add(1)
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
	for id, at := range all {
		f.shards[id] = &followedShard{id: id, after: at, ended: at == endedAt}
	}
	return err
}

// round reads all shards to their present ends, and returns the number of
// records.
func (f *streamFollower) round(ctx context.Context) (records int64, err error) {
	if err := f.list(ctx); err != nil {
		return 0, err
	}
	var open []*followedShard
	for _, s := range f.shards {
		if !s.ended {
			open = append(open, s)
		}
	}
	var n atomic.Int64
	err = parallel(ctx, max(1, len(open)), len(open), func(ctx context.Context, i int) error {
		read, err := f.readShard(ctx, open[i])
		n.Add(int64(read))
		return err
	})
	return n.Load(), err
}

// list adds the shards that the stream has now.
func (f *streamFollower) list(ctx context.Context) error {
	for _, s := range f.shards {
		s.inStream = false
	}
	body := map[string]any{"StreamArn": f.arn}
	for {
		var reply struct {
			StreamDescription struct {
				StreamStatus string
				Shards       []struct {
					ShardId             string
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
		}
		if reply.StreamDescription.LastEvaluatedShardId == "" {
			break
		}
		body["ExclusiveStartShardId"] = reply.StreamDescription.LastEvaluatedShardId
	}
	for id, s := range f.shards {
		if !s.ended && !s.inStream {
			return fmt.Errorf("shard %s is no longer in the stream: %w", id, errTrimmed)
		}
	}
	return nil
}

// streamLost returns the error for a stream that is not the table's any more.
func streamLost(table string) error {
	return fmt.Errorf("the stream of table %s was replaced or disabled, and records may be lost; abort the migration and run it again", table)
}

// errTrimmed is returned when records were removed before they were read.
var errTrimmed = fmt.Errorf("its records are older than 24 hours and are lost; abort the migration and run it again")
