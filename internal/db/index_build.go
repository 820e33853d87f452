package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/meter"
)

// Global indexes are created and deleted while the table is in use. From the
// moment that an index is in the catalog, every write maintains it. A build adds
// the entries of older items: it scans the table in batches and stores its
// progress in the update of each batch, so that it continues after a crash.

// buildStep does the next build job: it builds or deletes an index, or builds
// the expiry entries of a table.
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

// buildJob names an index that is being created or deleted. Without an index it
// stands for the expiry entries of the table.
type buildJob struct {
	table   string
	tableID uint32
	index   string
	state   schema.State
}

func (j buildJob) String() string {
	switch {
	case j.index == "":
		return "build expiry entries of table " + j.table
	case j.state == schema.Deleting:
		return "delete index " + j.index + " of table " + j.table
	}
	return "build index " + j.index + " of table " + j.table
}

// nextBuild finds the next build job, and how long it takes until it is due.
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
			wait := t.SettlesIn(d.Now(), d.delay)
			if !ok || wait < due {
				job, due, ok = buildJob{t.Name, t.ID, x.Name, x.State}, wait, true
			}
		}
	}
	return job, due, ok
}

// alterIndex changes the index of a job, or removes it if change returns false. The
// keys in remove are deleted in the same update. It does nothing if the table or
// the index does not exist any more.
func (d *DB) alterIndex(ctx context.Context, job buildJob, change func(*schema.Table, *schema.Index) (keep bool), remove ...[]byte) error {
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
	}, remove...)
	if errors.As(err, new(*apierror.Error)) {
		return nil // the table or the index was deleted during the build
	}
	return err
}

// syncIndex calls syncWriters and finds the index of a job. It is not ok if the
// table or the index does not exist any more.
func (d *DB) syncIndex(ctx context.Context, job buildJob) (*table, *schema.Index, bool, error) {
	t, ok, err := d.syncWriters(ctx, job.table, job.tableID)
	if !ok || err != nil {
		return nil, nil, false, err
	}
	x, ok := t.Index(job.index)
	return t, x, ok, nil
}

// deleteIndex removes the entries of an index, and then the index itself.
func (d *DB) deleteIndex(ctx context.Context, job buildJob) error {
	t, x, ok, err := d.syncIndex(ctx, job)
	if !ok || err != nil {
		return err
	}
	start, end := keyspace.IndexSpan(t.ID, x.ID)
	if err := d.engine.DeleteRange(ctx, start, end); err != nil {
		return err
	}
	return d.alterIndex(ctx, job, func(*schema.Table, *schema.Index) bool { return false }, keyspace.Build(t.ID, x.ID))
}

// buildIndex adds the entries of all items to an index that writes maintain
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
	log := backfillLog{d.log.With("table", job.table, "index", job.index), "building an index", "index built"}
	progress := keyspace.Build(t.ID, x.ID)
	defer d.building.Store(nil)
	ok, err = d.backfill(ctx, t.Table, progress, log, func(batch buildBatch) (bool, error) {
		ok, err := d.addIndexEntries(ctx, job, batch)
		d.building.Store(&indexProgress{job.table, job.index, float64(keyspace.Hash(batch.at)) / (1 << 64)})
		return ok, err
	})
	if !ok || err != nil {
		return err
	}
	d.meter.Set(meter.ID{Name: meter.BuildProgress, Table: job.table, Index: job.index}, 100)
	if err := d.countEntries(ctx, t, x.ID); err != nil {
		return err
	}
	return d.alterIndex(ctx, job, func(_ *schema.Table, x *schema.Index) bool { x.State, x.Backfilling = "", false; return true }, progress)
}

// indexProgress is how much of a table an index contains that is being built.
type indexProgress struct {
	table, index string
	share        float64 // of the hashes of the partition keys
}

// countEntries counts the entries of an index after its backfill. Until then its
// count is an estimate: a write that changes or removes an item assumes that
// the item had an entry.
func (d *DB) countEntries(ctx context.Context, t *table, id uint16) error {
	estimate, exact, err := d.countExactly(ctx, t, id)
	if err != nil {
		return err
	}
	t.counts.correct(id, estimate, exact)
	return nil
}

// addIndexEntries adds the entries of a batch's items to the index. It is not ok
// if the index is no longer being built.
func (d *DB) addIndexEntries(ctx context.Context, job buildJob, batch buildBatch) (ok bool, err error) {
	return d.whileAltered(ctx, job.table, func(t *table) (bool, error) {
		x, ok := t.Index(job.index)
		if !ok || t.ID != job.tableID || x.State != schema.Creating {
			return false, nil
		}
		err := d.addEntries(ctx, t, batch, func(_ int, it item.Item) (key, value []byte) {
			e, ok := index.Entry(t.Table, x, it)
			if !ok {
				return nil, nil
			}
			return e.Key, codec.EncodeItem(e.After)
		}, func(added []item.Item) {
			units := 0.0
			for _, it := range added {
				e, _ := index.Entry(t.Table, x, it)
				t.counts.countEdits([]index.Edit{e})
				units += capacity.Write(e.After.Size())
			}
			if len(added) > 0 {
				d.meter.Series(meter.ID{Name: meter.BuildConsumed, Table: t.Name, Index: x.Name}).Add(units)
			}
		})
		return err == nil, err
	})
}
