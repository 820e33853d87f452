// Package item implements DynamoDB's values: their types, equality, order and
// size, and the form in which they are stored.
//
// A value is kept as bytes in its stored form from the moment it is parsed to
// the moment it is sent; nothing is unpacked into maps in between. The form is
// canonical: two values are equal exactly when their bytes are. It is
// described in docs/formats/item.md.
package item

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
)

// Type is one of the ten types an attribute may have.
type Type byte

// The types, by the byte that begins a stored value.
const (
	S Type = iota + 1
	N
	B
	BOOL
	NULL
	SS
	NS
	BS
	L
	M
)

var typeNames = [...]string{S: "S", N: "N", B: "B", BOOL: "BOOL", NULL: "NULL", SS: "SS", NS: "NS", BS: "BS", L: "L", M: "M"}

// String is the type's name on the wire.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", byte(t))
}

// TypeNamed returns the type with this name on the wire.
func TypeNamed[T string | []byte](name T) (t Type, ok bool) {
	switch string(name) {
	case "S":
		t = S
	case "N":
		t = N
	case "B":
		t = B
	case "BOOL":
		t = BOOL
	case "NULL":
		t = NULL
	case "SS":
		t = SS
	case "NS":
		t = NS
	case "BS":
		t = BS
	case "L":
		t = L
	case "M":
		t = M
	}
	return t, t != 0
}

// IsSet reports whether the type is one of the three sets.
func (t Type) IsSet() bool { return t == SS || t == NS || t == BS }

// Member is the type of a set's members.
func (t Type) Member() Type { return t - SS + S }

// Value is one attribute value in stored form. It is never changed in place,
// and a Value taken out of an Item shares its memory.
type Value []byte

// Type is the value's type.
func (v Value) Type() Type { return Type(v[0]) }

// Bytes is the content of an S or a B, not copied.
func (v Value) Bytes() []byte {
	n, begin := length(v, 1)
	return v[begin : begin+n]
}

// Bool is the content of a BOOL.
func (v Value) Bool() bool { return v[1] != 0 }

// Number is the content of an N.
func (v Value) Number() Number { return decodeNumber(v[2:]) }

// Sortable is the content of an S, an N or a B as bytes that compare like the
// values.
func (v Value) Sortable() []byte {
	if v.Type() == N {
		return v[2:]
	}
	return v.Bytes()
}

// body is what follows the length of a set, a list or a map: a count, then
// the members.
func (v Value) body() []byte {
	_, begin := length(v, 1)
	return v[begin:]
}

// Len is the number of members of a set, elements of a list or entries of a map.
func (v Value) Len() int {
	n, _ := length(v.body(), 0)
	return n
}

// Item is the entries of an M.
func (v Value) Item() Item { return Item(v.body()) }

// Elements returns the elements of a list, or the members of a set as values
// of the member's type.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		rest := v.body()
		count, begin := length(rest, 0)
		rest = rest[begin:]
		for range count {
			var e Value
			e, rest = cut(rest)
			if !yield(e) {
				return
			}
		}
	}
}

// Index returns the i-th element of a list, if it exists.
func (v Value) Index(i int) (Value, bool) {
	if i < 0 || i >= v.Len() {
		return nil, false
	}
	for e := range v.Elements() {
		if i == 0 {
			return e, true
		}
		i--
	}
	return nil, false
}

// length reads a length at offset at of b, and returns it with the offset
// after it.
func length(b []byte, at int) (n, begin int) {
	if c := b[at]; c < 0x80 {
		return int(c), at + 1
	}
	long, w := binary.Uvarint(b[at:])
	return int(long), at + w
}

// cut splits the first value off a row of values.
func cut(b []byte) (Value, []byte) {
	n := 1
	switch Type(b[0]) {
	case NULL:
	case BOOL:
		n = 2
	case N:
		n = 2 + int(b[1])
	default:
		size, begin := length(b, 1)
		n = begin + size
	}
	return Value(b[:n:n]), b[n:]
}

// Equal reports whether two values are equal.
func Equal(a, b Value) bool { return bytes.Equal(a, b) }

// Compare orders two values that are both S, both N or both B.
func Compare(a, b Value) int { return bytes.Compare(a.Sortable(), b.Sortable()) }

// String is a value as DynamoDB shows it in messages, such as {S:abc}.
func (v Value) String() string {
	return "{" + v.Type().String() + ":" + v.text() + "}"
}

func (v Value) text() string {
	switch v.Type() {
	case S, B:
		return string(v.Bytes())
	case N:
		return v.Number().String()
	case BOOL:
		return fmt.Sprint(v.Bool())
	case NULL:
		return "true"
	}
	var out []byte
	first := true
	sep := func() {
		if !first {
			out = append(out, ", "...)
		}
		first = false
	}
	if v.Type() == M {
		out = append(out, '{')
		for name, e := range v.Item().All() {
			sep()
			out = append(out, name+"="+e.String()...)
		}
		return string(append(out, '}'))
	}
	out = append(out, '[')
	for e := range v.Elements() {
		sep()
		if v.Type() == L {
			out = append(out, e.String()...)
		} else {
			out = append(out, e.text()...)
		}
	}
	return string(append(out, ']'))
}
