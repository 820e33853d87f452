// Command chaos has a check of each application for `stator chaos`: it drives the application's own
// code at the server of AWS_ENDPOINT_URL, whose requests may get faults, and verifies that nothing
// is lost or done twice, and that all ends in time.
//
//	go build -o checks ./internal/chaos
//	stator chaos --check './checks downloads' --seeds 200
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/stator-db/stator/apps/internal/home"
)

// checks are the checks by the names of their applications.
var checks = map[string]func(context.Context, *run) error{
	"documents": checkDocuments,
	"downloads": checkDownloads,
	"goals":     checkGoals,
	"taskqueue": checkTaskqueue,
}

// limit is how long a check may take. An application whose requests get faults of the default plan of
// stator chaos needs a few seconds; one that waits for a lease to expire, or for a sweep of a minute, fails.
const limit = 15 * time.Second

// run is one run of a check.
type run struct {
	endpoint string
	seed     uint64
	limit    time.Duration
	log      *slog.Logger
}

func main() {
	names := strings.Join(slices.Sorted(maps.Keys(checks)), ", ")
	if len(os.Args) != 2 || checks[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "chaos: name one application: %s\n", names)
		os.Exit(2)
	}
	endpoint := os.Getenv("AWS_ENDPOINT_URL")
	if endpoint == "" {
		fmt.Fprintln(os.Stderr, "chaos: AWS_ENDPOINT_URL is not set: run this by stator chaos --check")
		os.Exit(2)
	}
	seed, _ := strconv.ParseUint(os.Getenv("STATOR_SEED"), 10, 64)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := check(context.Background(), os.Args[1], &run{endpoint: endpoint, seed: seed, limit: limit, log: log}); err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
		os.Exit(1)
	}
}

// check runs the check of an application.
func check(ctx context.Context, name string, r *run) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("it has not ended after %v", r.limit))
	defer cancel()
	err := checks[name](ctx, r)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// open opens the tables of an application with its own options.
func (r *run) open(ctx context.Context, model []byte) (*home.Home, error) {
	h, err := home.Open(ctx, home.Options{Endpoint: r.endpoint, Model: model, Log: r.log})
	if err != nil {
		return nil, err
	}
	h.DB = quick(h.DB)
	h.Streams = dynamodbstreams.New(h.Streams.Options(), func(o *dynamodbstreams.Options) { o.Retryer = retries(3) })
	return h, nil
}

// quick returns a client that repeats requests as often as usual, with short delays.
func quick(db *dynamodb.Client) *dynamodb.Client { return retrying(db, 3) }

// patient returns a client by which a check examines a table: it repeats requests until they succeed.
func patient(db *dynamodb.Client) *dynamodb.Client { return retrying(db, 20) }

func retrying(db *dynamodb.Client, attempts int) *dynamodb.Client {
	return dynamodb.New(db.Options(), func(o *dynamodb.Options) { o.Retryer = retries(attempts) })
}

func retries(attempts int) aws.Retryer {
	return home.Retries(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = attempts, 20*time.Millisecond })
}

// items reads all items of a table as they are.
func items(ctx context.Context, db *dynamodb.Client, table string) (all []map[string]types.AttributeValue, err error) {
	pages := dynamodb.NewScanPaginator(patient(db), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
	}
	return all, nil
}

// until waits until a condition holds; why says what it waits for.
func until(ctx context.Context, holds func() (why string, err error)) error {
	for {
		why, err := holds()
		if err != nil || why == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New(why)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// background runs a function until it is stopped; stop returns its error.
func background(ctx context.Context, do func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}
