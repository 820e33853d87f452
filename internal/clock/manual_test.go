package clock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/virtualtime"
)

var manualStart = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// manualWork is background work on a clock that writes down what it does.
type manualWork struct {
	manual *clock.Manual
	on     *clock.Clock
	ctx    context.Context
	work   sync.WaitGroup

	mu   sync.Mutex
	done []string
}

func newManualWork(t *testing.T) *manualWork {
	w := &manualWork{manual: clock.NewManual(manualStart)}
	w.on = clock.Controlled(w.manual)
	var stop context.CancelFunc
	w.ctx, stop = context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); w.work.Wait() })
	return w
}

func (w *manualWork) did(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = append(w.done, fmt.Sprintf("%s at %v", what, w.manual.Now().Sub(manualStart)))
}

func (w *manualWork) list() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.done, ", ")
}

// loop runs a function after each wait.
func (w *manualWork) loop(o clock.Waiting, f func()) {
	w.on.Begin()
	w.work.Go(func() {
		defer w.on.End()
		for {
			w.on.Wait(w.ctx, o)
			if w.ctx.Err() != nil {
				return
			}
			o.Seen = w.on.Acted()
			f()
		}
	})
}

// What is due happens in order, at its time, and is done when Advance returns, also what it takes
// long to do.
func TestAdvance(t *testing.T) {
	w := newManualWork(t)
	w.loop(clock.Waiting{For: 3 * time.Second}, func() { w.did("c") })
	w.loop(clock.Waiting{For: 2 * time.Second}, func() {
		time.Sleep(time.Millisecond) // of the system
		w.did("b")
	})
	w.loop(clock.Waiting{For: math.MaxInt64}, func() { w.did("never") })
	advance := func(d time.Duration, want string) {
		t.Helper()
		if err := w.manual.Advance(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if got := w.list(); got != want {
			t.Errorf("after %v was done: %s; want %s", w.manual.Now().Sub(manualStart), got, want)
		}
	}
	advance(2*time.Second-1, "")
	advance(1, "b at 2s")
	advance(3*time.Second, "b at 2s, c at 3s, b at 4s")
	if !w.on.Trusted() || !w.on.Now().Equal(manualStart.Add(5*time.Second)) {
		t.Errorf("the clock shows %v", w.on.Now())
	}
}

// Work with a due time is not woken before it, and then at a multiple of its interval.
func TestAdvanceToDue(t *testing.T) {
	w := newManualWork(t)
	var due []time.Duration
	times := 0
	w.loop(clock.Waiting{For: time.Second, Due: func(context.Context) (time.Time, bool, error) {
		if len(due) == 0 {
			return time.Time{}, false, nil
		}
		return manualStart.Add(due[0]), true, nil
	}}, func() {
		times++
		for len(due) > 0 && !w.manual.Now().Before(manualStart.Add(due[0])) {
			w.did("due")
			due = due[1:]
		}
	})
	due = []time.Duration{time.Hour - time.Millisecond, 25 * time.Hour, 400 * 24 * time.Hour}
	for range 2 {
		if err := w.manual.Advance(t.Context(), 20*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.list(); got != "due at 1h0m0s, due at 25h0m0s" || times != 2 {
		t.Errorf("%s, in %d steps", got, times)
	}
}

// Work that polls sees what other work did at the same time, and is not woken otherwise.
func TestAdvancePolls(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newManualWork(t)
		var made, seen, polls atomic.Int64
		w.loop(clock.Waiting{For: time.Hour}, func() { made.Add(1) })
		w.loop(clock.Waiting{For: time.Second, Quiet: true}, func() {})
		w.loop(clock.Waiting{For: 100 * time.Millisecond, Polls: true}, func() {
			polls.Add(1)
			seen.Store(made.Load())
		})
		if err := w.manual.Advance(t.Context(), 3*time.Hour); err != nil {
			t.Fatal(err)
		}
		if seen.Load() != 3 || polls.Load() > 5 {
			t.Errorf("%d were made, and %d seen in %d polls", made.Load(), seen.Load(), polls.Load())
		}
		made.Store(7) // by a request
		time.Sleep(time.Second)
		if synctest.Wait(); seen.Load() != 7 {
			t.Error("while the time stands still, the work does not poll")
		}
	})
}

// Work of a fork is not looked for by its base and by other forks, which looks for its own. What the base
// does, forks look for.
func TestAdvanceApart(t *testing.T) {
	base := newManualWork(t)
	var polled [3]int
	for i, on := range []*clock.Clock{base.on, base.on.Apart(), base.on.Apart()} {
		w := &manualWork{manual: base.manual, on: on, ctx: base.ctx}
		t.Cleanup(w.work.Wait)
		w.loop(clock.Waiting{For: time.Hour, Polls: true}, func() { polled[i]++ })
		if i == 1 {
			wake := on.NewWake()
			w.loop(clock.Waiting{For: 2 * time.Second}, wake.Signal)
			w.loop(clock.Waiting{For: math.MaxInt64, Wake: wake}, func() {})
		}
	}
	advance := func(want ...int) {
		t.Helper()
		if err := base.manual.Advance(t.Context(), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(polled[:], want) {
			t.Errorf("they have polled %v times, want %v", polled, want)
		}
	}
	advance(1, 3, 1)
	base.loop(clock.Waiting{For: 4 * time.Second}, func() {})
	advance(3, 3+5, 3)
}

// A database that is closed while the time is moved is not asked any more what is due.
func TestAdvanceWhileWorkEnds(t *testing.T) {
	w := newManualWork(t)
	ctx, stop := context.WithCancel(w.ctx)
	ending := &manualWork{manual: w.manual, on: w.on, ctx: ctx}
	fault := errors.New("storage is closed")
	ending.loop(clock.Waiting{For: time.Second, Due: func(context.Context) (time.Time, bool, error) {
		stop()
		ending.work.Wait()
		return time.Time{}, false, fault
	}}, func() {})
	w.loop(clock.Waiting{For: time.Minute}, func() { w.did("other") })
	if err := w.manual.Advance(t.Context(), time.Minute); err != nil || w.list() != "other at 1m0s" {
		t.Errorf("%v, was done: %s", err, w.list())
	}
	w.loop(clock.Waiting{For: time.Second, Due: func(context.Context) (time.Time, bool, error) { return time.Time{}, false, fault }}, func() {})
	if err := w.manual.Advance(t.Context(), time.Minute); !errors.Is(err, fault) {
		t.Errorf("the error of a database that is open: %v", err)
	}
}

// A wake that is signalled before Advance, or by other work, is work that Advance waits for.
func TestAdvanceWaitsForWakes(t *testing.T) {
	for range 200 {
		w := newManualWork(t)
		wake := w.on.NewWake()
		woken := 0
		w.loop(clock.Waiting{For: math.MaxInt64, Wake: wake}, func() { woken++ })
		w.loop(clock.Waiting{For: time.Minute}, wake.Signal)
		wake.Signal()
		if err := w.manual.Advance(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if woken != 2 {
			t.Fatalf("it was woken %d times", woken)
		}
	}
}

// Functions that run concurrently wait on the clock while their caller does.
func TestParallel(t *testing.T) {
	w := newManualWork(t)
	first := true
	w.loop(clock.Waiting{For: time.Second}, func() {
		if !first {
			return
		}
		first = false
		var all []func()
		for i := range 3 {
			all = append(all, func() {
				w.on.Wait(w.ctx, clock.Waiting{For: time.Duration(3-i) * time.Minute})
				w.did(fmt.Sprint(i))
			})
		}
		w.on.Parallel(all...)
		w.did("all")
	})
	if err := w.manual.Advance(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, want := w.list(), "2 at 1m1s, 1 at 2m1s, 0 at 3m1s, all at 3m1s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Many small steps are as one large step.
func TestSmallSteps(t *testing.T) {
	seed := rand.Uint64()
	run := func(step func(*rand.Rand) time.Duration) string {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newManualWork(t)
		for i := range 5 {
			w.loop(clock.Waiting{For: 1 + time.Duration(r.Int64N(int64(time.Minute)))}, func() { w.did(fmt.Sprint(i)) })
		}
		for left := time.Hour; left > 0; {
			d := min(left, step(r))
			if err := w.manual.Advance(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			left -= d
		}
		return w.list()
	}
	small := run(func(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(3 * time.Minute))) })
	if large := run(func(*rand.Rand) time.Duration { return time.Hour }); small != large {
		t.Errorf("seed %d: in small steps %s\nin one step %s", seed, small, large)
	}
}

// A clock that runs ends waits as time passes; frozen, it does not.
func TestRunAndFreeze(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := newManualWork(t)
		w.loop(clock.Waiting{For: time.Minute}, func() { w.did("a") })
		time.Sleep(time.Hour)
		w.manual.Run()
		time.Sleep(150 * time.Second)
		w.manual.Freeze()
		time.Sleep(time.Hour)
		if got := w.list(); got != "a at 1m0s, a at 2m0s" || w.manual.Now().Sub(manualStart) != 150*time.Second {
			t.Errorf("%s; the clock shows %v", got, w.manual.Now())
		}
		w.manual.Run()
		if err := w.manual.Advance(t.Context(), 25*time.Minute); err != nil {
			t.Fatal(err)
		}
		if time.Sleep(time.Minute); !w.manual.Running() || strings.Count(w.list(), "a at") != 28 {
			t.Errorf("%s", w.list())
		}
	})
}

// The clock is not set back, nor far ahead, nor twice at once; and what fails is returned.
func TestAdvanceFails(t *testing.T) {
	w := newManualWork(t)
	for _, to := range []time.Time{manualStart.Add(-1), manualStart.AddDate(2, 0, 0)} {
		if err := w.manual.Set(t.Context(), to); !errors.As(err, new(*clock.RangeError)) || !w.manual.Now().Equal(manualStart) {
			t.Errorf("set to %v: %v", to, err)
		}
	}
	if err := w.manual.Advance(t.Context(), math.MaxInt64); !errors.As(err, new(*clock.RangeError)) {
		t.Errorf("far ahead: %v", err)
	}
	var nested error
	fault := errors.New("no space")
	w.loop(clock.Waiting{For: time.Second, Due: func(context.Context) (time.Time, bool, error) { return manualStart, nested == nil, nil }}, func() {
		nested = w.manual.Advance(t.Context(), time.Second)
		w.on.Fail(fault)
	})
	if err := w.manual.Advance(t.Context(), time.Minute); !errors.Is(err, fault) || !errors.Is(nested, clock.ErrMoving) || !w.manual.Now().Equal(manualStart.Add(time.Minute)) {
		t.Errorf("%v; within it %v; the clock shows %v", err, nested, w.manual.Now())
	}
	// Work that does not end holds the clock.
	w.on.Begin()
	defer w.on.End()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := w.manual.Advance(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "still in progress") {
		t.Errorf("%v", err)
	}
}

// Waits, wakes, moves and reads may happen at the same time. -race checks it.
func TestManualConcurrently(t *testing.T) {
	w := newManualWork(t)
	wake := w.on.NewWake()
	var ticks []time.Time
	w.loop(clock.Waiting{For: time.Second, Wake: wake}, func() { ticks = append(ticks, w.manual.Now()) })
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			for i := range 200 {
				wake.Signal()
				w.manual.Now()
				if i%50 == 0 {
					w.manual.Run()
					w.manual.Freeze()
				}
				if err := w.manual.Advance(t.Context(), time.Second); err != nil && !errors.Is(err, clock.ErrMoving) {
					t.Error(err)
				}
			}
		})
	}
	others.Wait()
	if err := w.manual.Advance(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if !slices.IsSortedFunc(ticks, time.Time.Compare) || len(ticks) < 100 {
		t.Errorf("%d ticks", len(ticks))
	}
}
