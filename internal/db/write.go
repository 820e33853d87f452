package db

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// Write is a change of one item. Whatever changes an item is one of these.
type Write struct {
	Table string
	Key   item.Item // has at least the attributes of the key

	// Fit tells whether the write fits the table; CheckKey unless set.
	Fit func(t *schema.Table, key item.Item) error

	// If tells whether the write may happen, given the item before it (nil
	// when absent); always unless set.
	If func(before item.Item) bool

	Effect Effect

	// Update is set by updates: they are held against the size limit, and
	// worded, in another way. ActionBytes is what their actions count there.
	Update      bool
	ActionBytes int

	Actor change.Actor // a customer unless set
}

// Effect works out the item after a write from the item before it (nil when
// absent). It must not keep state: an engine may run a write more than once.
type Effect func(before item.Item) (after item.Item, err error)

// Replace is the effect of a put.
func Replace(it item.Item) Effect {
	return func(item.Item) (item.Item, error) { return it, nil }
}

// Remove is the effect of a delete.
func Remove(item.Item) (item.Item, error) { return nil, nil }

// Keep is the effect of a write that only looks.
func Keep(before item.Item) (item.Item, error) { return before, nil }

// Outcome is what a write did.
type Outcome struct {
	Before, After item.Item
	Consumed      capacity.Consumed

	// CollectionBytes is the size of the item's collection, in a table that
	// has such.
	CollectionBytes int64

	edits []index.Edit
}

// ConditionFailed is the error of a write whose condition does not hold.
type ConditionFailed struct {
	Before item.Item // the item it looked at
}

func (*ConditionFailed) Error() string { return "the condition does not hold" }

// Write makes some changes, all or none. No two of them may name one item.
// Outcomes come in the order of the writes; of several faults the first is
// told.
func (d *DB) Write(ctx context.Context, writes ...Write) ([]Outcome, error) {
	outcomes, err := d.commit(ctx, writes, nil)
	var cancelled *Cancelled
	if errors.As(err, &cancelled) {
		return nil, cancelled.first()
	}
	return outcomes, err
}

// commit makes some changes, all or none, and beside them what more does in
// the same update, when it is set. It declares the keys that more needs.
func (d *DB) commit(ctx context.Context, writes []Write, more *extra) ([]Outcome, error) {
	tables, release, err := d.hold(writes)
	if err != nil {
		return nil, err
	}
	defer release()
	keys, err := declare(writes, tables)
	if err != nil {
		return nil, err
	}
	declared := keys
	for i, t := range tables {
		if t.HasLocal() {
			declared = append(declared, keyspace.Collection(t.Table, writes[i].Key))
		}
	}
	if more != nil {
		declared = append(declared, more.keys...)
	}

	now := d.now()
	outcomes := make([]Outcome, len(writes))
	_, err = d.engine.Update(ctx, declared, func(tx store.Tx) error {
		if more != nil {
			if err := more.before(tx); err != nil {
				return err
			}
		}
		var cancelled *Cancelled
		for i := range writes {
			o, err := d.apply(tx, tables[i].Table, keys[i], &writes[i])
			if err == nil {
				note(tx, tables[i].Table, keys[i], i, change.Record{At: now, Actor: writes[i].Actor, Before: o.Before, After: o.After})
			} else {
				if cancelled, err = cancelled.add(i, len(writes), err); err != nil {
					return err
				}
			}
			outcomes[i] = o
		}
		if cancelled != nil {
			return cancelled
		}
		if more != nil {
			more.after(tx, outcomes)
		}
		return nil
	})
	if errors.Is(err, store.ErrConflict) {
		return nil, conflict(len(writes))
	}
	if err != nil {
		return nil, err
	}
	for i := range outcomes {
		tables[i].tally.note(&outcomes[i])
	}
	return outcomes, nil
}

// extra is work that goes with writes in one update.
type extra struct {
	keys   [][]byte
	before func(store.Tx) error
	after  func(store.Tx, []Outcome)
}

