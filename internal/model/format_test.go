package model

import (
	"math"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// Values of a format sort in the order of the ordinals.
func TestFormatsSort(t *testing.T) {
	for name, format := range formats {
		for _, typ := range format.types {
			for _, size := range []Bytes{0, 4, 12} {
				f := &Field{Name: "f", Type: typ, Attribute: &Attribute{Format: name, Size: size, Digits: 8}}
				for ordinal := range 990 {
					if name == "uuid" && ordinal%16 == 0 {
						continue
					}
					a, b := format.value(f, ordinal), format.value(f, ordinal+1)
					if item.Compare(a, b) >= 0 {
						t.Errorf("%s %s of size %d: %s does not sort before %s", name, typ, size, a, b)
						break
					}
				}
			}
		}
	}
}

// The first values of formats that others define have the form that these have.
func TestFormatsOfOthers(t *testing.T) {
	for _, c := range []struct {
		format string
		size   Bytes
		want   string
	}{
		{"hour", 0, "2100-01-01T00"},
		{"week", 0, "2099-W53"},
		{"month", 0, "2100-01"},
		{"year", 0, "2100"},
		{"ulid", 0, "03QCPC7P000000000000000000"},
		{"ulid", 6, "03QCPC"},
	} {
		f := &Field{Name: "f", Type: item.S, Attribute: &Attribute{Format: c.format, Size: c.size}}
		if got := formats[c.format].value(f, 0); string(got.Bytes()) != c.want {
			t.Errorf("%s of size %d is %s, want %s", c.format, c.size, got, c.want)
		}
	}
}

// The prefix of an identifier that begins with a time stays the same for a period.
func TestPeriodOfPrefixes(t *testing.T) {
	for _, c := range []struct {
		format string
		size   Bytes
		want   float64 // seconds
	}{
		{"ulid", 10, 0.001},
		{"ulid", 8, 1.024},
		{"ulid", 6, 1048.576},
		{"ulid", 0, 0},
		{"ksuid", 4, 492.5},
		{"ksuid", 5, 7.94},
		{"ksuid", 0, 0},
	} {
		got := formats[c.format].period(&Attribute{Format: c.format, Size: c.size})
		if math.Abs(got-c.want) > c.want/100+1e-9 {
			t.Errorf("a %s of %d characters stays the same for %v s, want %v", c.format, c.size, got, c.want)
		}
	}
}
