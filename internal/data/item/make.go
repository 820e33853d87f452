package item

import (
	"bytes"
	"cmp"
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

// Set makes a set of type t. It sorts the members and drops duplicates.
func Set(t Type, members ...Value) Value {
	set, _ := AppendSet(nil, t, slices.Clone(members))
	return set
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

// AppendTextHead appends the header of an S or a B whose content has size
// bytes.
func AppendTextHead(dst []byte, t Type, size int) []byte {
	return binary.AppendUvarint(append(dst, byte(t)), uint64(size))
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

// AppendContainer appends a set, list or map of count members, which follow
// one another in row. The caller has sorted the members of a set or a map.
func AppendContainer(dst []byte, t Type, count int, row []byte) []byte {
	return append(appendContainerHead(dst, t, count, len(row)), row...)
}

// appendContainerHead appends what precedes the members of a set, list or map:
// count members of size bytes in total.
func appendContainerHead(dst []byte, t Type, count, size int) []byte {
	dst = binary.AppendUvarint(append(dst, byte(t)), uint64(size+uvarintLen(count)))
	return binary.AppendUvarint(dst, uint64(count))
}

// AppendSet appends a set of type t. It drops duplicates, and reports
// whether there were any. It may change the order of members.
func AppendSet(dst []byte, t Type, members []Value) (set []byte, double bool) {
	if len(members) >= ManyMembers {
		return AppendLargeSet(dst, t, len(members), slices.Concat(members...))
	}
	slices.SortFunc(members, Compare)
	size, count := 0, 0
	for i, m := range members {
		if m.Type() != t.Member() {
			panic(fmt.Sprintf("a member of a %s is a %s", t, m.Type()))
		}
		if i > 0 && Equal(members[i-1], m) {
			double = true
			continue
		}
		size += len(m)
		count++
	}
	dst = appendContainerHead(dst, t, count, size)
	for i, m := range members {
		if i == 0 || !Equal(members[i-1], m) {
			dst = append(dst, m...)
		}
	}
	return dst, double
}

// AppendRow appends to members the values that follow one another in row.
// They share its memory.
func AppendRow(members []Value, row []byte) []Value {
	for len(row) > 0 {
		var v Value
		v, row = cut(row)
		members = append(members, v)
	}
	return members
}

// Builder collects attributes in any order and makes an item of them. Of two
// with one name the later wins. The zero Builder is ready for use, and can be
// reused after Reset.
type Builder struct {
	row     []byte // the entries in stored form, in the order of the calls
	entries []rowEntry
}

// rowEntry locates an entry in the row: it extends from begin to end, its
// name from name to start, its value from start to end. prefix is the
// beginning of the name as a number, which compares like the name unless two
// are equal.
type rowEntry struct {
	prefix                  uint64
	begin, name, start, end uint32
}

// Reset empties the builder and keeps its memory.
func (b *Builder) Reset() { b.row, b.entries = b.row[:0], b.entries[:0] }

// Cap is how much memory the builder holds.
func (b *Builder) Cap() int { return cap(b.row) + 32*cap(b.entries) }

// Add adds one attribute.
func (b *Builder) Add(name []byte, v Value) { b.End(append(b.Begin(name), v...)) }

// Append adds one attribute, whose value is appended by a function.
func (b *Builder) Append(name []byte, value func(dst []byte) ([]byte, error)) error {
	before := len(b.row)
	row, err := value(b.Begin(name))
	if err != nil {
		b.row, b.entries = b.row[:before], b.entries[:len(b.entries)-1]
		return err
	}
	b.End(row)
	return nil
}

// Begin adds the name of an attribute. The caller appends the value to the
// result, and passes it to End before any other call.
func (b *Builder) Begin(name []byte) []byte {
	if b.row == nil { // enough for most keys, so that it need not grow in small steps
		b.row, b.entries = make([]byte, 0, 64), make([]rowEntry, 0, 4)
	}
	e := rowEntry{prefix: prefix(name), begin: uint32(len(b.row))}
	b.row = binary.AppendUvarint(b.row, uint64(len(name)))
	e.name = uint32(len(b.row))
	b.row = append(b.row, name...)
	e.start = uint32(len(b.row))
	b.entries = append(b.entries, e)
	return b.row
}

// prefix is the first eight bytes of a name, padded with zeros.
func prefix(name []byte) (p uint64) {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	for _, c := range name {
		p = p<<8 | uint64(c)
	}
	return p << (64 - 8*len(name)) // 0 for an empty name
}

// End takes the result of Begin with the value appended.
func (b *Builder) End(row []byte) {
	b.row = row
	b.entries[len(b.entries)-1].end = uint32(len(row))
}

// AppendMap appends the item as an M.
func (b *Builder) AppendMap(dst []byte) []byte {
	whole := b.sort()
	size := uvarintLen(len(b.entries))
	for _, e := range b.entries {
		size += int(e.end - e.begin)
	}
	dst = binary.AppendUvarint(append(dst, byte(M)), uint64(size))
	return b.appendSorted(dst, whole)
}

func uvarintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

func (b *Builder) name(e rowEntry) []byte { return b.row[e.name:e.start] }

// sortEntries is a stable sort. Most items have few attributes, for which an
// insertion sort is faster than the library.
func (b *Builder) sortEntries() {
	const few = 24
	all := b.entries
	if len(all) > few {
		slices.SortStableFunc(all, b.compare)
		return
	}
	for i := 1; i < len(all); i++ {
		e, at := all[i], i
		for at > 0 && (all[at-1].prefix > e.prefix || all[at-1].prefix == e.prefix && bytes.Compare(b.name(all[at-1]), b.name(e)) > 0) {
			all[at] = all[at-1]
			at--
		}
		all[at] = e
	}
}

func (b *Builder) compare(x, y rowEntry) int {
	if x.prefix != y.prefix {
		return cmp.Compare(x.prefix, y.prefix)
	}
	return bytes.Compare(b.name(x), b.name(y))
}

// Item makes the item. It shares no memory with the builder.
func (b *Builder) Item() Item {
	return b.AppendItem(make([]byte, 0, len(b.row)+uvarintLen(len(b.entries))))
}

// AppendItem appends the item to dst.
func (b *Builder) AppendItem(dst []byte) []byte { return b.appendSorted(dst, b.sort()) }

func (b *Builder) appendSorted(dst []byte, whole bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b.entries)))
	if whole {
		return append(dst, b.row...)
	}
	for _, e := range b.entries {
		dst = append(dst, b.row[e.begin:e.end]...)
	}
	return dst
}

// sort sorts the entries, and reports whether the row as a whole already is
// in order.
func (b *Builder) sort() (whole bool) {
	inOrder, at := true, uint32(0)
	whole = true
	for i, e := range b.entries {
		inOrder = inOrder && (i == 0 || b.compare(b.entries[i-1], e) < 0)
		whole = whole && e.begin == at
		at = e.end
	}
	if inOrder {
		return whole && int(at) == len(b.row)
	}
	b.sortEntries()
	kept := b.entries[:0]
	for i, e := range b.entries {
		if i+1 < len(b.entries) && bytes.Equal(b.name(e), b.name(b.entries[i+1])) {
			continue // a later one of the same name follows
		}
		kept = append(kept, e)
	}
	b.entries = kept
	return false
}
