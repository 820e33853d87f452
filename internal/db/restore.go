package db

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// A restore creates its table in the catalog first, with the status CREATING and
// the source of its items. The leader writes the items in the background. After a
// restart the restore needs only the catalog: it clears the table and begins
// again.

// SetRecovery enables point-in-time recovery of a table for a number of days, or
// disables it with 0.
func (d *DB) SetRecovery(ctx context.Context, name string, days int) (Description, error) {
	return d.alterRecorded(ctx, name, func(t *schema.Table) error {
		now := d.Now()
		switch {
		case days == 0:
			t.Recovery = schema.Recovery{}
		case !t.Recovery.Enabled:
			t.Recovery = schema.Recovery{Enabled: true, Since: now, Days: days}
		default:
			// Changes before the old window may be trimmed: a longer window does
			// not bring them back.
			if oldest := now.AddDate(0, 0, -t.Recovery.Days); t.Recovery.Since.Before(oldest) {
				t.Recovery.Since, t.Recovery.Start = oldest, max(t.Recovery.Start, StampAt(oldest))
			}
			t.Recovery.Days = days
		}
		return nil
	})
}

// View opens a view of all tables as they are now.
func (d *DB) View(ctx context.Context) (*history.View, error) { return history.Open(ctx, d.engine) }

// ClockRuns returns the runs of the clock, from which follows to which times a table
// can be restored.
func (d *DB) ClockRuns(ctx context.Context) (history.Runs, error) {
	stored, err := d.engine.Get(ctx, store.Strong, history.RunsKey())
	if err != nil {
		return nil, err
	}
	return history.DecodeRuns(stored[0])
}

// RestoreToSecond creates a table with the items of another as they were at the
// end of a second, or as they are now if at is zero. define derives the
// description of the new table from that of the source.
func (d *DB) RestoreToSecond(ctx context.Context, source string, at time.Time, define func(schema.Table) (schema.Table, error)) (Description, error) {
	now := d.Now() // before the view, which then contains the whole of any second that is over
	view, err := d.View(ctx)
	if err != nil {
		return Description{}, err
	}
	desc, err := d.restoreFrom(ctx, view, source, at, now, define)
	if err != nil {
		view.Close()
	}
	return desc, err
}

// restoreFrom is RestoreToSecond with a view. If it returns nil, the view belongs
// to the restore.
func (d *DB) restoreFrom(ctx context.Context, view *history.View, source string, at, now time.Time, define func(schema.Table) (schema.Table, error)) (Description, error) {
	t, err := view.Table(ctx, source)
	if err != nil {
		return Description{}, err
	}
	if err := view.Restorable(ctx, t, at, now); err != nil {
		return Description{}, err
	}
	def, err := define(*t)
	if err != nil {
		return Description{}, err
	}
	def.Restored = schema.Restored{Table: t.Name, TableID: t.ID, At: at}
	if at.IsZero() {
		def.Restored.At = now.Truncate(time.Second)
	}
	return d.restore(ctx, def, contentsAt(view, t, at))
}

// RestoreBackup creates a table with the items of the backup that def names.
func (d *DB) RestoreBackup(ctx context.Context, def schema.Table) (Description, error) {
	return d.restore(ctx, def, nil)
}

// restore creates a table and queues it to be filled. contents may be nil: the
// worker that fills the table then opens them.
func (d *DB) restore(ctx context.Context, def schema.Table, contents *Contents) (Description, error) {
	def.Restored.Running = true
	def.UUID = NewUUID()
	end, err := d.beginRestore(def.UUID)
	if err != nil {
		return Description{}, err
	}
	defer end()
	if contents != nil {
		if d.engine.Leads() {
			// Before the table is in the catalog: a worker may claim it at once.
			d.restores.offer(def.UUID, contents)
		} else {
			contents.close() // the leader fills the table, and opens its own
		}
	}
	desc, err := d.CreateTable(ctx, def)
	if err != nil {
		d.restores.takeOffered(def.UUID) // the caller closes them
		return Description{}, err
	}
	d.restores.wake.Signal()
	return desc, nil
}

