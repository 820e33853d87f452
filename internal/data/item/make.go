package item

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// String makes an S.
func String(s string) Value { return AppendText(nil, S, s) }

// Binary makes a B.
func Binary(b []byte) Value { return AppendText(nil, B, b) }

// Num makes an N.
func Num(n Number) Value { return AppendNumber(nil, n) }

// Bool makes a BOOL.
func Bool(b bool) Value { return AppendBool(nil, b) }

// Null makes the NULL.
func Null() Value { return AppendNull(nil) }

// List makes an L.
func List(elements ...Value) Value {
	var row []byte
	for _, e := range elements {
		row = append(row, e...)
	}
	return AppendContainer(nil, L, len(elements), row)
}

// Map makes an M.
func Map(it Item) Value {
	if it == nil {
		it = Item{0}
	}
	out := binary.AppendUvarint([]byte{byte(M)}, uint64(len(it)))
	return append(out, it...)
}

// Set makes a set of type t. Members are sorted, and doubles dropped.
func Set(t Type, members ...Value) Value {
	members = slices.Clone(members)
	slices.SortFunc(members, Compare)
	members = slices.CompactFunc(members, Equal)
	var row []byte
	for _, m := range members {
		if m.Type() != t.Member() {
			panic(fmt.Sprintf("a member of a %s is a %s", t, m.Type()))
		}
		row = append(row, m...)
	}
	return AppendContainer(nil, t, len(members), row)
}

// Make makes an item.
func Make(attrs map[string]Value) Item {
	var b Builder
	for name, v := range attrs {
		b.Add([]byte(name), v)
	}
	return b.Item()
}

// AppendText appends an S or a B with this content.
func AppendText[T string | []byte](dst []byte, t Type, content T) []byte {
	dst = append(dst, byte(t))
	dst = binary.AppendUvarint(dst, uint64(len(content)))
	return append(dst, content...)
}

// AppendNumber appends an N.
func AppendNumber(dst []byte, n Number) []byte {
	at := len(dst)
	dst = append(dst, byte(N), 0)
	dst = n.appendSortable(dst)
	dst[at+1] = byte(len(dst) - at - 2)
	return dst
}

// AppendBool appends a BOOL.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, byte(BOOL), 1)
	}
	return append(dst, byte(BOOL), 0)
}

// AppendNull appends the NULL.
func AppendNull(dst []byte) []byte { return append(dst, byte(NULL)) }

// AppendContainer appends a set, list or map of count members, which stand
// one after the other in row. The caller has put a set's or a map's members in
// order.
func AppendContainer(dst []byte, t Type, count int, row []byte) []byte {
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(count))
	dst = append(dst, byte(t))
	dst = binary.AppendUvarint(dst, uint64(n+len(row)))
	dst = append(dst, head[:n]...)
	return append(dst, row...)
}

// Builder collects attributes in any order and makes an item of them. Of two
// with one name the later wins. The zero Builder is ready, and can be used
// again after Reset.
type Builder struct {
	row     []byte
	entries []entry
}

type entry struct{ name, start, end int } // name begins at name, its value at start

// Reset empties the builder and keeps its memory.
func (b *Builder) Reset() { b.row, b.entries = b.row[:0], b.entries[:0] }

// Add puts one attribute in.
func (b *Builder) Add(name []byte, v Value) {
	e := entry{name: len(b.row)}
	b.row = append(b.row, name...)
	e.start = len(b.row)
	b.row = append(b.row, v...)
	e.end = len(b.row)
	b.entries = append(b.entries, e)
}

// Append puts one attribute in, whose value is appended by a function.
func (b *Builder) Append(name []byte, value func(dst []byte) ([]byte, error)) error {
	e := entry{name: len(b.row)}
	b.row = append(b.row, name...)
	e.start = len(b.row)
	row, err := value(b.row)
	if err != nil {
		return err
	}
	b.row = row
	e.end = len(b.row)
	b.entries = append(b.entries, e)
	return nil
}

// AppendMap appends the item as an M.
func (b *Builder) AppendMap(dst []byte) []byte {
	b.sort()
	size := uvarintLen(len(b.entries))
	for _, e := range b.entries {
		size += uvarintLen(e.start-e.name) + e.end - e.name
	}
	dst = binary.AppendUvarint(append(dst, byte(M)), uint64(size))
	return b.AppendItem(dst)
}

func uvarintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

func (b *Builder) name(e entry) []byte { return b.row[e.name:e.start] }

// Item makes the item. It shares no memory with the builder.
func (b *Builder) Item() Item {
	b.sort()
	out := make([]byte, 0, len(b.row)+3*len(b.entries)+2)
	return b.AppendItem(out)
}

// AppendItem appends the item to dst.
func (b *Builder) AppendItem(dst []byte) []byte {
	b.sort()
	dst = binary.AppendUvarint(dst, uint64(len(b.entries)))
	for _, e := range b.entries {
		dst = binary.AppendUvarint(dst, uint64(e.start-e.name))
		dst = append(dst, b.row[e.name:e.end]...)
	}
	return dst
}

func (b *Builder) sort() {
	inOrder := true
	for i := 1; i < len(b.entries) && inOrder; i++ {
		inOrder = bytes.Compare(b.name(b.entries[i-1]), b.name(b.entries[i])) < 0
	}
	if inOrder {
		return
	}
	slices.SortStableFunc(b.entries, func(x, y entry) int { return bytes.Compare(b.name(x), b.name(y)) })
	kept := b.entries[:0]
	for i, e := range b.entries {
		if i+1 < len(b.entries) && bytes.Equal(b.name(e), b.name(b.entries[i+1])) {
			continue // a later one of the same name follows
		}
		kept = append(kept, e)
	}
	b.entries = kept
}
