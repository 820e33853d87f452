package dax

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/cbor"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// readValue reads exactly one value.
func readValue(b []byte) (item.Value, error) {
	r := cborReader{Decoder: cbor.NewDecoder(b), maxSet: item.MaxSize}
	v, err := r.value(nil, 0)
	switch {
	case err != nil:
		return nil, err
	case r.fault != nil:
		return nil, r.fault
	case len(r.Rest()) > 0:
		return nil, errors.New("bytes follow the value")
	}
	return v, nil
}

// Values are read as the client means them, and read again from our encoding.
func TestValues(t *testing.T) {
	for _, line := range readLines(t, "values.txt") {
		f := fields(t, line, 2)
		want := valueOf(t, f[0])
		got, err := readValue(unhex(t, f[1]))
		if err != nil || !item.Equal(got, want) {
			t.Errorf("%s is read as %s, %v, want %s", f[1], got, err, want)
			continue
		}
		ours := appendValue(nil, want)
		if got, err = readValue(ours); err != nil || !item.Equal(got, want) {
			t.Errorf("%s is encoded as %x, which is read as %s, %v", want, ours, got, err)
		}
	}
}

// Numbers are encoded so that clients show the digits that DynamoDB shows.
func TestNumberForms(t *testing.T) {
	for _, c := range []struct{ number, want string }{
		{"0", "00"},
		{"1", "01"},
		{"-1", "20"},
		{"1000", "1903e8"},
		{"18446744073709551615", "1bffffffffffffffff"},
		{"-18446744073709551616", "c48200c348ffffffffffffffff"},
		{"18446744073709551616", "c48200c249010000000000000000"},
		{"-18446744073709551617", "c48200c349010000000000000000"},
		{"1.5", "c482200f"},
		{"-0.001", "c4822220"},
		{"1e21", "c48200c2493635c9adc5dea00000"},
		{"0.12345678901234567890123456789012345678", "c4823825c2500949b0f6f0023313c4499050de38f34e"},
	} {
		if got := hex.EncodeToString(appendValue(nil, num(t, c.number))); got != c.want {
			t.Errorf("%s is %s, want %s", c.number, got, c.want)
		}
	}
}

// Values that are well formed and invalid all the same are faults, in the words of package
// wire; other bytes are errors.
func TestInvalidValues(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("81", n) + "00" }
	for _, c := range []struct{ name, bytes, want string }{
		{"an empty string set", "d90cf980", "ValidationException: One or more parameter values were invalid: An string set  may not be empty"},
		{"an empty number set", "d90cfa80", "ValidationException: One or more parameter values were invalid: An number set  may not be empty"},
		{"equal strings", "d90cf98261616161", "ValidationException: One or more parameter values were invalid: Input collection [a, a] contains duplicates."},
		{"equal numbers", "d90cfa8201fb3ff0000000000000", "ValidationException: Input collection contains duplicates"},
		{"equal bytes", "d90cfb8241014101", "ValidationException: One or more parameter values were invalid: Input collection [AQ==, AQ==]of type BS contains duplicates."},
		{"39 digits", "c25103a0c92075c0dbf3b8acbc5f96ce3f0ad3", "ValidationException: Attempting to store more than 38 significant digits in a Number"},
		{"a number that is too large", "c482187e01", "ValidationException: Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{"a number that is too small", "c482388201", "ValidationException: Number underflow. Attempting to store a number with magnitude smaller than supported range"},
		{"an exponent of 64 bits", "c4821b7fffffffffffffff01", "ValidationException: Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{"not a number", "fb7ff8000000000000", "ValidationException: The parameter cannot be converted to a numeric value: NaN"},
		{"infinity", "fbfff0000000000000", "ValidationException: The parameter cannot be converted to a numeric value: -Inf"},
		{"a big integer of many bytes", "c25901f4" + strings.Repeat("ff", 500), "ValidationException: Attempting to store more than 38 significant digits in a Number"},
		{"an empty name", "a16000", "ValidationException: " + item.ErrEmptyName.Message},
		{"too deep", deep(item.MaxDepth), wire.ErrTooDeep.Error()},
		{"far too deep", deep(100_000), wire.ErrTooDeep.Error()},

		{"nothing", "", "malformed CBOR"},
		{"a text that is cut", "6261", "malformed CBOR"},
		{"a text that is not UTF-8", "61ff", "malformed CBOR"},
		{"a length of 64 bits", "7bffffffffffffffff", "malformed CBOR"},
		{"an array of more elements than bytes", "9a0fffffff00", "malformed CBOR"},
		{"a map of more entries than bytes", "ba0fffffff0000", "malformed CBOR"},
		{"an array without its break", "9f00", "malformed CBOR"},
		{"a map with a number for a name", "a10000", "a CBOR value of another kind is expected"},
		{"a string set with a number", "d90cf98100", "a CBOR value of another kind is expected"},
		{"a number set with a string", "d90cfa816161", "a CBOR value of another kind is expected"},
		{"a set that is a map", "d90cf9a0", "a CBOR value of another kind is expected"},
		{"an unknown tag", "d90d0080", "malformed CBOR"},
		{"a time", "c000", "malformed CBOR"},
		{"undefined", "f7", "malformed CBOR"},
		{"a break", "ff", "malformed CBOR"},
		{"a reserved head", "1c", "malformed CBOR"},
		{"a number of 16 bits", "f93c00", "a CBOR value of another kind is expected"},
		{"chunks of text", "7f6161ff", "malformed CBOR"},
		{"a decimal of one number", "c48101", "malformed CBOR"},
		{"a decimal of a decimal", "c48200c4820001", "malformed CBOR"},
		{"a decimal of texts", "c482616161", "a CBOR value of another kind is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := readValue(unhex(t, c.bytes))
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, %v, want %s", v, err, c.want)
			}
		})
	}
}

