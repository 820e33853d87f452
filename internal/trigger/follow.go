package trigger

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/lead"
)

// follower reads one slot for a trigger.
type follower struct {
	*trigger
	slot int
	at   stream.Position // what lies before it is done

	saved  uint64 // the stamp of the checkpoint
	rested uint64 // the horizon up to which there was nothing to read
}

const (
	poll      = 100 * time.Millisecond // how often a slot is looked at
	afterFail = time.Second            // the same, after a failure of ours

	// saveAtRest is how far a checkpoint may be behind while there is nothing
	// to deliver.
	saveAtRest = time.Hour

	pageRecords = 1000
	pageBytes   = 1 << 20

	// A round ends when it has as much as one batch may have, or has read so
	// many changes, whether or not a filter let them pass.
	roundBytes = batchBytes
	roundReads = 10_000
)

// leads reports whether this server still delivers.
func (f *follower) leads(ctx context.Context) bool {
	return lead.Check(ctx, f.service.DB.Leads) == nil
}

// step reads one round of changes and delivers it.
func (f *follower) step(ctx context.Context) (wait time.Duration, err error) {
	r, err := f.gather(ctx)
	switch {
	case !f.leads(ctx):
		return 0, nil
	case err != nil:
		f.rested = 0 // what was read is read again
		return 0, err
	case r.read == 0:
		f.at = r.end
		if db.StampTime(f.at.Stamp).Sub(db.StampTime(f.saved)) > saveAtRest {
			f.save(ctx, f.at)
		}
		return poll, nil
	case f.deliver(ctx, r):
		f.at = r.end
	}
	return 0, nil
}

// round is what is delivered before more is read.
type round struct {
	records []*pendingRecord // those that filters let pass
	end     stream.Position  // behind all that was read
	read    int
	bytes   int
}

// gather reads until there is enough for a batch on each lane, or until the
// window that opened with the first record is over.
func (f *follower) gather(ctx context.Context) (*round, error) {
	r := &round{end: f.at}
	var until time.Time
	for ctx.Err() == nil && f.room(r) > 0 && r.bytes < roundBytes && r.read < roundReads {
		n, err := f.readInto(ctx, r)
		if err != nil {
			return nil, err
		}
		now := f.service.DB.Now()
		if len(r.records) > 0 && until.IsZero() {
			until = now.Add(f.BatchWindow)
		}
		over := !now.Before(until)
		switch {
		case n == 0 && over, f.BatchWindow > 0 && len(r.records) > 0 && over:
			return r, nil
		case n == 0:
			lead.Wait(ctx, nil, min(poll, until.Sub(now)))
		}
	}
	return r, nil
}

// room is how many records a round can still take.
func (f *follower) room(r *round) int { return f.BatchSize*f.Parallelism - len(r.records) }

// readInto reads a page behind what a round has, and tells how many changes it
// had.
func (f *follower) readInto(ctx context.Context, r *round) (int, error) {
	d := f.service.DB
	// Before the changes are read: what is not there now cannot come before it.
	horizon, err := d.Horizon(ctx)
	if err != nil {
		return 0, err
	}
	if horizon == f.rested {
		// It moves on with time, so that it does not seem to fall behind what
		// is kept: no change can come that is as old.
		if aged := db.StampAt(d.Now().Add(-db.StreamLife / 2)); r.end.Stamp < aged {
			r.end = stream.Position{Stamp: aged}
		}
		return 0, nil
	}
	for {
		of, from, ok := f.place(r.end)
		if !ok {
			return 0, nil
		}
		end := uint64(math.MaxUint64)
		if of.End != 0 {
			end = of.End
		}
		found, err := d.Changes(ctx, db.ChangeRange{
			Table: of.Table.ID, Slot: f.slot, From: from.Stamp, FromN: from.N, To: end,
			Limit: min(pageRecords, f.room(r)), MaxBytes: pageBytes,
		})
		switch {
		case err != nil:
			return 0, err
		case len(found) > 0:
			return len(found), f.take(ctx, r, of, found)
		case horizon < end:
			if horizon > from.Stamp {
				r.end = stream.Position{Stamp: horizon}
			}
			f.rested = horizon
			return 0, nil
		}
		r.end = stream.Position{Stamp: end} // this stream is finished; the next follows
	}
}

// place finds the stream to read at a position: the first of the table's name
// that has not ended before it.
func (f *follower) place(at stream.Position) (of db.Stream, from stream.Position, ok bool) {
	d := f.service.DB
	streams := d.Streams(f.Table)
	slices.SortFunc(streams, func(a, b db.Stream) int { return cmp.Compare(a.Start, b.Start) })
	for _, of := range streams {
		if of.End != 0 && of.End <= at.Stamp {
			continue
		}
		from := at
		if from.Stamp < of.Start {
			from = stream.Position{Stamp: of.Start}
		}
		if trimmed := db.StampAt(d.Now().Add(-db.StreamLife)); from.Stamp < trimmed {
			from = stream.Position{Stamp: trimmed}
			if at.Stamp >= of.Start {
				f.log.Warn("a stream keeps changes for 24 h; older ones that were not delivered are lost", "slot", f.slot)
			}
		}
		return of, from, true
	}
	return db.Stream{}, at, false
}

// take puts the changes that filters let pass into a round.
func (f *follower) take(ctx context.Context, r *round, of db.Stream, found []db.Change) error {
	for i := range found {
		c := &found[i]
		made := &pendingRecord{
			index: len(r.records),
			at:    stream.Position{Stamp: c.Stamp, N: c.N},
			made:  c.At,
			text:  f.event(ctx, of, c),
		}
		r.read++
		r.end = stream.Position{Stamp: c.Stamp, N: c.N + 1}
		passes, err := f.passes(made.text)
		if err != nil {
			return err
		}
		if !passes {
			continue
		}
		hash := fnv.New64a()
		hash.Write(keyspace.Item(nil, of.Table, c.Image()))
		made.lane = int(hash.Sum64() % uint64(f.Parallelism))
		r.records = append(r.records, made)
		r.bytes += len(made.text)
	}
	return nil
}
