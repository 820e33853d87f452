package pebble

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stator-db/stator/internal/store"
)

// sentChanges is what the standby was sent.
type sentChanges struct {
	to    store.Stamp
	bytes int64
}

// trimBytes and trimInterval say when records that the standby has are removed.
const (
	trimBytes    = 8 << 20
	trimInterval = 10 * time.Second
)

// Returned returns a stamp that is larger than those of all Updates that have returned. The
// horizon is smaller while an Update with a smaller stamp is in flight.
func (e *Engine) Returned() (store.Stamp, error) {
	if err := e.gate.Enter(); err != nil {
		return 0, err
	}
	defer e.gate.Leave()
	return e.returned(), nil
}

func (e *Engine) returned() store.Stamp {
	newest := e.inFlight.Newest() // before the bound: an Update that has returned has recorded its window
	return min(newest+1, e.windows.Bound())
}

// HasChange reports whether the data has a change that the standby of a slot has: its record exists,
// or was removed because the standby has it. In an older state of the data it is neither. If the slot
// does not exist, HasChange reports true, and Changes returns ErrNoSlot.
func (e *Engine) HasChange(slot string, stamp store.Stamp) (bool, error) {
	if err := e.gate.Enter(); err != nil {
		return false, err
	}
	defer e.gate.Leave()
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if slot != e.feed.slot || stamp < e.feed.from {
		return true, nil
	}
	record, err := e.reserved(feedKey(stamp))
	return record != nil, err
}

// Changes returns changes from a stamp on: all before next, which is at most horizon.
// The standby has all before from, so they are removed. If there are no changes, it
// waits for some.
func (e *Engine) Changes(ctx context.Context, slot string, from store.Stamp, maxBytes int, wait time.Duration) (changes []Change, next, horizon store.Stamp, err error) {
	if err := e.gate.Enter(); err != nil {
		return nil, 0, 0, err
	}
	defer e.gate.Leave()
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		changes, next, horizon, err = e.changes(ctx, slot, from, maxBytes)
		if err != nil || len(changes) > 0 {
			return changes, next, horizon, err
		}
		select {
		case <-e.feed.added:
		case <-timeout.C:
			return nil, next, horizon, nil
		case <-ctx.Done():
			return nil, 0, 0, ctx.Err()
		}
	}
}

// changes is Changes without waiting.
func (e *Engine) changes(ctx context.Context, slot string, from store.Stamp, maxBytes int) (changes []Change, next, horizon store.Stamp, err error) {
	e.feed.mu.Lock()
	defer e.feed.mu.Unlock()
	if slot == "" || slot != e.feed.slot || from < e.feed.from {
		return nil, 0, 0, ErrNoSlot
	}
	e.feed.lastRead = time.Now()
	defer e.feed.publish()
	if err := e.countRecords(ctx); err != nil { // before some are removed
		return nil, 0, 0, err
	}
	if err := e.acknowledge(from); err != nil {
		return nil, 0, 0, err
	}
	if err := e.trim(); err != nil {
		return nil, 0, 0, err
	}
	e.feed.lowerLimit()
	now, returned := time.Now(), e.returned()
	if horizon = e.horizon(); horizon < from {
		return nil, 0, 0, ErrNoSlot // the standby has changes that this engine does not have
	}
	sent := sentChanges{to: horizon}
	err = e.eachRecord(from, horizon, func(stamp store.Stamp, edits []byte) bool {
		if sent.bytes > 0 && sent.bytes+recordBytes(edits) > int64(maxBytes) {
			sent.to = changes[len(changes)-1].Stamp + 1
			return false
		}
		sent.bytes += recordBytes(edits)
		changes = append(changes, Change{stamp, bytes.Clone(edits)})
		return true
	})
	if err != nil {
		return nil, 0, 0, err
	}
	has := from
	if len(changes) == 0 {
		has = horizon // there are none that it could lack
	}
	e.feed.fresh.Observe(now, returned, has)
	e.feed.sent = sent
	return changes, sent.to, horizon, nil
}

// acknowledge records that the standby has all changes before a stamp. The caller holds mu.
func (e *Engine) acknowledge(to store.Stamp) error {
	f := &e.feed
	switch {
	case to == f.sent.to && f.acked.to <= to:
		f.acked.bytes += f.sent.bytes
		f.sent.bytes = 0
	case to != f.acked.to:
		bytes, err := e.feedBytes(f.from, to)
		if err != nil {
			return err
		}
		f.acked.bytes = bytes
	}
	f.acked.to = to
	return nil
}

// trim removes the records that the standby has, if there are many or it has not been done
// for some time. The caller holds mu.
func (e *Engine) trim() error {
	f := &e.feed
	if f.acked.bytes == 0 || f.acked.bytes < trimBytes && time.Since(f.trimmed) < trimInterval {
		return nil
	}
	batch := e.db.NewBatch()
	defer func() { _ = batch.Close() }()
	// Earlier records were removed with the slot's position. A range from the first key on would cover
	// those of all removals before, and Pebble divides the ranges in a memtable by one another.
	err := errors.Join(batch.DeleteRange(feedKey(f.from), feedKey(f.acked.to), nil), batch.Set(slotKey, slotValue(f.slot, f.acked.to), nil))
	if err == nil {
		err = batch.Commit(pebble.NoSync) // if it is lost, it is done again
	}
	if err != nil {
		return failure("remove changes", err)
	}
	f.bytes.Add(-f.acked.bytes)
	f.from, f.trimmed, f.acked.bytes = f.acked.to, time.Now(), 0
	return nil
}
