package queue

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// lagging returns a client whose queries of indexes find nothing until a time.
func lagging(db *dynamodb.Client, until time.Time) *dynamodb.Client {
	return dynamodb.New(db.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("lagging", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if q, ok := in.Parameters.(*dynamodb.QueryInput); ok && q.IndexName != nil && time.Now().Before(until) {
					return middleware.InitializeOutput{Result: new(dynamodb.QueryOutput)}, middleware.Metadata{}, nil
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		})
	})
}

// A server begins to follow the stream a moment after a task was stored, which the indexes do not
// have yet. It finds the task as soon as they have it, not a minute later.
func TestIndexThatLagsAtTheStart(t *testing.T) {
	inWorld(t, func(w *world) {
		s, stop := w.serverUntil(Options{})
		in := w.submit(s, "q", task.Submission{})
		stop()
		db := lagging(w.home.DB, time.Now().Add(2*time.Second))
		s, stop = w.start(Options{Table: &table.Table{DB: db, Streams: w.home.Streams}})
		defer stop()
		c, ok, err := s.Claim(w.Context(), "q", "w", span, 10*time.Second)
		if err != nil || !ok || c.ID != in.ID {
			w.logTasks(s)
			w.Fatalf("the claim is %v of %q, %v", ok, c.ID, err)
		}
	})
}

// The iterator of a shard expires. The server goes on after the last record that it has read: it stays
// healthy, and misses nothing, whatever the indexes have.
func TestIteratorThatExpires(t *testing.T) {
	inWorld(t, func(w *world) {
		var expire, expired atomic.Bool
		streams := dynamodbstreams.New(w.home.Streams.Options(), func(o *dynamodbstreams.Options) {
			o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
				return s.Initialize.Add(middleware.InitializeMiddlewareFunc("expiring", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
					if _, ok := in.Parameters.(*dynamodbstreams.GetRecordsInput); ok && expire.CompareAndSwap(true, false) {
						expired.Store(true)
						return middleware.InitializeOutput{}, middleware.Metadata{}, new(types.ExpiredIteratorException)
					}
					return next.HandleInitialize(ctx, in)
				}), middleware.Before)
			})
		})
		db := lagging(w.home.DB, time.Now().Add(time.Hour))
		s, stop := w.start(Options{Table: &table.Table{DB: db, Streams: streams}})
		defer stop()
		for range 20 { // so that a record of each shard has been read
			w.submit(s, "q", task.Submission{})
			w.claim(s, "q", "w")
		}
		for range 5 {
			expire.Store(true)
			in := w.submit(s, "q", task.Submission{})
			if c := w.claim(s, "q", "w"); c.ID != in.ID {
				w.Fatalf("the claim is of %s, want %s", c.ID, in.ID)
			}
			if err := s.Healthy(w.Context()); err != nil || !expired.Swap(false) {
				w.Fatalf("after an iterator has expired (%v): %v", expired.Load(), err)
			}
		}
	})
}

// The shards that follow those that have ended are listed two minutes late, as DescribeStream may do. The server
// follows them as soon as they are listed, and misses nothing that they have, whatever the indexes have.
func TestShardsThatAreListedLate(t *testing.T) {
	inWorld(t, func(w *world) {
		until := time.Now().Add(4*time.Hour + 3*time.Minute)
		var hidden atomic.Bool
		old := make(map[string]bool) // those of the first list
		var mutex sync.Mutex
		streams := dynamodbstreams.New(w.home.Streams.Options(), func(o *dynamodbstreams.Options) {
			o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
				return s.Initialize.Add(middleware.InitializeMiddlewareFunc("late", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
					out, meta, err := next.HandleInitialize(ctx, in)
					listed, ok := out.Result.(*dynamodbstreams.DescribeStreamOutput)
					if err != nil || !ok {
						return out, meta, err
					}
					mutex.Lock()
					defer mutex.Unlock()
					first := len(old) == 0
					listed.StreamDescription.Shards = slices.DeleteFunc(listed.StreamDescription.Shards, func(s types.Shard) bool {
						if first {
							old[*s.ShardId] = true
						}
						late := !old[*s.ShardId] && time.Now().Before(until)
						hidden.Store(hidden.Load() || late)
						return late
					})
					return out, meta, err
				}), middleware.Before)
			})
		})
		db := lagging(w.home.DB, time.Now().Add(24*time.Hour))
		s, stop := w.start(Options{Table: &table.Table{DB: db, Streams: streams}, Poll: 5 * time.Second})
		defer stop()
		time.Sleep(4*time.Hour + time.Minute)
		in := w.submit(s, "q", task.Submission{})
		c, ok, err := s.Claim(w.Context(), "q", "w", span, 5*time.Minute)
		if err != nil || !ok || c.ID != in.ID {
			w.Fatalf("the claim is %v of %q, %v", ok, c.ID, err)
		}
		if !hidden.Load() {
			w.Fatal("no shard was listed late")
		}
		w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
		w.good(s.Healthy(w.Context()))
	})
}

// One of the shards cannot be opened at first. When all are followed, each change arrives once.
func TestShardThatCannotBeOpened(t *testing.T) {
	inWorld(t, func(w *world) {
		var opened atomic.Int32
		streams := dynamodbstreams.New(w.home.Streams.Options(), func(o *dynamodbstreams.Options) {
			o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
				return s.Initialize.Add(middleware.InitializeMiddlewareFunc("closed", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
					if _, ok := in.Parameters.(*dynamodbstreams.GetShardIteratorInput); ok && opened.Add(1) == 2 {
						return middleware.InitializeOutput{}, middleware.Metadata{}, new(types.InternalServerError)
					}
					return next.HandleInitialize(ctx, in)
				}), middleware.Before)
			})
		})
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		began := make(chan struct{})
		var inserted atomic.Int32
		follow := func() error {
			tbl := &table.Table{DB: w.home.DB, Streams: streams}
			return tbl.Follow(ctx, 50*time.Millisecond, func(context.Context) error { close(began); return nil }, table.Listener{
				Task: func(task.Task) { inserted.Add(1) }, Event: func(string, task.Event) {}, Claim: func(table.Claim, bool) {},
				Queue: func(task.Queue) {}, Slot: func(string, int, bool) {}, Batch: func(int) {},
			})
		}
		if err := follow(); err == nil || opened.Load() != 2 {
			w.Fatalf("after %d shards: %v", opened.Load(), err)
		}
		ended := make(chan error, 1)
		go func() { ended <- follow() }()
		<-began
		const tasks = 20
		s := w.server(Options{})
		for range tasks {
			w.submit(s, "q", task.Submission{})
		}
		time.Sleep(5 * time.Second)
		if n := inserted.Load(); n != tasks {
			w.Errorf("%d tasks arrived, want %d", n, tasks)
		}
		cancel()
		<-ended
	})
}
