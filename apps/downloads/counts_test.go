package downloads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// counted is a table of jobs whose queries a test can observe and change.
type counted struct {
	*counts
	other   *ledger.Jobs // of another process
	clock   time.Time
	queries int
	query   func(in *dynamodb.QueryInput) error
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	c := &counted{clock: time.Now(), query: func(*dynamodb.QueryInput) error { return nil }}
	h := hometest.Start(t, Model)
	c.other = &ledger.Jobs{DB: h.DB, Now: func() time.Time { return c.clock }}
	db := dynamodb.New(h.DB.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("count", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (out middleware.InitializeOutput, m middleware.Metadata, err error) {
				c.queries++
				if err := c.query(in.Parameters.(*dynamodb.QueryInput)); err != nil {
					return out, m, err
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		})
	})
	c.counts = newCounts(&ledger.Jobs{DB: db, Now: c.other.Now}, func() bool { return false })
	c.now = c.other.Now
	return c
}

// files makes files available, by another process.
func (c *counted) files(t *testing.T, n int) (ids []string) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("f%d-2026-02-28", i)
		if _, err := c.other.Queue(t.Context(), ledger.Job{FileID: id, BatchID: "b"}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func (c *counted) complete(t *testing.T, id string) {
	t.Helper()
	j, err := c.other.Claim(t.Context(), id, "another process")
	if err == nil {
		err = c.other.Complete(t.Context(), j)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *counted) are(t *testing.T, want string) {
	t.Helper()
	got, err := c.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	completed := "unknown"
	if n, ok := got.Files[ledger.Completed]; ok {
		completed = fmt.Sprint(n)
	}
	_, oldest := got.Oldest[ledger.Available]
	if s := fmt.Sprintf("%d available, %s completed, oldest %v", got.Files[ledger.Available], completed, oldest); s != want {
		t.Errorf("the counts are %s, want %s", s, want)
	}
}

// Files that other processes end are not counted as waiting for longer than a minute,
// and when no file waits, nothing is read.
func TestCountsFollowOtherProcesses(t *testing.T) {
	c := newCounted(t)
	ids := c.files(t, 2)
	c.are(t, "2 available, 0 completed, oldest true")
	for _, id := range ids {
		c.complete(t, id)
	}
	c.clock = c.clock.Add(countsRunning - time.Second)
	before := c.queries
	c.are(t, "2 available, 0 completed, oldest true")
	if c.queries != before {
		t.Errorf("%d queries within a minute", c.queries-before)
	}
	c.clock = c.clock.Add(time.Second)
	c.are(t, "0 available, 2 completed, oldest false")
	before = c.queries
	for range 10 {
		c.clock = c.clock.Add(time.Hour)
		c.are(t, "0 available, 2 completed, oldest false")
	}
	if c.queries != before {
		t.Errorf("%d queries while nothing waits", c.queries-before)
	}
}

// Completed files that take longer to count than a request has are counted by several
// requests, without beginning again; the others are known from the first.
func TestCountsOfManyCompleted(t *testing.T) {
	hometest.Unusual(t) // pages of one file
	c := newCounted(t)
	for _, id := range c.files(t, 7)[:6] {
		c.complete(t, id)
	}
	some, pages := 0, 0
	c.query = func(in *dynamodb.QueryInput) error {
		if in.Select != types.SelectCount || in.ExpressionAttributeValues[":0"].(*types.AttributeValueMemberS).Value != string(ledger.Completed) {
			return nil
		}
		if some++; some > 3 { // the request has no more time
			return context.DeadlineExceeded
		}
		pages++
		in.Limit = aws.Int32(1)
		return nil
	}
	c.are(t, "1 available, unknown completed, oldest true")
	some = 0
	c.are(t, "1 available, unknown completed, oldest true")
	some = 0
	c.are(t, "1 available, 6 completed, oldest true")
	if pages != 7 {
		t.Errorf("the count reads %d pages of one file each, and the end", pages)
	}
	// A count that takes long is not repeated soon.
	c.completed.spent = 5 * time.Second
	c.changed()
	c.clock = c.clock.Add(499 * time.Second)
	some = 0
	c.are(t, "1 available, 6 completed, oldest true")
	if pages != 7 {
		t.Errorf("the completed files are counted again after %d pages", pages)
	}
	c.clock = c.clock.Add(time.Second)
	c.query = func(*dynamodb.QueryInput) error { pages++; return nil }
	c.are(t, "1 available, 6 completed, oldest true")
	if pages == 7 {
		t.Error("the completed files are not counted again")
	}
}

// A download that starts does not wait for a count, and a failed count shows what is known.
func TestCountsDoNotBlock(t *testing.T) {
	c := newCounted(t)
	c.files(t, 1)
	c.query = func(*dynamodb.QueryInput) error { return errors.New("throttled") }
	if _, err := c.get(t.Context()); err == nil {
		t.Error("counts that were never read are returned")
	}
	c.query = func(*dynamodb.QueryInput) error { c.changed(); return nil }
	c.are(t, "1 available, 0 completed, oldest true")
	c.query = func(*dynamodb.QueryInput) error { return errors.New("throttled") }
	c.clock = c.clock.Add(time.Hour)
	c.are(t, "1 available, 0 completed, oldest true")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.reading <- struct{}{} // somebody reads
	if got, err := c.get(ctx); err != nil || got.Files[ledger.Available] != 1 {
		t.Errorf("while somebody reads: %+v, %v", got, err)
	}
}

// A process that only downloads takes a batch as running while pages show it.
func TestShownRunning(t *testing.T) {
	s := new(System)
	for ago, want := range map[time.Duration]bool{0: true, shownFor / 2: true, 2 * shownFor: false} {
		s.shownRunning.Store(time.Now().Add(-ago).UnixNano())
		if s.running() != want {
			t.Errorf("a batch that a page showed %s ago: running is %v", ago, !want)
		}
	}
	if s.shownRunning.Store(0); s.running() {
		t.Error("a batch runs that no page showed")
	}
}
