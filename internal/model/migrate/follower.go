package migrate

import (
	"context"
	"fmt"
	"math"
	"sync"
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

// followedShard is the position in one shard.
type followedShard struct {
	id       string
	after    string // the last sequence number that was handled, "" for none
	ended    bool
	iterator string
	saved    time.Time
	unsaved  bool
	inStream bool
}

// endedAt is stored as the position of a shard that was read to its end.
const endedAt = "end"

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
				StreamStatus         string
				Shards               []struct{ ShardId string }
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

// pageRecords is how many records a request asks for, and pageBytes more than
// half of what a page may have. A page below both ends at the end of the shard.
const (
	pageRecords = 1000
	pageBytes   = 512 << 10
)

// readShard reads a shard to its present end.
func (f *streamFollower) readShard(ctx context.Context, s *followedShard) (n int, err error) {
	for {
		read, full, err := f.page(ctx, s)
		if err != nil {
			return n, err
		}
		n += read
		if s.unsaved && (s.ended || !full || time.Since(s.saved) > time.Second) {
			if err := f.save(ctx, s); err != nil {
				return n, err
			}
		}
		if s.ended || !full {
			return n, nil
		}
	}
}

func (f *streamFollower) save(ctx context.Context, s *followedShard) error {
	at := s.after
	if s.ended {
		at = endedAt
	}
	if err := f.store.setPosition(ctx, f.part(s.id), at); err != nil {
		return err
	}
	s.saved, s.unsaved = time.Now(), false
	return nil
}

// page reads and handles one page of a shard. It reports the number of records,
// and whether more may follow at once.
func (f *streamFollower) page(ctx context.Context, s *followedShard) (n int, full bool, err error) {
	if s.iterator == "" {
		if err := f.iterate(ctx, s); err != nil {
			return 0, false, err
		}
	}
	var reply struct {
		Records []struct {
			EventName string
			Dynamodb  struct {
				Keys, OldImage              *itemJSON
				SequenceNumber              string
				ApproximateCreationDateTime float64
				SizeBytes                   int
			}
		}
		NextShardIterator string
	}
	err = f.c.askStreams(ctx, "GetRecords", map[string]any{"ShardIterator": s.iterator, "Limit": pageRecords}, &reply)
	switch {
	case isFault(err, "ExpiredIteratorException"):
		s.iterator = ""
		return f.page(ctx, s)
	case isFault(err, "TrimmedDataAccessException"):
		return 0, false, errTrimmed
	case err != nil:
		return 0, false, err
	}
	size := 0
	records := make([]changeRecord, len(reply.Records))
	for i, r := range reply.Records {
		size += r.Dynamodb.SizeBytes
		records[i] = changeRecord{keys: r.Dynamodb.Keys.Item, inserted: r.EventName == "INSERT", created: time.Unix(int64(r.Dynamodb.ApproximateCreationDateTime), 0)}
		if r.Dynamodb.OldImage != nil {
			records[i].old = r.Dynamodb.OldImage.Item
		}
	}
	if len(records) > 0 {
		if err := f.handle(ctx, records); err != nil {
			return 0, false, err
		}
		f.counts.records.Add(int64(len(records)))
		s.after, s.unsaved = reply.Records[len(records)-1].Dynamodb.SequenceNumber, true
	}
	s.iterator = reply.NextShardIterator
	if s.iterator == "" {
		s.ended, s.unsaved = true, true
	}
	return len(records), len(records) == pageRecords || size > pageBytes, nil
}

// iterate gets an iterator after the last record that was handled.
func (f *streamFollower) iterate(ctx context.Context, s *followedShard) error {
	body := map[string]any{"StreamArn": f.arn, "ShardId": s.id, "ShardIteratorType": "TRIM_HORIZON"}
	if s.after != "" {
		body["ShardIteratorType"], body["SequenceNumber"] = "AFTER_SEQUENCE_NUMBER", s.after
	}
	var reply struct{ ShardIterator string }
	err := f.c.askStreams(ctx, "GetShardIterator", body, &reply)
	if isFault(err, "TrimmedDataAccessException") {
		return errTrimmed
	}
	s.iterator = reply.ShardIterator
	return err
}

// following is a set of followers that run together.
type following struct {
	all  []*streamFollower
	poll time.Duration
}

// run runs all followers until the context ends or one fails.
func (g *following) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, f := range g.all {
		group.Go(func() { cancel(f.run(ctx)) })
	}
	group.Wait()
	return context.Cause(ctx)
}

// completed returns how often all streams were read to their ends.
func (g *following) completed() int64 {
	least := int64(math.MaxInt64)
	for _, f := range g.all {
		least = min(least, f.rounds.Load())
	}
	return least
}

// waitRounds waits until all streams were read from beginning to end again.
func (g *following) waitRounds(ctx context.Context) error {
	for _, f := range g.all {
		// The round that is running may have passed a shard already.
		for until := f.rounds.Load() + 2; f.rounds.Load() < until; {
			if err := apply.Sleep(ctx, max(g.poll/2, time.Millisecond)); err != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// waitQuiet waits until no stream has had a record for a while.
func (g *following) waitQuiet(ctx context.Context, quiet, timeout time.Duration) error {
	if len(g.all) == 0 {
		return nil
	}
	until := time.Now().Add(timeout)
	since := time.Now()
	var busy string
	for time.Since(since) < quiet {
		if time.Now().After(until) {
			return fmt.Errorf("table %s is still written to after %s; stop the writes and repeat the command", busy, timeout)
		}
		before := time.Now()
		if err := g.waitRounds(ctx); err != nil {
			return err
		}
		for _, f := range g.all {
			if f.quiet.Load() < 2 {
				busy, since = f.table, before
			}
		}
	}
	return nil
}
