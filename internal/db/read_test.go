package db

import (
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// Get returns the items in the order of the keys, nil for a key without an item.
func TestGet(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	one, two := key("a", 1).With("x", item.Null()), key("b", 2)
	put(t, d, "Orders", one)
	put(t, d, "Orders", two)
	for _, consistent := range []bool{true, false} {
		got, err := d.Get(t.Context(), "Orders", consistent, two, key("c", 3), key("a", 1), key("a", 2), two)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []item.Item{two, nil, one, nil, two} {
			if !got[i].Equal(want) {
				t.Errorf("item %d is %v, want %v", i, item.Map(got[i]), item.Map(want))
			}
		}
	}
	if got, err := d.Get(t.Context(), "Orders", true); err != nil || len(got) != 0 {
		t.Errorf("Get without keys returns %v, %v", got, err)
	}
}

// Get returns an error if one of several keys does not fit the table.
func TestGetChecksKeys(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for name, k := range map[string]item.Item{
		"one attribute too many": key("a", 1).With("x", item.Null()),
		"one attribute too few":  key("a", 1).Without("at"),
		"another type":           key("a", 1).With("at", item.String("1")),
		"an empty item":          nil,
		"a sort key alone":       key("a", 1).Without("id"),
		"other attributes only":  item.Make(map[string]item.Value{"x": num(1), "y": num(1)}),
	} {
		_, err := d.Get(t.Context(), "Orders", true, key("a", 1), k)
		expect(t, name, err, "ValidationException: The provided key element does not match the schema")
	}
}
