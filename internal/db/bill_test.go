//go:build !race

package db

import (
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store/pebble"
)

// The bill of a single read allocates nothing, with limits and without.
func TestBillOfOneRead(t *testing.T) {
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
	key := schema.Attribute{Name: "id", Type: item.S}
	if _, err := d.CreateTable(t.Context(), schema.Table{Name: "T", Key: schema.Key{Partition: []schema.Attribute{key}}, Attributes: []schema.Attribute{key}, OnDemand: true}); err != nil {
		t.Fatal(err)
	}
	for _, set := range []schema.Throttling{schema.ThrottlingDefault, schema.ThrottlingOn} {
		if err := d.SetThrottling(t.Context(), "T", set); err != nil {
			t.Fatal(err)
		}
		of, _ := d.find("T")
		bill := new(Bill)
		stored := []byte("0123456789abcdef0123456789abcdef")
		for _, end := range []func(){bill.Settle, bill.Discard} {
			if n := testing.AllocsPerRun(100, func() {
				*bill = Bill{}
				d.consumeRead(bill, of, access{stored: stored}, 0.5)
				end()
			}); n != 0 {
				t.Errorf("throttling %v: %v allocations", set, n)
			}
		}
	}
}
