package migrate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// following is a set of followers that run together.
type following struct {
	all    []*streamFollower
	poll   time.Duration
	copier *copier // that writes what the followers read
}

// run runs all followers until the context ends or one fails.
func (g *following) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, f := range g.all {
		group.Go(func() { cancel(f.run(ctx)) })
	}
	if g.copier != nil {
		group.Go(func() { cancel(g.copier.resolveDoubts(ctx, g.poll)) })
	}
	group.Wait()
	return context.Cause(ctx)
}

// sleep waits for a part of the time between two rounds.
func (g *following) sleep(ctx context.Context) error {
	if err := apply.Sleep(ctx, max(g.poll/2, time.Millisecond)); err != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lastRound returns the time up to which all streams were read: when the
// earliest of their last rounds began.
func (g *following) lastRound() time.Time {
	earliest := time.Now()
	for _, f := range g.all {
		if began := f.at().began; began.Before(earliest) {
			earliest = began
		}
	}
	return earliest
}

// followed returns the time before which all changes are handled, by the clock
// that is stored: when the earliest of the last rounds began. It is zero if a
// stream was not read to its end.
func (g *following) followed() (earliest time.Time) {
	for i, f := range g.all {
		if wall := f.at().wall; i == 0 || wall.Before(earliest) {
			earliest = wall
		}
	}
	return earliest
}

// lastRecord returns when the last record of all streams was read, and its table.
func (g *following) lastRecord() (last time.Time, table string) {
	for _, f := range g.all {
		if at := f.at().record; at.After(last) {
			last, table = at, f.table
		}
	}
	return last, table
}

// waitRounds waits until all streams were read from beginning to end again.
func (g *following) waitRounds(ctx context.Context) error {
	return g.waitWhile(ctx, func() error { return nil })
}

// catchUp waits as waitRounds does. It returns an error if the application writes
// faster than the followers read.
func (g *following) catchUp(ctx context.Context) error { return g.waitWhile(ctx, g.checkSpeed) }

// waitWhile waits until all streams were read again, or check returns an error.
func (g *following) waitWhile(ctx context.Context, check func() error) error {
	for now := time.Now(); len(g.all) > 0 && !g.lastRound().After(now); {
		if err := check(); err != nil {
			return err
		}
		if err := g.sleep(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *following) checkSpeed() error {
	for _, f := range g.all {
		if p := f.at(); p.isBehind() {
			return fmt.Errorf("table %s is written to faster than the migration follows: its stream was read in %s, then in %s, then in %s; run it again when there are fewer writes, or with more units for the new tables",
				f.table, p.lengths[0].Round(time.Second), p.lengths[1].Round(time.Second), p.lengths[2].Round(time.Second))
		}
	}
	return nil
}

// waitQuiet waits until no stream has had a record for a while. The streams are
// read at least once.
func (g *following) waitQuiet(ctx context.Context, quiet, timeout time.Duration) error {
	began := time.Now()
	timeout = max(timeout, 2*quiet)
	for len(g.all) > 0 {
		read := g.lastRound() // before lastRecord, which may be of a later round
		since, table := g.lastRecord()
		if since.Before(began) {
			since = began
		}
		if read.After(since) && read.Sub(since) >= quiet {
			return nil
		}
		switch {
		case time.Since(began) <= timeout:
		case table == "":
			return fmt.Errorf("the streams were not read to their ends within %s; repeat the command", timeout)
		default:
			return fmt.Errorf("table %s is still written to after %s; stop the writes and repeat the command", table, timeout)
		}
		if err := g.sleep(ctx); err != nil {
			return err
		}
	}
	return nil
}
