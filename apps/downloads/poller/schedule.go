package poller

import (
	"fmt"
	"time"
)

// Schedule is a time of the day at a place. Each day of that place has it once:
// where clocks are put forward over it, it is as much later; where they are put
// back over it, the first of the two counts.
type Schedule struct {
	Hour, Minute int
	Place        *time.Location
	DaysBack     int // how many days before the day of the run its files are of
}

// ParseSchedule reads a time such as 06:30 and a zone such as Europe/Berlin.
func ParseSchedule(at, zone string, daysBack int) (Schedule, error) {
	clock, err := time.Parse("15:04", at)
	if err != nil {
		return Schedule{}, fmt.Errorf("the schedule is %q, but must be a time such as 06:30", at)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return Schedule{}, fmt.Errorf("the time zone %q is not known: write one such as Europe/Berlin or UTC", zone)
	}
	if daysBack < 0 || daysBack > 31 {
		return Schedule{}, fmt.Errorf("the files of a day are asked for 0 to 31 days after it, not %d", daysBack)
	}
	return Schedule{Hour: clock.Hour(), Minute: clock.Minute(), Place: place, DaysBack: daysBack}, nil
}

// on is the moment of a day, told as year, month and day.
func (s Schedule) on(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, s.Hour, s.Minute, 0, 0, s.Place)
	// Of a time that is there twice, time.Date does not promise the first.
	for _, back := range []time.Duration{time.Hour, 30 * time.Minute, 2 * time.Hour} {
		if e := t.Add(-back); e.Hour() == s.Hour && e.Minute() == s.Minute && e.Day() == t.Day() {
			return e
		}
	}
	return t
}

// Next is the first moment after a time.
func (s Schedule) Next(after time.Time) time.Time {
	y, m, d := after.In(s.Place).Date()
	for ; ; d++ {
		if t := s.on(y, m, d); t.After(after) {
			return t
		}
	}
}

// Due is the last moment up to a time.
func (s Schedule) Due(now time.Time) time.Time {
	y, m, d := now.In(s.Place).Date()
	for ; ; d-- {
		if t := s.on(y, m, d); !t.After(now) {
			return t
		}
	}
}

// Day is the day whose files are asked for at a moment of the schedule.
func (s Schedule) Day(moment time.Time) string {
	return moment.In(s.Place).AddDate(0, 0, -s.DaysBack).Format(time.DateOnly)
}
