package pebble

import (
	"log/slog"
	"sync"
	"time"
)

// failures slows the repetition of background work that fails, which Pebble repeats without
// a pause, and its log lines.
type failures struct {
	log         *slog.Logger
	logInterval time.Duration // between two log lines

	mu      sync.Mutex
	pause   time.Duration // before the next attempt; 0 after a success
	until   time.Time
	logged  time.Time
	skipped int // lines since then
	stopped chan struct{}
}

const (
	minFailurePause = 50 * time.Millisecond
	maxFailurePause = 2 * time.Second
	// failureLogInterval is the time between two log lines about failures, and
	// damageLogInterval about work that fails because of damage. The damage
	// itself is logged once for each table.
	failureLogInterval = 10 * time.Second
	damageLogInterval  = 24 * time.Hour
)

func newFailures(log *slog.Logger, logInterval time.Duration) *failures {
	return &failures{log: log, logInterval: logInterval, stopped: make(chan struct{})}
}

// failed records a failure of background work, and logs it unless that was done recently.
func (f *failures) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.pause = min(max(minFailurePause, 2*f.pause), maxFailurePause)
	f.until = now.Add(f.pause)
	if !f.logged.IsZero() && now.Sub(f.logged) < f.logInterval {
		f.skipped++
		return
	}
	// As text: slog would add the stack.
	f.log.Error("background error", "error", err.Error(), "earlier", f.skipped)
	f.logged, f.skipped = now, 0
}

// succeeded records that background work was done.
func (f *failures) succeeded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pause, f.until = 0, time.Time{}
}

// wait waits until the pause after the last failure has passed.
func (f *failures) wait() {
	f.mu.Lock()
	rest := time.Until(f.until)
	f.mu.Unlock()
	if rest <= 0 {
		return
	}
	t := time.NewTimer(rest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.stopped:
	}
}

// pausing reports whether the pause after the last failure has not passed.
func (f *failures) pausing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Until(f.until) > 0
}

// stop ends all pauses.
func (f *failures) stop() { close(f.stopped) }
