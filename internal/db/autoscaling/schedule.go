package autoscaling

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a machine may have no time zones
)

// Schedule is the parsed schedule of an action: a moment, an interval or a
// calendar. Two of them are zero.
type Schedule struct {
	at    time.Time
	every time.Duration
	cron  *calendar
	zone  *time.Location
}

// ParseSchedule parses a schedule: at(yyyy-mm-ddThh:mm:ss), rate(value unit) or
// cron(fields), in a time zone of the IANA database, which defaults to UTC.
func ParseSchedule(expression, timezone string) (*Schedule, error) {
	s := &Schedule{zone: time.UTC}
	if timezone != "" {
		zone, err := time.LoadLocation(timezone)
		if err != nil || timezone == "Local" {
			return nil, fmt.Errorf("%q is not a time zone", timezone)
		}
		s.zone = zone
	}
	kind, rest, _ := strings.Cut(expression, "(")
	text, closed := strings.CutSuffix(rest, ")")
	if !closed {
		return nil, errors.New("a schedule is at(…), rate(…) or cron(…)")
	}
	var err error
	switch kind {
	case "at":
		s.at, err = time.ParseInLocation("2006-01-02T15:04:05", text, s.zone)
	case "rate":
		s.every, err = parseRate(text)
	case "cron":
		s.cron, err = parseCalendar(text)
	default:
		err = errors.New("a schedule is at(…), rate(…) or cron(…)")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Next returns the first time of the schedule after since. An interval or a
// calendar with a start begins there, whether the calendar has that time or not;
// an interval without one begins at its origin. It is not ok if there is no such
// time.
func (s *Schedule) Next(since, start, origin time.Time) (at time.Time, ok bool) {
	switch {
	case !s.at.IsZero():
		return s.at, s.at.After(since)
	case !start.IsZero() && since.Before(start):
		return start, true
	case s.cron != nil:
		return s.cron.next(since.In(s.zone))
	}
	if !start.IsZero() {
		origin = start
	}
	sinceOrigin := since.Sub(origin)
	passed := sinceOrigin / s.every
	if sinceOrigin%s.every < 0 { // the clock was set back after it
		passed--
	}
	return origin.Add((passed + 1) * s.every), true
}

var rateForm = regexp.MustCompile(`^([1-9][0-9]{0,8}) +(minute|hour|day)s?$`)

func parseRate(text string) (time.Duration, error) {
	m := rateForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("rate(%s) is not a number with minutes, hours or days", text)
	}
	n, _ := strconv.Atoi(m[1])
	unit := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[m[2]]
	if n > int(100*365*24*time.Hour/unit) {
		return 0, fmt.Errorf("rate(%s) is longer than a hundred years", text)
	}
	return time.Duration(n) * unit, nil
}

// calendar is a cron expression: minutes, hours, days of the month, months, days of
// the week and years, of which either kind of days is "?".
type calendar struct {
	minutes, hours, months, years []int
	days                          func(year int, month time.Month, day int) bool
}

var (
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

// The years of a calendar.
const (
	firstYear = 1970
	lastYear  = 2199
)

func parseCalendar(text string) (*calendar, error) {
	f := strings.Fields(text)
	if len(f) != 6 {
		return nil, fmt.Errorf("cron(%s) has %d fields, not six: minutes, hours, day of month, month, day of week, year", text, len(f))
	}
	if (f[2] == "?") == (f[4] == "?") {
		return nil, fmt.Errorf("cron(%s) must have ? as either the day of the month or the day of the week", text)
	}
	c := new(calendar)
	var err error
	for _, field := range []struct {
		to          *[]int
		text        string
		first, last int
		names       []string
	}{
		{&c.minutes, f[0], 0, 59, nil}, {&c.hours, f[1], 0, 23, nil}, {&c.months, f[3], 1, 12, monthNames}, {&c.years, f[5], firstYear, lastYear, nil},
	} {
		if *field.to, err = parseField(field.text, field.first, field.last, field.names); err != nil {
			return nil, err
		}
	}
	if f[4] == "?" {
		c.days, err = parseMonthDays(f[2])
	} else {
		c.days, err = parseWeekDays(f[4])
	}
	return c, err
}

// parseField returns the values of a field, in order: a list of values, ranges and
// steps.
func parseField(text string, first, last int, names []string) (values []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to, every := first, last, 1
		if span != "*" {
			low, high, ranged := strings.Cut(span, "-")
			if from, err = parseNumber(low, first, last, names); err != nil {
				return nil, err
			}
			switch {
			case ranged:
				to, err = parseNumber(high, first, last, names)
			case !stepped:
				to = from
			}
			if err != nil {
				return nil, err
			}
		}
		if stepped {
			if every, err = parseNumber(step, 1, last, nil); err != nil {
				return nil, err
			}
		}
		if to < from {
			return nil, fmt.Errorf("%s ends before it begins", part)
		}
		for n := from; n <= to; n += every {
			values = append(values, n)
		}
	}
	slices.Sort(values)
	return slices.Compact(values), nil
}

// parseNumber parses a number, or the name of one, between limits.
func parseNumber(text string, first, last int, names []string) (int, error) {
	if i := slices.Index(names, strings.ToUpper(text)); i >= 0 {
		return first + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < first || n > last {
		return 0, fmt.Errorf("%q is not a value between %d and %d", text, first, last)
	}
	return n, nil
}

func daysIn(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

func weekday(year int, month time.Month, day int) time.Weekday {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()
}

// parseMonthDays parses the days of the month: L is the last, and nW the weekday
// nearest to the n-th in the same month.
func parseMonthDays(text string) (func(int, time.Month, int) bool, error) {
	if text == "L" {
		return func(year int, month time.Month, day int) bool { return day == daysIn(year, month) }, nil
	}
	if near, ok := strings.CutSuffix(text, "W"); ok {
		n, err := parseNumber(near, 1, 31, nil)
		return func(year int, month time.Month, day int) bool { return day == nearestWeekday(year, month, n) }, err
	}
	days, err := parseField(text, 1, 31, nil)
	return func(_ int, _ time.Month, day int) bool { return slices.Contains(days, day) }, err
}

// nearestWeekday returns the weekday nearest to a day within its month; 0 if the
// month does not have that day.
func nearestWeekday(year int, month time.Month, day int) int {
	last := daysIn(year, month)
	switch w := weekday(year, month, day); {
	case day > last:
		return 0
	case w == time.Saturday && day > 1:
		return day - 1
	case w == time.Saturday:
		return day + 2
	case w == time.Sunday && day < last:
		return day + 1
	case w == time.Sunday:
		return day - 2
	}
	return day
}

// parseWeekDays parses the days of the week, from 1, Sunday: L is Saturday, nL the
// last n-th day of the month, and n#k the k-th.
func parseWeekDays(text string) (func(int, time.Month, int) bool, error) {
	is := func(n int) func(int, time.Month, int) bool {
		return func(year int, month time.Month, day int) bool { return int(weekday(year, month, day))+1 == n }
	}
	if text == "L" {
		return is(7), nil
	}
	if day, ok := strings.CutSuffix(text, "L"); ok {
		n, err := parseNumber(day, 1, 7, dayNames)
		return func(year int, month time.Month, day int) bool {
			return is(n)(year, month, day) && day+7 > daysIn(year, month)
		}, err
	}
	if name, nth, ok := strings.Cut(text, "#"); ok {
		n, err := parseNumber(name, 1, 7, dayNames)
		k, err2 := parseNumber(nth, 1, 5, nil)
		return func(year int, month time.Month, day int) bool { return is(n)(year, month, day) && (day-1)/7+1 == k }, errors.Join(err, err2)
	}
	days, err := parseField(text, 1, 7, dayNames)
	return func(year int, month time.Month, day int) bool {
		return slices.Contains(days, int(weekday(year, month, day))+1)
	}, err
}

// next returns the first time of the calendar after another, in its time zone. A
// time that a change of the clock leaves out is an hour later that day.
func (c *calendar) next(since time.Time) (time.Time, bool) {
	year, month, day := since.Date()
	for y := year; y <= lastYear; y++ {
		if !slices.Contains(c.years, y) {
			continue
		}
		for _, m := range c.months {
			if y == year && m < int(month) {
				continue
			}
			for d := 1; d <= daysIn(y, time.Month(m)); d++ {
				if y == year && m == int(month) && d < day || !c.days(y, time.Month(m), d) {
					continue
				}
				for _, h := range c.hours {
					for _, minute := range c.minutes {
						if at := time.Date(y, time.Month(m), d, h, minute, 0, 0, since.Location()); at.After(since) {
							return at, true
						}
					}
				}
			}
		}
	}
	return time.Time{}, false
}
