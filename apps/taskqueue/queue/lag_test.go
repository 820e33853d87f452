package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
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
