package db

import (
	"bytes"
	"context"
	"errors"
	"math"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
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
		t.TimeToLive = schema.TimeToLive{Attribute: attribute, Changed: d.now(), Filling: true, Changes: t.TimeToLive.Changes + 1}
		return nil
	})
	return err
}

// fillExpiries makes the notes of items that were there before a table got its
// time to live, or removes the notes when it has none any more.
func (d *DB) fillExpiries(ctx context.Context, job buildJob) error {
	t, ok, err := d.syncWriters(ctx, job.table, job.tableID)
	if !ok || err != nil {
		return err
	}
	progress := keyspace.Build(t.ID, firstFill+t.TimeToLive.Changes)
	begun, err := d.engine.Get(ctx, store.Strong, progress)
	if err != nil {
		return err
	}
	if begun[0] == nil {
		// Notes of an attribute before go. If one goes that a write has just
		// made, it is made again: all items are still to be gone through.
		start, end := keyspace.ExpiriesSpan(t.ID)
		if err := d.engine.DeleteRange(ctx, start, end); err != nil {
			return err
		}
	}
	if t.TimeToLive.Attribute != "" {
		log := d.log.With("table", job.table, "for", "time to live")
		ok, err := d.fill(ctx, t.Table, progress, log, func(step buildBatch) (bool, error) { return d.fillExpiryStep(ctx, t.Table, step) })
		if !ok || err != nil {
			return err
		}
	}
	_, err = d.alter(ctx, job.table, func(now *schema.Table) error {
		if now.ID == t.ID && now.TimeToLive.Changes == t.TimeToLive.Changes {
			now.TimeToLive.Filling = false
		}
		return nil
	})
	return err
}

// firstFill is beyond the id of any index: each time that a time to live is
// changed, how far the notes are made is noted at a place of its own.
const firstFill = 1 << 15

func (d *DB) fillExpiryStep(ctx context.Context, was *schema.Table, step buildBatch) (ok bool, err error) {
	tables, release, err := d.hold([]Write{{Table: was.Name}})
	if err != nil {
		return false, nil // the table is gone
	}
	defer release()
	t := tables[0].Table
	if t.ID != was.ID || t.TimeToLive.Changes != was.TimeToLive.Changes {
		return false, nil
	}
	_, err = d.put(ctx, step, func(i int, it item.Item) (key, value []byte) {
		at, ok := t.Expiry(it)
		if !ok {
			return nil, nil
		}
		return keyspace.Expiry(t.ID, at, step.keys[i]), []byte{formatExpiry}
	})
	return err == nil, err
}

// expire removes all items whose time is over. warned remembers the tables of
// which it was said that their times look wrong.
func (d *DB) expire(ctx context.Context, warned map[uint32]bool) error {
	names, _ := d.Tables("", math.MaxInt)
	for _, name := range names {
		t, err := d.use(name)
		if err != nil || t.TimeToLive.Attribute == "" {
			continue
		}
		if err := d.expireTable(ctx, t.Table); err != nil {
			return err
		}
		if !warned[t.ID] {
			if warned[t.ID], err = d.looksLikeMilliseconds(ctx, t.Table); err != nil {
				return err
			}
		}
	}
	return nil
}

// expiryBatch is how many items are removed in one update.
const expiryBatch = 100

func (d *DB) expireTable(ctx context.Context, t *schema.Table) error {
	for {
		due, err := d.due(ctx, t)
		if err != nil || len(due) == 0 {
			return err
		}
		now := d.now()
		var writes []Write
		for _, n := range due {
			if !t.Expired(n.item, now) {
				if err := d.dropEntry(ctx, t, n); err != nil {
					return err
				}
				continue
			}
			writes = append(writes, Write{
				Table: t.Name,
				Key:   t.Key.Of(n.item),
				Fit: func(is *schema.Table, key item.Item) error {
					if is.ID != t.ID || is.TimeToLive.Changes != t.TimeToLive.Changes {
						return errExpiresNoMore
					}
					return is.CheckKey(key)
				},
				// It may have been written since: then it has a note of its own.
				Effect: func(before item.Item) (item.Item, error) {
					if t.Expired(before, now) {
						return nil, nil
					}
					return before, nil
				},
				Actor: change.Expiry,
			})
		}
		if len(writes) > 0 {
			_, err := d.Write(ctx, writes...)
			if errors.Is(err, errExpiresNoMore) {
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

// errExpiresNoMore tells that a table, or by what its items expire, is another
// than the one whose notes were read.
var errExpiresNoMore = errors.New("the table does not expire its items this way any more")

// dueEntry is a note whose second is over, and the item that it is about.
type dueEntry struct {
	note, key []byte
	item      item.Item // nil: there is none
}

// due are the next notes whose second is over.
func (d *DB) due(ctx context.Context, t *schema.Table) (due []dueEntry, err error) {
	snap, err := d.engine.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	now := d.now()
	start, end := keyspace.ExpirySpan(t.ID, schema.OldestExpiry(now), now.Unix())
	for note, err := range snap.Scan(ctx, store.Range{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return nil, err
		}
		n := dueEntry{note: bytes.Clone(note.Key)}
		_, n.key = keyspace.ExpiryOf(n.note)
		if due = append(due, n); len(due) == expiryBatch {
			break
		}
	}
	for i := range due {
		stored, err := snap.Get(ctx, due[i].key)
		if err != nil {
			return nil, err
		}
		if due[i].item, err = codec.DecodeItem(stored[0]); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// dropEntry removes a note that is not, or no more, true of its item. Otherwise
// it would be met again and again.
func (d *DB) dropEntry(ctx context.Context, t *schema.Table, n dueEntry) error {
	at, _ := keyspace.ExpiryOf(n.note)
	err := d.engine.Update(ctx, [][]byte{n.key, n.note}, func(tx store.Tx) error {
		it, err := currentItem(tx, n.key)
		if err != nil {
			return err
		}
		if is, expires := t.Expiry(it); !expires || is != at {
			tx.Delete(n.note)
		}
		return nil
	})
	return err
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
