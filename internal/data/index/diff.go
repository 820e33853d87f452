// Package index works out which index entries appear, change and go when an
// item does.
package index

import (
	"bytes"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
)

// Edit is one change of an index: an entry comes (Before is nil), goes (After
// is nil) or changes in place.
type Edit struct {
	Index         *schema.Index
	Key           []byte
	Before, After item.Item
	Units         float64 // what it costs
}

// Diff is what the indexes of a table need when an item changes from before
// to after; either may be absent. An entry that stays as it is needs nothing
// and costs nothing.
func Diff(t *schema.Table, before, after item.Item) []Edit {
	var edits []Edit
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.State != schema.Deleting {
			edits = appendEdits(edits, t, x, before, after)
		}
	}
	return edits
}

// Entry is the edit that puts an item into an index; not ok when the index
// does not hold it.
func Entry(t *schema.Table, x *schema.Index, it item.Item) (Edit, bool) {
	key, entry := entry(t, x, it)
	return Edit{Index: x, Key: key, After: entry}, key != nil
}

func appendEdits(edits []Edit, t *schema.Table, x *schema.Index, before, after item.Item) []Edit {
	oldKey, oldEntry := entry(t, x, before)
	newKey, newEntry := entry(t, x, after)
	moved := !bytes.Equal(oldKey, newKey)
	if oldKey != nil && moved {
		// A moved entry is charged twice: where it goes and where it comes.
		edits = append(edits, Edit{x, oldKey, oldEntry, nil, capacity.Write(oldEntry.Size())})
	}
	switch {
	case newKey == nil:
	case moved:
		edits = append(edits, Edit{x, newKey, nil, newEntry, capacity.Write(newEntry.Size())})
	case !newEntry.Equal(oldEntry):
		edits = append(edits, Edit{x, newKey, oldEntry, newEntry, capacity.Write(max(oldEntry.Size(), newEntry.Size()))})
	}
	return edits
}

// entry is where an index keeps an item, and what of it; no key when the
// index does not hold it.
func entry(t *schema.Table, x *schema.Index, it item.Item) ([]byte, item.Item) {
	if it == nil || !x.Key.In(it) {
		return nil, nil
	}
	return keyspace.Entry(nil, t, x, it), t.Entry(x, it)
}
