// Package clock is the time of a server: the system's wall clock, checked against
// its monotonic clock.
//
// A wall clock can be set to any time, by a person, by NTP, or by a machine that
// starts with the wrong one. Clock does not follow a step: it continues at the rate
// of the monotonic clock and reports the departure. When the wall clock has agreed
// with itself for the settling time, the owner of the Clock accepts its time (Accept).
// Small differences are absorbed by running slightly faster or slower, so that Now
// goes back only when a step is accepted. The wall clock may be that of a cluster,
// which several servers share.
package clock

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Options configures a Clock. The zero value is the system's clock.
type Options struct {
	// Now is the wall clock and Elapsed the monotonic clock. Without both of
	// them, they are the system's. With Now alone there is nothing to check it
	// against, and it is used as it is.
	Now     func() time.Time
	Elapsed func() time.Duration

	// Tolerance is the difference from which the wall clock has departed. It
	// defaults to 5 s.
	Tolerance time.Duration

	// Settle is how long a wall clock that has departed must agree with itself
	// until its time is accepted. It defaults to 15 minutes.
	Settle time.Duration

	// Shared says that other servers have the same clock, except for small
	// differences, and that their times are compared with those of this server.
	// Then Elapsed defaults to the system's also if Now is set.
	Shared bool

	Log *slog.Logger // defaults to no log
}

const (
	tolerance = 5 * time.Second
	settle    = 15 * time.Minute

	// observeInterval is how often the wall clock is compared.
	observeInterval = time.Second

	// slewPart bounds how much faster or slower Now may run: a tenth.
	slewPart = 10

	// maxSteps is how many steps Since knows. There are at most four in an hour.
	maxSteps = 64

	// maxEarly is how far the newest data may be ahead of a clock that is right,
	// which is not worth a warning: an engine may remember the time of its data to
	// a second.
	maxEarly = 2 * time.Second

	// maxIdle is how much older than the start the newest data may be. After a
	// longer time, or with a wrong clock, nothing is deleted until the clock has
	// run for the settling time.
	maxIdle = 24 * time.Hour
)

// Clock is the time of a server. Its methods are safe for concurrent use.
type Clock struct {
	wall    func() time.Time
	elapsed func() time.Duration // nil if the wall clock is used as it is
	slept   func() time.Duration // how long the machine was suspended, in all
	log     *slog.Logger

	tolerance, settle time.Duration

	shared bool
	manual *Manual // nil unless the time is set by a test
	apart  *uint64 // of Apart: how often its work did something; guarded by manual.mu

	held atomic.Int64 // of the monotonic clock: Trusted is false before it

	resumed atomic.Pointer[line] // the time since Resume if the newest data was right then; nil if Now is

	line     atomic.Pointer[line]
	departed atomic.Pointer[departure] // nil if the wall clock agrees with Now

	mu     sync.Mutex    // held to replace line and departed
	sleeps time.Duration // slept at the last observation
}

// line is the time as a function of the monotonic clock.
type line struct {
	since time.Duration // of the monotonic clock
	wall  time.Time     // then
	ahead time.Duration // of the wall clock before this one; absorbed from since on
	past  *past         // before the last step
}

func (l *line) at(elapsed time.Duration) time.Time {
	passed := elapsed - l.since
	most := passed / slewPart
	return l.wall.Add(passed + max(-most, min(most, l.ahead)))
}

// departure is a wall clock that differs from Now by more than the tolerance.
type departure struct {
	since time.Duration // of the monotonic clock
	seen  time.Duration // at the last observation
	ahead time.Duration // of the wall clock before Now; negative if it is behind
}

