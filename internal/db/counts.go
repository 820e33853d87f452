package db

import (
	"maps"
	"slices"
	"sync"

	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
)

// itemCounts holds the number and the bytes of a table's items and of its
// indexes' entries. Each process adds its unsaved changes to the stored counts
// every saveInterval, so a crash can leave the counts off by the writes of the
// last second. DynamoDB updates its own about every six hours.
type itemCounts struct {
	mu      sync.Mutex
	known   countMap // as stored when they were last read or saved
	unsaved countMap // changes of this process that are not stored yet
}

// countMap holds counts by index id; 0 is the table.
type countMap map[uint16]Count

// Count is a number of items and their total size.
type Count = codec.Count

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

// countEdits counts index entries that a build has added.
func (t *itemCounts) countEdits(edits []index.Edit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range edits {
		t.unsaved.change(e.Index.ID, e.Before, e.After)
	}
}

// correct adds the difference between the actual and the counted entries of an
// index. Writes that were counted since both were taken stay counted.
func (t *itemCounts) correct(id uint16, counted, actual Count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsaved.add(id, actual.Items-counted.Items, actual.Bytes-counted.Bytes)
}

// pending returns a copy of the unsaved changes.
func (t *itemCounts) pending() countMap {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.unsaved)
}

// current returns the counts as this process knows them.
func (t *itemCounts) current() countMap {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := maps.Clone(t.known)
	for id, c := range t.unsaved {
		sum.add(id, c.Items, c.Bytes)
	}
	return sum
}

// merge sets the stored counts. ours are the changes of this process that they
// newly include.
func (t *itemCounts) merge(stored, ours countMap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = stored
	for id, n := range ours {
		t.unsaved.add(id, -n.Items, -n.Bytes)
	}
}

// change counts that an item or an entry was replaced; nil means absent.
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

// add removes counts that become zero, so that a map without changes is empty.
func (c countMap) add(id uint16, items, bytes int64) {
	sum := Count{Items: c[id].Items + items, Bytes: c[id].Bytes + bytes}
	if sum == (Count{}) {
		delete(c, id)
		return
	}
	c[id] = sum
}

// keep removes the counts of indexes that the table does not have any more.
func (c countMap) keep(t *schema.Table) {
	for id := range c {
		// A larger id belongs to an index that is newer than this description.
		if id != 0 && id <= t.LastIndex && !slices.ContainsFunc(t.Indexes, func(x schema.Index) bool { return x.ID == id }) {
			delete(c, id)
		}
	}
}
