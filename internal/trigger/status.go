package trigger

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

// slotStatus is what the server that delivers knows of a slot.
type slotStatus struct {
	mu           sync.Mutex
	delivered    int64 // records, since the start
	givenUp      int64
	lastDelivery time.Time
	retries      map[int]int // by lane: how often the batch that is being retried has failed
	lastError    string
	lastErrorAt  time.Time
}

// accepted records that the endpoint has accepted records.
func (s *slotStatus) accepted(records int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delivered += int64(records)
	s.lastDelivery = now
}

// failed records that an attempt to deliver a batch has failed.
func (s *slotStatus) failed(lane, attempts int, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retries == nil {
		s.retries = make(map[int]int)
	}
	s.retries[lane] = attempts
	s.lastError, s.lastErrorAt = err.Error(), now
}

// gaveUp records that records became dead letters.
func (s *slotStatus) gaveUp(records int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.givenUp += int64(records)
}

// done records that a batch is not retried any more.
func (s *slotStatus) done(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.retries, lane)
}

// begin forgets the batches that were retried before this server lost the lead.
func (s *slotStatus) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retries = nil
}

// describe adds the status to a part. What is retried counts only while this server leads.
func (s *slotStatus) describe(p *api.TriggerPart, leads bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.RecordsDelivered, p.RecordsGivenUp, p.LastDeliveryAt = s.delivered, s.givenUp, api.TimeOf(s.lastDelivery)
	p.LastError, p.LastErrorAt = s.lastError, api.TimeOf(s.lastErrorAt)
	if leads {
		for _, n := range s.retries {
			p.ConsecutiveErrors = max(p.ConsecutiveErrors, n)
		}
	}
}

// The states of a trigger.
const (
	stateActive    = "ACTIVE"
	stateRetrying  = "RETRYING"
	stateNoStream  = "NO_STREAM"
	stateNotLeader = "NOT_LEADER"
)

// Describe returns the triggers after one of a name, or the first, and the name of the last if
// there are more.
func (s *Set) Describe(ctx context.Context, after string, limit int) (page []api.TriggerDescription, next string, err error) {
	page = []api.TriggerDescription{}
	for _, t := range s.byName() {
		if t.Name <= after {
			continue
		}
		if len(page) == limit {
			return page, page[limit-1].TriggerName, nil
		}
		d, err := t.describe(ctx)
		if err != nil {
			return nil, "", err
		}
		page = append(page, d)
	}
	return page, "", nil
}

func (t *trigger) describe(ctx context.Context) (api.TriggerDescription, error) {
	d := api.TriggerDescription{
		TriggerName: t.Name, TableName: t.Table, Endpoint: t.endpoint(), State: stateActive,
		BatchSize: t.BatchSize, Parallelism: t.Parallelism, DeadLetterFile: t.DeadLetter,
	}
	for _, pattern := range t.Filters {
		d.Filters = append(d.Filters, string(pattern))
	}
	if t.MaxAge > 0 {
		seconds := int64(t.MaxAge / time.Second)
		d.MaximumRecordAge = &seconds
	}
	if t.MaxRetries != nil {
		retries := int32(*t.MaxRetries)
		d.MaximumRetries = &retries
	}
	if t.dead != nil {
		n, all, err := t.dead.count(t.owner())
		if err != nil {
			return d, err
		}
		d.DeadLetters, d.DeadLettersCounted = &n, &all
	}
	leads, retrying := t.service.DB.Leads(), false
	for slot := range keyspace.Slots {
		part, err := t.describePart(ctx, slot)
		if err != nil {
			return d, err
		}
		t.status[slot].describe(&part, leads)
		retrying = retrying || part.ConsecutiveErrors > 0
		d.Parts = append(d.Parts, part)
	}
	switch {
	case !leads:
		d.State = stateNotLeader
	case retrying:
		d.State = stateRetrying
	case !t.hasStream():
		d.State = stateNoStream
	}
	return d, nil
}

// hasStream reports whether the table has a stream that is enabled.
func (t *trigger) hasStream() bool {
	for _, s := range t.service.DB.Streams(t.Table) {
		if s.End == 0 {
			return true
		}
	}
	return false
}

// describePart reads the stored position of a slot, which any server can, and what is behind it.
func (t *trigger) describePart(ctx context.Context, slot int) (api.TriggerPart, error) {
	part := api.TriggerPart{Part: slot}
	f := follower{trigger: t, slot: slot}
	saved, err := t.service.DB.Checkpoint(ctx, f.checkpoint())
	if err != nil || saved == nil {
		return part, err
	}
	at, err := decodePosition(saved)
	if err != nil {
		return part, err
	}
	part.SequenceNumber = at.Sequence()
	oldest, err := t.pending(ctx, slot, at, &part)
	part.OldestRecordAt = api.TimeOf(oldest)
	return part, err
}

// A description counts pending changes in this many pages.
const (
	pendingPages   = 4
	pendingRecords = 250
	pendingBytes   = 256 << 10
)

// pending counts the changes from a position on, and returns the time of the first.
func (t *trigger) pending(ctx context.Context, slot int, at stream.Position, part *api.TriggerPart) (oldest time.Time, err error) {
	for pages := 0; pages < pendingPages; {
		of, from, _, ok := t.streamAt(at)
		if !ok {
			return oldest, nil
		}
		end := uint64(math.MaxUint64)
		if of.End != 0 {
			end = of.End
		}
		found, err := t.service.DB.Changes(ctx, db.ChangeRange{
			Table: of.Table.ID, Slot: slot, From: from.Stamp, FromN: from.N, To: end, Limit: pendingRecords, MaxBytes: pendingBytes,
		})
		switch {
		case err != nil:
			return oldest, err
		case len(found) > 0:
			if part.RecordsBehind == 0 {
				oldest = found[0].At
			}
			part.RecordsBehind += len(found)
			last := found[len(found)-1]
			at = stream.Position{Stamp: last.Stamp, N: last.N + 1}
			pages++
		case of.End == 0:
			return oldest, nil
		default:
			at = stream.Position{Stamp: end}
		}
	}
	part.RecordsBehindIsMore = true
	return oldest, nil
}
