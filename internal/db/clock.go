package db

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store"
)

// clockInterval is how often followClock runs.
const clockInterval = 5 * time.Second

// behind is how far the stamps are ahead of a clock that shows times again. They may
// be a little ahead of any clock after a start.
const behind = 2 * time.Second

// newRun is a run of the clock (package history) that is not stored yet.
type newRun struct {
	stamp store.Stamp // of the start; 0 after a step, for that of the update that stores it
	ended time.Time   // when the last run ended; of a start, if the run has no end
	from  time.Time
}

// resumeClock compares the clock with the stamps that are stored, which tell what
// the time was in earlier processes. A start begins a run of the clock if there are
// tables that can be restored: times were skipped, or are shown again.
func (d *DB) resumeClock(ctx context.Context) error {
	horizon, err := d.engine.Horizon(ctx)
	if err != nil {
		return err
	}
	again := d.clock.Resume(horizon.Time())
	d.latestTime = horizon.Time()
	if d.sharedStamps {
		return nil
	}
	runs, err := d.ClockRuns(ctx)
	if err != nil {
		d.log.Warn("the runs of the clock cannot be read", "error", err)
	}
	recovers := slices.ContainsFunc(d.all(), func(t *table) bool { return t.Recovery.Enabled })
	if d.runHasEnd = runs.Ended(); d.runHasEnd || again || recovers {
		d.newRuns = append(d.newRuns, newRun{horizon, horizon.Time(), d.Now()})
	}
	if err := d.followClock(ctx); err != nil {
		d.log.Warn("a step of the clock could not be recorded; retrying", "error", err)
	}
	return nil
}

// followClock accepts a step of the wall clock that has persisted, which begins a run
// of the clock.
func (d *DB) followClock(ctx context.Context) error {
	step := d.clock.Accept()
	if d.sharedStamps {
		return nil
	}
	if step != nil {
		d.newRuns = append(d.newRuns, newRun{ended: step.From, from: step.To})
		if step.From.After(d.latestTime) {
			d.latestTime = step.From
		}
	}
	return d.recordRuns(ctx)
}

// recordRuns stores the runs that have begun. While the clock is behind the stamps, and
// shows times that an earlier run has shown, it also stores how far the clock has come:
// a process that is killed does not say where its run ends.
func (d *DB) recordRuns(ctx context.Context) error {
	now := d.Now()
	hasEnd := d.latestTime.Sub(now) > behind
	if len(d.newRuns) == 0 && !hasEnd && !d.runHasEnd {
		return nil
	}
	key := history.RunsKey()
	// On a full disk too: deletes, which are recorded, succeed there.
	err := d.engine.Update(store.Freeing(ctx), [][]byte{key}, func(tx store.Tx) error {
		stored, _ := tx.Get(key)
		runs, err := history.DecodeRuns(stored)
		if err != nil {
			return err
		}
		for _, n := range d.newRuns {
			if n.stamp == 0 {
				runs = runs.End(n.ended)
			}
			runs = runs.Begin(cmp.Or(n.stamp, tx.Stamp()), n.ended, n.from)
		}
		if runs = runs.Continue(); hasEnd {
			runs = runs.End(now)
		}
		tx.Set(key, runs.Encode())
		return nil
	})
	if err == nil {
		d.newRuns, d.runHasEnd = nil, hasEnd
	}
	return err
}
