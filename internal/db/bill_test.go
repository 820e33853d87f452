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
		for name, read := range map[string]func(){
			"get": func() { d.consumeRead(bill, of, access{stored: stored}, 0.5) },
			"query": func() {
				d.meterRead(bill, of, access{stored: stored}, 0.5)
				d.chargeRead(bill, of, access{stored: stored}, 0.5)
			},
		} {
			for _, end := range []func(){bill.Settle, bill.Discard} {
				if n := testing.AllocsPerRun(100, func() {
					*bill = Bill{}
					read()
					end()
				}); n != 0 {
					t.Errorf("%s, throttling %v: %v allocations", name, set, n)
				}
			}
		}
	}
}

// A request that is discarded gives back what it has charged, also to several places.
func TestDiscardGivesChargesBack(t *testing.T) {
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
	key := schema.Attribute{Name: "id", Type: item.S}
	if _, err := d.CreateTable(t.Context(), schema.Table{Name: "T", Key: schema.Key{Partition: []schema.Attribute{key}}, Attributes: []schema.Attribute{key}, Throughput: schema.Throughput{Read: 1000, Write: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetThrottling(t.Context(), "T", schema.ThrottlingOn); err != nil {
		t.Fatal(err)
	}
	of, _ := d.find("T")
	one, two := access{stored: []byte("0123456789abcdef0123456789abcdef")}, access{stored: []byte("fedcba98765432100123456789abcdef")}
	before := d.readableUnits(of, one)
	bill := new(Bill)
	d.meterRead(bill, of, one, 400)
	d.chargeRead(bill, of, one, 400)
	d.chargeRead(bill, of, two, 300)
	if left := d.readableUnits(of, one); left > before-600 {
		t.Errorf("%v of %v units are left after 700", left, before)
	}
	bill.Discard()
	if left := d.readableUnits(of, one); left < before-1 {
		t.Errorf("%v of %v units are left after the charge was given back", left, before)
	}
}
