package table

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Listener receives the changes of the table. The changes of one task arrive in
// order, and so do the claims of one worker. Shards are read concurrently, so its
// functions are called from several goroutines.
type Listener struct {
	Task  func(task.Task)
	Event func(id string, e task.Event)
	Claim func(c Claim, removed bool)
	Queue func(task.Queue)
	Slot  func(queue string, n int, taken bool)
	Batch func(records int) // after each page
}

// Follow reads the table's stream from now on until the context ends or the
// stream cannot be read. No change is missed after it has called begin, which runs
// concurrently with the reading; an error of begin ends Follow.
//
// Follow waits poll between two reads of a shard that has no new records, and up
// to five times as long when there were none for some time.
func (t *Table) Follow(ctx context.Context, poll time.Duration, begin func(context.Context) error, l Listener) error {
	arn, err := t.streamARN(ctx)
	if err != nil {
		return err
	}
	shards, err := t.shards(ctx, arn)
	if err != nil {
		return err
	}
	f := &follower{t: t, arn: arn, poll: poll, listener: l, ended: make(map[string]bool)}
	open := make(map[string]*string) // the iterators of the open shards
	for _, s := range shards {
		f.ended[*s.ShardId] = s.SequenceNumberRange != nil && s.SequenceNumberRange.EndingSequenceNumber != nil
		if f.ended[*s.ShardId] {
			continue // its changes are old
		}
		if open[*s.ShardId], err = t.iterator(ctx, arn, *s.ShardId, types.ShardIteratorTypeLatest); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	f.group = group
	for id, at := range open {
		group.Go(func() error { return f.shard(ctx, id, at, false) })
	}
	group.Go(func() error { return begin(ctx) })
	group.Go(func() error { return f.lookForShards(ctx) })
	return group.Wait()
}

// follower reads the shards of one stream.
type follower struct {
	t        *Table
	arn      string
	poll     time.Duration
	listener Listener
	group    *errgroup.Group

	mutex sync.Mutex
	ended map[string]bool // of each shard that was listed, whether it has been read to its end
}

// shardsEvery is how often the shards are listed, besides when one has ended: DescribeStream is eventually
// consistent, so that its children, or one of them, may not be listed yet.
const shardsEvery = 10 * time.Second

// lookForShards lists the shards periodically.
func (f *follower) lookForShards(ctx context.Context) error {
	tick := time.NewTicker(shardsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		_ = f.newShards(ctx) // the next tick tries again, and reading the shards reports a stream that cannot be read
	}
}

// newShards reads the shards that were not listed before, from their beginnings. One whose parent has not been read
// to its end is left to the next call: the changes of a task are in the parent first.
func (f *follower) newShards(ctx context.Context) error {
	shards, err := f.t.shards(ctx, f.arn)
	if err != nil {
		return err
	}
	listed := make(map[string]bool)
	for _, s := range shards {
		listed[*s.ShardId] = true
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for _, s := range shards {
		ended, known := f.ended[aws.ToString(s.ParentShardId)]
		early := known && !ended || !known && listed[aws.ToString(s.ParentShardId)]
		if _, known := f.ended[*s.ShardId]; known || early {
			continue
		}
		f.ended[*s.ShardId] = false
		f.group.Go(func() error {
			at, err := f.t.iterator(ctx, f.arn, *s.ShardId, types.ShardIteratorTypeTrimHorizon)
			if err != nil {
				return err
			}
			return f.shard(ctx, *s.ShardId, at, true)
		})
	}
	return nil
}

// shard reads one shard to its end, and then those that follow it. whole says that it is read from its beginning.
func (f *follower) shard(ctx context.Context, id string, at *string, whole bool) error {
	wait := f.poll
	last := "" // the sequence number of the last record
	for at != nil {
		out, err := f.t.Streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: at})
		var expired *types.ExpiredIteratorException
		if errors.As(err, &expired) && (whole || last != "") {
			if at, err = f.t.resume(ctx, f.arn, id, last); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("read shard %s of the stream: %w", id, err)
		}
		for i := range out.Records {
			f.record(&out.Records[i])
			if d := out.Records[i].Dynamodb; d != nil {
				last = aws.ToString(d.SequenceNumber)
			}
		}
		at = out.NextShardIterator
		if len(out.Records) > 0 {
			f.listener.Batch(len(out.Records))
			wait = f.poll
		} else {
			wait = min(wait+f.poll/32, 5*f.poll)
		}
		if at == nil || len(out.Records) >= 500 {
			continue // more records are available: read on without waiting
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	f.mutex.Lock()
	f.ended[id] = true
	f.mutex.Unlock()
	return f.newShards(ctx)
}

// record reports one change. Its key says what kind of item it is.
func (f *follower) record(r *types.Record) {
	if r.Dynamodb == nil {
		return
	}
	keys := ofStream(r.Dynamodb.Keys)
	pk, sk := keys("PK"), keys("SK")
	removed := r.EventName == types.OperationTypeRemove
	image := ofStream(r.Dynamodb.NewImage)
	switch {
	case strings.HasPrefix(pk, "TASK#") && sk == "META" && !removed:
		f.listener.Task(readTask(image))
	case strings.HasPrefix(pk, "TASK#") && strings.HasPrefix(sk, "EVENT#") && r.EventName == types.OperationTypeInsert:
		if e, err := readEvent(image); err == nil { // reading the history reports an invalid one
			f.t.durable.mark(after(pk, "TASK#"), e.Seq)
			f.listener.Event(after(pk, "TASK#"), e)
		}
	case strings.HasPrefix(pk, "WORKER#"):
		c := readClaimKey(pk, sk)
		if !removed {
			c = readClaim(image)
		}
		f.listener.Claim(c, removed)
	case strings.HasPrefix(pk, "QUEUE#"):
		n, _ := strconv.Atoi(after(sk, "SLOT#"))
		f.listener.Slot(after(pk, "QUEUE#"), n, !removed)
	case pk == "QUEUES" && !removed:
		f.listener.Queue(readQueue(image))
	}
}

func ofStream(i map[string]types.AttributeValue) fields {
	return func(name string) string {
		switch v := i[name].(type) {
		case *types.AttributeValueMemberS:
			return v.Value
		case *types.AttributeValueMemberN:
			return v.Value
		case *types.AttributeValueMemberBOOL:
			return strconv.FormatBool(v.Value)
		}
		return ""
	}
}

func (t *Table) streamARN(ctx context.Context) (string, error) {
	out, err := t.DB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: tableName()})
	if err != nil {
		return "", fmt.Errorf("find the stream of table %s: %w", Name, err)
	}
	if arn := aws.ToString(out.Table.LatestStreamArn); arn != "" {
		return arn, nil
	}
	return "", errors.New("table " + Name + " has no stream, which is needed to wake workers: enable it with NEW_IMAGE")
}

