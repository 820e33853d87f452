package migrate

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// following is a set of followers that run together.
type following struct {
	all  []*streamFollower
	poll time.Duration
}

// run runs all followers until the context ends or one fails.
func (g *following) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, f := range g.all {
		group.Go(func() { cancel(f.run(ctx)) })
	}
	group.Wait()
	return context.Cause(ctx)
}

// completed returns how often all streams were read to their ends.
func (g *following) completed() int64 {
	least := int64(math.MaxInt64)
	for _, f := range g.all {
		least = min(least, f.rounds.Load())
	}
	return least
}

// waitRounds waits until all streams were read from beginning to end again.
func (g *following) waitRounds(ctx context.Context) error {
	for _, f := range g.all {
		// The round that is running may have passed a shard already.
		for until := f.rounds.Load() + 2; f.rounds.Load() < until; {
			if err := apply.Sleep(ctx, max(g.poll/2, time.Millisecond)); err != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// waitQuiet waits until no stream has had a record for a while.
func (g *following) waitQuiet(ctx context.Context, quiet, timeout time.Duration) error {
	if len(g.all) == 0 {
		return nil
	}
	until := time.Now().Add(timeout)
	since := time.Now()
	var busy string
	for time.Since(since) < quiet {
		if time.Now().After(until) {
			return fmt.Errorf("table %s is still written to after %s; stop the writes and repeat the command", busy, timeout)
		}
		before := time.Now()
		if err := g.waitRounds(ctx); err != nil {
			return err
		}
		for _, f := range g.all {
			if f.quiet.Load() < 2 {
				busy, since = f.table, before
			}
		}
	}
	return nil
}