// New returns a clock.
func New(o Options) *Clock {
	c := &Clock{
		wall: o.Now, elapsed: o.Elapsed, log: o.Log, slept: func() time.Duration { return 0 },
		tolerance: cmp.Or(o.Tolerance, tolerance), settle: cmp.Or(o.Settle, settle),
		shared: o.Shared,
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.wall == nil {
		c.wall, c.elapsed = time.Now, nil
	}
	if c.elapsed == nil && (o.Now == nil || o.Shared) {
		start := time.Now()
		c.elapsed, c.slept = func() time.Duration { return time.Since(start) }, suspended
	}
	if c.elapsed != nil {
		c.sleeps = c.slept()
		wall := c.wall().Round(0)
		c.line.Store(&line{since: c.elapsed(), wall: wall, past: &past{first: wall}})
	}
	return c
}

// Shared reports whether other servers have the same clock.
func (c *Clock) Shared() bool { return c.shared }

// Given returns a clock that uses a wall clock as it is, with every step.
func Given(now func() time.Time) *Clock { return New(Options{Now: now}) }

// Now returns the time. It does not follow a step of the wall clock until that is
// accepted.
func (c *Clock) Now() time.Time {
	now, _ := c.read()
	return now
}

// read returns the time, and what was before the last step.
func (c *Clock) read() (time.Time, *past) {
	if c.elapsed == nil {
		return c.wall(), nil
	}
	elapsed, l := c.elapsed(), c.line.Load()
	if elapsed-l.since >= observeInterval {
		c.observe()
		elapsed, l = c.elapsed(), c.line.Load()
	}
	return l.at(elapsed), l.past
}

// LastStep returns the last step of Now, nil if there was none. A time that is read
// after it is not from before that step.
func (c *Clock) LastStep() *Step {
	if c.elapsed == nil {
		return nil
	}
	return c.line.Load().past.last()
}

// Elapsed returns the time of the monotonic clock: only differences have a meaning.
func (c *Clock) Elapsed() time.Duration {
	if c.elapsed == nil {
		return time.Duration(c.wall().UnixNano())
	}
	return c.elapsed()
}

// Since returns how long ago t was, at least, when t was read from this clock or
// from that of an earlier process. Steps of Now since t do not count. With a clock
// that is shared, t may also be from another server, whose clock may be ahead.
func (c *Clock) Since(t time.Time) time.Duration {
	now, p := c.read()
	if c.elapsed == nil {
		return now.Sub(t)
	}
	age := p.since(t, now)
	if c.shared {
		return max(0, min(age, now.Sub(t)))
	}
	return age
}

// Trusted reports whether the time may be used for a decision that deletes: the wall
// clock agrees with it.
func (c *Clock) Trusted() bool {
	if c.elapsed == nil {
		return true
	}
	c.observe()
	trusted := c.departed.Load() == nil && c.elapsed() >= time.Duration(c.held.Load())
	if trusted && c.resumed.Load() != nil {
		c.resumed.Store(nil)
	}
	return trusted
}

// AtLeast returns a time that has come for certain, which is not after Now. It is Now
// once the time was trusted: a step of the wall clock does not move Now. Until then
// the clock may be ahead, and it is the time of the newest data, and the time that has
// passed since the start.
func (c *Clock) AtLeast() time.Time {
	if !c.Trusted() {
		if l := c.resumed.Load(); l != nil {
			at, now := l.at(c.elapsed()), c.Now()
			if at.Before(now) {
				return at
			}
			return now
		}
	}
	return c.Now()
}

// Distrusted says why the time is not trusted; it is empty if it is.
func (c *Clock) Distrusted() string {
	switch {
	case c.Trusted():
		return ""
	case c.Ahead() != 0:
		return fmt.Sprintf("the wall clock was stepped by %v: its time is not used, and nothing expires or is trimmed, until it returns or has run on for %v", c.Ahead().Round(time.Millisecond), c.settle)
	}
	return fmt.Sprintf("the newest data is old, or the clock is wrong: nothing expires or is trimmed until the clock has run for %v", c.settle)
}

// Ahead returns by how much a wall clock that has departed is ahead of Now, negative
// if it is behind, and 0 if it has not departed.
func (c *Clock) Ahead() time.Duration {
	if d := c.departed.Load(); d != nil {
		return d.ahead
	}
	return 0
}

// Resume compares the time with that of the newest data, once, before the clock is
// used for decisions. It reports whether Now is before that time, so that Now returns
// some times again.
func (c *Clock) Resume(newest time.Time) (again bool) {
	if c.elapsed == nil {
		return newest.After(c.wall())
	}
	now := c.elapsed()
	wall := c.line.Load().at(now)
	switch ahead := wall.Sub(newest); {
	case ahead > maxIdle:
		c.held.Store(int64(now + c.settle))
		c.resumed.Store(&line{since: now, wall: newest})
		c.log.Warn("the newest data is old, or the clock is wrong: nothing expires or is trimmed until the clock has run for a while",
			"newest", newest, "clock", wall, "for", c.settle)
	case ahead < -maxEarly:
		c.log.Warn("the clock is behind the newest data: it was set back, or it was ahead before", "newest", newest, "clock", wall)
		return true
	case ahead < 0:
		return true // after a fast restart, or because Now was slightly ahead
	}
	return false
}
