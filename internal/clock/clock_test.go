package clock_test

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/clock/clocktest"
	"github.com/stator-db/stator/internal/virtualtime"
)

// during lets time pass in steps of a second, and checks each time that Now does not
// go back and is within limit of the time that has really passed.
func during(t *testing.T, c *clock.Clock, s *clocktest.System, d, limit time.Duration) {
	t.Helper()
	for end := s.Elapsed() + d; s.Elapsed() < end; {
		before := c.Now()
		s.Pass(time.Second)
		now := c.Now()
		if now.Before(before) {
			t.Fatalf("Now went back from %v to %v", before, now)
		}
		if off := now.Sub(s.True()); off.Abs() > limit {
			t.Fatalf("Now is off by %v after %v", off, s.Elapsed())
		}
	}
}

// A step of the wall clock in either direction, which is undone after three seconds,
// does not move Now. Meanwhile the time is not trusted.
func TestStepIsNotFollowed(t *testing.T) {
	for _, step := range []time.Duration{26 * time.Hour, -2 * time.Hour, 6 * time.Second, -6 * time.Second} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
		during(t, c, s, 5*time.Second, 0)
		if !c.Trusted() || c.Ahead() != 0 {
			t.Errorf("%v: a clock without a step is not trusted", step)
		}
		s.Step(step)
		during(t, c, s, 3*time.Second, 0)
		if c.Trusted() || c.Ahead() != step || c.Accept() != nil {
			t.Errorf("%v: the step was not detected: ahead %v", step, c.Ahead())
		}
		s.Step(-step)
		during(t, c, s, 3*time.Second, 0)
		if !c.Trusted() || c.Ahead() != 0 || c.LastStep() != nil {
			t.Errorf("%v: the return was not detected: ahead %v", step, c.Ahead())
		}
	}
}

// A difference within the tolerance is absorbed slowly, and never makes Now go back.
func TestSmallStepIsAbsorbed(t *testing.T) {
	for _, step := range []time.Duration{4 * time.Second, -4 * time.Second, time.Millisecond, -time.Millisecond} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
		s.Step(step)
		during(t, c, s, time.Minute, step.Abs())
		if off := c.Now().Sub(s.Now()); off != 0 || !c.Trusted() {
			t.Errorf("%v: after a minute Now is off by %v", step, off)
		}
	}
}

// A wall clock that runs at another rate than the monotonic clock is followed.
func TestSlewIsFollowed(t *testing.T) {
	s := clocktest.New()
	c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
	for range 10_000 {
		s.Pass(time.Second)
		s.Step(500 * time.Microsecond)
		if off := c.Now().Sub(s.Now()); off.Abs() > 2*time.Millisecond {
			t.Fatalf("Now is off by %v", off)
		}
	}
	if !c.Trusted() {
		t.Errorf("the clock is not trusted: ahead %v", c.Ahead())
	}
}

// A step that persists is accepted after the settling time, and not when the wall
// clock is stepped again meanwhile.
func TestStepIsAccepted(t *testing.T) {
	for _, step := range []time.Duration{26 * time.Hour, -2 * time.Hour} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute})
		s.Step(2 * step)
		during(t, c, s, 50*time.Second, 0)
		s.Step(-step)
		during(t, c, s, 50*time.Second, 0)
		if c.Accept() != nil {
			t.Fatalf("%v: a clock that was stepped twice was accepted", step)
		}
		during(t, c, s, 11*time.Second, 0)
		before := c.Now()
		a := c.Accept()
		if a == nil || !a.From.Equal(before) || a.To.Sub(a.From) != step || a.Back() != (step < 0) {
			t.Fatalf("%v: accepted %+v", step, a)
		}
		if c.Now().Sub(before) != step || !c.Trusted() || c.LastStep() != a || c.Accept() != nil {
			t.Errorf("%v: after the step Now is %v later, trusted %v", step, c.Now().Sub(before), c.Trusted())
		}
	}
}

// Since counts the time that has passed, not a step of the clock.
func TestSinceDoesNotCountAStep(t *testing.T) {
	for _, step := range []time.Duration{26 * time.Hour, -2 * time.Hour} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute})
		long := c.Now()
		s.Step(step)
		for range 62 {
			c.Now()
			s.Pass(time.Second)
		}
		recent := c.Now()
		s.Pass(time.Second)
		if c.Accept() == nil {
			t.Fatal("the step was not accepted")
		}
		s.Pass(4 * time.Second)
		after := c.Now()
		s.Pass(time.Second)
		for _, w := range []struct {
			name string
			of   time.Time
			want time.Duration
		}{{"before the settling time", long, 68 * time.Second}, {"before the step", recent, 6 * time.Second}, {"after the step", after, time.Second}} {
			if got := c.Since(w.of); got != w.want {
				t.Errorf("%v: a time read %s was %v ago, want %v", step, w.name, got, w.want)
			}
		}
	}
}

// A time of an earlier process that is still to come was read before this process
// began.
func TestSinceOfATimeToCome(t *testing.T) {
	s := clocktest.New()
	c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
	s.Pass(time.Minute)
	if got := c.Since(c.Now().Add(time.Hour)); got != time.Minute {
		t.Errorf("it was %v ago, want the age of the process", got)
	}
}

