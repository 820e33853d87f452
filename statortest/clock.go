package statortest

import (
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

// Advance moves the time forward. When it returns, all that became due has happened; the test
// fails if it cannot.
func (c *Clock) Advance(d time.Duration) {
	c.t.Helper()
	if err := c.TestClock.Advance(c.t.Context(), d); err != nil {
		c.t.Fatalf("advance the clock by %v: %v", d, err)
	}
}

// Set is Advance to a time.
func (c *Clock) Set(to time.Time) {
	c.t.Helper()
	if err := c.TestClock.Set(c.t.Context(), to); err != nil {
		c.t.Fatalf("set the clock: %v", err)
	}
}
