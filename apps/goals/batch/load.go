package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/stator-db/stator/apps/goals"
)

// load is the fourth stage: it writes all customers, whatever the table has.
func (r *run) load(ctx context.Context) error {
	r.progress.stage("load", r.counted.Customers)
	out := &bulk{db: r.DB, pace: r.pace}
	parts, within := errgroup.WithContext(ctx)
	parts.SetLimit(max(1, r.Writers))
	var written atomic.Int64
	for i := range r.parts {
		parts.Go(func() error {
			n, err := r.loadPart(within, i, out)
			written.Add(n)
			return err
		})
	}
	err := parts.Wait()
	r.report.Written, r.report.Retried = written.Load(), out.retried.Load()
	return err
}

func (r *run) loadPart(ctx context.Context, part int, out *bulk) (written int64, err error) {
	step := "load " + filepath.Base(partName("", part))
	if n, done := r.journal.has(step); done {
		r.progress.add(n.Customers)
		return 0, nil
	}
	batch := make([]write, 0, batchSize)
	send := func() error {
		if err := out.send(ctx, batch); err != nil {
			return err
		}
		written += int64(len(batch))
		r.progress.add(int64(len(batch)))
		batch = batch[:0]
		return nil
	}
	err = r.eachState(part, func(s *state) error {
		batch = append(batch, write{goals.BatchTable, types.WriteRequest{PutRequest: &types.PutRequest{Item: r.item(s).Item()}}})
		if len(batch) < batchSize {
			return nil
		}
		return send()
	})
	if err == nil && len(batch) > 0 {
		err = send()
	}
	if err != nil {
		return written, err
	}
	return written, r.journal.add(step, counts{Customers: written})
}

// batchSize is the limit of a BatchWriteItem.
const batchSize = 25

// write is a request to one of the tables.
type write struct {
	table   string
	request types.WriteRequest
}

// bulk sends batches until no items are left unprocessed.
type bulk struct {
	db interface {
		BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	}
	pace    *rate.Limiter
	retried atomic.Int64
}

// How long a batch waits before it is sent again, and after what time without
// progress the run ends; it can be continued.
const (
	firstWait = 50 * time.Millisecond
	longWait  = 5 * time.Second
	patience  = 3 * time.Minute
)

func (b *bulk) send(ctx context.Context, batch []write) error {
	left := make(map[string][]types.WriteRequest, 2)
	for _, w := range batch {
		left[w.table] = append(left[w.table], w.request)
	}
	if err := b.pace.WaitN(ctx, min(len(batch), b.pace.Burst())); err != nil && b.pace.Limit() != rate.Inf {
		return err
	}
	wait, since := firstWait, time.Now()
	for {
		out, err := b.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: left})
		if err != nil && !passing(err) {
			return fmt.Errorf("write a batch: %w", err)
		}
		if err == nil {
			if len(out.UnprocessedItems) == 0 {
				return nil
			}
			if size(out.UnprocessedItems) < size(left) {
				wait, since = firstWait, time.Now()
			}
			left = out.UnprocessedItems
		}
		b.retried.Add(int64(size(left)))
		if time.Since(since) > patience {
			return fmt.Errorf("a batch made no progress in %s (last error: %w): is the table's capacity too small? start the run again to continue", patience, errors.Join(err, ctx.Err()))
		}
		// A random time in the second half, so that workers do not retry together.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		wait = min(2*wait, longWait)
	}
}

func size(requests map[string][]types.WriteRequest) (n int) {
	for _, r := range requests {
		n += len(r)
	}
	return n
}

// passing reports whether an error may be temporary: throttling, a server error, or
// a connection, but not an invalid request.
func passing(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return true
	}
	switch answer.ErrorCode() {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded":
		return true
	}
	return answer.ErrorFault() == smithy.FaultServer
}
