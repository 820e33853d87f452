package tikv

import (
	"context"
	"errors"
	"time"

	"github.com/tikv/client-go/v2/tikv"

	"github.com/stator-db/stator/internal/store"
)

// horizonBeats is for how many beats Horizon waits for the other processes.
const horizonBeats = 4

// Horizon is the least timestamp that an Update of any process can still
// commit with. The others tell theirs at every beat, so it waits a little until
// they have told what is after the call.
func (e *Engine) Horizon(ctx context.Context) (store.Stamp, error) {
	if err := e.gate.Enter(); err != nil {
		return 0, err
	}
	defer e.gate.Leave()
	var began uint64
	for deadline := time.Now().Add(horizonBeats * e.o.Beat); ; {
		now, own, others, err := e.floors(ctx)
		if err != nil {
			return 0, err
		}
		if began == 0 {
			began = now
		}
		if others >= began || time.Now().After(deadline) {
			return store.Stamp(min(own, others)), nil
		}
		if err := pause(ctx, e.o.Beat/2); err != nil {
			return 0, err
		}
	}
}

// floors are the floors of this process and of all others. A process that is
// not in the records at now has begun nothing before it.
func (e *Engine) floors(ctx context.Context) (now, own, others uint64, err error) {
	if now, err = e.now(ctx); err != nil {
		return 0, 0, 0, err
	}
	own, others = e.flights.floor(now), now
	members, err := e.members(ctx, now)
	if err != nil {
		return 0, 0, 0, err
	}
	e.fleet.mu.Lock()
	defer e.fleet.mu.Unlock()
	for id, r := range members {
		if id != e.fleet.id {
			others = min(others, r.Floor)
		}
	}
	return now, own, others, nil
}

const (
	collectInterval = 10 * time.Minute
	// keepVersions is for how long old versions stay, whether or not an open
	// view is known to need them.
	keepVersions = 20 * time.Minute
)

// collect removes, as the leader, what no process needs any more: versions of
// keys before the oldest view, and old messages.
func (e *Engine) collect(ctx context.Context) {
	tick := time.NewTicker(collectInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !e.Leads() {
			continue
		}
		if err := errors.Join(e.fleet.forget(ctx), e.collectVersions(ctx, keepVersions)); err != nil && ctx.Err() == nil {
			e.log.Warn("old versions could not be removed; trying again later", "error", err)
		}
	}
}

// collectVersions lets the cluster forget the versions that were replaced more
// than so long ago and that no open view shows. TiKV does not do that by
// itself.
func (e *Engine) collectVersions(ctx context.Context, keep time.Duration) error {
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	safe := uint64(store.StampAt(store.Stamp(now).Time().Add(-keep)))
	members, err := e.members(ctx, now)
	if err != nil {
		return err
	}
	for _, r := range members {
		safe = min(safe, r.View-1, r.Floor-1)
	}
	// Locks that a process left behind at that time must be settled first.
	_, err = tikv.ResolveLocksForRange(ctx, tikv.NewRegionLockResolver("stator", e.kv), safe, e.key(nil), e.key([]byte{0xff, 0xff}), tikv.NewGcResolveLockMaxBackoffer, 1024)
	if err != nil {
		return failure("settle old locks", err)
	}
	//nolint:staticcheck // the newer way needs a placement driver of 2025
	if _, err := e.kv.GetPDClient().UpdateGCSafePoint(ctx, safe); err != nil {
		return failure("tell the cluster what may go", err)
	}
	e.log.Debug("old versions of keys may go", "before", store.Stamp(safe).Time())
	return nil
}
