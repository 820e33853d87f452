package db

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// A restored table stands in the catalog from the first, CREATING, with what
// it is made from. Its items are put in beside requests. The catalog is all
// that a restart needs: what was put in goes, and it begins anew.

// SetRecovery says for how many days back a table can be restored; not at all
// with 0.
func (d *DB) SetRecovery(ctx context.Context, name string, days int) (Description, error) {
	return d.alterRecorded(ctx, name, func(t *schema.Table) error {
		now := d.now()
		switch {
		case days == 0:
			t.Recovery = schema.Recovery{}
		case !t.Recovery.Enabled:
			t.Recovery = schema.Recovery{Enabled: true, Since: now, Days: days}
		default:
			// What was too old until now is gone, also for a longer window.
			t.Recovery.Since, _ = t.Recovery.Window(now)
			t.Recovery.Days = days
		}
		return nil
	})
}

// View takes a view of all tables as they are now.
func (d *DB) View(ctx context.Context) (*history.View, error) { return history.Open(ctx, d.engine) }

// RestoreToSecond makes a new table of another as it was at the end of a
// second, or of now when at is zero. define makes the new one's description of
// the other's.
func (d *DB) RestoreToSecond(ctx context.Context, source string, at time.Time, define func(schema.Table) (schema.Table, error)) (Description, error) {
	now := d.now() // before the view: a second that is over by then is whole in it
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

// restoreFrom is RestoreToSecond from a view, which is in use when there is no
// error.
func (d *DB) restoreFrom(ctx context.Context, view *history.View, source string, at, now time.Time, define func(schema.Table) (schema.Table, error)) (Description, error) {
	t, err := view.Table(ctx, source)
	if err != nil {
		return Description{}, err
	}
	if err := history.Restorable(t, at, now); err != nil {
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

// RestoreBackup makes a table of a backup, which def names.
func (d *DB) RestoreBackup(ctx context.Context, def schema.Table) (Description, error) {
	return d.restore(ctx, def, nil)
}

// restore puts a table into the catalog and has it filled. Without contents
// they are found when its turn comes.
func (d *DB) restore(ctx context.Context, def schema.Table, contents *Contents) (Description, error) {
	def.Restored.Running = true
	def.UUID = newUUID()
	if contents != nil {
		if d.engine.Leads() {
			// Before it is in the catalog: who fills it may look at once.
			d.restores.offer(def.UUID, contents)
		} else {
			contents.close() // who fills it is another server, and finds them himself
		}
	}
	desc, err := d.CreateTable(ctx, def)
	if err != nil {
		d.restores.takeOffered(def.UUID)
		return Description{}, err
	}
	d.restores.wake.Signal()
	return desc, nil
}

// contentsAt are the items of a table as they were at the end of a second, or as
// they are in the view when it is zero.
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
	restoreWorkers = 2               // tables that are filled at once; others wait
	restoreRetry   = 5 * time.Second // after what may pass, such as a full disk
)

// restoreStep fills one restored table.
func (d *DB) restoreStep(ctx context.Context) (wait time.Duration, err error) {
	t, ok := d.nextRestore()
	if !ok {
		return lead.Idle, nil
	}
	defer d.restores.release(t.ID)
	d.restores.wake.Signal() // there may be more, for another worker
	err = d.fillRestored(ctx, t)
	switch {
	case err == nil || ctx.Err() != nil:
		return 0, nil
	case isPermanent(err):
		d.log.Error("a table could not be restored, and is removed again", "table", t.Name, "error", err)
		err = d.abandon(ctx, t)
	default:
		d.log.Error("a table could not be restored; trying again from the start", "table", t.Name, "error", err)
	}
	if err != nil {
		lead.Wait(ctx, nil, restoreRetry) // no other worker takes it meanwhile
	}
	return 0, nil
}

// isPermanent tells whether another attempt would meet the same error.
func isPermanent(err error) bool {
	return errors.Is(err, store.ErrCorrupt) || errors.Is(err, history.ErrNoRecovery) || errors.Is(err, history.ErrNotRestorable) || errors.As(err, new(*apierror.Error))
}

// nextRestore claims the table that waits longest.
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

// fillRestored puts the items of a restored table in, from the start, and
// makes it usable.
func (d *DB) fillRestored(ctx context.Context, t *table) error {
	contents, err := d.openContents(ctx, t.Table)
	if err != nil {
		return err
	}
	defer contents.close()
	if err := d.clear(ctx, t); err != nil {
		return err
	}
	log := d.log.With("table", t.Name, "from", t.Restored.Table, "at", t.Restored.At)
	began := d.now()
	var desc atomic.Int64
	desc.Store(began.UnixNano())
	progress := func(what string) func(int) {
		var done atomic.Int64
		return func(n int) {
			count, now := done.Add(int64(n)), d.now().UnixNano()
			if last := desc.Load(); now-last >= int64(buildProgress) && desc.CompareAndSwap(last, now) {
				log.Info("a table is being restored", what, count)
			}
		}
	}
	if err := d.loadItems(ctx, t, contents.Items(ctx), progress("items")); err != nil {
		return err
	}
	if err := d.saveCounts(ctx); err != nil {
		return err
	}
	if err := d.endFill(ctx, t); err != nil {
		return err
	}
	log.Info("a table was restored", "items", t.counts.current()[0].Items, "took", d.now().Sub(began).Round(time.Millisecond))
	return nil
}

// openContents are the contents that were offered for a table, or found again
// after a restart.
func (d *DB) openContents(ctx context.Context, t *schema.Table) (*Contents, error) {
	if c := d.restores.takeOffered(t.UUID); c != nil {
		return c, nil
	}
	if t.Restored.Backup != "" {
		if d.restores.open == nil {
			return nil, fmt.Errorf("table %s is made of a backup, but there are none", t.Name)
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
		// Its second may have been the present one, and not be over yet.
		at, now := t.Restored.At, d.now()
		if _, latest := source.Recovery.Window(now); at.After(latest) {
			at = latest
		}
		err = history.Restorable(source, at, now)
	}
	if err != nil {
		view.Close()
		return nil, err
	}
	return contentsAt(view, source, t.Restored.At), nil
}

// clear removes what an attempt before put into a table.
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
				return fmt.Errorf("remove what was restored of table %s: %w", t.Name, err)
			}
			break
		}
	}
	return d.resetCounts(ctx, t)
}

// endFill makes a table usable that was filled by a restore or an import.
func (d *DB) endFill(ctx context.Context, t *table) error {
	return d.alterFilling(ctx, t, func(now *schema.Table) { now.Restored.Running = false })
}

// abandon removes a table that could not be filled.
func (d *DB) abandon(ctx context.Context, t *table) error {
	err := d.alterFilling(ctx, t, func(now *schema.Table) {
		now.State, now.SettledAt, now.Restored.Running = schema.Deleting, d.now(), false
	})
	if errors.As(err, new(*apierror.Error)) {
		return nil // it does not exist any more
	}
	if err != nil {
		return err
	}
	err = d.dropDue(ctx, d.now())
	d.drop.Signal()
	return err
}

// alterFilling changes the description of a table that is being filled. A table
// that was created under its name since then is another one, and not changed.
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

// Restoring tells whether a table is being made of a backup.
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
