package db

import (
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/clock"
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
	key []byte // of the item
	n   int    // the index of the write in the update
	now moment // when the update began
	by  string // the principal of the request; empty if it is not known
}

// moment is a time of the clock.
type moment struct {
	time.Time
	step *clock.Step // the last one before it
}

// moment returns the time.
func (d *DB) moment() moment {
	step := d.clock.LastStep() // before the time, which is then not from before it
	return moment{d.clock.Now(), step}
}

// apply executes one write completely: condition, effect, size limits, the item,
// its index entries, the size of its collection, the change record, the expiry
// entry and the consumed units. Every write passes through it.
func (d *DB) apply(tx store.Tx, t *schema.Table, w *Write, at position, buf *encodeBuffer) (Outcome, error) {
	stored, _ := tx.Get(at.key)
	before, err := decodeItem(t, at.key, stored)
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
	if !buf.take(t, before, after, d.records(t)) {
		return Outcome{}, errUpdateGrows
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
	if changed && d.records(t) {
		r := change.Record{At: d.recordTime(tx, at.now), Actor: w.Actor, By: at.by, Before: before, After: after}
		tx.Set(keyspace.Change(t.ID, keyspace.Slot(at.key), uint64(tx.Stamp()), at.n), r.Encode())
	}
	if t.TimeToLive.Attribute != "" {
		moveExpiry(tx, t, at.key, before, after)
	}
	return o, nil
}

// records reports whether the changes of a table are recorded.
func (d *DB) records(t *schema.Table) bool { return d.keepChanges || t.Logs() }

func setOrDelete(tx store.Tx, key []byte, it item.Item, buf *encodeBuffer) {
	if it == nil {
		tx.Delete(key)
	} else {
		tx.Set(key, buf.encode(it))
	}
}

// recordTime returns the time for a change record of an update that began now. It
// must not be later than the stamp, so if the engine's clock is behind ours, it is
// the time of the stamp. Nor must it be from before a step of the clock, if its
// stamp is larger than that with which recordRuns records the step.
func (d *DB) recordTime(tx store.Tx, now moment) time.Time {
	at := now.Time
	if d.clock.LastStep() != now.step {
		at = d.clock.Now()
	}
	if tx.Stamp() < store.StampAt(at) {
		return tx.Stamp().Time()
	}
	return at
}

// moveExpiry replaces the expiry entry of the item before a write by that of the
// item after it.
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
		tx.Set(keyspace.Expiry(t.ID, is, key), []byte{codec.FormatExpiry})
	}
}

// checkAfter returns a fault if the item after the write exceeds a limit or does
// not fit the indexes. size is the size of after.
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
	// The size of an update excludes the key and includes its actions; the
	// resulting item must be within the limit as well (measured on the service:
	// a put can store a few bytes more than an update).
	if max(sizeWithLocal(t, after, size), size-keySize(t, after)+w.ActionBytes) > item.MaxSize {
		return apierror.UpdateTooLarge()
	}
	if before == nil {
		before = item.Item{0}
	}
	return t.CheckIndexKeys(before, after)
}

// keySize returns the size of an item's key attributes.
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

// sizeWithLocal returns the size of an item and its entries in the local indexes,
// which share one limit, as the service's page on quotas says. size is the size
// of the item.
func sizeWithLocal(t *schema.Table, it item.Item, size int) int {
	if size*(1+len(t.Indexes)) <= item.MaxSize {
		return size // within the limit, whatever the entries are
	}
	sum := size
	for i := range t.Indexes {
		if x := &t.Indexes[i]; !x.Global && x.Key.In(it) {
			sum += t.Entry(x, it).Size()
		}
	}
	return sum
}

// encodeBuffer holds the encoded items of one update. The engine uses them until
// Update returns; then the buffer is reused.
type encodeBuffer struct {
	bytes   []byte
	last    item.Item // the item that was encoded last
	encoded []byte    // its stored form

	writes  int // that were taken
	size    int // what they need
	allowed int // what they may need; 0 is no limit
}

var encodeBuffers = sync.Pool{New: func() any { return new(encodeBuffer) }}

// reset empties the buffer before the function of an update, which may run again.
func (e *encodeBuffer) reset() { *e = encodeBuffer{bytes: e.bytes[:0], allowed: e.allowed} }

// take adds the memory that a write needs. It reports false if that is more than
// is allowed.
func (e *encodeBuffer) take(t *schema.Table, before, after item.Item, recorded bool) bool {
	e.writes++
	e.size += updateBytes(t, len(before), len(after), recorded)
	return e.allowed == 0 || e.size <= e.allowed
}

// updateBytes is about the memory that a write of an item needs: for the item, and
// for all that is written with it, which has both versions if the change is recorded.
func updateBytes(t *schema.Table, before, after int, recorded bool) int {
	written := after * (1 + len(t.Indexes))
	if recorded {
		written += before + after
	}
	return before + after + 2*written // the batch of an engine grows by doubling
}

// encode returns the stored form of an item. An index entry is often the item
// itself, which is encoded once.
func (e *encodeBuffer) encode(it item.Item) []byte {
	if len(it) > 0 && len(it) == len(e.last) && &it[0] == &e.last[0] {
		return e.encoded
	}
	from := len(e.bytes)
	e.bytes = codec.AppendItem(e.bytes, it)
	e.last, e.encoded = it, e.bytes[from:len(e.bytes):len(e.bytes)]
	return e.encoded
}

// release returns the buffer to the pool, unless it is large.
func (e *encodeBuffer) release() {
	const maxKept = 64 << 10
	if cap(e.bytes) <= maxKept {
		e.reset()
		e.allowed = 0
		encodeBuffers.Put(e)
	}
}
