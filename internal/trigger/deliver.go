package trigger

import (
	"context"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/lead"
)

// batchBytes is how much a batch holds, as in Lambda; the record that reaches
// it is the last.
const batchBytes = 6 << 20

// deliver delivers a round on its lanes. It tells whether all is done; it is
// not when this server no longer leads.
func (f *follower) deliver(ctx context.Context, r *round) bool {
	if len(r.records) == 0 {
		f.save(ctx, r.end)
		return true
	}
	p := &roundProgress{f: f, round: r, done: make([]bool, len(r.records))}
	lanes := make([][]*pendingRecord, f.Parallelism)
	for _, made := range r.records {
		lanes[made.lane] = append(lanes[made.lane], made)
	}
	var work sync.WaitGroup
	for _, lane := range lanes {
		if len(lane) > 0 {
			work.Go(func() { f.deliverLane(ctx, lane, p) })
		}
	}
	work.Wait()
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

// deliverBatch tries a batch until each record of it is taken or given up, or
// this server no longer leads: another may have posted what comes behind it.
func (f *follower) deliverBatch(ctx context.Context, batch []*pendingRecord, p *roundProgress) {
	var failure error
	for attempt := 0; ; attempt++ {
		batch = f.giveUpOld(ctx, batch, attempt, failure, p)
		if len(batch) == 0 || !f.leads(ctx) {
			return
		}
		var taken int
		taken, failure = f.post(ctx, batch)
		p.finish(ctx, batch[:taken])
		batch = batch[taken:]
		if len(batch) == 0 || ctx.Err() != nil {
			return
		}
		f.log.Warn("a batch was not taken", "records", len(batch), "attempt", attempt+1, "error", failure)
		if taken > 0 {
			attempt = 0 // of those that are left, the first has failed once
		} else if f.Bisect && len(batch) > 1 {
			// To split a batch is no retry, as in Lambda. The halves come one
			// after the other: they may have records of one item.
			lead.Wait(ctx, nil, backoff(0))
			f.deliverBatch(ctx, batch[:len(batch)/2], p)
			f.deliverBatch(ctx, batch[len(batch)/2:], p)
			return
		}
		if f.MaxRetries != nil && attempt >= *f.MaxRetries {
			f.giveUp(ctx, batch, exhausted, attempt+1, failure, p)
			return
		}
		lead.Wait(ctx, nil, backoff(attempt))
	}
}

// backoff is how long to wait after an attempt that failed.
func backoff(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(attempt, 10), 30*time.Second)
}

// giveUpOld gives up the records that are too old and returns the others.
func (f *follower) giveUpOld(ctx context.Context, batch []*pendingRecord, attempts int, failure error, p *roundProgress) []*pendingRecord {
	if f.MaxAge == 0 {
		return batch
	}
	now := f.service.DB.Now()
	var old, young []*pendingRecord
	for _, r := range batch {
		if now.Sub(r.made) > f.MaxAge {
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

// giveUp puts records into the dead-letter file. As long as that does not
// succeed, nothing goes on.
func (f *follower) giveUp(ctx context.Context, batch []*pendingRecord, reason string, attempts int, failure error, p *roundProgress) {
	for attempt := 0; f.leads(ctx); attempt++ {
		err := f.dead.append(f.Name, f.service.DB.Now(), reason, attempts, failure, batch)
		if err == nil {
			f.log.Error("records were given up", "records", len(batch), "reason", reason, "file", f.DeadLetter)
			p.finish(ctx, batch)
			return
		}
		f.log.Error("the dead-letter file cannot be written; the trigger waits", "error", err)
		lead.Wait(ctx, nil, backoff(attempt))
	}
}