// Longer forms than needed are accepted: they are CBOR.
func TestLongForms(t *testing.T) {
	for _, c := range []struct{ bytes, want string }{
		{"1800", `{"N":"0"}`},
		{"1b0000000000000001", `{"N":"1"}`},
		{"c24101", `{"N":"1"}`},
		{"c240", `{"N":"0"}`},
		{"c34100", `{"N":"-1"}`},
		{"c2" + "5818" + strings.Repeat("00", 23) + "07", `{"N":"7"}`},
		{"fa3fc00000", `{"N":"1.5"}`},
		{"c4820205", `{"N":"500"}`},
		{"78026162", `{"S":"ab"}`},
		{"9f01ff", `{"L":[{"N":"1"}]}`},
		{"bf616101ff", `{"M":{"a":{"N":"1"}}}`},
		{"a2616101616102", `{"M":{"a":{"N":"2"}}}`},
		{"d90cf99f6161ff", `{"SS":["a"]}`},
	} {
		if got, err := readValue(unhex(t, c.bytes)); err != nil || !item.Equal(got, valueOf(t, c.want)) {
			t.Errorf("%s is read as %s, %v, want %s", c.bytes, got, err, c.want)
		}
	}
}

// The encoding of a sort key is that of the client, but for zeros at the end, and its bytes
// are in the order of the numbers.
func TestLexDecimal(t *testing.T) {
	var before []byte
	for _, line := range readLines(t, "lexdecimal.txt") {
		f := fields(t, line, 2)
		want := num(t, f[0])
		theirs := unhex(t, f[1])
		var r cborReader
		got, err := r.lexDecimal(nil, theirs)
		if err != nil || r.fault != nil || !item.Equal(got, want) {
			t.Errorf("%s is read as %v, %v, %v, want %s", f[1], item.Value(got), err, r.fault, f[0])
		}
		ours := appendLexDecimal(nil, want)
		if got, err = r.lexDecimal(nil, ours); err != nil || !item.Equal(got, want) {
			t.Errorf("%s is encoded as %x, which is read as %v, %v", f[0], ours, item.Value(got), err)
		}
		if !strings.Contains(f[0], "e") && !bytes.Equal(ours, theirs) && !strings.HasPrefix(f[0], "9.99") && !strings.HasPrefix(f[0], "-9.99") {
			t.Errorf("%s is encoded as %x, want %x", f[0], ours, theirs)
		}
		if bytes.Compare(before, ours) >= 0 {
			t.Errorf("%s is encoded as %x, which is not after %x", f[0], ours, before)
		}
		before = ours
	}
}

