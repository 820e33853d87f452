package model

import (
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

const entityItemModel = `
model: 1
tables: {tab: {key: {partition: PK, sort: SK}, indexes: {ind: {partition: G}}}}
entities:
  e:
    keys: {PK: "A#{a}#{kind}", SK: "{b}#{n}", G: {template: "{kind}#{s}", when: {kind: [X]}}}
    attributes: {a: S, b: {stored: false}, n: {type: N, stored: false}, kind: {values: [X, Y]}, s: {shards: 4, of: a}}
patterns: [{name: p, get: e, given: [a, kind, b, n], rate: 1/s}]
`

// Values are read from keys as they were built into them, or the item is not of
// the entity.
func TestEntityValues(t *testing.T) {
	m, err := Parse("x", []byte(entityItemModel))
	if err != nil {
		t.Fatal(err)
	}
	e := m.Entities[0]
	for _, c := range []struct{ name, pk, sk, a, want string }{
		{"all in the key", "A#1#X", "b#7", "", "1 X b 7"},
		{"a separator within a value", "A#1#2#X", "b#7", "", "1#2 X b 7"},
		{"a separator that a number excludes", "A#1#X", "b#c#7", "", "1 X b#c 7"},
		{"a stored attribute decides", "A#1#X", "b#7", "1", "1 X b 7"},
		{"a stored attribute contradicts", "A#1#X", "b#7", "2", ""},
		{"a value that is not listed", "A#1#Z", "b#7", "", ""},
		{"another prefix", "B#1#X", "b#7", "", ""},
		{"an empty value", "A##X", "b#7", "", ""},
		{"a number that is not canonical", "A#1#X", "b#07", "", ""},
		{"several ways", "A#1#X", "b#7#7", "", "1 X b#7 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			it := item.Make(map[string]item.Value{"PK": item.String(c.pk), "SK": item.String(c.sk)})
			if c.a != "" {
				it = it.With("a", item.String(c.a))
			}
			values, err := e.Values(it)
			got := ""
			if err == nil {
				got = plain(values["a"]) + " " + plain(values["kind"]) + " " + plain(values["b"]) + " " + plain(values["n"])
			}
			if got != c.want {
				t.Errorf("the values are %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// What a generated item stores is what its values give again.
func TestEntityValueRoundTrip(t *testing.T) {
	m, err := Parse("x", []byte(entityItemModel))
	if err != nil {
		t.Fatal(err)
	}
	e := m.Entities[0]
	for n := range 200 {
		it := Generator{Seed: 1}.Item(e, n)
		values, err := e.Values(it)
		if err != nil {
			t.Fatalf("item %d: %v", n, err)
		}
		for _, f := range e.Fields() {
			want, _ := it.Get(f.Name)
			got, err := f.Value(values)
			if f.Stored && (err != nil || string(got) != string(want)) {
				t.Errorf("item %d: %s is %s, %v, want %s", n, f.Name, got, err, want)
			}
		}
	}
}

// A key whose condition is on an attribute of type BOOL is in the items that fulfil it.
func TestEntityValueWhenBool(t *testing.T) {
	m, err := Parse("x", []byte(`
model: 1
tables: {tab: {key: {partition: PK}, indexes: {ind: {partition: G}}}}
entities:
  e:
    keys: {PK: "A#{a}", G: {template: "G#{a}", when: {open: true}}}
    attributes: {a: S, open: BOOL}
patterns: [{name: p, get: e, given: [a], rate: 1/s}]
`))
	if err != nil {
		t.Fatal(err)
	}
	f, _ := m.Entities[0].Field("G")
	for _, open := range []bool{true, false} {
		v, err := f.Value(map[string]item.Value{"a": item.String("1"), "open": item.Bool(open)})
		if err != nil || (v != nil) != open {
			t.Errorf("if open is %t, G is %s, %v", open, v, err)
		}
	}
}

// A field may be what its template gives for any values, also for empty ones.
func TestFieldMayBe(t *testing.T) {
	m, err := Parse("x", []byte(`
model: 1
tables: {tab: {key: {partition: PK}, types: {N: N}, indexes: {ind1: {partition: G}, ind2: {partition: H}, ind3: {partition: I}, ind4: {partition: N}}}}
entities:
  e:
    keys: {PK: "{a}", G: "G#{a}#X#{both}!", H: "{a}", I: "CONSTANT", N: "{n}"}
    attributes: {a: S, b: {values: [Y]}, n: N, both: {template: "-{b}", stored: false}}
patterns: [{name: p, get: e, given: [a], rate: 1/s}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field, text string
		want        bool
	}{
		{"G", "G#1#X#-Y!", true},
		{"G", "G##X#-!", true},
		{"G", "G#1#X#2#X#-not listed!", true},
		{"G", "G#1#X#Y!", false},
		{"G", "G#1#X#-Y", false},
		{"G", "H#1#X#-Y!", false},
		{"G", "G#1", false},
		{"G", "G#X#-!", false},
		{"H", "", true},
		{"H", "any", true},
		{"I", "CONSTANT", true},
		{"I", "CONSTANTS", false},
		{"I", "A CONSTANT", false},
		{"N", "1", false},
	} {
		f, _ := m.Entities[0].Field(c.field)
		if got := f.MayBe(item.String(c.text)); got != c.want {
			t.Errorf("%s may be %q: %t", c.field, c.text, got)
		}
	}
	one, _ := item.ParseNumber("1")
	if f, _ := m.Entities[0].Field("N"); !f.MayBe(item.Num(one)) {
		t.Error("N may not be 1")
	}
}
