package stator

import (
	"errors"
	"time"

	"github.com/stator-db/stator/internal/clock"
)

// TestClock is a clock that a test sets and advances: see NewTestClock.
//
//	clock := stator.NewTestClock(time.Now())
//	db, err := stator.Open(ctx, stator.Options{TestClock: clock})
//	…
//	err = clock.Advance(ctx, 25*time.Hour)
//
// When Advance returns, all that became due on the way has happened, in its order: expired
// items are deleted and are records of streams, old records are trimmed, tables are scaled and
// backed up. Several databases may have one TestClock.
type TestClock = clock.Manual

// NewTestClock returns a clock that shows a time, and stands still until TestClock.Run.
func NewTestClock(at time.Time) *TestClock { return clock.NewManual(at) }

// ErrClockMoving is returned by a TestClock that is being advanced already.
var ErrClockMoving = clock.ErrMoving

// checkTestClock returns the error of a test clock that cannot be.
func (o *Options) checkTestClock() error {
	switch {
	case o.TestClock == nil && (o.TestClockRequests || o.TestClockSignatures):
		return errors.New("TestClockRequests and TestClockSignatures require a TestClock")
	case o.TestClock == nil:
		return nil
	case o.Now != nil || o.Elapsed != nil:
		return errors.New("a database has either a TestClock, or Now and Elapsed")
	case o.Engine != "":
		return errors.New("a database on a cluster cannot have a test clock: its time is that of the cluster, which other servers share")
	case o.Dir != "":
		return errors.New("a database in a folder cannot have a test clock: what expires and is trimmed by a time that is not the real one is lost, and later starts with the real time would be before the data; leave out the folder")
	}
	return nil
}

// settableClock returns the clock that requests may change; nil if there is none.
func (o *Options) settableClock() *clock.Manual {
	if o.TestClockRequests {
		return o.TestClock
	}
	return nil
}
