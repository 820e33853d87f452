package db

import (
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/store"
)

// position identifies a write within its update.
type position struct {
	key []byte    // of the item
	n   int       // of the write among those of the update
	now time.Time // when the update began
}

// apply makes one change, the whole of it: condition, effect, size limits, the
// item, its index entries, the size of its collection, the change record, the
// expiry entry and the consumed units. Every write passes through it.
func (d *DB) apply(tx store.Tx, t *schema.Table, w *Write, at position, buf *encodeBuffer) (Outcome, error) {
	stored, _ := tx.Get(at.key)
	before, err := codec.DecodeItem(stored)
	if err != nil {
		return Outcome{}, err
	}
	if w.If != nil && !w.If(before) {
		return Outcome{}, &ConditionFailed{Before: before}
	}
	after, err := w.Effect(before)
	if err != nil {
		return Outcome{}, err
	}
	o := Outcome{Table: t, Before: before, After: after, beforeBytes: before.Size(), afterBytes: after.Size()}
	if after != nil {
		if err := w.checkAfter(t, before, after, o.afterBytes); err != nil {
			return Outcome{}, err
		}
	}
	o.Consumed.Table = capacity.Write(max(o.beforeBytes, o.afterBytes))
	changed := !after.Equal(before)
	if changed {
		setOrDelete(tx, at.key, after, buf)
	}
	o.edits = index.Diff(t, before, after)
	for i := range o.edits {
		e := &o.edits[i]
		setOrDelete(tx, e.Key, e.After, buf)
		o.Consumed.Charge(e.Index.Name, e.Index.Global, e.Units)
	}
	if t.HasLocal() {
		if o.CollectionBytes, err = d.growCollection(tx, t, w.Key, before, after, o.edits); err != nil {
			return Outcome{}, err
		}
	}
	if changed && t.Logs() {
		r := change.Record{At: recordTime(tx, at.now), Actor: w.Actor, Before: before, After: after}
		tx.Set(keyspace.Change(t.ID, keyspace.Slot(at.key), uint64(tx.Stamp()), at.n), r.Encode())
	}
	if t.TimeToLive.Attribute != "" {
		moveExpiry(tx, t, at.key, before, after)
	}
	return o, nil
}

func setOrDelete(tx store.Tx, key []byte, it item.Item, buf *encodeBuffer) {
	if it == nil {
		tx.Delete(key)
	} else {
		tx.Set(key, buf.encode(it))
	}
}

// recordTime is the time that a change record carries. No stamp may be of an
// earlier time, so when the engine's clock is behind ours, the engine's counts.
func recordTime(tx store.Tx, now time.Time) time.Time {
	if tx.Stamp() < store.StampAt(now) {
		return tx.Stamp().Time()
	}
	return now
}

// moveExpiry puts the entry that says when an item expires where the item after
// a write wants it.
func moveExpiry(tx store.Tx, t *schema.Table, key []byte, before, after item.Item) {
	was, had := t.Expiry(before)
	is, has := t.Expiry(after)
	if had && has && is == was {
		return
	}
	if had {
		tx.Delete(keyspace.Expiry(t.ID, was, key))
	}
	if has {
		tx.Set(keyspace.Expiry(t.ID, is, key), []byte{formatExpiry})
	}
}

// formatExpiry is the format number of an expiry entry.
const formatExpiry = 1

// admit reports an error if an item may not become what the write makes of it.
// size is the size of after.
func (w *Write) checkAfter(t *schema.Table, before, after item.Item, size int) error {
	if !w.Update {
		if sizeWithLocal(t, after, size) > item.MaxSize {
			return apierror.ItemTooLarge()
		}
		return nil
	}
	if after.Depth() > item.MaxDepth {
		return apierror.Validation("Nesting Levels have exceeded supported limits")
	}
	// An update is measured without the key but with its actions; the item it
	// makes is held to the limit as well (measured on the service: a put can
	// store a few bytes more than an update).
	if max(sizeWithLocal(t, after, size), size-keySize(t, after)+w.ActionBytes) > item.MaxSize {
		return apierror.UpdateTooLarge()
	}
	if before == nil {
		before = item.Item{0}
	}
	return t.CheckIndexKeys(before, after)
}

// keySize is the size of an item's key attributes.
func keySize(t *schema.Table, it item.Item) (size int) {
	for _, attrs := range [2][]schema.Attribute{t.Key.Partition, t.Key.Sort} {
		for _, a := range attrs {
			if v, ok := it.Get(a.Name); ok {
				size += len(a.Name) + v.Size()
			}
		}
	}
	return size
}

// withLocal is the size of an item together with its entries in the local
// indexes: they share one limit, as the service's page on quotas says.
func sizeWithLocal(t *schema.Table, it item.Item, size int) int {
	if size*(1+len(t.Indexes)) <= item.MaxSize {
		return size // the entries cannot matter
	}
	sum := size
	for i := range t.Indexes {
		if x := &t.Indexes[i]; !x.Global && x.Key.In(it) {
			sum += t.Entry(x, it).Size()
		}
	}
	return sum
}

// encoding holds the stored form of the items of one update. The engine needs
// them until Update returns; then the memory is used again.
type encodeBuffer struct{ bytes []byte }

var encodeBuffers = sync.Pool{New: func() any { return new(encodeBuffer) }}

// of returns an item in its stored form.
func (e *encodeBuffer) encode(it item.Item) []byte {
	from := len(e.bytes)
	e.bytes = codec.AppendItem(e.bytes, it)
	return e.bytes[from:len(e.bytes):len(e.bytes)]
}

func (e *encodeBuffer) release() {
	const maxKept = 64 << 10
	if cap(e.bytes) <= maxKept {
		encodeBuffers.Put(e)
	}
}
