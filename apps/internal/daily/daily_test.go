package daily_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stator-db/stator/apps/internal/daily"
)

func at(t *testing.T, hour, minute int, zone string) daily.Time {
	t.Helper()
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return daily.Time{Hour: hour, Minute: minute, Zone: place}
}

// When clocks are set forward and back, the time is the one that people expect, east and
// west of Greenwich.
func TestOn(t *testing.T) {
	for _, c := range []struct {
		name         string
		hour, minute int
		zone, day    string
		want         string // UTC
	}{
		{"an ordinary day", 6, 30, "Europe/Berlin", "2026-03-02", "2026-03-02T05:30:00Z"},
		{"after clocks went forward", 6, 30, "Europe/Berlin", "2026-03-29", "2026-03-29T04:30:00Z"},
		{"it does not exist", 2, 30, "Europe/Berlin", "2026-03-29", "2026-03-29T01:30:00Z"},
		{"it does not exist in New York", 2, 30, "America/New_York", "2026-03-08", "2026-03-08T07:30:00Z"},
		{"midnight does not exist", 0, 0, "America/Santiago", "2026-09-06", "2026-09-06T04:00:00Z"},
		{"after a midnight that does not exist", 0, 30, "America/Santiago", "2026-09-06", "2026-09-06T04:30:00Z"},
		{"later, after such a midnight", 3, 30, "America/Santiago", "2026-09-06", "2026-09-06T06:30:00Z"},
		{"it does not exist, and is on the next day", 23, 30, "America/Nuuk", "2026-03-28", "2026-03-29T01:30:00Z"},
		{"it exists twice", 2, 30, "Europe/Berlin", "2026-10-25", "2026-10-25T00:30:00Z"},
		{"it exists twice in New York", 1, 30, "America/New_York", "2026-11-01", "2026-11-01T05:30:00Z"},
		{"half an hour exists twice", 1, 45, "Australia/Lord_Howe", "2026-04-05", "2026-04-04T14:45:00Z"},
	} {
		day, _ := time.Parse(time.DateOnly, c.day)
		if got := at(t, c.hour, c.minute, c.zone).On(day.Date()).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// In two years each day has the time once, whatever the clocks do, and is due.
func TestEachDayOnce(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "Asia/Kathmandu", "America/Santiago", "America/Havana", "Asia/Beirut", "America/Nuuk"} {
		for _, minute := range []int{0, 30, 105, 120, 150, 180, 23*60 + 30, 23*60 + 59} {
			s := at(t, minute/60, minute%60, zone)
			now, want := s.Due(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
			for range 730 {
				next := s.Next(now)
				want = want.AddDate(0, 0, 1)
				if due, day := s.Due(next); !due.Equal(next) || !day.Equal(want) {
					t.Fatalf("%s %02d:%02d: at %s what is due is %s of %s, want %s", zone, s.Hour, s.Minute, next, due, day, want)
				}
				if due, _ := s.Due(next.Add(-time.Second)); !due.Equal(now) {
					t.Fatalf("%s %02d:%02d: before %s what is due is %s, want %s", zone, s.Hour, s.Minute, next, due, now)
				}
				now = next
			}
		}
	}
}
