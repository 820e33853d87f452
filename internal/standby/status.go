package standby

import (
	"fmt"
	"math"
	"time"

	"github.com/stator-db/stator/internal/metrics"
)

// Status is what a standby does. The field names are part of the API and must not
// change.
type Status struct {
	Of string `json:"of"`
	// State is COPYING until there is a copy that can be promoted, FOLLOWING while
	// the server answers, and DISCONNECTED while it does not, or while another copy
	// is made.
	State      string  `json:"state"`
	Copied     int64   `json:"copied,omitempty"`     // keys of the copy in progress
	Position   uint64  `json:"position"`             // the stamp up to which the changes are applied
	Server     uint64  `json:"serverPosition"`       // the stamp up to which the server had changes, as last heard
	LagStamps  uint64  `json:"lagStamps"`            // the difference
	LagBytes   int64   `json:"lagBytes"`             // of the changes between the two, approximately
	LagSeconds float64 `json:"lagSeconds,omitempty"` // since the standby had all changes that the server had acknowledged, as far as it knows
	LagUnknown bool    `json:"lagUnknown,omitempty"` // LagSeconds is not known: the clock was set back while the standby was stopped
	Error      string  `json:"error,omitempty"`
}

// The states of a standby.
const (
	Copying      = "COPYING"
	Following    = "FOLLOWING"
	Disconnected = "DISCONNECTED"
)

// HasLag reports whether LagSeconds is known.
func (s Status) HasLag() bool { return s.State != Copying && !s.LagUnknown }

// LastStatus returns the status when the following ended; the zero value if the standby is not
// promoted.
func (f *Follower) LastStatus() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		return Status{}
	}
	return *f.last
}

// Status returns what the standby does.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil {
		s := *f.last
		s.State, s.Error = Disconnected, errPromoted.Error()
		s.LagSeconds, s.LagUnknown = lagSince(f.fresh.Known(), time.Now())
		return s
	}
	s := Status{Of: f.o.Of, State: Following, Copied: max(0, f.copied), Position: uint64(f.reached), Server: uint64(f.horizon), LagStamps: uint64(f.horizon - f.reached), LagBytes: f.left}
	if f.state != nil && f.reached < f.state.Position {
		s.Position = uint64(f.state.Position) // it has not heard from the server yet
	}
	if err := f.problem(); err != nil {
		s.State, s.Error = Disconnected, err.Error()
	}
	if f.promotable() {
		s.LagSeconds, s.LagUnknown = lagSince(f.fresh.Known(), time.Now())
	} else {
		s.State = Copying
	}
	return s
}

// problem returns why the data does not follow the server, or nil. The caller holds mu.
func (f *Follower) problem() error {
	again := f.needCopy || f.replacing && f.state != nil
	switch {
	case !again:
		return f.lastErr
	case f.lastErr == nil: // the server answers, but the changes are for the new copy
		return errCopiesAgain
	}
	return fmt.Errorf("%w: %w", errCopiesAgain, f.lastErr)
}

// lagSince returns the seconds since the standby had everything. That time may be one of the wall
// clock, from before a restart, and the clock may have been set back since.
func lagSince(fresh, now time.Time) (seconds float64, unknown bool) {
	if fresh.IsZero() || fresh.After(now) {
		return 0, true
	}
	// The monotonic clock stands still while the machine is suspended, and the wall clock may be set back.
	return max(now.Sub(fresh), now.Round(0).Sub(fresh.Round(0))).Seconds(), false
}

// promotable reports whether the data is a state that the server had. The caller holds
// mu.
func (f *Follower) promotable() bool {
	return (f.engine != nil || f.replacing) && f.state != nil && f.state.Position >= f.state.Consistent
}

// Metrics returns the lag.
func (f *Follower) Metrics() []metrics.Metric {
	s := f.Status()
	following, lagSeconds := 0.0, s.LagSeconds
	if s.State == Following {
		following = 1
	}
	if !s.HasLag() { // it has nothing that could be promoted, or it may lack anything
		lagSeconds = math.Inf(1)
	}
	return []metrics.Metric{
		{Name: "stator_standby_following", Help: "Whether this standby has a copy that follows its server.", Type: metrics.Gauge, Samples: metrics.Value(following)},
		{Name: "stator_standby_lag_seconds", Help: "Since when the standby may lack changes; +Inf until it has a copy, and if it is unknown.", Type: metrics.Gauge, Samples: metrics.Value(lagSeconds)},
		{Name: "stator_standby_lag_bytes", Help: "Changes of the server that the standby knows of and does not have.", Type: metrics.Gauge, Samples: metrics.Value(float64(s.LagBytes))},
	}
}
