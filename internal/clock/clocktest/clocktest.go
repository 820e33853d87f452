// Package clocktest provides a system whose wall clock a test can set.
package clocktest

import (
	"sync"
	"time"
)

// System has a wall clock and a monotonic clock. It is safe for concurrent use.
type System struct {
	mu      sync.Mutex
	begun   time.Time
	elapsed time.Duration
	ahead   time.Duration
}

// New returns a system whose wall clock is right.
func New() *System { return &System{begun: time.Unix(1_800_000_000, 0).UTC()} }

// Pass lets time pass.
func (s *System) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elapsed += d
}

// Step sets the wall clock ahead, or back.
func (s *System) Step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Now returns the time of the wall clock.
func (s *System) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun.Add(s.elapsed + s.ahead)
}

// True returns the time of a wall clock that was never set.
func (s *System) True() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun.Add(s.elapsed)
}

// Elapsed returns the time of the monotonic clock.
func (s *System) Elapsed() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elapsed
}