func (t *Table) shards(ctx context.Context, arn string) ([]types.Shard, error) {
	var all []types.Shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn}
	for {
		out, err := t.Streams.DescribeStream(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list the shards of the stream: %w", err)
		}
		all = append(all, out.StreamDescription.Shards...)
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return all, nil
		}
	}
}

// resume opens a shard after a record, or at its beginning if none was read.
func (t *Table) resume(ctx context.Context, arn, shard, last string) (*string, error) {
	if last == "" {
		return t.iterator(ctx, arn, shard, types.ShardIteratorTypeTrimHorizon)
	}
	out, err := t.Streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{StreamArn: &arn, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeAfterSequenceNumber, SequenceNumber: &last})
	if err != nil {
		return nil, fmt.Errorf("open shard %s of the stream after record %s: %w", shard, last, err)
	}
	return out.ShardIterator, nil
}

func (t *Table) iterator(ctx context.Context, arn, shard string, from types.ShardIteratorType) (*string, error) {
	out, err := t.Streams.GetShardIterator(ctx, &dynamodbstreams.GetShardIteratorInput{StreamArn: &arn, ShardId: &shard, ShardIteratorType: from})
	if err != nil {
		return nil, fmt.Errorf("open shard %s of the stream: %w", shard, err)
	}
	return out.ShardIterator, nil
}
