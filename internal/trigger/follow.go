package trigger

import (
	"cmp"
	"context"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/lead"
)

// follower reads one slot for a trigger.
type follower struct {
	*trigger
	slot   int
	status *slotStatus
	at     stream.Position // all changes before it are done

	saved  uint64 // the stamp of the checkpoint
	idleAt uint64 // the horizon up to which there was nothing to read
}

const (
	poll      = 100 * time.Millisecond // between two reads of a slot
	afterFail = time.Second            // after a failed read

	// saveAtRest is how old a checkpoint may become while there is nothing to
	// deliver.
	saveAtRest = time.Hour

	pageRecords = 1000
	pageBytes   = 1 << 20

	// A round ends when it has the bytes of a full batch, or has read this many
	// changes, whether or not the filters match them.
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
		f.idleAt = 0 // the changes of the round are read again
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

// round is a set of records that is delivered before more are read.
type round struct {
	records []*pendingRecord // that match the filters
	end     stream.Position  // after all changes that were read
	read    int
	bytes   int
}

// gather reads until there is a full batch for each lane, or until the batch window
// that began with the first record is over.
func (f *follower) gather(ctx context.Context) (*round, error) {
	r := &round{end: f.at}
	until := time.Duration(math.MinInt64)
	for ctx.Err() == nil && f.capacity(r) > 0 && r.bytes < roundBytes && r.read < roundReads {
		n, err := f.readInto(ctx, r)
		if err != nil {
			return nil, err
		}
		now := f.service.DB.Clock().Elapsed()
		if len(r.records) > 0 && until == math.MinInt64 {
			until = now + f.BatchWindow
		}
		over := now >= until
		switch {
		case n == 0 && over, f.BatchWindow > 0 && len(r.records) > 0 && over:
			return r, nil
		case n == 0:
			f.service.DB.Clock().Wait(ctx, clock.Waiting{For: min(poll, until-now)})
		}
	}
	return r, nil
}

// capacity is how many more records a round can hold.
func (f *follower) capacity(r *round) int { return f.BatchSize*f.Parallelism - len(r.records) }

// readInto adds the next page of changes to a round, and returns the number of
// changes that it read.
func (f *follower) readInto(ctx context.Context, r *round) (int, error) {
	d := f.service.DB
	// Before the changes are read: no later change has a stamp below it.
	horizon, err := d.Horizon(ctx)
	if err != nil {
		return 0, err
	}
	if horizon == f.idleAt {
		return 0, f.age(ctx, r)
	}
	for {
		of, from, lost, ok := f.streamAt(r.end)
		if !ok {
			return 0, nil
		}
		if lost {
			f.log.Warn("undelivered changes older than 24 h are lost: a stream does not keep them longer", "slot", f.slot)
		}
		end := uint64(math.MaxUint64)
		if of.End != 0 {
			end = of.End
		}
		found, err := d.Changes(ctx, db.ChangeRange{
			Table: of.Table.ID, Slot: f.slot, From: from.Stamp, FromN: from.N, To: end,
			Limit: min(pageRecords, f.capacity(r)), MaxBytes: pageBytes,
		})
		switch {
		case err != nil:
			return 0, err
		case len(found) > 0:
			return len(found), f.add(ctx, r, of, found)
		case horizon < end:
			if horizon > from.Stamp {
				r.end = stream.Position{Stamp: horizon}
			}
			f.idleAt = horizon
			return 0, nil
		}
		r.end = stream.Position{Stamp: end} // this stream has ended; continue with the next
	}
}

// age advances the position of a round with time while there are no changes, so that
// it does not appear to be older than the stream's retention. It does not pass the
// horizon: the clock may go back, and later changes may be older than it says now.
func (f *follower) age(ctx context.Context, r *round) error {
	d := f.service.DB
	aged := db.StampAt(d.Now().Add(-db.StreamRetention / 2))
	if r.end.Stamp >= aged {
		return nil
	}
	horizon, err := d.HorizonFrom(ctx, aged)
	if err != nil {
		return err
	}
	if aged = min(aged, horizon); r.end.Stamp < aged {
		r.end = stream.Position{Stamp: aged}
	}
	return nil
}

// streamAt finds the stream to read at a position: the first stream of the table's
// name that does not end before it. lost reports that changes of that stream from the position
// on are not kept any more.
func (t *trigger) streamAt(at stream.Position) (of db.Stream, from stream.Position, lost, ok bool) {
	d := t.service.DB
	streams := d.Streams(t.Table)
	slices.SortFunc(streams, func(a, b db.Stream) int { return cmp.Compare(a.Start, b.Start) })
	for _, of := range streams {
		if of.End != 0 && of.End <= at.Stamp {
			continue
		}
		from := at
		if from.Stamp < of.Start {
			from = stream.Position{Stamp: of.Start}
		}
		if trimmed := d.TrimHorizon(); from.Stamp < trimmed {
			from, lost = stream.Position{Stamp: trimmed}, at.Stamp >= of.Start
		}
		return of, from, lost, true
	}
	return db.Stream{}, at, false, false
}

// add adds the changes that match the filters to a round.
func (f *follower) add(ctx context.Context, r *round, of db.Stream, found []db.Change) error {
	for i := range found {
		c := &found[i]
		record := &pendingRecord{
			index:   len(r.records),
			at:      stream.Position{Stamp: c.Stamp, N: c.N},
			created: c.At,
			text:    f.event(ctx, of, c),
		}
		r.read++
		r.end = stream.Position{Stamp: c.Stamp, N: c.N + 1}
		passes, err := f.passes(record.text)
		if err != nil {
			return err
		}
		if !passes {
			continue
		}
		hash := fnv.New64a()
		hash.Write(keyspace.Item(nil, of.Table, c.Image()))
		record.lane = int(hash.Sum64() % uint64(f.Parallelism))
		r.records = append(r.records, record)
		r.bytes += len(record.text)
	}
	return nil
}
