package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/store"
)

// Expired items are removed by ordinary writes. They are found through the expiry
// entries, which each write keeps in order of the second, and never by scanning
// the items.

// SetTimeToLive sets the attribute by which the items of a table expire; ""
// disables expiry.
func (d *DB) SetTimeToLive(ctx context.Context, name, attribute string) error {
	_, err := d.alter(ctx, name, func(t *schema.Table) error {
		switch {
		case d.status(t) != schema.Active:
			return apierror.InUse("Attempt to change a resource which is still in use: Table is not active: %s", name)
		case attribute != "" && t.TimeToLive.Attribute == attribute:
			return apierror.Validation("TimeToLive is already enabled")
		case attribute == "" && t.TimeToLive.Attribute == "":
			return apierror.Validation("TimeToLive is already disabled")
		case attribute != "" && t.TimeToLive.Attribute != "":
			return apierror.Validation("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.TimeToLive.Attribute)
		}
		t.TimeToLive = schema.TimeToLive{Attribute: attribute, Changed: d.Now(), Filling: true, Changes: t.TimeToLive.Changes + 1}
		return nil
	})
	return err
}

// buildExpiries adds the expiry entries of items that were written before the
// table's time to live was enabled, or removes all entries after it was
// disabled.
func (d *DB) buildExpiries(ctx context.Context, job buildJob) error {
	t, ok, err := d.syncWriters(ctx, job.table, job.tableID)
	if !ok || err != nil {
		return err
	}
	progress := keyspace.Build(t.ID, expiryBuild(t.TimeToLive.Changes))
	begun, err := d.engine.Get(ctx, store.Strong, progress)
	if err != nil {
		return err
	}
	if begun[0] == nil {
		// Remove the entries of an earlier attribute. This may also remove
		// entries of concurrent writes; the backfill, which has not started,
		// adds those again.
		start, end := keyspace.ExpiriesSpan(t.ID)
		if err := d.engine.DeleteRange(ctx, start, end); err != nil {
			return err
		}
	}
	if t.TimeToLive.Attribute != "" {
		log := backfillLog{d.log.With("table", job.table, "attribute", t.TimeToLive.Attribute), "adding expiry entries", "expiry entries added"}
		ok, err := d.backfill(ctx, t.Table, progress, log, func(batch buildBatch) (bool, error) { return d.addExpiries(ctx, t.Table, batch) })
		if !ok || err != nil {
			return err
		}
	}
	_, err = d.alter(ctx, job.table, func(now *schema.Table) error {
		if now.ID == t.ID && now.TimeToLive.Changes == t.TimeToLive.Changes {
			now.TimeToLive.Filling = false
		}
		return nil
	}, progress)
	return err
}

// expiryBuild returns the id under which the progress of adding expiry entries is
// stored, like that of an index. It is beyond the ids that indexes reach, and each of
// 32,768 consecutive changes of the time to live has its own.
func expiryBuild(changes uint16) uint16 { return 1<<15 | changes }

// addExpiries adds the expiry entries of a batch's items. It is not ok if the time
// to live was changed or the table deleted.
func (d *DB) addExpiries(ctx context.Context, was *schema.Table, batch buildBatch) (ok bool, err error) {
	return d.whileAltered(ctx, was.Name, func(t *table) (bool, error) {
		if t.ID != was.ID || t.TimeToLive.Changes != was.TimeToLive.Changes {
			return false, nil
		}
		err := d.addEntries(ctx, t, batch, func(i int, it item.Item) (key, value []byte) {
			at, ok := t.Expiry(it)
			if !ok {
				return nil, nil
			}
			return keyspace.Expiry(t.ID, at, batch.keys[i]), []byte{codec.FormatExpiry}
		}, func([]item.Item) {})
		return err == nil, err
	})
}

// expiryLoop is a loop that removes expired items.
func (d *DB) expiryLoop() lead.Loop {
	warned := make(map[uint32]bool)
	l := lead.Every(d.expiryInterval, func(ctx context.Context) error { return d.expire(ctx, warned) }, d.warn("expired items could not be removed"))
	l.Due = d.nextExpiry
	return l
}

// nextExpiry returns when the next item is removed.
func (d *DB) nextExpiry(ctx context.Context) (at time.Time, ok bool, err error) {
	var snap store.Snapshot
	for _, t := range d.all() {
		if t.TimeToLive.Attribute == "" {
			continue
		}
		if snap == nil {
			if snap, err = d.engine.Snapshot(ctx); err != nil {
				return at, false, err
			}
			defer snap.Close()
		}
		start, end := keyspace.ExpirySpan(t.ID, schema.OldestExpiry(d.Now()), math.MaxInt64)
		for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
			if err != nil {
				return at, false, err
			}
			second, _ := keyspace.ExpiryOf(pair.Key)
			if due := time.Unix(second+1, 0); !ok || due.Before(at) {
				at, ok = due, true
			}
			break
		}
	}
	return at, ok, nil
}

