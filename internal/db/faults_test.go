package db

import (
	"testing"

	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store/pebble"
)

// A start and an end with KeepChanges remove the changes that were recorded for injected faults only. Those of a
// stream that was disabled are kept: it can be read for a day, and triggers deliver its records.
func TestKeptChangesOfDisabledStreams(t *testing.T) {
	e := newEngine(t, pebble.InMemory())
	o := Options{KeepChanges: true}
	d := newDB(t, e, o)
	create(t, d, orders("Plain"))
	create(t, d, orders("Orders"))
	alter := func(change func(*schema.Table)) {
		t.Helper()
		if _, err := d.UpdateTable(t.Context(), "Orders", func(def *schema.Table) error {
			change(def)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		alter(func(def *schema.Table) { def.EnableStream("KEYS_ONLY", d.Now()) })
		put(t, d, "Orders", key("in", 0))
		remove(t, d, "Orders", key("in", 0))
		alter(func(def *schema.Table) { def.DisableStream(d.Now()) })
	}
	put(t, d, "Orders", key("after", 0))
	put(t, d, "Plain", key("a", 0))

	count := func(table string) int {
		t.Helper()
		def, err := d.Table(table)
		if err != nil {
			t.Fatal(err)
		}
		found, err := d.Changes(t.Context(), ChangeRange{Table: def.ID, Slots: keyspace.Slots, To: 1 << 63})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if got := [2]int{count("Orders"), count("Plain")}; got != [2]int{5, 1} {
		t.Fatalf("%v changes are recorded, want 5 and 1", got)
	}
	for _, o := range []Options{o, {}} { // a start removes changes, and so does the end before it
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = newDB(t, e, o)
		if got := [2]int{count("Orders"), count("Plain")}; got != [2]int{4, 0} {
			t.Errorf("%v changes are left, want the 4 of the streams and none", got)
		}
	}
}
