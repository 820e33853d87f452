package queue

import (
	"context"
	"slices"
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
