package statortest

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
)

// Clock is the time of a database that a test sets. It stands still until it is advanced.
//
//	client, clock := statortest.WithClock(t, stator.Options{})
//	…
//	clock.Advance(25 * time.Hour) // what expired is deleted, and in the stream
type Clock struct {
	*stator.TestClock
	t testing.TB
}

// WithClock is StartWith with a clock that shows the present time.
func WithClock(t testing.TB, o stator.Options) (*dynamodb.Client, *Clock) {
	t.Helper()
	c := NewClock(t, time.Now())
	o.TestClock = c.TestClock
	return StartWith(t, o), c
}

// NewClock returns a clock that shows a time, for the TestClock of the options of one database or
// of several.
func NewClock(t testing.TB, at time.Time) *Clock { return &Clock{stator.NewTestClock(at), t} }

// Advance moves the time forward. When it returns, all that became due has happened. If it cannot,
// the test fails, and continues: a part of it may call Advance, or a function of its Cleanup.
func (c *Clock) Advance(d time.Duration) {
	c.t.Helper()
	if err := c.TestClock.Advance(context.Background(), d); err != nil { // the context of the test ends before its cleanup
		c.t.Errorf("advance the clock by %v: %v", d, err)
	}
}

// Set is Advance to a time.
func (c *Clock) Set(to time.Time) {
	c.t.Helper()
	if err := c.TestClock.Set(context.Background(), to); err != nil {
		c.t.Errorf("set the clock: %v", err)
	}
}
