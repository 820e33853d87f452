package lead

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/virtualtime"
)

// candidate is a server whose leadership the test decides.
type candidate struct {
	leads   atomic.Bool
	terms   atomic.Int64 // begun so far
	running atomic.Int64
	linger  time.Duration // how long the work takes to end
}

func (s *candidate) run(ctx context.Context, begun func()) {
	begun()
	s.terms.Add(1)
	s.running.Add(1)
	<-ctx.Done()
	time.Sleep(s.linger)
	s.running.Add(-1)
}

func (s *candidate) start(t *testing.T) *Work {
	w := new(Work)
	w.Start(t.Context(), nil, s.leads.Load, s.run)
	return w
}

func (s *candidate) check(t *testing.T, terms, running int64) {
	t.Helper()
	if s.terms.Load() != terms || s.running.Load() != running {
		t.Errorf("%d terms have begun and %d are running, want %d and %d", s.terms.Load(), s.running.Load(), terms, running)
	}
}

// The work runs while the server leads, one term after the other.
func TestTerms(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := &candidate{linger: 3 * time.Second}
		w := s.start(t)
		time.Sleep(time.Minute)
		s.check(t, 0, 0)
		s.leads.Store(true)
		time.Sleep(2 * interval)
		s.check(t, 1, 1)
		time.Sleep(time.Minute)
		s.check(t, 1, 1)
		s.leads.Store(false)
		time.Sleep(2 * interval)
		s.leads.Store(true) // the previous term has not ended
		time.Sleep(time.Second)
		s.check(t, 1, 1)
		time.Sleep(s.linger)
		s.check(t, 2, 1)
		w.Close()
		s.check(t, 2, 0)
	})
}

// After Restart nothing of the previous term is running; Cancel does not wait.
func TestRestart(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := &candidate{linger: time.Second}
		w := s.start(t)
		defer w.Close()
		w.Restart() // there is no term
		s.leads.Store(true)
		time.Sleep(time.Minute)
		w.Restart()
		if s.terms.Load()-s.running.Load() != 1 { // the next may have begun
			t.Errorf("%d terms have begun and %d are running: the first has not ended", s.terms.Load(), s.running.Load())
		}
		time.Sleep(2 * interval)
		s.check(t, 2, 1)
		before := time.Now()
		w.Cancel()
		if time.Since(before) != 0 {
			t.Error("Cancel waits for the term")
		}
		s.check(t, 2, 1)
		time.Sleep(s.linger + 2*interval)
		s.check(t, 3, 1)
	})
}

// A database can miss messages before its work has started.
func TestBeforeStart(*testing.T) {
	var w Work
	w.Cancel()
	w.Restart()
	w.Close()
}

// A server that loses the lead while its term begins does not run it.
func TestLeadLostAtTheBeginning(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var asked, ran atomic.Int64
		w := new(Work)
		w.Start(t.Context(), nil, func() bool { return asked.Add(1) == 1 }, func(ctx context.Context, _ func()) {
			ran.Add(1)
			<-ctx.Done()
		})
		time.Sleep(time.Minute)
		w.Close()
		if ran.Load() != 0 {
			t.Error("the term ran on a server that does not lead")
		}
	})
}

// Begun waits for the beginning of a term, but not for one that will not begin.
func TestBegun(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := new(candidate)
		w := s.start(t)
		synctest.Wait()
		if w.Begun(t.Context()) {
			t.Error("a term has begun on a server that does not lead")
		}
		s.leads.Store(true)
		if before := time.Now(); !w.Begun(t.Context()) || time.Since(before) > 0 {
			t.Error("the term has not begun at once")
		}
		w.Close()
		if w.Begun(t.Context()) {
			t.Error("a term has begun after Close")
		}
	})
}

// Work that returns by itself is run again.
func TestReturnsByItself(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var times atomic.Int64
		w := new(Work)
		w.Start(t.Context(), nil, func() bool { return true }, func(context.Context, func()) { times.Add(1) })
		time.Sleep(10 * interval)
		w.Close()
		if n := times.Load(); n < 5 || n > 11 {
			t.Errorf("it ran %d times", n)
		}
	})
}

// A loop waits as long as its step says, until it is woken, and after an error.
func TestLoop(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var steps, failures atomic.Int64
		var fail atomic.Bool
		wait := 10 * time.Second
		wake := (*clock.Clock)(nil).NewWake()
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx, nil, nil, Loop{
				Step: func(context.Context) (time.Duration, error) {
					steps.Add(1)
					if fail.Load() {
						return 0, errors.New("no")
					}
					return wait, nil
				},
				Delay: time.Second, Wake: wake, Retry: 3 * time.Second,
				Failed: func(error) { failures.Add(1) },
			})
		}()
		check := func(what string, want, failed int64) {
			t.Helper()
			synctest.Wait()
			if steps.Load() != want || failures.Load() != failed {
				t.Errorf("%s: %d steps, %d failed, want %d and %d", what, steps.Load(), failures.Load(), want, failed)
			}
		}
		check("before the delay is over", 0, 0)
		time.Sleep(time.Second)
		check("after the delay", 1, 0)
		time.Sleep(wait)
		check("after the wait", 2, 0)
		wake.Signal()
		check("woken", 3, 0)
		fail.Store(true)
		wake.Signal()
		check("failed", 4, 1)
		wake.Signal()
		time.Sleep(2 * time.Second)
		check("a signal does not shorten the pause after an error", 4, 1)
		fail.Store(false)
		time.Sleep(time.Second)
		check("tried again, and the signal ended the next wait", 6, 1)
		cancel()
		<-done
	})
}

// When one loop of a term finds that the lead is lost, all stop.
func TestLoopsOfATermStopTogether(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		leads.Store(true)
		idle := Loop{Step: func(context.Context) (time.Duration, error) { return Idle, nil }, Workers: 2}
		go func() {
			time.Sleep(time.Minute)
			leads.Store(false)
		}()
		began := time.Now()
		RunTerm(t.Context(), nil, leads.Load, idle, Every(time.Second, func(context.Context) error { return nil }, nil))
		if took := time.Since(began); took > time.Minute+time.Second {
			t.Errorf("the loops stopped after %v", took)
		}
	})
}

// Outside of terms a lapse of leadership lets a running step continue, and starts
// no other until it is over.
func TestLoopsPauseDuringALapse(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var leads atomic.Bool
		leads.Store(true)
		var short, long atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx, nil, leads.Load,
				Every(time.Second, func(context.Context) error { short.Add(1); return nil }, nil),
				Loop{Step: func(ctx context.Context) (time.Duration, error) {
					Wait(ctx, time.Minute)
					if ctx.Err() == nil {
						long.Add(1)
					}
					return Idle, nil
				}})
		}()
		time.Sleep(10*time.Second + time.Millisecond)
		leads.Store(false)
		time.Sleep(time.Minute)
		if short.Load() != 10 || long.Load() != 1 {
			t.Errorf("during the lapse %d short and %d long steps have ended, want 10 and 1", short.Load(), long.Load())
		}
		leads.Store(true)
		time.Sleep(10 * time.Second)
		if n := short.Load(); n < 19 || n > 21 {
			t.Errorf("%d short steps have ended after the lapse, want about 20", n)
		}
		cancel()
		<-done
	})
}
