package db

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store/pebble"
)

// The changes of several slots are read in one order, in pages of any size.
func TestChangesOfSeveralSlots(t *testing.T) {
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
	def := orders("Orders")
	def.Recovery = schema.Recovery{Enabled: true, Days: 1}
	create(t, d, def)
	const writes = 60
	for i := range writes {
		put(t, d, "Orders", key(strconv.Itoa(i), 0))
	}
	read := func(r ChangeRange) []Change {
		t.Helper()
		r.Table, r.Slots = mustFind(t, d).ID, keyspace.Slots
		if r.To == 0 {
			r.To = 1 << 63
		}
		found, err := d.Changes(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	all := read(ChangeRange{})
	for i, c := range all {
		if want := key(strconv.Itoa(i), 0); !c.After.Equal(want) {
			t.Fatalf("change %d is of %v, want %v", i, c.After, want)
		}
	}
	if len(all) != writes {
		t.Fatalf("there are %d changes, want %d", len(all), writes)
	}
	same := func(got, want []Change) bool {
		return slices.EqualFunc(got, want, func(a, b Change) bool { return a.Stamp == b.Stamp && a.N == b.N })
	}
	for limit := range writes {
		if limit > 0 && !same(read(ChangeRange{Limit: limit}), all[:limit]) {
			t.Errorf("a page of %d has other changes", limit)
		}
		if got := read(ChangeRange{From: all[limit].Stamp, Limit: 7}); !same(got, all[limit:min(limit+7, writes)]) {
			t.Errorf("a page from change %d on has other changes", limit)
		}
	}
	if got := read(ChangeRange{MaxBytes: 1}); !same(got, all[:1]) {
		t.Errorf("a page of one byte has %d changes, want one", len(got))
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	if got := read(ChangeRange{Reverse: true, Limit: 9}); !same(got, backwards[:9]) {
		t.Errorf("the last nine changes are others")
	}
	if got := read(ChangeRange{From: 10, To: 10}); len(got) != 0 {
		t.Errorf("an empty range has %d changes", len(got))
	}
}