// contentsAt returns the items of a table as they were at the end of a second, or
// as they are in the view if second is zero.
func contentsAt(v *history.View, t *schema.Table, second time.Time) *Contents {
	items := func(ctx context.Context) iter.Seq2[item.Item, error] {
		if second.IsZero() {
			return v.Items(ctx, t.ID)
		}
		return v.ItemsBefore(ctx, t, second.Truncate(time.Second).Add(time.Second))
	}
	return &Contents{Items: items, Close: v.Close}
}

const (
	restoreWorkers = 2               // tables that are filled concurrently
	restoreRetry   = 5 * time.Second // after an error that may be temporary, such as a full disk
)

// restoreStep claims and fills one restored table.
func (d *DB) restoreStep(ctx context.Context) (wait time.Duration, err error) {
	t, ok := d.nextRestore()
	if !ok {
		return lead.Idle, nil
	}
	defer d.restores.release(t.ID)
	d.restores.wake.Signal() // another worker may claim the next
	err = d.fillRestored(ctx, t)
	if err == nil || ctx.Err() != nil {
		return 0, nil
	}
	d.clock.Fail(fmt.Errorf("restore of table %s: %w", t.Name, err))
	if isPermanent(err) {
		d.log.Error("restore failed; removing the table", "table", t.Name, "error", err)
		err = d.abandon(ctx, t)
	} else {
		d.log.Error("restore failed; retrying from the start", "table", t.Name, "error", err)
	}
	if err != nil {
		d.clock.Wait(ctx, clock.Waiting{For: restoreRetry, Retries: true}) // with the claim, so that no other worker retries earlier
	}
	return 0, nil
}

// isPermanent reports whether a retry would fail with the same error.
func isPermanent(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, history.ErrNoRecovery) || errors.Is(err, history.ErrNotRestorable) || errors.As(err, new(*apierror.Error))
}

// nextRestore claims the table that has waited longest.
func (d *DB) nextRestore() (next *table, ok bool) {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	d.restores.mu.Lock()
	for _, t := range d.catalog.tables {
		if t.Restored.Running && t.Restored.Import == "" && !d.restores.claimed[t.ID] && (next == nil || t.ID < next.ID) {
			next = t
		}
	}
	d.restores.mu.Unlock()
	return next, next != nil && d.restores.claim(next.ID)
}

// fillRestored writes the items of a restored table, from the start, and makes
// the table usable.
func (d *DB) fillRestored(ctx context.Context, t *table) error {
	t, err := d.beginFill(ctx, t)
	if errors.Is(err, ErrFilled) {
		return nil // an earlier attempt completed, and this server did not know
	}
	if err != nil {
		return err
	}
	contents, err := d.openContents(ctx, t.Table)
	if err != nil {
		return err
	}
	defer contents.close()
	log := d.log.With("table", t.Name, "from", t.Restored.Table, "at", t.Restored.At)
	began := d.Now()
	var written, logged atomic.Int64 // items, and the time of the last progress line
	logged.Store(began.UnixNano())
	progress := func(items int) {
		count, now := written.Add(int64(items)), d.Now().UnixNano()
		if last := logged.Load(); now-last >= int64(buildProgress) && logged.CompareAndSwap(last, now) {
			log.Info("restoring table", "items", count)
		}
	}
	if err := d.loadItems(ctx, t, contents.Items(ctx), progress); err != nil {
		return err
	}
	if err := d.saveCounts(ctx); err != nil {
		return err
	}
	if err := d.endFill(ctx, t); err != nil {
		return err
	}
	log.Info("table restored", "items", t.counts.current()[0].Items, "took", d.Now().Sub(began).Round(time.Millisecond))
	return nil
}

