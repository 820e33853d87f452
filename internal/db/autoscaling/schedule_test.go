package autoscaling

import (
	"testing"
	"time"
)

func TestSchedules(t *testing.T) {
	parse := func(text string) time.Time {
		at, err := time.Parse("2006-01-02 15:04:05 MST", text+" UTC")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, c := range []struct{ name, schedule, zone, since, want string }{
		{"a moment", "at(2026-03-01T9:30:00)", "", "2026-01-01 00:00:00", "2026-03-01 09:30:00"},
		{"a moment in a time zone", "at(2026-03-01T09:30:00)", "America/New_York", "2026-01-01 00:00:00", "2026-03-01 14:30:00"},
		{"a moment that has passed", "at(2026-03-01T09:30:00)", "", "2026-03-01 09:30:00", ""},
		{"an interval from its origin", "rate(5 minutes)", "", "2026-01-01 00:07:00", "2026-01-01 00:10:00"},
		{"an interval before its origin", "rate(5 minutes)", "", "2025-12-31 23:52:00", "2025-12-31 23:55:00"},
		{"an interval at a time before its origin", "rate(5 minutes)", "", "2025-12-31 23:50:00", "2025-12-31 23:55:00"},
		{"an interval of one day", "rate(1 day)", "", "2026-01-01 00:00:00", "2026-01-02 00:00:00"},
		{"every day at ten", "cron(0 10 * * ? *)", "", "2026-01-01 10:00:00", "2026-01-02 10:00:00"},
		{"weekdays at six", "cron(0 18 ? * MON-FRI *)", "", "2026-01-02 18:00:00", "2026-01-05 18:00:00"},
		{"each quarter of an hour", "cron(0/15 * * * ? *)", "", "2026-01-01 10:07:30", "2026-01-01 10:15:00"},
		{"the first of a month", "cron(0 8 1 * ? *)", "", "2026-01-01 08:00:00", "2026-02-01 08:00:00"},
		{"ranges with steps and lists", "cron(0/5 8-17/3,20 ? * 2,WED *)", "", "2026-01-05 17:56:00", "2026-01-05 20:00:00"},
		{"the last day of a month", "cron(0 0 L * ? *)", "", "2028-02-01 00:00:00", "2028-02-29 00:00:00"},
		{"the last Friday", "cron(0 0 ? * 6L *)", "", "2026-01-01 00:00:00", "2026-01-30 00:00:00"},
		{"the second Tuesday", "cron(0 0 ? * TUE#2 *)", "", "2026-01-01 00:00:00", "2026-01-13 00:00:00"},
		{"Saturday", "cron(0 0 ? * L *)", "", "2026-01-01 00:00:00", "2026-01-03 00:00:00"},
		{"the weekday nearest to a Sunday", "cron(0 0 15W FEB ? *)", "", "2026-01-01 00:00:00", "2026-02-16 00:00:00"},
		{"the weekday nearest to the first", "cron(0 0 1W AUG ? *)", "", "2026-01-01 00:00:00", "2026-08-03 00:00:00"},
		{"the 29th of February", "cron(0 0 29 2 ? *)", "", "2026-01-01 00:00:00", "2028-02-29 00:00:00"},
		{"never", "cron(0 0 30 2 ? *)", "", "2026-01-01 00:00:00", ""},
		{"a year that has passed", "cron(0 0 1 1 ? 2025)", "", "2026-01-01 00:00:00", ""},
		{"summer time", "cron(0 8 * * ? *)", "Europe/Berlin", "2026-07-01 00:00:00", "2026-07-01 06:00:00"},
		{"an hour that is left out", "cron(30 2 29 3 ? *)", "Europe/Berlin", "2026-01-01 00:00:00", "2026-03-29 01:30:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseSchedule(c.schedule, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, ok := s.Next(parse(c.since), time.Time{}, parse("2026-01-01 00:00:00"))
			if ok != (c.want != "") || ok && !at.Equal(parse(c.want)) {
				t.Errorf("the next time is %v, %v, want %s", at.UTC(), ok, c.want)
			}
		})
	}
	s, _ := ParseSchedule("rate(5 minutes)", "")
	start := parse("2026-01-01 00:02:00")
	for since, want := range map[string]string{"2026-01-01 00:00:00": "2026-01-01 00:02:00", "2026-01-01 00:02:00": "2026-01-01 00:07:00"} {
		if at, ok := s.Next(parse(since), start, start.Add(-time.Hour)); !ok || !at.Equal(parse(want)) {
			t.Errorf("with a start, after %s: %v, want %s", since, at, want)
		}
	}
}

func TestInvalidSchedules(t *testing.T) {
	for _, c := range [][2]string{
		{"", ""}, {"now", ""}, {"at()", ""}, {"at(2026-13-01T00:00:00)", ""}, {"at(2026-01-01T00:00:00", ""}, {"every(5 minutes)", ""},
		{"rate(0 minutes)", ""}, {"rate(5)", ""}, {"rate(5 weeks)", ""}, {"rate(999999999 days)", ""},
		{"cron(0 10 * * ?)", ""}, {"cron(0 10 * * * *)", ""}, {"cron(0 10 ? * ? *)", ""}, {"cron(60 10 * * ? *)", ""}, {"cron(0 24 * * ? *)", ""},
		{"cron(0 10 32 * ? *)", ""}, {"cron(0 10 ? * 8 *)", ""}, {"cron(0 10 ? * MON#6 *)", ""}, {"cron(5-1 10 * * ? *)", ""}, {"cron(0/0 10 * * ? *)", ""},
		{"cron(0 10 * FOO ? *)", ""}, {"cron(0 10 * * ? 1969)", ""}, {"cron(0 10 0W * ? *)", ""}, {"cron(0 10 ? * XL *)", ""},
		{"rate(5 minutes)", "Mars/Olympus"}, {"rate(5 minutes)", "Local"},
	} {
		if _, err := ParseSchedule(c[0], c[1]); err == nil {
			t.Errorf("%s in %q is accepted", c[0], c[1])
		}
	}
}
