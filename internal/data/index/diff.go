// Package index computes which index entries are added, changed and removed
// when an item changes.
package index

import (
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
)

// Edit is one change of an index: an entry is added (Before is nil), removed
// (After is nil) or changed in place.
type Edit struct {
	Index         *schema.Index
	Key           []byte
	Before, After item.Item
	Units         float64 // what it costs
}

// Diff returns the edits of a table's indexes for a change of an item from
// before to after; either may be nil. An unchanged entry needs no edit and
// costs nothing.
func Diff(t *schema.Table, before, after item.Item) []Edit {
	var edits []Edit
	for i := range t.Indexes {
		if x := &t.Indexes[i]; x.State != schema.Deleting {
			edits = appendEdits(edits, t, x, before, after)
		}
	}
	return edits
}

// Entry is the edit that adds an item to an index. It is not ok when the
// index does not hold the item.
func Entry(t *schema.Table, x *schema.Index, it item.Item) (Edit, bool) {
	if !x.Key.In(it) {
		return Edit{}, false
	}
	return Edit{Index: x, Key: keyspace.Entry(nil, t, x, it), After: t.Entry(x, it)}, true
}

func appendEdits(edits []Edit, t *schema.Table, x *schema.Index, before, after item.Item) []Edit {
	had, has := x.Key.In(before), x.Key.In(after)
	if had && has && sameKey(x, before, after) {
		oldEntry, newEntry := t.Entry(x, before), t.Entry(x, after)
		if newEntry.Equal(oldEntry) {
			return edits
		}
		return append(edits, Edit{x, keyspace.Entry(nil, t, x, after), oldEntry, newEntry, capacity.Write(max(oldEntry.Size(), newEntry.Size()))})
	}
	// A moved entry is charged twice: for its removal and for its addition.
	if had {
		entry := t.Entry(x, before)
		edits = append(edits, Edit{x, keyspace.Entry(nil, t, x, before), entry, nil, capacity.Write(entry.Size())})
	}
	if has {
		entry := t.Entry(x, after)
		edits = append(edits, Edit{x, keyspace.Entry(nil, t, x, after), nil, entry, capacity.Write(entry.Size())})
	}
	return edits
}

// sameKey reports whether an index keeps two states of an item under the same
// key.
func sameKey(x *schema.Index, before, after item.Item) bool {
	for _, attrs := range [2][]schema.Attribute{x.Key.Partition, x.Key.Sort} {
		for _, a := range attrs {
			was, _ := before.Get(a.Name)
			is, _ := after.Get(a.Name)
			if !item.Equal(was, is) {
				return false
			}
		}
	}
	return true
}
