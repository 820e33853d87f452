// Package scrub verifies all stored data in the background, again and again.
//
// It runs on the leader of the servers that share a database. What is checked is
// up to package verify.
package scrub

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/verify"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/metrics"
)

// Options configures a Scrub.
type Options struct {
	Rate int          // keys a second
	Busy func() bool  // reports whether the server has other work; may be nil
	Log  *slog.Logger // defaults to no log
}

const (
	// startDelay is how long after the start the first pass begins.
	startDelay = time.Minute
	// passInterval is the time from the end of a pass to the next.
	passInterval = 10 * time.Minute
	// busyPause is the time between two looks whether the server is still busy.
	busyPause = 100 * time.Millisecond
	// maxPause bounds how long a busy server keeps the next part waiting, so that
	// a pass ends under a constant load, too.
	maxPause = 10 * time.Second
	// maxLogged bounds how many findings are remembered, so that each is logged
	// once.
	maxLogged = 10_000
)

// Scrub is the verification in the background.
type Scrub struct {
	db         *db.DB
	o          Options
	background lead.Work

	// Only the background work uses these.
	walk     *verify.Walk // of the current pass, or nil
	began    time.Time    // the current pass
	lastPart time.Time
	logged   map[string]bool

	mu     sync.Mutex
	status Status
}

// Status is what the scrub of this server has done since its start.
type Status struct {
	Passes   int64                 // complete ones
	Keys     int64                 // read, in all passes
	PassKeys int64                 // read in the current pass
	Expected int64                 // keys of a pass, approximately
	Findings map[verify.Kind]int64 // distinct ones
	LastPass time.Time             // when the last complete pass ended
	Took     time.Duration         // how long it took
}

// Share returns how much of the current pass is done, from 0 to 1.
func (s *Status) Share() float64 {
	if s.PassKeys == 0 || s.Expected == 0 {
		return 0
	}
	return min(1, float64(s.PassKeys)/float64(s.Expected))
}

// Start starts the scrub of a database. The caller closes it before the
// database.
func Start(ctx context.Context, d *db.DB, o Options) *Scrub {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Busy == nil {
		o.Busy = func() bool { return false }
	}
	s := &Scrub{db: d, o: o, logged: make(map[string]bool), status: Status{Findings: make(map[verify.Kind]int64)}}
	s.background.Start(ctx, nil, d.Leads, s.lead)
	return s
}

// Close stops the scrub. The next one begins with a new pass.
func (s *Scrub) Close() { s.background.Close() }

// Status returns what was done so far.
func (s *Scrub) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Findings = maps.Clone(s.status.Findings)
	return status
}

// lead scrubs while this server leads.
func (s *Scrub) lead(ctx context.Context, begun func()) {
	begun()
	defer s.end()
	lead.RunTerm(ctx, nil, s.db.Leads, lead.Loop{
		Step: s.step, Delay: startDelay, Retry: time.Minute,
		Failed: func(err error) {
			s.end()
			s.o.Log.Warn("the verification in the background has stopped; it begins again", "error", err)
		},
	})
}

// end ends the current pass.
func (s *Scrub) end() {
	if s.walk != nil {
		s.walk.Close()
		s.walk = nil
	}
}

// step verifies the next part, and returns how long to wait at the given rate.
func (s *Scrub) step(ctx context.Context) (wait time.Duration, err error) {
	now := s.db.Now()
	if s.o.Busy() && now.Sub(s.lastPart) < maxPause && !now.Before(s.lastPart) {
		return busyPause, nil
	}
	if s.walk == nil {
		s.begin(now)
	}
	keys, done, err := s.walk.Step(ctx)
	if err != nil {
		return 0, err
	}
	s.lastPart = s.db.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Keys += int64(keys)
	s.status.PassKeys += int64(keys)
	if done {
		s.end()
		s.complete()
		return passInterval, nil
	}
	return max(0, db.Pace(keys, s.o.Rate)-s.lastPart.Sub(now)), nil
}

// begin begins a pass.
func (s *Scrub) begin(now time.Time) {
	s.walk, s.began = s.db.OnlineWalk(false, s.found), now
	expected := s.expected()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.PassKeys = 0
	s.status.Expected = max(expected, s.status.Expected)
}

// expected returns how many items and index entries the tables have.
func (s *Scrub) expected() (keys int64) {
	names, _ := s.db.Tables("", math.MaxInt)
	for _, name := range names {
		if t, err := s.db.Describe(name); err == nil {
			for _, c := range t.Counts {
				keys += c.Items
			}
		}
	}
	return keys
}

// complete records the end of a pass. The caller holds s.mu.
func (s *Scrub) complete() {
	s.status.Passes++
	s.status.LastPass, s.status.Took = s.lastPart, s.lastPart.Sub(s.began)
	s.status.Expected = s.status.PassKeys // of the next pass
	s.o.Log.Debug("all stored data was verified", "keys", s.status.PassKeys, "took", s.status.Took.Round(time.Millisecond))
}

// found counts and logs a finding, once.
func (s *Scrub) found(f verify.Finding) {
	id := string(f.Kind) + string(f.Key)
	if s.logged[id] || len(s.logged) >= maxLogged {
		return
	}
	s.logged[id] = true
	s.mu.Lock()
	s.status.Findings[f.Kind]++
	s.mu.Unlock()
	if f.Note {
		s.o.Log.Info("stored data has a difference that harms nothing", "kind", string(f.Kind), "table", f.Table, "finding", f.Text)
		return
	}
	s.o.Log.Error("stored data is not consistent: run stator verify, then restore the table from a backup or rewrite the item",
		"kind", string(f.Kind), "table", f.Table, "finding", f.Text)
}

// Metrics returns the status as metrics.
func (s *Scrub) Metrics() []metrics.Metric {
	status := s.Status()
	var kinds []metrics.Sample
	for _, kind := range verify.Kinds {
		kinds = append(kinds, metrics.By("kind", string(kind), float64(status.Findings[kind])))
	}
	lastPass := 0.0
	if !status.LastPass.IsZero() {
		lastPass = float64(status.LastPass.UnixMilli()) / 1000
	}
	return []metrics.Metric{
		{Name: "stator_scrub_passes_total", Help: "Complete passes over all stored data since the start.", Type: metrics.Counter, Samples: metrics.Value(float64(status.Passes))},
		{Name: "stator_scrub_keys_total", Help: "Keys that were verified since the start.", Type: metrics.Counter, Samples: metrics.Value(float64(status.Keys))},
		{Name: "stator_scrub_pass_ratio", Help: "Share of the current pass that is done, approximately.", Type: metrics.Gauge, Samples: metrics.Value(status.Share())},
		{Name: "stator_scrub_last_pass_timestamp_seconds", Help: "When the last complete pass ended; 0 for none.", Type: metrics.Gauge, Samples: metrics.Value(lastPass)},
		{Name: "stator_scrub_last_pass_duration_seconds", Help: "How long the last complete pass took.", Type: metrics.Gauge, Samples: metrics.Value(status.Took.Seconds())},
		{Name: "stator_scrub_findings_total", Help: "Distinct inconsistencies that were found since the start.", Type: metrics.Counter, Samples: kinds},
	}
}