// hold finds the tables of writes and keeps them as they are, neither altered
// nor dropped, until release is called.
func (d *DB) hold(writes []Write) (tables []*table, release func(), err error) {
	var held []*table
	release = func() {
		for _, t := range held {
			t.inUse.RUnlock()
		}
	}
	names := make([]string, 0, 4)
	for i := range writes {
		if i == 0 || writes[i].Table != writes[i-1].Table {
			names = append(names, writes[i].Table)
		}
	}
	// In order and each once, so that two of us never wait for each other.
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		t, err := d.use(name)
		if err != nil {
			release()
			return nil, nil, err
		}
		t.inUse.RLock()
		held = append(held, t)
		now, err := d.use(name) // it may have been altered or dropped meanwhile
		if err == nil && now.ID != t.ID {
			err = apierror.NoTable()
		}
		if err != nil {
			release()
			return nil, nil, err
		}
		held[len(held)-1] = now
	}
	tables = make([]*table, len(writes))
	for i := range writes {
		at, _ := slices.BinarySearchFunc(held, writes[i].Table, func(t *table, name string) int { return strings.Compare(t.Name, name) })
		tables[i] = held[at]
	}
	return tables, release, nil
}

// declare checks that the writes fit their tables, and finds the keys of their
// items.
func declare(writes []Write, tables []*table) ([][]byte, error) {
	keys := make([][]byte, len(writes), 2*len(writes)+1)
	var cancelled *Cancelled
	for i := range writes {
		w, t := &writes[i], tables[i].Table
		if err := w.fits(t); err != nil {
			if cancelled, err = cancelled.add(i, len(writes), err); err != nil {
				return nil, err
			}
			continue
		}
		keys[i] = keyspace.Item(nil, t, w.Key)
	}
	if cancelled != nil {
		return nil, cancelled
	}
	return keys, nil
}

func (w *Write) fits(t *schema.Table) error {
	if w.Fit == nil {
		return t.CheckKey(w.Key)
	}
	return w.Fit(t, w.Key)
}

// apply makes one change. The size limits, the index entries and the consumed
// units of every write there is are worked out here.
func (d *DB) apply(tx store.Tx, t *schema.Table, key []byte, w *Write) (Outcome, error) {
	stored, _ := tx.Get(key)
	before, err := decode(stored)
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
	if after != nil {
		if err := w.admit(t, before, after); err != nil {
			return Outcome{}, err
		}
	}

	o := Outcome{Before: before, After: after}
	o.Consumed.Table = capacity.Write(max(before.Size(), after.Size()))
	switch {
	case after == nil && before != nil:
		tx.Delete(key)
	case after != nil && !after.Equal(before):
		tx.Set(key, encode(after))
	}
	o.edits = index.Diff(t, before, after)
	for _, e := range o.edits {
		if e.After == nil {
			tx.Delete(e.Key)
		} else {
			tx.Set(e.Key, encode(e.After))
		}
		o.Consumed.Charge(e.Index.Name, e.Index.Global, e.Units)
	}
	if t.HasLocal() {
		o.CollectionBytes, err = d.growCollection(tx, t, w.Key, before, after, o.edits)
	}
	return o, err
}

// note records a change for what looks back, and when the item expires.
func note(tx store.Tx, t *schema.Table, key []byte, n int, r change.Record) {
	if t.Logs() && !r.Before.Equal(r.After) {
		tx.Set(keyspace.Change(t.ID, keyspace.Slot(key), uint64(tx.Stamp()), n), r.Encode())
	}
	if t.TimeToLive.Attribute == "" {
		return
	}
	was, expired := t.Expiry(r.Before)
	is, expires := t.Expiry(r.After)
	if expired && !(expires && is == was) {
		tx.Delete(keyspace.Expiry(t.ID, was, key))
	}
	if expires && !(expired && is == was) {
		tx.Set(keyspace.Expiry(t.ID, is, key), []byte{formatExpiry})
	}
}

// formatExpiry is the number of the format of the note that an item expires.
const formatExpiry = 1

// admit tells whether an item may become what the write makes of it.
func (w *Write) admit(t *schema.Table, before, after item.Item) error {
	size := after.Size()
	if !w.Update {
		if withLocal(t, after, size) > item.MaxSize {
			return apierror.ItemTooLarge()
		}
		return nil
	}
	if after.Depth() > item.MaxDepth {
		return apierror.Validation("Nesting Levels have exceeded supported limits")
	}
	// An update is measured without the key but with its actions; the item it
	// makes is held to the limit all the same (measured on the service: a put
	// can store a few bytes more than an update).
	if max(withLocal(t, after, size), size-t.Key.Of(after).Size()+w.ActionBytes) > item.MaxSize {
		return apierror.UpdateTooLarge()
	}
	if before == nil {
		before = item.Item{0}
	}
	return t.CheckIndexKeys(before, after)
}

// withLocal is the size of an item together with its entries in the local
// indexes: they share one limit, as the service's page on quotas says.
func withLocal(t *schema.Table, it item.Item, size int) int {
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
