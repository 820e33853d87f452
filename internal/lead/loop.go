package lead

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/stator-db/stator/internal/clock"
)

// Loop is background work that is done in steps.
type Loop struct {
	// Step does what is due, and returns how long to wait before the next step:
	// Idle waits for Wake.
	Step func(ctx context.Context) (wait time.Duration, err error)

	Delay   time.Duration // before the first step
	Wake    *clock.Wake   // ends a wait early; may be nil
	Workers int           // goroutines that call Step; defaults to 1

	Retry  time.Duration // the wait after an error; defaults to 1 s
	Failed func(error)   // reports an error

	// Due, Polls and Quiet are those of clock.Waiting, for the waits between steps.
	Due          func(context.Context) (at time.Time, ok bool, err error)
	Polls, Quiet bool
}

// Idle is the wait of a loop that has nothing to do until it is woken.
const Idle = time.Duration(math.MaxInt64)

// Every is a loop that does the same work at an interval, for the first time
// after one interval.
func Every(interval time.Duration, work func(context.Context) error, failed func(error)) Loop {
	return Loop{
		Step:  func(ctx context.Context) (time.Duration, error) { return interval, work(ctx) },
		Delay: interval, Retry: interval, Failed: failed,
	}
}

// Run runs loops until the context ends, and returns when all of them have
// stopped. While this server does not lead they start no step; a step that is
// running continues. A nil leads is for work that every server does. Their waits
// are on a clock, by which the caller is busy (clock.Clock.Begin); a nil clock is
// the system's.
func Run(ctx context.Context, on *clock.Clock, leads func() bool, loops ...Loop) {
	run(ctx, on, loops, func(ctx context.Context) error {
		for {
			err := Check(ctx, leads)
			if !errors.Is(err, ErrNotLeader) {
				return err
			}
			on.End()
			Wait(ctx, interval)
			on.Begin()
		}
	})
}

// RunTerm is Run that stops all loops as soon as one of them finds that this
// server does not lead.
func RunTerm(ctx context.Context, on *clock.Clock, leads func() bool, loops ...Loop) {
	run(ctx, on, loops, func(ctx context.Context) error { return Check(ctx, leads) })
}

// run runs loops. ready is called before each step, and ends all loops by an
// error.
func run(ctx context.Context, on *clock.Clock, loops []Loop, ready func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, backgroundKey{}, true))
	defer cancel()
	var workers []func()
	for _, l := range loops {
		for range max(1, l.Workers) {
			workers = append(workers, func() {
				defer cancel()
				l.run(ctx, on, ready)
			})
		}
	}
	on.Parallel(workers...)
}

// backgroundKey is the key of a context value that marks background work.
type backgroundKey struct{}

// Background reports whether a context belongs to a step of a Loop. No client waits
// for the end of a step, so that it may wait for others until its context ends.
func Background(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

func (l *Loop) run(ctx context.Context, on *clock.Clock, ready func(context.Context) error) {
	wait, seen := l.Delay, uint64(0)
	for {
		on.Wait(ctx, clock.Waiting{For: wait, Wake: l.Wake, Due: l.Due, Polls: l.Polls, Quiet: l.Quiet, Seen: seen})
		if ready(ctx) != nil {
			return
		}
		seen = on.Acted()
		var err error
		if wait, err = l.Step(ctx); err == nil {
			continue
		}
		if ready(ctx) != nil {
			return // the error is a consequence of that
		}
		if l.Failed != nil {
			l.Failed(err)
		}
		on.Fail(err)
		// Not ended by Wake, or work that fails would run without a pause.
		on.Wait(ctx, clock.Waiting{For: l.retry(), Retries: true})
		wait = 0
	}
}

func (l *Loop) retry() time.Duration {
	if l.Retry == 0 {
		return time.Second
	}
	return l.Retry
}

// Wait waits for a duration, or until the context ends, by the system's clock.
func Wait(ctx context.Context, d time.Duration) {
	(*clock.Clock)(nil).Wait(ctx, clock.Waiting{For: d})
}
