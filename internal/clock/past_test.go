package clock_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/clock/clocktest"
	"github.com/stator-db/stator/internal/virtualtime"
)

// accept lets a step of the wall clock persist until it is accepted, and calls each
// in every second, and after the step.
func accept(t *testing.T, c *clock.Clock, s *clocktest.System, step time.Duration, each func()) {
	t.Helper()
	s.Step(step)
	for range 1000 {
		s.Pass(time.Second)
		c.Now()
		each()
		accepted := c.Accept()
		each()
		if accepted != nil {
			return
		}
	}
	t.Fatalf("a step by %v was not accepted", step)
}

// A wrong clock that is accepted, and then the right one: Since counts neither step.
func TestSinceOfTwoSteps(t *testing.T) {
	for _, step := range []time.Duration{20 * 24 * time.Hour, -20 * 24 * time.Hour} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute})
		created := c.Now()
		before := created.Add(-time.Hour) // by an earlier process
		accept(t, c, s, step, func() {})
		accept(t, c, s, -step, func() {})
		if got := c.Since(created); got != s.Elapsed() {
			t.Errorf("%v: Since is %v, want %v", step, got, s.Elapsed())
		}
		if got := c.Since(before); got != s.Elapsed()+time.Hour {
			t.Errorf("%v: Since a time before the process is %v, want %v", step, got, s.Elapsed()+time.Hour)
		}
	}
}

// A process starts with a wrong clock, and the right one is accepted. A time from
// before the process was read by a clock that was right, or as wrong.
func TestSinceAfterAWrongStart(t *testing.T) {
	for _, wrong := range []time.Duration{20 * 24 * time.Hour, -20 * 24 * time.Hour} {
		s := clocktest.New()
		before := s.Now().Add(-40 * 24 * time.Hour)
		s.Step(wrong)
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute})
		accept(t, c, s, -wrong, func() {})
		want := s.Elapsed() + 40*24*time.Hour + min(0, wrong)
		if got := c.Since(before); got != want {
			t.Errorf("%v: Since is %v, want %v", wrong, got, want)
		}
	}
}

// Since agrees with a list of all times that the clock has shown: a time that it has
// shown was read the last time that it was shown, and any other before the process.
func TestSinceAgreesWithAList(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	for range 5 {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute})
		shown := map[time.Time]time.Duration{c.Now(): 0} // by the monotonic clock, the last time
		show := func() { shown[c.Now()] = s.Elapsed() }
		for range 1 + r.IntN(20) {
			for range r.IntN(100) {
				s.Pass(time.Second)
				show()
			}
			step := time.Duration(10+r.IntN(500)) * time.Second
			if r.IntN(2) == 0 {
				step = -step
			}
			accept(t, c, s, step, show)
		}
		for at, when := range shown {
			if got, want := c.Since(at), s.Elapsed()-when; got != want {
				t.Fatalf("seed %d: a time was read %v ago, but Since is %v", seed, want, got)
			}
		}
		for d := -2 * time.Hour; d < 5*time.Hour; d += time.Second {
			at := c.Now().Add(-d)
			if _, ok := shown[at]; !ok && c.Since(at) < s.Elapsed() {
				t.Fatalf("seed %d: a time was not shown in %v, but Since is %v", seed, s.Elapsed(), c.Since(at))
			}
		}
	}
}

// Of very many steps only the last ones are known, and older times are at least as
// old as those.
func TestSinceOfManySteps(t *testing.T) {
	s := clocktest.New()
	c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute})
	type reading struct {
		at   time.Time
		when time.Duration
	}
	var all []reading
	for range 200 {
		accept(t, c, s, time.Hour, func() {})
		s.Pass(300 * time.Microsecond) // times are stored in milliseconds
		all = append(all, reading{c.Now().Truncate(time.Millisecond), s.Elapsed().Truncate(time.Millisecond)})
	}
	for i, r := range all {
		got, want := c.Since(r.at), s.Elapsed()-r.when
		if exact := i > 140; exact && (got-want).Abs() > time.Millisecond || got < 50*time.Minute && i < 100 || got > want+200*time.Hour {
			t.Errorf("reading %d was %v ago, but Since is %v", i, want, got)
		}
	}
}

// A time that another server has read, whose clock is ahead, was read now.
func TestSinceOfAnotherServer(t *testing.T) {
	for _, step := range []time.Duration{0, time.Hour, -time.Hour} {
		for _, shared := range []bool{true, false} {
			s := clocktest.New()
			c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute, Shared: shared})
			if step != 0 {
				accept(t, c, s, step, func() {})
			}
			s.Pass(20 * time.Minute)
			c.Now()
			s.Pass(10 * time.Minute)
			if got := c.Since(c.Now().Add(-20 * time.Minute)); got != 20*time.Minute {
				t.Errorf("step %v, shared %v: Since is %v, want 20m", step, shared, got)
			}
			got := c.Since(s.Now().Add(50 * time.Millisecond))
			if c.Shared() != shared || (got == 0) != shared {
				t.Errorf("step %v, shared %v: Since of a time to come is %v", step, shared, got)
			}
		}
	}
}

// A shared clock is checked against the system's monotonic clock.
func TestSharedClockIsChecked(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		for _, shared := range []bool{true, false} {
			var ahead time.Duration
			c := clock.New(clock.Options{Now: func() time.Time { return time.Now().Add(ahead) }, Shared: shared})
			ahead = time.Hour
			time.Sleep(time.Second)
			if off := time.Until(c.Now()); (off == 0) != shared || c.Trusted() == shared {
				t.Errorf("shared %v: after a step Now is off by %v, trusted %v", shared, off, c.Trusted())
			}
		}
	})
}
