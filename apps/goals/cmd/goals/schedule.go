package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	_ "time/tzdata" // zones, also in a container without them

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/daily"
)

// schedule loads the day's gold files once a day, within the server.
type schedule struct {
	at daily.Time

	loaded func(ctx context.Context) (day string, at time.Time, err error) // the day in the table, and when it was loaded
	load   func(ctx context.Context, day string) (*batch.Report, error)    // makes the table match a day
	done   func(*batch.Report)

	log      *slog.Logger
	now      func() time.Time
	failures prometheus.Counter
	last     prometheus.Gauge
}

// How long the schedule waits between two looks at the clock, and after a load that
// failed or whose files are not there yet.
const (
	clockEvery = time.Minute
	loadRetry  = 5 * time.Minute
)

// scheduleFlags are the flags of a command that loads on schedule.
type scheduleFlags struct{ at, zone string }

func (s *scheduleFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&s.at, "load-at", "", "time of day at which the day's gold files are loaded, such as 03:30; the default is never")
	f.StringVar(&s.zone, "load-zone", "UTC", "time zone of --load-at, such as America/Sao_Paulo")
}

// parse returns the schedule, or nil if there is none.
func (s *scheduleFlags) parse(metrics prometheus.Registerer) (*schedule, error) {
	if s.at == "" {
		return nil, nil
	}
	at, err := time.Parse("15:04", s.at)
	if err != nil {
		return nil, command.Usagef("--load-at is %q, but must be a time of day such as 03:30", s.at)
	}
	zone, err := time.LoadLocation(s.zone)
	if err != nil {
		return nil, command.Usagef("--load-zone: %w", err)
	}
	made := &schedule{
		at: daily.Time{Hour: at.Hour(), Minute: at.Minute(), Zone: zone}, now: now,
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "goals_load_failures_total", Help: "Scheduled loads that failed."}),
		last:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "goals_load_last_success_timestamp_seconds", Help: "When the last load was complete."}),
	}
	metrics.MustRegister(made.failures, made.last)
	return made, nil
}

// due returns the day whose time of loading has come last.
func (s *schedule) due(now time.Time) string {
	_, day := s.at.Due(now)
	return day.Format(time.DateOnly)
}

// run loads each day when it is due, and retries a load that failed, until the context
// ends. What is loaded is read from the state of the runs, so a restart does not repeat a
// day. Days that could not be loaded in time are skipped, except the first of a month.
func (s *schedule) run(ctx context.Context) error {
	reported := ""
	for {
		day, wait := s.due(s.now()), clockEvery
		if err := s.attempt(ctx, day); err != nil && ctx.Err() == nil {
			wait = loadRetry
			switch {
			case !errors.Is(err, gold.ErrNoDay):
				s.failures.Inc()
				s.log.Error("the scheduled load failed; retrying", "day", day, "in", wait.String(), "error", err)
			case reported != day:
				s.log.Info("the day's gold files are not complete yet; waiting for them", "day", day)
				reported = day
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// attempt loads a day unless it, or a later one, is loaded. If the first day of its month
// was skipped, it is loaded before: its files have all contributions of the month before,
// with which the rewards of that month are ordered.
func (s *schedule) attempt(ctx context.Context, day string) error {
	have, at, err := s.loaded(ctx)
	if err == nil && !at.IsZero() { // perhaps by an earlier process, or by a command
		s.last.Set(float64(at.Unix()))
	}
	if err != nil || have >= day {
		return err
	}
	first := day[:len("2006-01-")] + "01"
	if have == "" || have >= first || first == day {
		return s.loadDay(ctx, day)
	}
	missing := s.loadDay(ctx, first)
	if missing != nil && !errors.Is(missing, gold.ErrNoDay) {
		return missing
	}
	if err := s.loadDay(ctx, day); err != nil {
		return err
	}
	if missing != nil {
		s.log.Warn("there were no gold files of the first day of the month: rewards of the month before may be missing", "day", first)
	}
	return nil
}

func (s *schedule) loadDay(ctx context.Context, day string) error {
	report, err := s.load(ctx, day)
	if err != nil {
		return err
	}
	s.last.Set(float64(s.now().Unix()))
	s.log.Info("the scheduled load is complete", "day", report.Day, "customers", report.Customers, "removed", report.Removed, "rewards", report.Rewards, "seconds", fmt.Sprintf("%.1f", report.Seconds))
	s.done(report)
	return nil
}
