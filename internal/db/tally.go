package db

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/store"
)

// tally counts the items of a table and the entries of its indexes, and their
// bytes. It is kept in memory and saved now and then, so a crash can leave it
// off by the writes of the last second; DynamoDB's own is six hours old.
type tally struct {
	mu    sync.Mutex
	of    map[uint16]Count // by index; 0 is the table
	saved []byte
}

// Count is how many items there are, and how large they are together.
type Count struct{ Items, Bytes int64 }

func newTally() *tally { return &tally{of: make(map[uint16]Count)} }

// tallyInterval is how often changed tallies are saved.
const tallyInterval = time.Second

// note counts a committed write.
func (t *tally) note(o *Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(0, o.Before, o.After)
	for _, e := range o.edits {
		t.count(e.Index.ID, e.Before, e.After)
	}
}

// noteEdits counts entries that a build has put in.
func (t *tally) noteEdits(edits []index.Edit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range edits {
		t.count(e.Index.ID, e.Before, e.After)
	}
}

func (t *tally) count(id uint16, before, after item.Item) {
	c := t.of[id]
	if before != nil {
		c.Items--
		c.Bytes -= int64(before.Size())
	}
	if after != nil {
		c.Items++
		c.Bytes += int64(after.Size())
	}
	t.of[id] = c
}

// correct replaces what was counted by what is there; writes may have been
// noted since either.
func (t *tally) correct(id uint16, counted, there Count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.of[id]
	t.of[id] = Count{c.Items + there.Items - counted.Items, c.Bytes + there.Bytes - counted.Bytes}
}

// counts is a copy of all counts.
func (t *tally) counts() map[uint16]Count {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.of)
}

// reset counts from nothing again.
func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.of)
	t.of[0] = Count{} // so that it is saved
}

// forget drops the count of an index that is gone.
func (t *tally) forget(id uint16) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, id)
}

// countBytes is the length of one count in its stored form: the index, the
// items, the bytes.
const countBytes = 2 + 8 + 8

func (t *tally) encode() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(t.of)) {
		b = binary.BigEndian.AppendUint16(b, id)
		b = binary.BigEndian.AppendUint64(b, uint64(t.of[id].Items))
		b = binary.BigEndian.AppendUint64(b, uint64(t.of[id].Bytes))
	}
	return b
}

func (t *tally) load(ctx context.Context, snap store.Snapshot, table uint32) error {
	values, err := snap.Get(ctx, keyspace.Tally(table))
	if err != nil || values[0] == nil {
		return err
	}
	t.saved = values[0]
	if len(t.saved)%countBytes != 0 {
		return fmt.Errorf("tally of table %d has %d bytes: %w", table, len(t.saved), store.ErrCorrupt)
	}
	for b := range slices.Chunk(t.saved, countBytes) {
		t.of[binary.BigEndian.Uint16(b)] = Count{int64(binary.BigEndian.Uint64(b[2:])), int64(binary.BigEndian.Uint64(b[10:]))}
	}
	return nil
}

// saveTally saves the tallies that have changed.
func (d *DB) saveTally(ctx context.Context) error {
	d.saving.Lock()
	defer d.saving.Unlock()
	d.catalog.mu.RLock()
	defer d.catalog.mu.RUnlock()
	var keys, values [][]byte
	var changed []*tally
	for _, t := range d.catalog.tables {
		now := t.tally.encode()
		if len(now) == 0 || slices.Equal(now, t.tally.saved) {
			continue
		}
		changed = append(changed, t.tally)
		keys = append(keys, keyspace.Tally(t.ID))
		values = append(values, now)
	}
	if len(keys) == 0 {
		return nil
	}
	_, err := d.engine.Update(ctx, keys, func(tx store.Tx) error {
		for i, key := range keys {
			tx.Set(key, values[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, t := range changed {
		t.saved = values[i] // only one of us saves at a time
	}
	return nil
}
