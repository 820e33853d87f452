// Package daily computes when a time of day in a time zone is.
package daily

import "time"

// Time is a time of day in a time zone. Each day has it once: if clocks are set forward
// over it, it is later by the same amount, possibly after midnight; if they are set back
// over it, the first of the two counts.
type Time struct {
	Hour, Minute int
	Zone         *time.Location
}

// On returns the time of a day.
func (t Time) On(year int, month time.Month, day int) time.Time {
	at := time.Date(year, month, day, t.Hour, t.Minute, 0, 0, t.Zone)
	// With the offset of the day before, a time that exists twice is the first, and one
	// that does not exist is later. time.Date does not guarantee either.
	_, offset := time.Date(year, month, day-1, 12, 0, 0, 0, t.Zone).Zone()
	first := time.Date(year, month, day, t.Hour, t.Minute, 0, 0, time.UTC).Add(-time.Duration(offset) * time.Second).In(t.Zone)
	if !t.is(at) || t.is(first) {
		return first
	}
	return at
}

func (t Time) is(at time.Time) bool { return at.Hour() == t.Hour && at.Minute() == t.Minute }

// Next returns the first time after another.
func (t Time) Next(after time.Time) time.Time {
	year, month, day := after.In(t.Zone).Date()
	for day--; ; day++ {
		if at := t.On(year, month, day); at.After(after) {
			return at
		}
	}
}

// Due returns the last time up to another, and its day as midnight in UTC: in the zone a
// midnight may not exist.
func (t Time) Due(now time.Time) (at, of time.Time) {
	year, month, day := now.In(t.Zone).Date()
	for ; ; day-- {
		if at := t.On(year, month, day); !at.After(now) {
			return at, time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		}
	}
}
