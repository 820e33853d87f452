package lead

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// Loop is background work that is done in steps.
type Loop struct {
	// Step does what is due, and returns how long to wait before the next step:
	// Idle waits for Wake.
	Step func(ctx context.Context) (wait time.Duration, err error)

	Delay   time.Duration // before the first step
	Wake    Wake          // ends a wait early; may be nil
	Workers int           // goroutines that call Step; defaults to 1

	Retry  time.Duration // the wait after an error; defaults to 1 s
	Failed func(error)   // reports an error
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
// running continues. A nil leads is for work that every server does.
func Run(ctx context.Context, leads func() bool, loops ...Loop) {
	run(ctx, loops, func(ctx context.Context) error {
		for {
			err := Check(ctx, leads)
			if !errors.Is(err, ErrNotLeader) {
				return err
			}
			Wait(ctx, nil, interval)
		}
	})
}

// RunTerm is Run that stops all loops as soon as one of them finds that this
// server does not lead.
func RunTerm(ctx context.Context, leads func() bool, loops ...Loop) {
	run(ctx, loops, func(ctx context.Context) error { return Check(ctx, leads) })
}

// run runs loops. ready is called before each step, and ends all loops by an
// error.
func run(ctx context.Context, loops []Loop, ready func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithValue(ctx, backgroundKey{}, true))
	defer cancel()
	var running sync.WaitGroup
	for _, l := range loops {
		for range max(1, l.Workers) {
			running.Go(func() {
				defer cancel()
				l.run(ctx, ready)
			})
		}
	}
	running.Wait()
}

// backgroundKey is the key of a context value that marks background work.
type backgroundKey struct{}

// Background reports whether a context belongs to a step of a Loop. No client waits
// for the end of a step, so that it may wait for others until its context ends.
func Background(ctx context.Context) bool { return ctx.Value(backgroundKey{}) != nil }

func (l *Loop) run(ctx context.Context, ready func(context.Context) error) {
	wait := l.Delay
	for {
		if wait > 0 {
			Wait(ctx, l.Wake, wait)
		}
		if ready(ctx) != nil {
			return
		}
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
		// Not ended by Wake, or work that fails would run without a pause.
		Wait(ctx, nil, l.retry())
		wait = 0
	}
}

func (l *Loop) retry() time.Duration {
	if l.Retry == 0 {
		return time.Second
	}
	return l.Retry
}

// Wake wakes a loop that waits. A signal that is sent while the loop is busy
// ends its next wait.
type Wake chan struct{}

// NewWake returns a Wake without a signal.
func NewWake() Wake { return make(Wake, 1) }

// Signal wakes one worker of the loop.
func (w Wake) Signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Wait waits for a duration, or until it is woken or the context ends.
func Wait(ctx context.Context, wake Wake, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
