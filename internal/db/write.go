package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Write makes some changes, all or none. No two of them may name one item.
// Outcomes come in the order of the writes; of several faults the first is
// told.
func (d *DB) Write(ctx context.Context, writes ...Write) ([]Outcome, error) {
	outcomes, err := d.commit(ctx, writes, nil)
	if err == nil {
		return outcomes, nil
	}
	var cancelled *Cancelled
	if errors.As(err, &cancelled) {
		return nil, cancelled.first()
	}
	return nil, err
}

// commit makes some changes, all or none, and beside them what more does in
// the same update, when it is set. It declares the keys that more needs.
func (d *DB) commit(ctx context.Context, writes []Write, more *extra) ([]Outcome, error) {
	tables, release, err := d.lockTables(writes)
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
	buf := encodeBuffers.Get().(*encodeBuffer)
	defer buf.release()
	err = d.engine.Update(ctx, declared, func(tx store.Tx) error {
		buf.bytes = buf.bytes[:0] // fn may run again
		if more != nil {
			if err := more.before(tx); err != nil {
				return err
			}
		}
		var cancelled *Cancelled
		for i := range writes {
			o, err := d.apply(tx, tables[i].Table, &writes[i], position{keys[i], i, now}, buf)
			if err != nil {
				if cancelled, err = cancelled.add(i, len(writes), err); err != nil {
					return err
				}
			}
			outcomes[i] = o
			if limit := d.engine.Limits().MaxUpdateBytes; len(buf.bytes) > limit {
				// The engine would refuse it only after we have kept all of it.
				return fmt.Errorf("%d writes are of more than %d bytes: %w", len(writes), limit, store.ErrTooLarge)
			}
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
		tables[i].counts.countWrite(&outcomes[i])
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
func (d *DB) lockTables(writes []Write) (tables []*table, release func(), err error) {
	names := make([]string, 0, 4)
	for i := range writes {
		if i == 0 || writes[i].Table != writes[i-1].Table {
			names = append(names, writes[i].Table)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	held, err := d.lockByName(names)
	if err != nil {
		return nil, nil, err
	}
	tables = make([]*table, len(writes))
	for i := range writes {
		at, _ := slices.BinarySearch(names, writes[i].Table)
		tables[i] = held[at]
	}
	return tables, func() { unlockTables(held) }, nil
}

// holdAll keeps tables as they are until releaseAll.
func (d *DB) lockByName(names []string) ([]*table, error) {
	held := make([]*table, 0, len(names))
	for {
		for _, name := range names {
			t, err := d.use(name)
			if err != nil {
				return nil, err
			}
			held = append(held, t)
		}
		for i, t := range held {
			t.inUse.RLock()
			if now, err := d.useNow(t.Name); err != nil || now != t {
				// It was altered or dropped meanwhile. Who did that may be
				// waiting for us, so nothing is held while we wait for him.
				unlockTables(held[:i+1])
				held = held[:0]
				break
			}
		}
		if len(held) > 0 {
			return held, nil
		}
	}
}

func unlockTables(held []*table) {
	for _, t := range held {
		t.inUse.RUnlock()
	}
}

// declare checks that the writes fit their tables, and finds the keys of their
// items.
func declare(writes []Write, tables []*table) ([][]byte, error) {
	keys := make([][]byte, len(writes), 2*len(writes)+1)
	var buf []byte // of all keys
	var cancelled *Cancelled
	for i := range writes {
		w, t := &writes[i], tables[i].Table
		if err := w.fits(t); err != nil {
			if cancelled, err = cancelled.add(i, len(writes), err); err != nil {
				return nil, err
			}
			continue
		}
		from := len(buf)
		buf = keyspace.Item(buf, t, w.Key)
		keys[i] = buf[from:len(buf):len(buf)]
	}
	if cancelled != nil {
		return nil, cancelled
	}
	return keys, nil
}