// openContents returns the contents that were offered for a table. If there are
// none, as after a restart, it opens the source that the catalog names.
func (d *DB) openContents(ctx context.Context, t *schema.Table) (*Contents, error) {
	if c := d.restores.takeOffered(t.UUID); c != nil {
		return c, nil
	}
	if t.Restored.Backup != "" {
		if d.restores.open == nil {
			return nil, fmt.Errorf("table %s is restored from a backup, but this server has no backups", t.Name)
		}
		return d.restores.open(ctx, t.Restored.Backup)
	}
	view, err := d.View(ctx)
	if err != nil {
		return nil, err
	}
	source, err := view.Table(ctx, t.Restored.Table)
	if err == nil && source.ID != t.Restored.TableID {
		err = apierror.NoTableNamed(t.Restored.Table)
	}
	if err == nil {
		// The second of a restore of now may not be over yet.
		at, now := t.Restored.At, d.Now()
		if latest := now.Truncate(time.Second).Add(-time.Second); at.After(latest) {
			at = time.Time{}
		}
		err = view.Restorable(ctx, source, at, now)
	}
	if err != nil {
		view.Close()
		return nil, err
	}
	return contentsAt(view, source, t.Restored.At), nil
}

// clear removes everything that an earlier attempt wrote to a table.
func (d *DB) clear(ctx context.Context, t *table) error {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer snap.Close()
	for _, span := range []func(uint32) (start, end []byte){keyspace.TableSpan, keyspace.CollectionSpan, keyspace.ExpiriesSpan, keyspace.ChangesSpan} {
		start, end := span(t.ID)
		for _, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
			if err == nil {
				err = d.engine.DeleteRange(ctx, start, end)
			}
			if err != nil {
				return fmt.Errorf("clear table %s: %w", t.Name, err)
			}
			break
		}
	}
	return d.resetCounts(ctx, t)
}

// ErrFilled is returned when a table that was to be filled is complete already.
var ErrFilled = errors.New("the table is complete already")

// beginFill removes what an earlier attempt has put into a table. First it makes
// sure that the table is still being filled: the end of an earlier attempt may be
// stored although this server has not received it, and the items are a customer's
// then.
func (d *DB) beginFill(ctx context.Context, t *table) (*table, error) {
	now, ok, err := d.syncWriters(ctx, t.Name, t.ID)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, apierror.NoTableNamed(t.Name)
	case !now.Restored.Running:
		return nil, ErrFilled
	}
	return now, d.clear(ctx, now)
}

// endFill makes a table usable that was filled by a restore or an import.
func (d *DB) endFill(ctx context.Context, t *table) error {
	return d.alterFilling(ctx, t, func(now *schema.Table) { now.Restored.Running = false })
}

// abandon removes a table whose restore or import failed.
func (d *DB) abandon(ctx context.Context, t *table) error {
	err := d.alterFilling(ctx, t, func(now *schema.Table) {
		now.State, now.SettledAt, now.Restored.Running = schema.Deleting, d.Now(), false
	})
	if errors.As(err, new(*apierror.Error)) {
		return nil // the table no longer exists
	}
	if err != nil {
		return err
	}
	err = d.dropDue(ctx)
	d.drop.Signal()
	return err
}

// alterFilling changes the description of a table that is being filled. It
// returns a fault if the table no longer exists, also if another one has been
// created under its name.
func (d *DB) alterFilling(ctx context.Context, t *table, change func(*schema.Table)) error {
	_, err := d.alter(ctx, t.Name, func(now *schema.Table) error {
		if now.ID != t.ID || !now.Restored.Running {
			return apierror.NoTableNamed(t.Name)
		}
		change(now)
		return nil
	})
	return err
}

// Restoring reports whether a table is being restored from a backup.
func (d *DB) Restoring(backup string) bool {
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	for _, t := range d.catalog.tables {
		if t.Restored.Running && t.Restored.Backup == backup {
			return true
		}
	}
	return false
}