// Any two numbers are in the order of their encodings.
func TestLexDecimalOrder(t *testing.T) {
	var all []item.Value
	for _, sign := range []string{"", "-"} {
		for _, digits := range []string{"1", "12", "123", "1234", "9", "99", "999", "9999", "1001", "1000001", "12345678901234567890123456789012345678"} {
			for _, exponent := range []string{"-91", "-64", "-63", "-62", "-61", "-3", "-2", "-1", "0", "1", "2", "3", "22", "60", "61", "62", "63", "87"} {
				all = append(all, num(t, sign+digits+"e"+exponent))
			}
		}
	}
	slices.SortFunc(all, item.Compare)
	for i := 1; i < len(all); i++ {
		a, b := appendLexDecimal(nil, all[i-1]), appendLexDecimal(nil, all[i])
		if want := item.Compare(all[i-1], all[i]); bytes.Compare(a, b) != want {
			t.Errorf("%s and %s are encoded as %x and %x, which compare as %d, want %d", all[i-1], all[i], a, b, bytes.Compare(a, b), want)
		}
	}
}

func TestInvalidLexDecimals(t *testing.T) {
	for _, c := range []struct{ name, bytes string }{
		{"nothing", ""},
		{"null, low", "00"},
		{"null, high", "ff"},
		{"negative zero", "7f"},
		{"zero, and more", "8000"},
		{"a header alone", "c1"},
		{"no terminator", "c11c"},
		{"no groups", "c10000"},
		{"bytes after the terminator", "c11c000000"},
		{"bits after the terminator", "c11c0001"},
		{"a first group below 100", "c1" + "190000"},
		{"a group above 999", "c1" + "fd4000"},
		{"digits that do not count", "c11c4000"},
		{"an exponent that is cut", "fe800000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := new(cborReader).lexDecimal(nil, unhex(t, c.bytes)); err == nil {
				t.Errorf("it is read as %s", item.Value(got))
			}
		})
	}
}

func TestKeys(t *testing.T) {
	for _, line := range readLines(t, "keys.txt") {
		f := fields(t, line, 5)
		p, _ := item.TypeNamed(f[0])
		key := schema.Key{Partition: attribute("p", p)}
		text := `{"p":` + f[2]
		if f[1] != "" {
			s, _ := item.TypeNamed(f[1])
			key.Sort = attribute("s", s)
			text += `,"s":` + f[3]
		}
		want := itemOf(t, text+"}")
		got, err := new(cborReader).key(unhex(t, f[4]), key)
		if err != nil || got.Fault != nil || !got.Item.Equal(want) {
			t.Errorf("%s is read as %s, %v, want %s", f[4], item.Map(got.Item), err, item.Map(want))
			continue
		}
		d := cbor.NewDecoder(appendKey(nil, want, key))
		ours, err := d.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if got, err = new(cborReader).key(ours, key); err != nil || !got.Item.Equal(want) {
			t.Errorf("%s is encoded as %x, which is read as %s, %v", item.Map(want), ours, item.Map(got.Item), err)
		}
	}
}

func TestInvalidKeys(t *testing.T) {
	s, n := testKeys["Users"], testKeys["Counters"]
	both := testKeys["Orders"]
	for _, c := range []struct {
		name, bytes string
		key         schema.Key
	}{
		{"not UTF-8", "ff", s},
		{"no number", "", n},
		{"a text for a number", "6161", n},
		{"two numbers", "0101", n},
		{"no sort key", "6161", both},
		{"a partition key that is cut", "6261", both},
		{"a number for a text", "01c11c0000", both},
		{"a sort key that is cut", "6161c11c", both},
		{"nothing", "", both},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := new(cborReader).key(unhex(t, c.bytes), c.key)
			if want := "ValidationException: The provided key element does not match the schema"; err == nil || err.Error() != want {
				t.Errorf("got %s, %v, want %s", item.Map(got.Item), err, want)
			}
		})
	}
	t.Run("a number with too many digits", func(t *testing.T) {
		got, err := new(cborReader).key(unhex(t, "c25103a0c92075c0dbf3b8acbc5f96ce3f0ad3"), n)
		if err != nil || got.Fault == nil {
			t.Errorf("got %v, %v, want a fault of the key", got, err)
		}
	})
}
