package lead

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// server is one whose lead a test decides.
type server struct {
	leads   atomic.Bool
	terms   atomic.Int64 // that have begun
	running atomic.Int64
	linger  time.Duration // how long the work takes to end
}

func (s *server) do(ctx context.Context, begun func()) {
	begun()
	s.terms.Add(1)
	s.running.Add(1)
	<-ctx.Done()
	time.Sleep(s.linger)
	s.running.Add(-1)
}

func (s *server) check(t *testing.T, terms, running int64) {
	t.Helper()
	if s.terms.Load() != terms || s.running.Load() != running {
		t.Errorf("%d terms have begun and %d go on, want %d and %d", s.terms.Load(), s.running.Load(), terms, running)
	}
}

// The work goes on while the server leads, one term after the other.
func TestTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{linger: 3 * time.Second}
		w := Begin(t.Context(), s.leads.Load, s.do)
		time.Sleep(time.Minute)
		s.check(t, 0, 0)
		s.leads.Store(true)
		time.Sleep(2 * interval)
		s.check(t, 1, 1)
		time.Sleep(time.Minute)
		s.check(t, 1, 1)
		s.leads.Store(false)
		time.Sleep(2 * interval)
		s.leads.Store(true) // the term before has not ended
		time.Sleep(time.Second)
		s.check(t, 1, 1)
		time.Sleep(s.linger)
		s.check(t, 2, 1)
		w.Close()
		s.check(t, 2, 0)
	})
}

// Who asks for it anew finds nothing going on of what was before.
func TestAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{linger: time.Second}
		w := Begin(t.Context(), s.leads.Load, s.do)
		defer w.Close()
		w.Anew() // there is nothing
		s.leads.Store(true)
		time.Sleep(time.Minute)
		w.Anew()
		if s.terms.Load()-s.running.Load() != 1 { // the next may have begun
			t.Errorf("%d terms have begun and %d go on: the first has not ended", s.terms.Load(), s.running.Load())
		}
		time.Sleep(2 * interval)
		s.check(t, 2, 1)
	})
}

// Begun waits for the beginning, but for nothing that does not come.
func TestBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(server)
		w := Begin(t.Context(), s.leads.Load, s.do)
		synctest.Wait()
		if w.Begun(t.Context()) {
			t.Error("it has begun where it does not lead")
		}
		s.leads.Store(true)
		if before := time.Now(); !w.Begun(t.Context()) || time.Since(before) > 0 {
			t.Error("it has not begun at once")
		}
		w.Close()
		if w.Begun(t.Context()) {
			t.Error("it has begun after the end")
		}
	})
}

// Work that ends by itself is done again.
func TestEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times atomic.Int64
		w := Begin(t.Context(), func() bool { return true }, func(context.Context, func()) { times.Add(1) })
		time.Sleep(10 * interval)
		w.Close()
		if n := times.Load(); n < 5 || n > 11 {
			t.Errorf("it was done %d times", n)
		}
	})
}
