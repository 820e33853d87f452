package commit

import (
	"time"

	"github.com/stator-db/stator/internal/store"
)

// Freshness is the time of which a follower is known to have everything: all Updates that
// had returned by then.
//
// Updates return in any order. One with a smaller stamp may be in flight while one with a
// larger stamp returns, so a follower that has everything before the horizon may lack an
// Update that has returned. Observe therefore compares with the newest stamp of a moment.
type Freshness struct {
	known time.Time

	// Once the follower has all Updates before goal, it has all that had returned at next.
	goal store.Stamp
	next time.Time
}

// FreshSince returns the Freshness of a follower that had everything at a time.
func FreshSince(t time.Time) Freshness { return Freshness{known: t} }

// Observe adds that the follower has all Updates before the stamp has, and that all which
// had returned at a time are before the stamp newest.
func (f *Freshness) Observe(at time.Time, newest, has store.Stamp) {
	switch {
	case has >= newest:
		f.known, f.goal, f.next = at, newest, at
	case f.next.IsZero():
		f.goal, f.next = newest, at
	case has >= f.goal:
		f.known, f.goal, f.next = f.next, newest, at
	}
}

// Known returns the time of which the follower is known to have everything; zero if there is
// none.
func (f *Freshness) Known() time.Time { return f.known }
