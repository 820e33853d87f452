package cbor

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

// The encodings are those of the examples in RFC 8949, appendix A.
func TestAppend(t *testing.T) {
	for _, c := range []struct {
		want string
		got  []byte
	}{
		{"00", AppendInt(nil, 0)},
		{"17", AppendInt(nil, 23)},
		{"1818", AppendInt(nil, 24)},
		{"1864", AppendInt(nil, 100)},
		{"1903e8", AppendInt(nil, 1000)},
		{"1a000f4240", AppendInt(nil, 1000000)},
		{"1b000000e8d4a51000", AppendInt(nil, 1000000000000)},
		{"1bffffffffffffffff", AppendUint(nil, math.MaxUint64)},
		{"3bffffffffffffffff", AppendNegative(nil, math.MaxUint64)},
		{"20", AppendInt(nil, -1)},
		{"29", AppendInt(nil, -10)},
		{"3863", AppendInt(nil, -100)},
		{"3903e7", AppendInt(nil, -1000)},
		{"3b7fffffffffffffff", AppendInt(nil, math.MinInt64)},
		{"fb3ff199999999999a", AppendFloat(nil, 1.1)},
		{"f4", AppendBool(nil, false)},
		{"f5", AppendBool(nil, true)},
		{"f6", AppendNull(nil)},
		{"40", AppendBytes(nil, "")},
		{"4401020304", AppendBytes(nil, []byte{1, 2, 3, 4})},
		{"60", AppendText(nil, "")},
		{"6449455446", AppendText(nil, "IETF")},
		{"62c3bc", AppendText(nil, "ü")},
		{"80", AppendArray(nil, 0)},
		{"83010203", AppendInt(AppendInt(AppendInt(AppendArray(nil, 3), 1), 2), 3)},
		{"a201020304", AppendInt(AppendInt(AppendInt(AppendInt(AppendMap(nil, 2), 1), 2), 3), 4)},
		{"bfff", AppendBreak(AppendOpenMap(nil))},
		{"c11a514b67b0", AppendInt(AppendTag(nil, 1), 1363896240)},
		{"f64400010203", WrapBytes([]byte{0xf6, 0, 1, 2, 3}, 1)},
		{"40", WrapBytes(nil, 0)},
		{"f645020300f401", WrapBytes([]byte{0xf6, 0, 0xf4, 1}, 1, 2, 3)},
		{"5818" + strings.Repeat("07", 24), WrapBytes(bytes.Repeat([]byte{7}, 24), 0)},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestDecoder(t *testing.T) {
	d := NewDecoder(unhex(t, "1903e8"+"3bffffffffffffffff"+"6449455446"+"4101"+"f6"+"f5"+"fa47c35000"+"fb3ff199999999999a"+"c100"+"8201"+"02"+"bf6161"+"01"+"ff"))
	if v, err := d.Int(); v != 1000 || err != nil {
		t.Error(v, err)
	}
	if _, err := d.Text(); !errors.Is(err, ErrKind) {
		t.Error(err)
	}
	if negative, v, err := d.Integer(); !negative || v != math.MaxUint64 || err != nil {
		t.Error(negative, v, err)
	}
	if v, err := d.Text(); string(v) != "IETF" || err != nil {
		t.Error(v, err)
	}
	if v, err := d.Bytes(); string(v) != "\x01" || err != nil {
		t.Error(v, err)
	}
	if !d.Null() || d.Null() {
		t.Error("not exactly one null")
	}
	if v, err := d.Bool(); !v || err != nil {
		t.Error(v, err)
	}
	if v, bits, err := d.Float(); v != 100000 || bits != 32 || err != nil {
		t.Error(v, bits, err)
	}
	if v, bits, err := d.Float(); v != 1.1 || bits != 64 || err != nil {
		t.Error(v, bits, err)
	}
	if v, err := d.Tag(); v != 1 || err != nil {
		t.Error(v, err)
	}
	if v, err := d.Int(); v != 0 || err != nil {
		t.Error(v, err)
	}
	array, err := d.Array()
	if n, ok := array.Count(); n != 2 || !ok || err != nil {
		t.Error(n, ok, err)
	}
	for want := int64(1); want <= 2; want++ {
		more, err := d.Next(&array)
		v, err2 := d.Int()
		if !more || v != want || err != nil || err2 != nil {
			t.Error(more, v, err, err2)
		}
	}
	if more, err := d.Next(&array); more || err != nil {
		t.Error(more, err)
	}
	open, err := d.Map()
	if _, ok := open.Count(); ok || err != nil {
		t.Error(ok, err)
	}
	if more, err := d.Next(&open); !more || err != nil {
		t.Error(more, err)
	}
	for range 2 {
		if _, err := d.Skip(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if more, err := d.Next(&open); more || err != nil {
			t.Error(more, err)
		}
	}
	if d.Kind() != End {
		t.Errorf("%x is left", d.Rest())
	}
}

// skipped are values, each with whether it is well formed.
var skipped = []struct {
	name, bytes string
	ok          bool
}{
	{"an integer", "1bffffffffffffffff", true},
	{"a text", "6161", true},
	{"a simple value", "f8ff", true},
	{"nested arrays", "8201820203", true},
	{"a map", "a2616101616202", true},
	{"tags of tags", "c1c2c340", true},
	{"open arrays", "9f9f01ff8001ff", true},
	{"an open map", "bf01820203ff", true},
	{"an open array in an array", "829f01ff9fff", true},
	{"a tag in an open array", "9fc101c19fffff", true},
	{"many nested arrays", strings.Repeat("81", 100_000) + "00", true},
	{"many tags", strings.Repeat("c1", 100_000) + "00", true},
	{"many members", "9a000186a0" + strings.Repeat("00", 100_000), true},
	{"open arrays, nested as deep as allowed", strings.Repeat("9f", maxOpen-1) + strings.Repeat("ff", maxOpen-1), true},

	{"open arrays, nested too deep", strings.Repeat("9f", maxOpen) + strings.Repeat("ff", maxOpen), false},
	{"nothing", "", false},
	{"a break", "ff", false},
	{"a break in an array", "81ff", false},
	{"a break after a tag", "9fc1ff", false},
	{"a break after a key", "bf01ff", false},
	{"no break", "9f01", false},
	{"an array that is cut", "8201", false},
	{"a map that is cut", "a101", false},
	{"a text that is cut", "6261", false},
	{"a head that is cut", "1b00", false},
	{"more elements than can follow", "9bffffffffffffffff00", false},
	{"more entries than can follow", "bb7fffffffffffffff0000", false},
	{"a text of 64 bits", "7bffffffffffffffff", false},
	{"a reserved head", "1f", false},
	{"chunks", "5f4101ff", false},
	{"many nested arrays of many elements", strings.Repeat("9affffffff", 100), false},
}

// A value is read over, from bytes and from a stream.
func TestSkip(t *testing.T) {
	for _, c := range skipped {
		t.Run(c.name, func(t *testing.T) {
			whole := unhex(t, c.bytes)
			d := NewDecoder(append(bytes.Clone(whole), 0xf6))
			if !c.ok { // without anything that could complete it
				d = NewDecoder(whole)
			}
			got, err := d.Skip()
			if (err == nil) != c.ok || c.ok && !bytes.Equal(got, whole) {
				t.Errorf("Skip: %v, %d bytes of %d", err, len(got), len(whole))
			}
			s := Stream{In: bufio.NewReader(iotest.OneByteReader(bytes.NewReader(whole))), Limit: 1 << 20, ErrLimit: errors.New("too large")}
			err = s.Read()
			if (err == nil) != c.ok || c.ok && !bytes.Equal(s.Buffer, whole) {
				t.Errorf("Read: %v, %d bytes of %d", err, len(s.Buffer), len(whole))
			}
		})
	}
}

// A stream tells the end between two values from one within a value, and keeps to its limit.
func TestStream(t *testing.T) {
	tooLarge := errors.New("too large")
	read := func(text string, limit int) (int, error) {
		s := Stream{In: bufio.NewReader(bytes.NewReader(unhex(t, text))), Limit: limit, ErrLimit: tooLarge}
		for n := 0; ; n++ {
			if err := s.Read(); err != nil {
				return n, err
			}
		}
	}
	for _, c := range []struct {
		name, bytes string
		limit       int
		values      int
		want        error
	}{
		{"no value", "", 100, 0, io.EOF},
		{"two values", "008101", 100, 2, io.EOF},
		{"a value that is cut", "0081", 100, 1, io.ErrUnexpectedEOF},
		{"a text that is cut", "006261", 100, 1, io.ErrUnexpectedEOF},
		{"a head that is cut", "0019ff", 100, 1, io.ErrUnexpectedEOF},
		{"values up to the limit", "006161", 3, 2, io.EOF},
		{"a value over the limit", "00616100", 3, 2, tooLarge},
		{"a text over the limit", "006361616100", 4, 1, tooLarge},
		{"malformed", "001c", 100, 1, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, err := read(c.bytes, c.limit)
			if c.name == "values up to the limit" && errors.Is(err, tooLarge) {
				err = io.EOF // there is no room for the first byte of another value
			}
			if n != c.values || !errors.Is(err, c.want) {
				t.Errorf("%d values, %v, want %d, %v", n, err, c.values, c.want)
			}
		})
	}
}

// Bytes that are skipped are skipped in the same way from a stream; and whatever is decoded
// does not panic.
func FuzzSkip(f *testing.F) {
	for _, c := range skipped {
		if len(c.bytes) < 1000 {
			f.Add(unhex(f, c.bytes))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder(b)
		got, err := d.Skip()
		s := Stream{In: bufio.NewReader(bytes.NewReader(b)), Limit: len(b), ErrLimit: ErrMalformed}
		streamErr := s.Read()
		if (err == nil) != (streamErr == nil) || err == nil && !bytes.Equal(got, s.Buffer) {
			t.Errorf("%x: Skip %v, Read %v", b, err, streamErr)
		}
		if err != nil {
			return
		}
		d = NewDecoder(got)
		if _, err := text(&d, 0); err != nil && !errors.Is(err, errDeep) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrKind) && !errors.Is(err, ErrRange) {
			t.Errorf("%x: %v", got, err)
		}
	})
}

var errDeep = errors.New("too deep for this test")

// text reads a value with the methods for its kind.
func text(d *Decoder, depth int) (string, error) {
	if depth > 100 {
		return "", errDeep
	}
	switch d.Kind() {
	case Uint, Negative:
		v, err := d.Int()
		return fmt.Sprint(v), err
	case Bytes:
		v, err := d.Bytes()
		return fmt.Sprintf("%x", v), err
	case Text:
		v, err := d.Text()
		return fmt.Sprintf("%q", v), err
	case False, True:
		v, err := d.Bool()
		return fmt.Sprint(v), err
	case Float:
		v, _, err := d.Float()
		return fmt.Sprint(v), err
	case Null:
		d.Null()
		return "null", nil
	case Tag:
		if _, err := d.Tag(); err != nil {
			return "", err
		}
		return text(d, depth+1)
	case Array, Map:
		return membersText(d, depth)
	}
	return "", ErrKind
}

func membersText(d *Decoder, depth int) (string, error) {
	read, each := d.Array, 1
	if d.Kind() == Map {
		read, each = d.Map, 2
	}
	m, err := read()
	if err != nil {
		return "", err
	}
	out := ""
	for {
		more, err := d.Next(&m)
		if err != nil || !more {
			return out, err
		}
		for range each {
			part, err := text(d, depth+1)
			if err != nil {
				return "", err
			}
			out += part + " "
		}
	}
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
