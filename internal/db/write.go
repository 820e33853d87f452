package db

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
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

	// ActionBytes is set by updates: what their actions add to the item when
	// it is held against the size limit.
	ActionBytes int
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

// Outcome is what a write did.
type Outcome struct {
	Before, After item.Item
	Consumed      capacity.Consumed
}

// ConditionFailed is the error of a write whose condition does not hold.
type ConditionFailed struct {
	Write  int       // which one, of those given to Write
	Before item.Item // the item it looked at
}

func (*ConditionFailed) Error() string { return "the condition does not hold" }

// Write makes some changes, all or none. No two of them may name one item.
// Outcomes come in the order of the writes.
func (d *DB) Write(ctx context.Context, writes ...Write) ([]Outcome, error) {
	tables := make([]*table, len(writes))
	keys := make([][]byte, len(writes))
	for i := range writes {
		w := &writes[i]
		t, err := d.use(w.Table)
		if err != nil {
			return nil, err
		}
		if err := w.fits(t.Table); err != nil {
			return nil, err
		}
		tables[i], keys[i] = t, keyspace.Item(nil, t.Table, w.Key)
	}
	release, err := d.hold(tables)
	if err != nil {
		return nil, err
	}
	defer release()

	outcomes := make([]Outcome, len(writes))
	_, err = d.engine.Update(ctx, keys, func(tx store.Tx) (err error) {
		for i := range writes {
			if outcomes[i], err = apply(tx, tables[i].Table, keys[i], &writes[i]); err != nil {
				if failed, ok := err.(*ConditionFailed); ok {
					failed.Write = i
				}
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, o := range outcomes {
		tables[i].tally.note(o.Before, o.After)
	}
	return outcomes, nil
}

func (w *Write) fits(t *schema.Table) error {
	if w.Fit == nil {
		return t.CheckKey(w.Key)
	}
	return w.Fit(t, w.Key)
}

// hold keeps the tables from being dropped until release is called.
func (d *DB) hold(tables []*table) (release func(), err error) {
	held := make([]*table, 0, 1)
	release = func() {
		for _, t := range held {
			t.inUse.RUnlock()
		}
	}
	for i, t := range tables {
		if i > 0 && t == tables[i-1] {
			continue
		}
		t.inUse.RLock()
		held = append(held, t)
		if now, ok := d.find(t.Name); !ok || now.ID != t.ID {
			release()
			return nil, apierror.NoTable()
		}
	}
	return release, nil
}

// apply makes one change. The size limit, the index entries and the consumed
// units of every write there is are worked out here.
func apply(tx store.Tx, t *schema.Table, key []byte, w *Write) (Outcome, error) {
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
	for _, e := range index.Diff(t, before, after) {
		if e.After == nil {
			tx.Delete(e.Key)
		} else {
			tx.Set(e.Key, encode(e.After))
		}
		o.Consumed.Charge(e.Index.Name, e.Index.Global, e.Units)
	}
	return o, nil
}

// admit tells whether an item may become what the write makes of it.
func (w *Write) admit(t *schema.Table, before, after item.Item) error {
	size := after.Size()
	if w.ActionBytes == 0 {
		if size > item.MaxSize {
			return apierror.ItemTooLarge()
		}
		return nil
	}
	// An update is measured without the key but with its actions; the item it
	// makes is held to the limit all the same (measured on the service: a put
	// can store a few bytes more than an update).
	if max(size, size-t.Key.Of(after).Size()+w.ActionBytes) > item.MaxSize {
		return apierror.UpdateTooLarge()
	}
	if before == nil {
		before = item.Item{0}
	}
	return t.CheckIndexKeys(before, after)
}
