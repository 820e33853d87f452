package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// Global indexes come and go while the table is in use. From the moment an
// index is in the catalog every write keeps it; what was there before is put
// in by a build, which goes through the items in steps. Each step notes how far
// it came in the same update, so that a build goes on after a crash.

// buildStep fills a new index or empties one that is deleted.
func (d *DB) buildStep(ctx context.Context) (wait time.Duration, err error) {
	job, due, ok := d.nextBuild()
	switch {
	case !ok:
		return lead.Idle, nil
	case due > 0:
		return due, nil
	case job.index == "":
		err = d.buildExpiries(ctx, job)
	case job.state == schema.Deleting:
		err = d.deleteIndex(ctx, job)
	default:
		err = d.buildIndex(ctx, job)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", job, err)
	}
	return 0, nil
}

// buildJob is an index that is being created or deleted, or, without an index,
// the notes of when items expire.
type buildJob struct {
	table   string
	tableID uint32
	index   string
	state   schema.State
}

func (j buildJob) String() string {
	switch {
	case j.index == "":
		return "expiry entries of table " + j.table
	case j.state == schema.Deleting:
		return "delete index " + j.index + " of table " + j.table
	}
	return "build index " + j.index + " of table " + j.table
}

// nextBuild finds an index to build, and how long to wait with it.
func (d *DB) nextBuild() (job buildJob, due time.Duration, ok bool) {
	for _, t := range d.all() {
		if t.State == schema.Deleting {
			continue
		}
		if t.TimeToLive.Filling {
			return buildJob{table: t.Name, tableID: t.ID}, 0, true
		}
		for i := range t.Indexes {
			x := &t.Indexes[i]
			if x.State == "" {
				continue
			}
			wait := max(0, t.SettledAt.Sub(d.now()))
			if !ok || wait < due {
				job, due, ok = buildJob{t.Name, t.ID, x.Name, x.State}, wait, true
			}
		}
	}
	return job, due, ok
}

// alterIndex changes the index of a job, if it is still there, or takes it out
// when change says so.
func (d *DB) alterIndex(ctx context.Context, job buildJob, change func(*schema.Table, *schema.Index) (keep bool)) error {
	_, err := d.alter(ctx, job.table, func(t *schema.Table) error {
		i := slices.IndexFunc(t.Indexes, func(x schema.Index) bool { return x.Name == job.index })
		if t.ID != job.tableID || i < 0 {
			return apierror.NoTable()
		}
		if !change(t, &t.Indexes[i]) {
			t.Indexes = slices.Delete(t.Indexes, i, i+1)
			t.Attributes = slices.DeleteFunc(slices.Clone(t.Attributes), func(a schema.Attribute) bool { return !t.Uses(a.Name) })
		}
		return nil
	})
	if errors.As(err, new(*apierror.Error)) {
		return nil // the table went away under the build
	}
	return err
}

// syncIndex waits until every write under way, in any process, knows the
// table as it is now, and finds the index of a job in it.
func (d *DB) syncIndex(ctx context.Context, job buildJob) (*table, *schema.Index, bool, error) {
	t, ok, err := d.syncWriters(ctx, job.table, job.tableID)
	if !ok || err != nil {
		return nil, nil, false, err
	}
	x, ok := t.Index(job.index)
	return t, x, ok, nil
}

// deleteIndex removes the entries of an index and then the index.
func (d *DB) deleteIndex(ctx context.Context, job buildJob) error {
	t, x, ok, err := d.syncIndex(ctx, job)
	if !ok || err != nil {
		return err
	}
	start, end := keyspace.IndexSpan(t.ID, x.ID)
	if err := d.engine.DeleteRange(ctx, start, end); err != nil {
		return err
	}
	return d.alterIndex(ctx, job, func(*schema.Table, *schema.Index) bool { return false })
}

// buildIndex puts the entries of all items into an index that writes keep
// already, and makes it active.
func (d *DB) buildIndex(ctx context.Context, job buildJob) error {
	t, x, ok, err := d.syncIndex(ctx, job)
	if !ok || err != nil {
		return err
	}
	if !x.Backfilling {
		if err := d.alterIndex(ctx, job, func(_ *schema.Table, x *schema.Index) bool { x.Backfilling = true; return true }); err != nil {
			return err
		}
	}
	log := d.log.With("table", job.table, "index", job.index)
	ok, err = d.backfill(ctx, t.Table, keyspace.Build(t.ID, x.ID), log, func(batch buildBatch) (bool, error) { return d.addIndexEntries(ctx, job, batch) })
	if !ok || err != nil {
		return err
	}
	if err := d.countEntries(ctx, t, x.ID); err != nil {
		return err
	}
	return d.alterIndex(ctx, job, func(_ *schema.Table, x *schema.Index) bool { x.State, x.Backfilling = "", false; return true })
}

// countEntries counts the entries of an index that is full. Up to now its tally
// is a guess: a write that changes or removes an item takes for granted that
// its entry was there.
func (d *DB) countEntries(ctx context.Context, t *table, id uint16) error {
	t.inUse.Lock() // no write of ours is between its commit and its note
	estimate := t.counts.current()[id]
	snap, err := d.engine.Snapshot(ctx)
	t.inUse.Unlock()
	if err != nil {
		return err
	}
	defer snap.Close()
	var exact Count
	start, end := keyspace.IndexSpan(t.ID, id)
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end}) {
		if err != nil {
			return err
		}
		entry, err := codec.DecodeItem(pair.Value)
		if err != nil {
			return err
		}
		exact.Items++
		exact.Bytes += int64(entry.Size())
	}
	t.counts.correct(id, estimate, exact)
	return nil
}

// addIndexEntries puts the entries of a step's items into the index. It is not ok
// when the index is no longer being built.
func (d *DB) addIndexEntries(ctx context.Context, job buildJob, batch buildBatch) (ok bool, err error) {
	tables, release, err := d.hold([]Write{{Table: job.table}})
	if err != nil {
		return false, nil // the table is gone
	}
	defer release()
	t := tables[0]
	x, ok := t.Index(job.index)
	if !ok || t.ID != job.tableID || x.State != schema.Creating {
		return false, nil
	}
	added, err := d.addEntries(ctx, batch, func(_ int, it item.Item) (key, value []byte) {
		e, ok := index.Entry(t.Table, x, it)
		if !ok {
			return nil, nil
		}
		return e.Key, codec.EncodeItem(e.After)
	})
	if err != nil {
		return false, err
	}
	for _, it := range added {
		e, _ := index.Entry(t.Table, x, it)
		t.counts.countEdits([]index.Edit{e})
	}
	return true, nil
}
