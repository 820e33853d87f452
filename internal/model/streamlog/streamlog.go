// Package streamlog counts the changes in the streams of tables by their shape.
//
// A record of a stream has the item before and after a change, so the shapes are those
// of puts, updates and deletes. Reads, conditions and transactions leave no trace in a
// stream.
package streamlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/workload"
)

// Log counts the records of the streams of some tables.
type Log struct {
	// From and To are the times of the first and the last record.
	From, To time.Time

	Records int // that were read
	Expired int // of these, items that the server removed after their time to live

	// Image is called with the item of each record: the one after the change, or before
	// if it was removed. It may be nil.
	Image func(table string, it item.Item)

	// Progress is called after each page. It may be nil.
	Progress func(table string, records int)

	recorder *workload.Recorder
	reader   wire.ItemReader
	line     []byte
}

// MaxRecords is how many records are read of what streams have: a day of a table with
// many writes would take hours.
const MaxRecords = 1_000_000

// New makes an empty log.
func New() *Log { return &Log{recorder: workload.NewRecorder(time.Time{})} }

// Report returns the counts so far.
func (l *Log) Report() workload.Report {
	r := l.recorder.Report()
	r.Since = l.From
	return r
}

// Source is a stream of a table.
type Source struct {
	Table *schema.Table
	ARN   string
	View  string // KEYS_ONLY, NEW_IMAGE, OLD_IMAGE or NEW_AND_OLD_IMAGES
}

// Find returns the streams of tables that have one.
func Find(ctx context.Context, send apply.Send, tables []*schema.Table) (found []Source, err error) {
	for _, t := range tables {
		var reply struct {
			Table struct {
				LatestStreamArn     string
				StreamSpecification struct {
					StreamEnabled  bool
					StreamViewType string
				}
			}
		}
		if err := send.Ask(ctx, "DescribeTable", map[string]any{"TableName": t.Name}, &reply); err != nil {
			return nil, fmt.Errorf("describe table %s: %w", t.Name, err)
		}
		if is := reply.Table; is.StreamSpecification.StreamEnabled {
			found = append(found, Source{t, is.LatestStreamArn, is.StreamSpecification.StreamViewType})
		}
	}
	return found, nil
}

// ErrTooMany is returned when streams have more records than MaxRecords.
var ErrTooMany = fmt.Errorf("the streams have more than %d records", MaxRecords)

// Read reads the records that the streams have.
func (l *Log) Read(ctx context.Context, streams apply.Send, sources []Source) error {
	for _, s := range sources {
		r := &shardReader{log: l, streams: streams, source: s, open: make(map[string]string)}
		if err := r.round(ctx, "TRIM_HORIZON"); err != nil {
			return err
		}
	}
	return nil
}

// poll is the time between two readings of a stream.
const poll = time.Second

// Follow reads the records that come during a time.
func (l *Log) Follow(ctx context.Context, streams apply.Send, sources []Source, length time.Duration) error {
	var readers []*shardReader
	for _, s := range sources {
		r := &shardReader{log: l, streams: streams, source: s, open: make(map[string]string), follows: true}
		if err := r.list(ctx, "LATEST"); err != nil {
			return err
		}
		readers = append(readers, r)
	}
	began := time.Now()
	for ended := false; !ended; {
		if err := apply.Sleep(ctx, min(poll, max(0, length-time.Since(began)))); err != nil {
			return err
		}
		ended = time.Since(began) >= length
		for _, r := range readers {
			// Shards that begin now are children of others, and are read from the beginning.
			if err := r.round(ctx, "TRIM_HORIZON"); err != nil {
				return err
			}
		}
	}
	l.From, l.To = began, began.Add(length)
	return nil
}

// shardReader reads the shards of one stream.
type shardReader struct {
	log     *Log
	streams apply.Send
	source  Source
	open    map[string]string // iterators by shard, "" for one that was read to its end
	follows bool              // the iterators stay at the ends of the shards
}

// list gets iterators of new shards.
func (r *shardReader) list(ctx context.Context, kind string) error {
	body := map[string]any{"StreamArn": r.source.ARN}
	for {
		var reply struct {
			StreamDescription struct {
				Shards               []struct{ ShardId string }
				LastEvaluatedShardId string
			}
		}
		if err := r.ask(ctx, "DescribeStream", body, &reply); err != nil {
			return err
		}
		for _, s := range reply.StreamDescription.Shards {
			if _, ok := r.open[s.ShardId]; ok {
				continue
			}
			var got struct{ ShardIterator string }
			err := r.ask(ctx, "GetShardIterator", map[string]any{"StreamArn": r.source.ARN, "ShardId": s.ShardId, "ShardIteratorType": kind}, &got)
			if isRemoved(err) {
				continue
			}
			if err != nil {
				return err
			}
			r.open[s.ShardId] = got.ShardIterator
		}
		if reply.StreamDescription.LastEvaluatedShardId == "" {
			return nil
		}
		body["ExclusiveStartShardId"] = reply.StreamDescription.LastEvaluatedShardId
	}
}

// isRemoved reports whether a request failed because its records are older than a day.
func isRemoved(err error) bool {
	var fault *apierror.Error
	return errors.As(err, &fault) && slices.Contains([]string{"ResourceNotFoundException", "TrimmedDataAccessException", "ExpiredIteratorException"}, fault.Code)
}

// emptyPages is how many pages without records in a row are the end of an open shard: AWS
// may return some before the records.
const emptyPages = 20

