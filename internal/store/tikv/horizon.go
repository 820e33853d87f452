package tikv

import (
	"context"
	"time"

	"github.com/tikv/client-go/v2/tikv"

	"github.com/stator-db/stator/internal/store"
)

// horizonBeats is for how many heartbeats Horizon waits for the other processes.
const horizonBeats = 4

// Horizon returns the smallest timestamp with which an Update of any process can still
// commit. The other processes publish theirs with every heartbeat, so Horizon waits shortly
// for one that is newer than the call.
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
		if err := sleepRandom(ctx, e.o.Beat/2); err != nil {
			return 0, err
		}
	}
}

// floors returns the floors of this process and of all others. A process without a record at
// now has begun nothing before it.
func (e *Engine) floors(ctx context.Context) (now, own, others uint64, err error) {
	if now, err = e.now(ctx); err != nil {
		return 0, 0, 0, err
	}
	own, others = e.inFlight.floor(now), now
	members, err := e.members(ctx, now)
	if err != nil {
		return 0, 0, 0, err
	}
	e.membership.mu.Lock()
	defer e.membership.mu.Unlock()
	for id, r := range members {
		if id != e.membership.id {
			others = min(others, r.Floor)
		}
	}
	return now, own, others, nil
}

const (
	// messagesInterval is how often old messages are deleted. Announcements of writes are
	// hundreds a second.
	messagesInterval = 30 * time.Second
	collectInterval  = 10 * time.Minute
	// keepVersions is how long old versions are kept, even if no known snapshot needs
	// them.
	keepVersions = 20 * time.Minute
)

// collect removes, on the leader, what no process needs any longer: versions of keys before
// the oldest snapshot, and old messages.
func (e *Engine) collect(ctx context.Context) {
	versions, messages := time.NewTicker(collectInterval), time.NewTicker(messagesInterval)
	defer versions.Stop()
	defer messages.Stop()
	for {
		var collect func() error
		select {
		case <-ctx.Done():
			return
		case <-versions.C:
			collect = func() error { return e.collectVersions(ctx, keepVersions) }
		case <-messages.C:
			collect = func() error { return e.membership.deleteMessages(ctx) }
		}
		if !e.Leads() {
			continue
		}
		if err := collect(); err != nil && ctx.Err() == nil {
			e.log.Warn("old versions could not be removed: retrying later", "error", err)
		}
	}
}

// collectVersions has the cluster remove the versions that were replaced more than keep ago
// and that no open snapshot shows. TiKV does not do that by itself.
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
		safe = min(safe, r.Snapshot-1, r.Floor-1)
	}
	// Locks that a process has left before that time must be resolved first.
	_, err = tikv.ResolveLocksForRange(ctx, tikv.NewRegionLockResolver("stator", e.kv), safe, e.key(nil), e.key([]byte{0xff, 0xff}), tikv.NewGcResolveLockMaxBackoffer, 1024)
	if err != nil {
		return failure("resolve old locks", err)
	}
	//nolint:staticcheck // the newer way needs a placement driver of 2025
	if _, err := e.kv.GetPDClient().UpdateGCSafePoint(ctx, safe); err != nil {
		return failure("update the safe point", err)
	}
	e.log.Debug("updated the safe point of old versions", "before", store.Stamp(safe).Time())
	return nil
}
