package db

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
)

// itemCounts counts the items of a table and the entries of its indexes, and their
// bytes. What this process has changed is saved now and then, by adding it to
// what all have saved, so a crash can leave the counts off by the writes of the
// last second; DynamoDB's own are six hours old.
type itemCounts struct {
	mu      sync.Mutex
	known   countMap // as they were saved when we last looked
	unsaved countMap // how they have changed here since
}

// countMap is how many items there are, by index; 0 is the table.
type countMap map[uint16]Count

// Count is how many items there are, and how large they are together.
type Count struct{ Items, Bytes int64 }

func newItemCounts() *itemCounts { return &itemCounts{known: make(countMap), unsaved: make(countMap)} }

// countWrite counts a committed write.
func (t *itemCounts) countWrite(o *Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsaved.change(0, o.Before, o.After)
	for i := range o.edits {
		e := &o.edits[i]
		t.unsaved.change(e.Index.ID, e.Before, e.After)
	}
}

// countEdits counts entries that a build has put in.
func (t *itemCounts) countEdits(edits []index.Edit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range edits {
		t.unsaved.change(e.Index.ID, e.Before, e.After)
	}
}

// correct replaces what was counted by what is there; writes may have been
// noted since either.
func (t *itemCounts) correct(id uint16, counted, actual Count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsaved.add(id, actual.Items-counted.Items, actual.Bytes-counted.Bytes)
}

// pending is a copy of what is not saved.
func (t *itemCounts) pending() countMap {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.unsaved)
}

// current is all counts as this process knows them.
func (t *itemCounts) current() countMap {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := maps.Clone(t.known)
	for id, c := range t.unsaved {
		sum.add(id, c.Items, c.Bytes)
	}
	return sum
}

// merge notes what is saved, of which some was ours.
func (t *itemCounts) merge(stored, ours countMap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = stored
	for id, n := range ours {
		t.unsaved.add(id, -n.Items, -n.Bytes)
	}
}

func (c countMap) change(id uint16, before, after item.Item) {
	var items, bytes int64
	if before != nil {
		items--
		bytes -= int64(before.Size())
	}
	if after != nil {
		items++
		bytes += int64(after.Size())
	}
	c.add(id, items, bytes)
}

// add leaves no zeros behind, so that what is empty has nothing to save.
func (c countMap) add(id uint16, items, bytes int64) {
	sum := Count{c[id].Items + items, c[id].Bytes + bytes}
	if sum == (Count{}) {
		delete(c, id)
		return
	}
	c[id] = sum
}

// countBytes is the length of one count in its stored form: the index, the
// items, the bytes.
const countBytes = 2 + 8 + 8

func (c countMap) encode() []byte {
	b := make([]byte, 0, countBytes*(len(c)+1))
	for _, id := range slices.Sorted(maps.Keys(c)) {
		b = binary.BigEndian.AppendUint16(b, id)
		b = binary.BigEndian.AppendUint64(b, uint64(c[id].Items))
		b = binary.BigEndian.AppendUint64(b, uint64(c[id].Bytes))
	}
	return b
}

func decodeCounts(stored []byte) (countMap, error) {
	if len(stored)%countBytes != 0 {
		return nil, fmt.Errorf("a tally has %d bytes: %w", len(stored), store.ErrCorrupt)
	}
	c := make(countMap)
	for b := range slices.Chunk(stored, countBytes) {
		c[binary.BigEndian.Uint16(b)] = Count{int64(binary.BigEndian.Uint64(b[2:])), int64(binary.BigEndian.Uint64(b[10:]))}
	}
	return c, nil
}

// keep drops the counts of indexes that are gone.
func (c countMap) keep(t *schema.Table) {
	for id := range c {
		// A larger id is of an index that is newer than this description.
		if id != 0 && id <= t.LastIndex && !slices.ContainsFunc(t.Indexes, func(x schema.Index) bool { return x.ID == id }) {
			delete(c, id)
		}
	}
}