// expire removes the expired items of all tables, if the clock is trusted. An error of one
// table, such as a conflict with other writes, does not keep the items of others. warned
// holds the ids of the tables for which looksLikeMilliseconds has logged a warning.
func (d *DB) expire(ctx context.Context, warned map[uint32]bool) (failed error) {
	if !d.clock.Trusted() {
		d.swept.Store(&Sweep{At: d.Now(), Error: untrustedClock})
		return nil
	}
	names, _ := d.Tables("", math.MaxInt)
	for _, name := range names {
		t, err := d.use(name)
		if err != nil || t.TimeToLive.Attribute == "" {
			continue
		}
		err = d.expireTable(ctx, t.Table)
		if err == nil && !warned[t.ID] {
			warned[t.ID], err = d.looksLikeMilliseconds(ctx, t.Table)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("table %s: %w", name, err))
		}
		if ctx.Err() != nil {
			return failed
		}
	}
	last := &Sweep{At: d.Now()}
	if failed != nil {
		last.Error = failed.Error()
	}
	d.swept.Store(last)
	return failed
}

// untrustedClock is why nothing expires while the clock may be wrong.
const untrustedClock = "nothing is removed while the clock is not trusted"

// expiryBatch is the most items that are removed in one update.
const expiryBatch = 100

func (d *DB) expireTable(ctx context.Context, t *schema.Table) error {
	for {
		due, err := d.due(ctx, t)
		if err != nil || len(due) == 0 {
			return err
		}
		now := d.Now()
		var writes []Write
		for _, e := range due {
			if !t.Expired(e.item, now) {
				if err := d.dropEntry(ctx, t, e); err != nil {
					return err
				}
				continue
			}
			writes = append(writes, Write{
				Table: t.Name,
				Key:   t.Key.Of(e.item),
				Fit: func(is *schema.Table, key item.Item) error {
					if is.ID != t.ID || is.TimeToLive.Changes != t.TimeToLive.Changes {
						return errTimeToLiveChanged
					}
					return is.CheckKey(key)
				},
				// The item may have been written since; then it has another entry.
				Effect: func(before item.Item) (item.Item, error) {
					if t.Expired(before, now) {
						return nil, nil
					}
					return before, nil
				},
				Deletes: true,
				Actor:   change.Expiry,
			})
		}
		if len(writes) > 0 {
			_, err := d.Write(ctx, writes...)
			if errors.Is(err, errTimeToLiveChanged) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if len(due) < expiryBatch {
			return nil
		}
	}
}

// errTimeToLiveChanged reports that, since the expiry entries were read, the time to
// live was changed or the table was replaced by another of its name.
var errTimeToLiveChanged = errors.New("the time to live of the table was changed")

// dueEntry is an expiry entry whose second has passed, and its item.
type dueEntry struct {
	entry, key []byte
	item       item.Item // nil if it does not exist
}

// due returns up to expiryBatch entries whose second has passed, oldest first,
// with their items.
func (d *DB) due(ctx context.Context, t *schema.Table) (due []dueEntry, err error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	now := d.Now()
	start, end := keyspace.ExpirySpan(t.ID, schema.OldestExpiry(now), now.Unix())
	for pair, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		e := dueEntry{entry: bytes.Clone(pair.Key)}
		_, e.key = keyspace.ExpiryOf(e.entry)
		if due = append(due, e); len(due) == expiryBatch {
			break
		}
	}
	for i := range due {
		stored, err := snap.Get(ctx, due[i].key)
		if err != nil {
			return nil, err
		}
		if due[i].item, err = decodeItem(t, due[i].key, stored[0]); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// dropEntry removes an expiry entry that does not match its item. Otherwise each
// run would read it again. It does not wait for other updates of the entry: the next run
// tries again.
func (d *DB) dropEntry(ctx context.Context, t *schema.Table, e dueEntry) error {
	at, _ := keyspace.ExpiryOf(e.entry)
	err := d.engine.Update(store.Freeing(ctx), [][]byte{e.key, e.entry}, func(tx store.Tx) error {
		it, err := currentItem(tx, e.key)
		if err != nil {
			return err
		}
		if is, expires := t.Expiry(it); !expires || is != at {
			tx.Delete(e.entry)
		}
		return nil
	})
	return err
}

// year5000 is the second from which on a time to live is more likely a time in
// milliseconds. Such an item does not expire in practice.
const year5000 = 95_617_584_000

// looksLikeMilliseconds reports whether the table has an expiry entry beyond
// year5000, and logs a warning if so.
func (d *DB) looksLikeMilliseconds(ctx context.Context, t *schema.Table) (bool, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	defer snap.Close()
	at, err := farExpiry(ctx, snap, t.ID)
	if err != nil || at == 0 {
		return false, err
	}
	d.log.Warn("time to live is far in the future: it is read as seconds, not milliseconds, so the item does not expire",
		"table", t.Name, "attribute", t.TimeToLive.Attribute, "value", at)
	return true, nil
}
