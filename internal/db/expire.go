package db

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Items expire by ordinary writes. Which ones is found through the notes that
// each write leaves by second, never by looking at all items.

// SetTimeToLive says by which attribute items expire; none with "".
func (d *DB) SetTimeToLive(ctx context.Context, name, attribute string) error {
	_, err := d.alter(ctx, name, func(t *schema.Table) error {
		switch {
		case t.Status(d.now()) != schema.Active:
			return apierror.InUse("Attempt to change a resource which is still in use: Table is not active: %s", name)
		case attribute != "" && t.TimeToLive.Attribute == attribute:
			return apierror.Validation("TimeToLive is already enabled")
		case attribute == "" && t.TimeToLive.Attribute == "":
			return apierror.Validation("TimeToLive is already disabled")
		case attribute != "" && t.TimeToLive.Attribute != "":
			return apierror.Validation("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.TimeToLive.Attribute)
		}
		t.TimeToLive = schema.TimeToLive{Attribute: attribute, Changed: d.now(), Filling: true}
		return nil
	})
	return err
}

// fillExpiries makes the notes of items that were there before a table got its
// time to live, or removes the notes when it has none any more.
func (d *DB) fillExpiries(ctx context.Context, job buildJob) error {
	t, ok := d.settle(job.table, job.tableID)
	if !ok {
		return nil
	}
	if t.TimeToLive.Attribute == "" {
		start, end := keyspace.ExpiriesSpan(t.ID)
		if err := d.engine.DeleteRange(ctx, start, end); err != nil {
			return err
		}
	} else {
		log := d.log.With("table", job.table, "for", "time to live")
		ok, err := d.fill(ctx, t.Table, keyspace.Build(t.ID, 0), log, func(step buildStep) (bool, error) { return d.fillExpiryStep(ctx, t.Table, step) })
		if !ok || err != nil {
			return err
		}
	}
	_, err := d.alter(ctx, job.table, func(now *schema.Table) error {
		if now.ID == t.ID && now.TimeToLive.Attribute == t.TimeToLive.Attribute {
			now.TimeToLive.Filling = false
		}
		return nil
	})
	return err
}

func (d *DB) fillExpiryStep(ctx context.Context, was *schema.Table, step buildStep) (ok bool, err error) {
	tables, release, err := d.hold([]Write{{Table: was.Name}})
	if err != nil {
		return false, nil // the table is gone
	}
	defer release()
	t := tables[0].Table
	if t.ID != was.ID || t.TimeToLive.Attribute != was.TimeToLive.Attribute {
		return false, nil
	}
	_, err = d.put(ctx, step, func(i int) (key, value []byte) {
		at, ok := t.Expiry(step.items[i])
		if !ok {
			return nil, nil
		}
		return keyspace.Expiry(t.ID, at, step.keys[i]), []byte{formatExpiry}
	})
	return err == nil, err
}

// expireItems removes expired items, again and again.
func (d *DB) expireItems(ctx context.Context) {
	tick := time.NewTicker(d.expiryInterval)
	defer tick.Stop()
	warned := make(map[uint32]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if _, err := d.Expire(ctx, warned); err != nil && ctx.Err() == nil {
				d.log.Warn("expired items could not be removed; trying again", "error", err)
			}
		}
	}
}

// Expire removes all items whose time is over, and tells how many. warned
// remembers the tables of which it was said that their times look wrong.
func (d *DB) Expire(ctx context.Context, warned map[uint32]bool) (removed int, err error) {
	names, _ := d.Tables("", math.MaxInt)
	for _, name := range names {
		t, err := d.use(name)
		if err != nil || t.TimeToLive.Attribute == "" {
			continue
		}
		n, err := d.expireTable(ctx, t.Table)
		removed += n
		if err != nil {
			return removed, err
		}
		if !warned[t.ID] {
			if warned[t.ID], err = d.looksLikeMilliseconds(ctx, t.Table); err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// expiryBatch is how many items are removed in one update.
const expiryBatch = 100

func (d *DB) expireTable(ctx context.Context, t *schema.Table) (removed int, err error) {
	for {
		due, notes, err := d.due(ctx, t)
		if err != nil || notes == 0 {
			return removed, err
		}
		writes := make([]Write, len(due))
		now := d.now()
		for i, it := range due {
			writes[i] = Write{
				Table: t.Name,
				Key:   t.Key.Of(it),
				// It may have been written since: then it has a note of its own.
				Effect: func(before item.Item) (item.Item, error) {
					if t.Expired(before, now) {
						return nil, nil
					}
					return before, nil
				},
				Actor: change.Expiry,
			}
		}
		if len(writes) > 0 {
			if _, err := d.Write(ctx, writes...); err != nil {
				return removed, err
			}
		}
		if removed += len(writes); notes < expiryBatch {
			return removed, nil
		}
	}
}

// due are the items of the next notes whose second is over, and how many notes
// there were.
func (d *DB) due(ctx context.Context, t *schema.Table) (items []item.Item, notes int, err error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer snap.Close()
	now := d.now()
	start, end := keyspace.ExpirySpan(t.ID, schema.OldestExpiry(now), now.Unix())
	var keys [][]byte
	for note, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return nil, 0, err
		}
		_, key := keyspace.ExpiryOf(note.Key)
		if keys = append(keys, bytes.Clone(key)); len(keys) == expiryBatch {
			break
		}
	}
	values, err := snap.Get(ctx, keys...)
	if err != nil {
		return nil, 0, err
	}
	for _, v := range values {
		it, err := decode(v)
		if err != nil {
			return nil, 0, err
		}
		if t.Expired(it, now) {
			items = append(items, it)
		}
	}
	return items, len(keys), nil
}

// year5000 is a second that nobody means: a number beyond it is more likely a
// time in milliseconds, at which an item never expires.
const year5000 = 95_617_584_000

func (d *DB) looksLikeMilliseconds(ctx context.Context, t *schema.Table) (bool, error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	defer snap.Close()
	start, end := keyspace.ExpirySpan(t.ID, year5000, math.MaxInt64)
	for note, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return false, err
		}
		at, _ := keyspace.ExpiryOf(note.Key)
		d.log.Warn("a time to live is far in the future: it counts seconds, not milliseconds, so that the item never expires",
			"table", t.Name, "attribute", t.TimeToLive.Attribute, "value", at)
		return true, nil
	}
	return false, nil
}