// After a start, the newest data tells whether the clock can be right.
func TestResume(t *testing.T) {
	for _, w := range []struct {
		name           string
		newest         time.Duration // after the start
		again, trusted bool
	}{
		{"just before", -time.Second, false, true},
		{"yesterday", -23 * time.Hour, false, true},
		{"long ago", -25 * time.Hour, false, false},
		{"slightly ahead", time.Second, true, true},
		{"ahead", time.Hour, true, true},
	} {
		s := clocktest.New()
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
		again := c.Resume(s.Now().Add(w.newest))
		if again != w.again || c.Trusted() != w.trusted || (c.Distrusted() == "") != w.trusted {
			t.Errorf("%s: again %v, trusted %v: %s", w.name, again, c.Trusted(), c.Distrusted())
		}
		during(t, c, s, 16*time.Minute, 0)
		if !c.Trusted() {
			t.Errorf("%s: not trusted after the settling time", w.name)
		}
	}
}

// After a start with a clock that may be ahead, AtLeast is not after the right time.
// When the time is trusted, and otherwise, it is Now.
func TestAtLeast(t *testing.T) {
	for _, corrected := range []bool{true, false} {
		s := clocktest.New()
		newest := s.Now()
		s.Pass(time.Minute)
		s.Step(48 * time.Hour)
		c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed})
		if !c.AtLeast().Equal(c.Now()) {
			t.Errorf("before Resume, AtLeast is %v before Now", c.Now().Sub(c.AtLeast()))
		}
		c.Resume(newest)
		for i := range 17 * 60 {
			if i == 60 && corrected {
				s.Step(-48 * time.Hour)
			}
			c.Accept()
			trusted := c.Trusted()
			at := c.AtLeast()
			if trusted && !at.Equal(c.Now()) || !trusted && !at.Equal(s.True().Add(-time.Minute)) {
				t.Fatalf("corrected %v: after %d s, trusted %v, AtLeast is %v ahead", corrected, i, trusted, at.Sub(s.True()))
			}
			s.Pass(time.Second)
		}
		if !c.Trusted() {
			t.Errorf("corrected %v: the clock is not trusted", corrected)
		}
		s.Step(time.Hour)
		s.Pass(time.Second)
		if c.Trusted() || !c.AtLeast().Equal(c.Now()) {
			t.Errorf("corrected %v: during a step AtLeast is %v before Now", corrected, c.Now().Sub(c.AtLeast()))
		}
	}
}

// A clock without a monotonic one is used as it is.
func TestGiven(t *testing.T) {
	s := clocktest.New()
	c := clock.Given(s.Now)
	s.Step(-time.Hour)
	if !c.Now().Equal(s.Now()) || !c.Trusted() || c.Accept() != nil || c.Since(s.Now()) != 0 || !c.AtLeast().Equal(s.Now()) || c.LastStep() != nil {
		t.Error("a given clock is not used as it is")
	}
}

// In virtual time, and on a real machine, the system's clocks agree.
func TestSystemClock(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		c := clock.New(clock.Options{})
		for _, d := range []time.Duration{0, time.Second, time.Hour, 40 * 24 * time.Hour} {
			time.Sleep(d)
			if !c.Now().Equal(time.Now()) || !c.Trusted() {
				t.Errorf("after %v Now is %v, want %v", d, c.Now(), time.Now())
			}
		}
	})
	c := clock.New(clock.Options{})
	if off := time.Since(c.Now()); off.Abs() > time.Minute || !c.Trusted() {
		t.Errorf("Now is off by %v", off)
	}
}

// A departure is logged once, however often the clock is read.
func TestDepartureIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	s := clocktest.New()
	c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))})
	count := func() int { return strings.Count(log.String(), "level=WARN") }
	s.Step(time.Hour)
	during(t, c, s, 90*time.Second, 0)
	if count() != 1 || !strings.Contains(log.String(), "ahead=1h0m0s") {
		t.Errorf("the log of a departure: %s", log.String())
	}
	c.Accept()
	if count() != 2 {
		t.Errorf("the log of an accepted step: %s", log.String())
	}
}

// Readers may observe and step at the same time. -race checks it.
func TestConcurrentReaders(t *testing.T) {
	s := clocktest.New()
	c := clock.New(clock.Options{Now: s.Now, Elapsed: s.Elapsed, Settle: 5 * time.Second})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 2000 {
				step := c.LastStep()
				now := c.Now()
				if later := c.Now(); later.Before(now) && c.LastStep() == step {
					t.Errorf("Now went back from %v to %v without a step", now, later)
					return
				}
				c.Since(now)
				c.Trusted()
			}
		})
	}
	for i := range 200 {
		s.Pass(time.Second)
		if i%20 == 0 {
			s.Step(time.Hour * time.Duration(1-i%40/10))
		}
		c.Accept()
	}
	readers.Wait()
}

func BenchmarkNow(b *testing.B) {
	c := clock.New(clock.Options{})
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}

func BenchmarkTimeNow(b *testing.B) {
	for b.Loop() {
		time.Now()
	}
}
