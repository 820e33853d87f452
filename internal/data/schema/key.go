package schema

import (
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// The largest a partition key and a sort key may be, in bytes.
const (
	MaxPartitionBytes = 2048
	MaxSortBytes      = 1024
)

// Attribute is an attribute of a key, of type S, N or B.
type Attribute struct {
	Name string    `json:"name"`
	Type item.Type `json:"type"`
}

// Key is the primary key of a table or of an index. A table's has one
// partition attribute and at most one sort attribute; a global index's may
// have up to four of each.
type Key struct {
	Partition []Attribute `json:"partition"`
	Sort      []Attribute `json:"sort,omitempty"`
}

// All are the key's attributes, those of the partition first.
func (k Key) All() []Attribute { return append(slices.Clip(k.Partition), k.Sort...) }

// Has reports whether an attribute is part of the key.
func (k Key) Has(name string) bool {
	is := func(a Attribute) bool { return a.Name == name }
	return slices.ContainsFunc(k.Partition, is) || slices.ContainsFunc(k.Sort, is)
}

// In reports whether an item has all attributes of the key, each of its type
// and not empty, and together not too large: whether a sparse index holds it.
// Items that are older than an index may violate these rules, and are left
// out.
func (k Key) In(it item.Item) bool {
	return in(k.Partition, it, MaxPartitionBytes) && in(k.Sort, it, MaxSortBytes)
}

func in(attrs []Attribute, it item.Item, maxBytes int) bool {
	for _, a := range attrs {
		v, ok := it.Get(a.Name)
		if !ok || v.Type() != a.Type || len(v.Sortable()) == 0 {
			return false
		}
		if maxBytes -= v.Size(); maxBytes < 0 {
			return false
		}
	}
	return true
}

// Of returns the key's attributes of an item.
func (k Key) Of(it item.Item) item.Item {
	var b item.Builder
	for _, attrs := range [2][]Attribute{k.Partition, k.Sort} {
		for _, a := range attrs {
			if v, ok := it.Get(a.Name); ok {
				b.Add([]byte(a.Name), v)
			}
		}
	}
	return b.Item()
}

// CheckKey returns a fault unless key, a parameter of GetItem and the like,
// is a key of this table: exactly these attributes.
func (t *Table) CheckKey(key item.Item) error {
	if key.Len() != len(t.Key.Partition)+len(t.Key.Sort) {
		return apierror.KeyMismatch()
	}
	return t.checkKey(key, func(Attribute, item.Value) error { return apierror.KeyMismatch() })
}

// CheckItem returns a fault unless an item may be put into this table: its
// keys exist and have the right types, those of the indexes too.
func (t *Table) CheckItem(it item.Item) error {
	if err := t.checkKey(it, wrongKeyType); err != nil {
		return err
	}
	return t.CheckIndexKeys(nil, it)
}

// CheckBatchItem is CheckItem in the words of BatchWriteItem.
func (t *Table) CheckBatchItem(it item.Item) error {
	mismatch := func(a Attribute, v item.Value) error {
		if v == nil {
			return wrongKeyType(a, v)
		}
		return apierror.KeyMismatch()
	}
	if err := t.checkKey(it, mismatch); err != nil {
		return err
	}
	return t.CheckIndexKeys(nil, it)
}

// wrongKeyType is the fault of a key attribute that is missing (v is nil) or
// of another type.
func wrongKeyType(a Attribute, v item.Value) error {
	if v == nil {
		return apierror.InvalidValues("Missing the key %s in the item", a.Name)
	}
	return apierror.InvalidValues("Type mismatch for key %s expected: %s actual: %s", a.Name, a.Type, v.Type())
}

// checkKey checks the attributes of the table's key; mismatch returns the
// fault of one that is missing or of another type.
func (t *Table) checkKey(it item.Item, mismatch func(Attribute, item.Value) error) error {
	check := func(a Attribute) (item.Value, error) {
		v, ok := it.Get(a.Name)
		if !ok || v.Type() != a.Type {
			return nil, mismatch(a, v)
		}
		if len(v.Sortable()) == 0 {
			return nil, EmptyKey(a, v)
		}
		return v, nil
	}
	for _, a := range t.Key.Partition {
		v, err := check(a)
		if err != nil {
			return err
		}
		if v.Size() > MaxPartitionBytes {
			return apierror.InvalidValues("Size of hashkey has exceeded the maximum size limit of2048 bytes")
		}
	}
	for _, a := range t.Key.Sort {
		v, err := check(a)
		if err != nil {
			return err
		}
		if v.Size() > MaxSortBytes {
			return apierror.InvalidValues("Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
		}
	}
	return nil
}

// EmptyKey is the fault of an empty value for an attribute of a key.
func EmptyKey(a Attribute, v item.Value) error { return apierror.EmptyKey(emptyKind(v), a.Name) }

// EmptyIndexKey is the fault of an empty value for an attribute of an index's key.
func EmptyIndexKey(index string, a Attribute, v item.Value) error {
	return apierror.EmptyIndexKey(emptyKind(v), index, a.Name)
}

func emptyKind(v item.Value) string {
	if v.Type() == item.B {
		return "binary"
	}
	return "string"
}

// CheckIndexKeys returns a fault unless an item's values fit the keys of the
// indexes. An index whose key attribute is absent does not hold the item; an
// attribute of the wrong type or an empty one is a fault. Given the item
// before an update, attributes that the update did not change are not
// checked.
func (t *Table) CheckIndexKeys(before, after item.Item) error {
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if x.State == Deleting {
			continue
		}
		for _, a := range x.Key.All() {
			v, ok := after.Get(a.Name)
			if !ok {
				continue
			}
			if old, had := before.Get(a.Name); had && item.Equal(old, v) {
				continue
			}
			if v.Type() != a.Type {
				return apierror.InvalidValues("Type mismatch for Index Key %s Expected: %s Actual: %s IndexName: %s",
					a.Name, a.Type, v.Type(), x.Name)
			}
			if len(v.Sortable()) == 0 {
				return emptyIndexKey(before, v, x.Name, a.Name)
			}
			if err := checkIndexKeySize(x, after); err != nil {
				return err
			}
		}
	}
	return nil
}

// emptyIndexKey is the fault of an empty index key; updates have their own
// message.
func emptyIndexKey(before item.Item, v item.Value, index, name string) error {
	if before != nil {
		return apierror.EmptyIndexKeyUpdate(emptyKind(v))
	}
	return apierror.EmptyIndexKey(emptyKind(v), index, name)
}

func checkIndexKeySize(x *Index, it item.Item) error {
	if sumSizes(x.Key.Partition, it) > MaxPartitionBytes {
		return apierror.InvalidValues("Size of hashkey has exceeded the maximum size limit of2048 bytes")
	}
	if sumSizes(x.Key.Sort, it) > MaxSortBytes {
		return apierror.InvalidValues("Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
	}
	return nil
}

func sumSizes(attrs []Attribute, it item.Item) int {
	size := 0
	for _, a := range attrs {
		if v, ok := it.Get(a.Name); ok {
			size += v.Size()
		}
	}
	return size
}
