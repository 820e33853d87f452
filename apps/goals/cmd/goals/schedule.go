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
)

// schedule loads the day's gold files once a day, within the server.
type schedule struct {
	at   time.Duration // since midnight
	zone *time.Location

	loaded func(ctx context.Context) (day string, err error)            // the day in the table
	load   func(ctx context.Context, day string) (*batch.Report, error) // makes the table match a day
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
		at: time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, zone: zone, now: now,
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "goals_load_failures_total", Help: "Scheduled loads that failed."}),
		last:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "goals_load_last_success_timestamp_seconds", Help: "When the last scheduled load was complete."}),
	}
	metrics.MustRegister(made.failures, made.last)
	return made, nil
}

// due returns the day whose time of loading has come last. Days are counted in UTC: in
// the zone a midnight may not exist.
func (s *schedule) due(now time.Time) string {
	local := now.In(s.zone)
	year, month, day := local.Date()
	at := time.Date(year, month, day, int(s.at/time.Hour), int(s.at%time.Hour/time.Minute), 0, 0, s.zone)
	if local.Before(at) {
		day--
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// run loads each day when it is due, and retries a load that failed, until the context
// ends. What is loaded is read from the state of the runs, so a restart neither skips a
// day nor repeats one.
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

// attempt loads a day unless it, or a later one, is loaded.
func (s *schedule) attempt(ctx context.Context, day string) error {
	have, err := s.loaded(ctx)
	if err != nil || have >= day {
		return err
	}
	report, err := s.load(ctx, day)
	if err != nil {
		return err
	}
	s.last.Set(float64(s.now().Unix()))
	s.log.Info("the scheduled load is complete", "day", report.Day, "customers", report.Customers, "removed", report.Removed, "rewards", report.Rewards, "seconds", fmt.Sprintf("%.1f", report.Seconds))
	s.done(report)
	return nil
}
