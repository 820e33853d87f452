package poller

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/meter"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
)

func schedule(t *testing.T, at, zone string, back int) Schedule {
	t.Helper()
	s, err := ParseSchedule(at, zone, back)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// When clocks are set forward and back, the time is the one that people expect.
func TestNext(t *testing.T) {
	for _, c := range []struct{ name, at, zone, after, want string }{
		{"an ordinary day", "06:30", "Europe/Berlin", "2026-03-01T12:00:00Z", "2026-03-02T05:30:00Z"},
		{"the same day", "06:30", "Europe/Berlin", "2026-03-01T05:29:59Z", "2026-03-01T05:30:00Z"},
		{"not the moment itself", "06:30", "Europe/Berlin", "2026-03-01T05:30:00Z", "2026-03-02T05:30:00Z"},
		{"after clocks went forward it is an hour earlier in UTC", "06:30", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T04:30:00Z"},
		{"a time that does not exist is later by the same amount", "02:30", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
		{"and the day after it is back", "02:30", "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-30T00:30:00Z"},
		{"of a time that exists twice the first counts", "02:30", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"and not the second", "02:30", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"New York, twice", "01:30", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"},
		{"half an hour, twice", "01:45", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "2026-04-04T14:45:00Z"},
	} {
		after, _ := time.Parse(time.RFC3339, c.after)
		want, _ := time.Parse(time.RFC3339, c.want)
		if got := schedule(t, c.at, c.zone, 0).Next(after); !got.Equal(want) {
			t.Errorf("%s: the time after %s is %s, want %s", c.name, c.after, got.UTC().Format(time.RFC3339), c.want)
		}
	}
}

// In two years each day has the time once, whatever the clocks do.
func TestEachDayOnce(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "Asia/Kathmandu"} {
		for _, at := range []string{"00:00", "00:30", "01:45", "02:00", "02:30", "03:00", "23:59"} {
			s := schedule(t, at, zone, 0)
			now := time.Date(2026, 1, 1, 23, 59, 0, 0, s.Place)
			want := now
			for range 730 {
				next := s.Next(now)
				want = want.AddDate(0, 0, 1)
				if got := s.Day(next); got != want.Format(time.DateOnly) {
					t.Fatalf("%s %s: the time after %s is %s, the day %s", at, zone, now, next, got)
				}
				if due := s.Due(next); !due.Equal(next) {
					t.Fatalf("%s %s: at %s what is due is %s", at, zone, next, due)
				}
				if due := s.Due(next.Add(-time.Second)); due.After(now) && !due.Equal(now) {
					t.Fatalf("%s %s: before %s what is due is %s", at, zone, next, due)
				}
				now = next
			}
		}
	}
}

// The keeper starts one batch for each day across a change of the clocks, and none
// twice if the clock is set forward or back.
func TestKeeperThroughTheYear(t *testing.T) {
	// The server's clock is fixed, so that nothing expires meanwhile.
	begin := time.Date(2026, 10, 23, 0, 0, 0, 0, time.UTC)
	now := begin
	h := hometest.StartWith(t, home.Options{Model: hometest.Model(t, "../downloads.model.yaml"), Now: func() time.Time { return begin }})
	batches := &ledger.Batches{DB: h.DB, Now: func() time.Time { return now }}
	s := schedule(t, "02:30", "Europe/Berlin", 1)
	k := &Keeper{Poller: &Poller{Batches: batches, Log: slog.New(slog.DiscardHandler), Meter: meter.New(prometheus.NewRegistry(), func() {})}, Schedule: &s, Retry: time.Second}
	look := func() {
		t.Helper()
		wait, err := k.ensure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if wait <= 0 || wait > time.Minute {
			t.Fatalf("at %s the keeper waits %s", now, wait)
		}
	}
	count := func(date string) int {
		t.Helper()
		found, err := batches.OfDay(t.Context(), date, "")
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for end := now.AddDate(0, 0, 5); now.Before(end); now = now.Add(7 * time.Minute) {
		look()
	}
	for _, day := range []string{"2026-10-22", "2026-10-23", "2026-10-24", "2026-10-25", "2026-10-26"} {
		if n := count(day); n != 1 {
			t.Errorf("%s has %d batches", day, n)
		}
	}
	now = now.AddDate(0, 0, -3) // set back
	look()
	now = now.AddDate(0, 0, 10) // set forward
	look()
	look()
	for _, day := range []string{"2026-10-24", "2026-10-25", s.Day(s.Due(now))} {
		if n := count(day); n != 1 {
			t.Errorf("after the clock was set, %s has %d batches", day, n)
		}
	}
	// A triggered batch is added.
	if _, err := k.Trigger(t.Context(), s.Day(s.Due(now))); err != nil {
		t.Fatal(err)
	}
	if n := count(s.Day(s.Due(now))); n != 2 {
		t.Errorf("after a trigger the day has %d batches", n)
	}
	for _, day := range []string{"2020-01-01", "2100-01-01", "today", "../.."} {
		if _, err := k.Trigger(t.Context(), day); err == nil || errors.Is(err, ledger.ErrLost) {
			t.Errorf("a batch of %q: %v", day, err)
		}
	}
}
