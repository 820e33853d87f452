package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/internal/virtualtime"
)

// Each day is loaded once, when it is due; a failure and missing files are retried.
func TestSchedule(t *testing.T) {
	flags := scheduleFlags{at: "03:30", zone: "America/Sao_Paulo"}
	virtualtime.Test(t, func(t *testing.T) {
		s, err := flags.parse(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		var loads []string
		loaded, failed := "", false
		s.log, s.done = slog.New(slog.DiscardHandler), func(*batch.Report) {}
		s.loaded = func(context.Context) (string, time.Time, error) { return loaded, time.Time{}, nil }
		began := time.Now() // 2000-01-01T00:00Z, which is 22:00 of the day before
		s.load = func(_ context.Context, day string) (*batch.Report, error) {
			after := time.Since(began)
			switch {
			case day == "2000-01-02" && !failed:
				failed = true
				return nil, errors.New("a disk is full")
			case day == "2000-01-03" && after < 58*time.Hour:
				return nil, fmt.Errorf("wait: %w", gold.ErrNoDay)
			}
			loads, loaded = append(loads, fmt.Sprintf("%s after %s", day, after.Truncate(time.Minute))), day
			return &batch.Report{Day: day}, nil
		}
		ctx, stop := context.WithTimeout(t.Context(), 80*time.Hour)
		defer stop()
		if err := s.run(ctx); err != nil {
			t.Fatal(err)
		}
		// 03:30 in São Paulo was 05:30 UTC in the summer of 2000.
		want := "1999-12-31 after 0s, 2000-01-01 after 5h30m0s, 2000-01-02 after 29h35m0s, 2000-01-03 after 58h0m0s, 2000-01-04 after 77h30m0s"
		if got := strings.Join(loads, ", "); got != want {
			t.Errorf("loaded %s, want %s", got, want)
		}
	})
	for _, f := range []scheduleFlags{{"25:00", "UTC"}, {"03:30", "Mars"}, {"soon", "UTC"}} {
		if _, err := f.parse(prometheus.NewRegistry()); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

// A server loads the day while it serves, and a load in another process names the way.
func TestServerLoads(t *testing.T) {
	folder, person := t.TempDir(), gold.Person(1, 0).String()
	day := time.Now().UTC().Format(time.DateOnly)
	c := start(t, "serve", "--data", folder, "--listen", "127.0.0.1:0", "--load-at", "00:00", "--log-json", "--dynamodb", "127.0.0.1:0")
	endpoint := c.says(`"endpoint":"([^"]+)"`)
	url := c.says(`"msg":"serving","url":"([^"]+)"`)
	other := start(t, "load", "--data", folder, "--day", day)
	for _, want := range []string{`(--load-at)`, `(--endpoint)`} {
		other.says(want)
	}
	// Another process can load through the server's tables.
	start(t, "generate", "--data", folder, "--customers", "20", "--day", day, "--format", "jsonl", "--as-of", time.Now().UTC().Format(time.RFC3339)).succeeds()
	where, err := folderURL(folder + "/gold")
	if err != nil {
		t.Fatal(err)
	}
	start(t, "load", "--endpoint", endpoint, "--bucket", where, "--rules", folder+"/rules.db", "--day", day, "--work", t.TempDir()).succeeds()
	if status, body := get(t, url, person); status != 200 {
		t.Errorf("after a load: %d %s", status, body)
	}
	c.kill()
	// The next server finds the day loaded; a new table gets it from the schedule.
	fresh := t.TempDir()
	c = start(t, "serve", "--data", fresh, "--listen", "127.0.0.1:0", "--load-at", "00:00", "--bucket", where, "--state", "mem://")
	url = c.says(`serving url=(\S+)`)
	c.says(`(the scheduled load is complete)`)
	if status, body := get(t, url, person); status != 200 {
		t.Errorf("after a scheduled load: %d %s", status, body)
	}
	if _, body := page(t, url+"/metrics"); !strings.Contains(body, "goals_load_last_success_timestamp_seconds 1") {
		t.Error("the metrics do not have the time of the load")
	}
}

// A server that leaves the stream to others sends the rewards of its scheduled loads,
// and does not load if it cannot: a run records its rewards as ordered.
func TestScheduledRewardsAreSent(t *testing.T) {
	for _, c := range []struct {
		kafka            string
		alone, scheduled bool
		sends, refused   bool
	}{
		{kafka: "127.0.0.1:9", alone: true, scheduled: true, sends: true},
		{alone: true, scheduled: true, refused: true},
		{alone: true},
		{kafka: "127.0.0.1:9", scheduled: true, sends: true},
		{scheduled: true, sends: true},
	} {
		p := new(parts)
		p.kafka.addresses = c.kafka
		_, reward, stop, err := p.openServeKafka(c.alone, c.scheduled)
		if (reward != nil) != c.sends || (err != nil) != c.refused {
			t.Errorf("%+v: sends rewards %v, error %v", c, reward != nil, err)
		}
		if err == nil {
			stop()
		} else if !strings.Contains(err.Error(), "--kafka") {
			t.Errorf("%+v: %v does not name --kafka", c, err)
		}
	}
}

// Each day is due also where clocks go forward at midnight, which then does not exist.
func TestEachDayIsDue(t *testing.T) {
	for _, flags := range []scheduleFlags{
		{"00:00", "America/Santiago"}, {"03:30", "America/Santiago"}, {"00:30", "America/Havana"}, {"23:59", "Asia/Beirut"}, {"02:30", "America/New_York"},
	} {
		s, err := flags.parse(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		last := ""
		for at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == 2026; at = at.Add(10 * time.Minute) {
			day := s.due(at)
			if last != "" && day != last {
				before, err := time.Parse(time.DateOnly, last)
				if err != nil || before.AddDate(0, 0, 1).Format(time.DateOnly) != day {
					t.Errorf("%+v: %s follows %s", flags, day, last)
				}
			}
			last = day
		}
	}
}

// A server that was away at the beginning of a month loads the first day, whose files have
// all contributions of the month before, and then the day that is due.
func TestFirstDayOfAMonthIsLoaded(t *testing.T) {
	for _, c := range []struct{ have, due, missing, want string }{
		{"", "2026-05-03", "", "2026-05-03"},
		{"2026-04-29", "2026-05-03", "", "2026-05-01 2026-05-03"},
		{"2026-04-29", "2026-05-01", "", "2026-05-01"},
		{"2026-04-29", "2026-05-03", "2026-05-01", "2026-05-03"},
		{"2025-12-31", "2026-02-02", "", "2026-02-01 2026-02-02"},
		{"2026-05-01", "2026-05-03", "", "2026-05-03"},
		{"2026-05-03", "2026-05-03", "", ""},
	} {
		var loads []string
		s, err := (&scheduleFlags{at: "03:30", zone: "UTC"}).parse(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		s.log, s.done = slog.New(slog.DiscardHandler), func(*batch.Report) {}
		s.loaded = func(context.Context) (string, time.Time, error) { return c.have, time.Time{}, nil }
		s.load = func(_ context.Context, day string) (*batch.Report, error) {
			if day == c.missing {
				return nil, gold.ErrNoDay
			}
			loads = append(loads, day)
			return &batch.Report{Day: day}, nil
		}
		if err := s.attempt(t.Context(), c.due); err != nil || strings.Join(loads, " ") != c.want {
			t.Errorf("%s is loaded, %s is due: loads %v, %v, want %s", c.have, c.due, loads, err, c.want)
		}
	}
}

// After a restart the time of the last load is known, and a load by a command counts.
func TestLastLoadIsKnownAfterARestart(t *testing.T) {
	metrics := prometheus.NewRegistry()
	s, err := (&scheduleFlags{at: "03:30", zone: "UTC"}).parse(metrics)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 5, 3, 3, 31, 0, 0, time.UTC)
	s.loaded = func(context.Context) (string, time.Time, error) { return "2026-05-03", at, nil }
	for range 2 {
		if err := s.attempt(t.Context(), "2026-05-03"); err != nil {
			t.Fatal(err)
		}
		got, err := metrics.Gather()
		if err != nil || len(got) != 2 || got[1].GetName() != "goals_load_last_success_timestamp_seconds" || got[1].Metric[0].Gauge.GetValue() != float64(at.Unix()) {
			t.Errorf("the metrics are %v, %v, want %d", got, err, at.Unix())
		}
		at = at.Add(time.Hour)
	}
}
