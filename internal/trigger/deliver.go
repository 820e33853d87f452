package trigger

import (
	"context"
	"time"

	"github.com/stator-db/stator/internal/clock"
)

// batchBytes is the size of a batch, as in Lambda; the record that reaches it is
// the last.
const batchBytes = 6 << 20

// deliver delivers a round on its lanes. It reports whether all records are done,
// which is not the case when this server no longer leads.
func (f *follower) deliver(ctx context.Context, r *round) bool {
	if len(r.records) == 0 {
		f.save(ctx, r.end)
		return true
	}
	p := &roundProgress{f: f, round: r, done: make([]bool, len(r.records))}
	lanes := make([][]*pendingRecord, f.Parallelism)
	for _, record := range r.records {
		lanes[record.lane] = append(lanes[record.lane], record)
	}
	var work []func()
	for _, lane := range lanes {
		if len(lane) > 0 {
			work = append(work, func() { f.deliverLane(ctx, lane, p) })
		}
	}
	f.service.DB.Clock().Parallel(work...)
	return p.prefix == len(r.records)
}

// deliverLane delivers records one batch after the other.
func (f *follower) deliverLane(ctx context.Context, lane []*pendingRecord, p *roundProgress) {
	for len(lane) > 0 && f.leads(ctx) {
		n, size := 0, 0
		for n < len(lane) && n < f.BatchSize && size < batchBytes {
			size += len(lane[n].text)
			n++
		}
		f.deliverBatch(ctx, lane[:n], p)
		lane = lane[n:]
	}
}

// deliverBatch retries a batch until each of its records is delivered or a dead
// letter, or this server no longer leads: then the new leader may already have
// posted later records.
func (f *follower) deliverBatch(ctx context.Context, batch []*pendingRecord, p *roundProgress) {
	var failure error
	lane := batch[0].lane
	defer f.status.done(lane)
	for attempt := 0; ; attempt++ {
		batch = f.giveUpOld(ctx, batch, attempt, failure, p)
		if len(batch) == 0 || !f.leads(ctx) {
			return
		}
		var delivered int
		delivered, failure = f.post(ctx, batch)
		if delivered == len(batch) && f.service.DeliversTwice(f.Name, f.Table, len(batch)) {
			_, _ = f.post(ctx, batch) // whatever its answer, the batch was delivered
		}
		p.finish(ctx, batch[:delivered])
		batch = batch[delivered:]
		if delivered > 0 {
			f.status.accepted(delivered, f.service.DB.Now())
		}
		if len(batch) == 0 || ctx.Err() != nil {
			return
		}
		f.status.failed(lane, attempt+1, failure, f.service.DB.Now())
		f.log.Warn("delivering a batch failed", "records", len(batch), "attempt", attempt+1, "error", failure)
		if delivered > 0 {
			attempt = 0 // the first of the remaining records has failed once
		} else if f.Bisect && len(batch) > 1 {
			// Splitting a batch does not count as a retry, as in Lambda. The halves
			// are delivered one after the other: they may have records of the
			// same item.
			f.service.DB.Clock().Wait(ctx, clock.Waiting{For: backoff(0)})
			f.deliverBatch(ctx, batch[:len(batch)/2], p)
			f.deliverBatch(ctx, batch[len(batch)/2:], p)
			return
		}
		if f.MaxRetries != nil && attempt >= *f.MaxRetries {
			f.giveUp(ctx, batch, exhausted, attempt+1, failure, p)
			return
		}
		f.service.DB.Clock().Wait(ctx, clock.Waiting{For: backoff(attempt)})
	}
}

// backoff is how long to wait after a failed attempt.
func backoff(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(attempt, 10), 30*time.Second)
}

// giveUpOld makes dead letters of the records that are too old and returns the
// others.
func (f *follower) giveUpOld(ctx context.Context, batch []*pendingRecord, attempts int, failure error, p *roundProgress) []*pendingRecord {
	if f.MaxAge == 0 {
		return batch
	}
	now := f.service.DB.Clock()
	if !now.Trusted() {
		return batch
	}
	var old, young []*pendingRecord
	for _, r := range batch {
		if now.Since(r.created) > f.MaxAge {
			old = append(old, r)
		} else {
			young = append(young, r)
		}
	}
	if len(old) > 0 {
		f.giveUp(ctx, old, tooOld, attempts, failure, p)
	}
	return young
}

// giveUp appends records to the dead-letter file. It retries until that succeeds:
// later records must wait.
func (f *follower) giveUp(ctx context.Context, batch []*pendingRecord, reason string, attempts int, failure error, p *roundProgress) {
	for attempt := 0; f.leads(ctx); attempt++ {
		err := f.dead.append(f.Name, f.service.DB.Now(), reason, attempts, failure, batch)
		if err == nil {
			f.log.Error("records were written to the dead-letter file", "records", len(batch), "reason", reason, "file", f.DeadLetter)
			f.status.gaveUp(len(batch))
			p.finish(ctx, batch)
			return
		}
		f.log.Error("writing to the dead-letter file failed, retrying", "error", err)
		f.service.DB.Clock().Wait(ctx, clock.Waiting{For: backoff(attempt), Retries: true})
	}
}
