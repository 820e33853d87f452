package item

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Item is a set of named attributes in stored form: their count, then each
// name and value, in order of the names. A nil Item is one that does not
// exist. It is never changed in place.
type Item []byte

// Len is the number of attributes.
func (it Item) Len() int {
	if it == nil {
		return 0
	}
	n, _ := binary.Uvarint(it)
	return int(n)
}

// Get looks up one attribute.
func (it Item) Get(name string) (Value, bool) {
	rest, count := it.entries()
	for range count {
		var n []byte
		var v Value
		n, v, rest = cutEntry(rest)
		if string(n) == name {
			return v, true
		}
		if string(n) > name {
			break
		}
	}
	return nil, false
}

// All returns the attributes in order of their names.
func (it Item) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		rest, count := it.entries()
		for range count {
			var n []byte
			var v Value
			n, v, rest = cutEntry(rest)
			if !yield(string(n), v) {
				return
			}
		}
	}
}

// Names returns the attributes' names as bytes, with their values; unlike All
// it allocates no strings.
func (it Item) Names() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		rest, count := it.entries()
		for range count {
			var n []byte
			var v Value
			n, v, rest = cutEntry(rest)
			if !yield(n, v) {
				return
			}
		}
	}
}

// Equal reports whether two items are equal; both may be nil.
func (it Item) Equal(other Item) bool {
	return (it == nil) == (other == nil) && bytes.Equal(it, other)
}

// With returns the item with one attribute added or replaced.
func (it Item) With(name string, v Value) Item { return it.edit(name, v) }

// Merge returns the item with n attributes added or replaced, which put
// returns in the order of their names.
func (it Item) Merge(n int, put func(i int) (name string, v Value)) Item {
	if n == 0 {
		return it
	}
	rest, count := it.entries()
	size := len(it) + 1
	for i, from := 0, rest; i < n; i++ {
		name, v := put(i)
		from = skipTo(from, name)
		if !beginsWith(from, name) {
			count++
		}
		size += uvarintLen(len(name)) + len(name) + len(v)
	}
	out := binary.AppendUvarint(make([]byte, 0, size), uint64(count))
	for i := range n {
		name, v := put(i)
		from := rest
		rest = skipTo(rest, name)
		out = append(out, from[:len(from)-len(rest)]...)
		if beginsWith(rest, name) {
			_, _, rest = cutEntry(rest)
		}
		out = appendEntry(out, name, v)
	}
	return append(out, rest...)
}

// skipTo returns the entries from the first one whose name is not less than
// name.
func skipTo(rest []byte, name string) []byte {
	for len(rest) > 0 {
		other, _, next := cutEntry(rest)
		if string(other) >= name {
			break
		}
		rest = next
	}
	return rest
}

// beginsWith reports whether the first entry has this name.
func beginsWith(rest []byte, name string) bool {
	if len(rest) == 0 {
		return false
	}
	other, _, _ := cutEntry(rest)
	return string(other) == name
}

// WithoutAll returns the item without n attributes, whose names are given in
// order.
func (it Item) WithoutAll(n int, name func(i int) string) Item {
	rest, count := it.entries()
	kept := make([]byte, 0, len(it))
	left := 0
	for i := 0; count > 0; count-- {
		other, _, next := cutEntry(rest)
		for i < n && name(i) < string(other) {
			i++
		}
		if i == n || name(i) != string(other) {
			kept = append(kept, rest[:len(rest)-len(next)]...)
			left++
		}
		rest = next
	}
	return append(binary.AppendUvarint(make([]byte, 0, len(kept)+binary.MaxVarintLen64), uint64(left)), kept...)
}

// Without returns the item without one attribute.
func (it Item) Without(name string) Item {
	if _, ok := it.Get(name); !ok {
		return it
	}
	return it.edit(name, nil)
}

// edit copies the item with name set to v, or without name when v is nil.
func (it Item) edit(name string, v Value) Item {
	rest, count := it.entries()
	before := rest
	var after []byte
	had := 0
	for left := count; left > 0; left-- {
		n, _, next := cutEntry(rest)
		if string(n) >= name {
			after = rest
			if string(n) == name {
				had, after = 1, next
			}
			break
		}
		rest = next
		after = rest
	}
	before = before[:len(before)-len(rest)]
	count -= had
	if v != nil {
		count++
	}
	out := make([]byte, 0, len(it)+len(name)+len(v)+4)
	out = binary.AppendUvarint(out, uint64(count))
	out = append(out, before...)
	if v != nil {
		out = appendEntry(out, name, v)
	}
	return append(out, after...)
}

func (it Item) entries() (rest []byte, count int) {
	if it == nil {
		return nil, 0
	}
	count, begin := length(it, 0)
	return it[begin:], count
}

func cutEntry(b []byte) (name []byte, v Value, rest []byte) {
	n, begin := length(b, 0)
	name = b[begin : begin+n]
	v, rest = cut(b[begin+n:])
	return name, v, rest
}

func appendEntry(dst []byte, name string, v Value) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(name)))
	dst = append(dst, name...)
	return append(dst, v...)
}
