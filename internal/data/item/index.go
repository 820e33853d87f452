package item

import (
	"bytes"
	"slices"
)

// Index finds values of one item by their paths. Unlike Item.At it does not pass over
// a large list or map for each of them: the second time it records where the entries
// begin.
type Index struct {
	item  Item
	large map[*byte]*entryIndex // by the first byte of the list or map
}

// largeEntries is the size from which a list or a map is indexed.
const largeEntries = 4 << 10

// entryIndex is where the entries of one list or map begin.
type entryIndex struct {
	row    []byte   // the entries, one after another
	starts []uint32 // nil until the second use
}

// IndexOf returns an index of an item, which may be nil.
func IndexOf(it Item) Index { return Index{item: it} }

// At returns the value at the end of a path, and how many bytes were passed over.
func (x *Index) At(p Path) (v Value, passed int, ok bool) {
	if x.item == nil {
		return nil, 0, false
	}
	v, passed, ok = x.named(x.item, p[0].Name)
	for _, s := range p[1:] {
		if !ok {
			break
		}
		n := 0
		switch {
		case s.IsIndex && v.Type() == L:
			v, n, ok = x.element(v, s.Index)
		case !s.IsIndex && v.Type() == M:
			v, n, ok = x.named(v.Item(), s.Name)
		default:
			return nil, passed, false
		}
		passed += n
	}
	return v, passed, ok
}

// named looks up an attribute of an item or of a map.
func (x *Index) named(it Item, name string) (v Value, passed int, ok bool) {
	rest, _ := it.entries()
	e := x.entriesOf(it, rest, func(row []byte) []byte { _, _, row = cutEntry(row); return row })
	if e == nil {
		v, ok = it.Get(name)
		return v, len(it), ok
	}
	i, ok := slices.BinarySearchFunc(e.starts, []byte(name), func(start uint32, name []byte) int {
		n, _, _ := cutEntry(e.row[start:])
		return bytes.Compare(n, name)
	})
	if !ok {
		return nil, 0, false
	}
	_, v, _ = cutEntry(e.row[e.starts[i]:])
	return v, 0, true
}

// element looks up an element of a list.
func (x *Index) element(list Value, i int) (v Value, passed int, ok bool) {
	body := list.body()
	_, begin := length(body, 0)
	e := x.entriesOf(list, body[begin:], func(row []byte) []byte { _, row = cut(row); return row })
	if e == nil {
		v, ok = list.Index(i)
		return v, len(list), ok
	}
	if i >= len(e.starts) {
		return nil, 0, false
	}
	v, _ = cut(e.row[e.starts[i]:])
	return v, 0, true
}

// entriesOf returns where the entries of a container begin; nil if it is small, or is
// used for the first time.
func (x *Index) entriesOf(container, row []byte, next func(row []byte) []byte) *entryIndex {
	if len(container) < largeEntries {
		return nil
	}
	e, before := x.large[&container[0]]
	if !before {
		if x.large == nil {
			x.large = make(map[*byte]*entryIndex)
		}
		x.large[&container[0]] = new(entryIndex)
		return nil
	}
	if e.starts == nil {
		e.row, e.starts = row, []uint32{}
		for rest := row; len(rest) > 0; rest = next(rest) {
			e.starts = append(e.starts, uint32(len(row)-len(rest)))
		}
	}
	return e
}