// round reads all shards to their ends.
func (r *shardReader) round(ctx context.Context, kind string) error {
	if err := r.list(ctx, kind); err != nil {
		return err
	}
	for shard, iterator := range r.open {
		most := emptyPages
		if r.follows {
			most = 1
		}
		for empty := 0; iterator != "" && empty < most; {
			next, records, err := r.page(ctx, iterator)
			if isRemoved(err) {
				next, err = "", nil
			}
			if err != nil {
				return err
			}
			if iterator = next; records == 0 {
				empty++
			} else {
				empty = 0
			}
		}
		r.open[shard] = iterator
	}
	return nil
}

// ask sends a request of streams, and repeats it while it is throttled.
func (r *shardReader) ask(ctx context.Context, operation string, body, into any) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := r.streams.Ask(ctx, operation, body, into)
		var fault *apierror.Error
		if !errors.As(err, &fault) || !slices.Contains([]string{"LimitExceededException", "ProvisionedThroughputExceededException", "ThrottlingException"}, fault.Code) {
			if err != nil {
				err = fmt.Errorf("%s of the stream of table %s: %w", operation, r.source.Table.Name, err)
			}
			return err
		}
		if err := apply.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// loggedChange is one record.
type loggedChange struct {
	EventName    string
	UserIdentity struct{ PrincipalID, Type string }
	Dynamodb     struct {
		ApproximateCreationDateTime float64
		Keys, OldImage, NewImage    json.RawMessage
	}
}

func (r *shardReader) page(ctx context.Context, iterator string) (next string, records int, err error) {
	var reply struct {
		Records           []loggedChange
		NextShardIterator string
	}
	if err := r.ask(ctx, "GetRecords", map[string]any{"ShardIterator": iterator, "Limit": 1000}, &reply); err != nil {
		return "", 0, err
	}
	for i := range reply.Records {
		if err := r.log.add(r.source, &reply.Records[i]); err != nil {
			return "", 0, fmt.Errorf("a record of the stream of table %s: %w", r.source.Table.Name, err)
		}
	}
	if r.log.Progress != nil {
		r.log.Progress(r.source.Table.Name, r.log.Records)
	}
	if !r.follows && r.log.Records > MaxRecords {
		return "", 0, ErrTooMany
	}
	return reply.NextShardIterator, len(reply.Records), nil
}

// add counts a record.
func (l *Log) add(s Source, r *loggedChange) error {
	keys, err := l.item(r.Dynamodb.Keys)
	if err != nil {
		return err
	}
	before, err := l.item(r.Dynamodb.OldImage)
	if err != nil {
		return err
	}
	after, err := l.item(r.Dynamodb.NewImage)
	if err != nil {
		return err
	}
	at := time.UnixMilli(int64(r.Dynamodb.ApproximateCreationDateTime * 1000))
	if l.From.IsZero() || at.Before(l.From) {
		l.From = at
	}
	if at.After(l.To) {
		l.To = at
	}
	l.Records++
	image := after
	if image == nil {
		image = before
	}
	if l.Image != nil && image != nil {
		l.Image(s.Table.Name, image)
	}
	if r.EventName == "REMOVE" && r.UserIdentity.Type == "Service" {
		l.Expired++
		return nil
	}
	l.recorder.Counter(l.shape(s, r.EventName, keys, before, after)).Observe(0, 0)
	return nil
}

// item decodes an item; nil if there is none.
func (l *Log) item(text json.RawMessage) (item.Item, error) {
	if len(text) == 0 {
		return nil, nil
	}
	l.line = append(append(append(l.line[:0], `{"Item":`...), text...), '}')
	it, err := l.reader.Member(l.line, "Item")
	return slices.Clone(it), err
}

// shape returns the shape of the request that a record is likely to come from: a new item
// is put, and one that existed is updated, of which only the changed attributes are known.
func (l *Log) shape(s Source, event string, keys, before, after item.Item) workload.Shape {
	shape := workload.Shape{Operation: "PutItem", Table: s.Table.Name}
	shape.Partition, shape.Sort = l.prefixes(s.Table, s.Table.Key.Partition, keys), l.prefixes(s.Table, s.Table.Key.Sort, keys)
	switch event {
	case "REMOVE":
		shape.Operation = "DeleteItem"
	case "MODIFY":
		shape.Operation = "UpdateItem"
		if s.View == "NEW_AND_OLD_IMAGES" {
			paths := changedPaths(before, after)
			shape.Form = workload.UpdateForm(s.Table, paths)
			shape.Changes = workload.Names(paths, func(name string) string { return l.recorder.Name(s.Table, name) })
		}
	}
	return shape
}

func (l *Log) prefixes(t *schema.Table, attrs []schema.Attribute, keys item.Item) string {
	all := make([]string, len(attrs))
	for i, a := range attrs {
		all[i] = workload.Unknown
		if v, ok := keys.Get(a.Name); ok {
			all[i] = l.recorder.Prefix(t, a.Name, v)
		}
	}
	joined := strings.Join(all, ",")
	if strings.Trim(joined, ",") == "" {
		return ""
	}
	return joined
}

// changedPaths returns the attributes that two images of an item do not have in common.
func changedPaths(before, after item.Item) (paths []item.Path) {
	for name, v := range after.All() {
		if is, ok := before.Get(name); !ok || !item.Equal(is, v) {
			paths = append(paths, item.Path{{Name: name}})
		}
	}
	for name := range before.All() {
		if _, ok := after.Get(name); !ok {
			paths = append(paths, item.Path{{Name: name}})
		}
	}
	return paths
}
