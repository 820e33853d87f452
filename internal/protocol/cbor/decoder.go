package cbor

import (
	"math"
	"unicode/utf8"
)

// Decoder reads the parts of values from bytes. It allocates nothing, and returns parts of
// the bytes.
type Decoder struct{ rest []byte }

// NewDecoder returns a Decoder of bytes, which need not be well formed.
func NewDecoder(b []byte) Decoder { return Decoder{b} }

// Rest is what has not been read.
func (d *Decoder) Rest() []byte { return d.rest }

// Kind is the kind of the next value.
func (d *Decoder) Kind() Kind {
	if len(d.rest) == 0 {
		return End
	}
	first := d.rest[0]
	switch first & majorMask {
	case majorUint:
		return Uint
	case majorNegative:
		return Negative
	case majorBytes:
		return Bytes
	case majorText:
		return Text
	case majorArray:
		return Array
	case majorMap:
		return Map
	case majorTag:
		return Tag
	}
	switch first {
	case byteFalse:
		return False
	case byteTrue:
		return True
	case byteNull:
		return Null
	case byteFloat16, byteFloat32, byteFloat64:
		return Float
	case byteBreak:
		return Break
	}
	return Other
}

// Null reads a null if it is next, and reports whether it was.
func (d *Decoder) Null() bool {
	if d.Kind() != Null {
		return false
	}
	d.rest = d.rest[1:]
	return true
}

// Bool reads a boolean.
func (d *Decoder) Bool() (bool, error) {
	switch k := d.Kind(); k {
	case False, True:
		d.rest = d.rest[1:]
		return k == True, nil
	}
	return false, d.wrongKind()
}

// Int reads an integer.
func (d *Decoder) Int() (int64, error) {
	negative, v, err := d.Integer()
	switch {
	case err != nil:
		return 0, err
	case v > math.MaxInt64:
		return 0, ErrRange
	case negative:
		return ^int64(v), nil
	}
	return int64(v), nil
}

// Integer reads an integer of up to 65 bits: v, or -1-v if it is negative.
func (d *Decoder) Integer() (negative bool, v uint64, err error) {
	switch d.Kind() {
	case Uint, Negative:
	default:
		return false, 0, d.wrongKind()
	}
	h, err := d.head()
	return h.major() == majorNegative, h.arg, err
}

// Float reads a number of 32 or 64 bits.
func (d *Decoder) Float() (v float64, bits int, err error) {
	if d.Kind() != Float || d.rest[0] == byteFloat16 {
		return 0, 0, d.wrongKind()
	}
	h, err := d.head()
	if err != nil {
		return 0, 0, err
	}
	if h.first == byteFloat32 {
		return float64(math.Float32frombits(uint32(h.arg))), 32, nil
	}
	return math.Float64frombits(h.arg), 64, nil
}

// Bytes reads bytes.
func (d *Decoder) Bytes() ([]byte, error) {
	if d.Kind() != Bytes {
		return nil, d.wrongKind()
	}
	return d.content()
}

// Text reads a text, which is valid UTF-8.
func (d *Decoder) Text() ([]byte, error) {
	if d.Kind() != Text {
		return nil, d.wrongKind()
	}
	text, err := d.content()
	if err == nil && !utf8.Valid(text) {
		return nil, ErrMalformed
	}
	return text, err
}

func (d *Decoder) content() ([]byte, error) {
	h, err := d.head()
	if err != nil {
		return nil, err
	}
	if h.arg > uint64(len(d.rest)) {
		return nil, ErrMalformed
	}
	content := d.rest[:h.arg:h.arg]
	d.rest = d.rest[h.arg:]
	return content, nil
}

// Tag reads a tag. The tagged value is next.
func (d *Decoder) Tag() (uint64, error) {
	if d.Kind() != Tag {
		return 0, d.wrongKind()
	}
	h, err := d.head()
	return h.arg, err
}

// Members counts the members of an array or a map while they are read.
type Members struct {
	left int // negative: until a break
}

// Count returns how many members are left; not ok if that is not known. It is at most the
// number of bytes that are left.
func (m Members) Count() (n int, ok bool) { return max(m.left, 0), m.left >= 0 }

// Array reads the head of an array. Next tells whether an element follows.
func (d *Decoder) Array() (Members, error) {
	if d.Kind() != Array {
		return Members{}, d.wrongKind()
	}
	return d.members(1)
}

// Map reads the head of a map. Next tells whether an entry follows: a key, then a value.
func (d *Decoder) Map() (Members, error) {
	if d.Kind() != Map {
		return Members{}, d.wrongKind()
	}
	return d.members(2)
}

// members reads the head of a container whose members have a size of at least min bytes.
func (d *Decoder) members(min uint64) (Members, error) {
	h, err := d.head()
	switch {
	case err != nil:
		return Members{}, err
	case h.open():
		return Members{left: -1}, nil
	case h.arg > uint64(len(d.rest))/min:
		return Members{}, ErrMalformed
	}
	return Members{left: int(h.arg)}, nil
}

// Next reports whether another member of the container follows, and reads the break after
// the last.
func (d *Decoder) Next(m *Members) (bool, error) {
	switch {
	case m.left > 0:
		m.left--
		return true, nil
	case m.left == 0:
		return false, nil
	case len(d.rest) == 0:
		return false, ErrMalformed
	case d.rest[0] == byteBreak:
		d.rest = d.rest[1:]
		m.left = 0
		return false, nil
	}
	return true, nil
}

// Skip reads one value and returns its bytes.
func (d *Decoder) Skip() ([]byte, error) {
	before := d.rest
	if err := skip((*sliceSource)(d)); err != nil {
		d.rest = before
		return nil, err
	}
	return before[:len(before)-len(d.rest)], nil
}

// head reads the head of a value.
func (d *Decoder) head() (valueHead, error) { return (*sliceSource)(d).head() }

// wrongKind is the error of a value that was not expected here.
func (d *Decoder) wrongKind() error {
	if len(d.rest) == 0 {
		return ErrMalformed
	}
	return ErrKind
}
