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

// A batch requests the files of the day of its scheduled time, or of days before.
func TestDayOfSchedule(t *testing.T) {
	for _, c := range []struct {
		at, zone  string
		back      int
		now, want string
	}{
		{"06:30", "Europe/Berlin", 0, "2026-03-02T05:30:00Z", "2026-03-02"},
		{"06:30", "Europe/Berlin", 0, "2026-03-02T05:29:59Z", "2026-03-01"},
		{"06:30", "Europe/Berlin", 2, "2026-03-02T05:30:00Z", "2026-02-28"},
		{"00:30", "America/Santiago", 0, "2026-09-06T04:30:00Z", "2026-09-06"},
		{"00:30", "America/Santiago", 0, "2026-09-06T04:29:59Z", "2026-09-05"},
		{"23:30", "America/Nuuk", 0, "2026-03-29T01:30:00Z", "2026-03-28"},
	} {
		now, _ := time.Parse(time.RFC3339, c.now)
		if got := schedule(t, c.at, c.zone, c.back).Day(now); got != c.want {
			t.Errorf("%+v: the day is %s", c, got)
		}
	}
	for _, c := range [][2]string{{"6:70", "UTC"}, {"06:30", "Mars"}} {
		if _, err := ParseSchedule(c[0], c[1], 0); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
	for _, back := range []int{-1, 32} {
		if _, err := ParseSchedule("06:30", "UTC", back); err == nil {
			t.Errorf("%d days back are accepted", back)
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
	for _, day := range []string{"2026-10-24", "2026-10-25", s.Day(now)} {
		if n := count(day); n != 1 {
			t.Errorf("after the clock was set, %s has %d batches", day, n)
		}
	}
	// A triggered batch is added.
	if _, err := k.Trigger(t.Context(), s.Day(now)); err != nil {
		t.Fatal(err)
	}
	if n := count(s.Day(now)); n != 2 {
		t.Errorf("after a trigger the day has %d batches", n)
	}
	for _, day := range []string{"2020-01-01", "2100-01-01", "today", "../.."} {
		if _, err := k.Trigger(t.Context(), day); err == nil || errors.Is(err, ledger.ErrLost) {
			t.Errorf("a batch of %q: %v", day, err)
		}
	}
}
