package poller

import (
	"fmt"
	"time"
)

// Schedule is a time of day in a time zone. Each day has it once: if clocks are set
// forward over it, it is later by the same amount; if they are set back over it, the
// first of the two counts.
type Schedule struct {
	Hour, Minute int
	Place        *time.Location
	DaysBack     int // days between the date of the files and the run
}

// ParseSchedule parses a time such as 06:30 and a zone such as Europe/Berlin.
func ParseSchedule(at, zone string, daysBack int) (Schedule, error) {
	clock, err := time.Parse("15:04", at)
	if err != nil {
		return Schedule{}, fmt.Errorf("the schedule is %q, but must be a time such as 06:30", at)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		return Schedule{}, fmt.Errorf("the time zone %q is unknown: use one such as Europe/Berlin or UTC", zone)
	}
	if daysBack < 0 || daysBack > 31 {
		return Schedule{}, fmt.Errorf("--days-back is %d, but must be 0 to 31", daysBack)
	}
	return Schedule{Hour: clock.Hour(), Minute: clock.Minute(), Place: place, DaysBack: daysBack}, nil
}

// on returns the scheduled time of a day.
func (s Schedule) on(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, s.Hour, s.Minute, 0, 0, s.Place)
	// Of a time that exists twice, time.Date does not guarantee the first.
	for _, back := range []time.Duration{time.Hour, 30 * time.Minute, 2 * time.Hour} {
		if e := t.Add(-back); e.Hour() == s.Hour && e.Minute() == s.Minute && e.Day() == t.Day() {
			return e
		}
	}
	return t
}

// Next returns the first scheduled time after a time.
func (s Schedule) Next(after time.Time) time.Time {
	y, m, d := after.In(s.Place).Date()
	for ; ; d++ {
		if t := s.on(y, m, d); t.After(after) {
			return t
		}
	}
}

// Due returns the last scheduled time up to a time.
func (s Schedule) Due(now time.Time) time.Time {
	y, m, d := now.In(s.Place).Date()
	for ; ; d-- {
		if t := s.on(y, m, d); !t.After(now) {
			return t
		}
	}
}

// Day returns the day whose files are requested at a scheduled time.
func (s Schedule) Day(moment time.Time) string {
	return moment.In(s.Place).AddDate(0, 0, -s.DaysBack).Format(time.DateOnly)
}
