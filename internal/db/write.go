package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// Write executes all of the writes, or none. No two of them may name one item.
// The outcomes are in the order of the writes. If several writes are rejected, it
// returns the fault of the first.
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

// commit executes all of the writes, or none. more, which may be nil, is done in
// the same update.
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
				// Stop early: the engine rejects an update only when it is complete.
				return fmt.Errorf("%d writes have more than %d bytes: %w", len(writes), limit, store.ErrTooLarge)
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

// extra is work that is done in the same update as writes.
type extra struct {
	keys   [][]byte // declared in addition to those of the writes
	before func(store.Tx) error
	after  func(store.Tx, []Outcome)
}

// lockTables returns the table of each write. The tables are neither altered nor
// dropped until release is called.
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

// lockByName locks the tables of some names, which are sorted, for reading, until
// unlockTables is called.
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
				// It was altered or dropped in the meantime. That change may be
				// waiting for our locks, so release them before waiting for it.
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

// declare checks that the writes fit their tables, and returns the keys of their
// items, with capacity for the other keys that commit declares.
func declare(writes []Write, tables []*table) ([][]byte, error) {
	keys := make([][]byte, len(writes), 2*len(writes)+1)
	var buf []byte // holds all keys
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
