package db

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/store/pebble"
)

// A partition that is split because it is hot splits the shard of its keys. A table
// without a stream is left alone.
func TestHotShardsAreSplit(t *testing.T) {
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	d, err := Open(t.Context(), engine, Options{Throttle: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	id := []schema.Attribute{{Name: "id", Type: item.S}}
	for _, name := range []string{"Orders", "Plain"} {
		def := schema.Table{Name: name, Key: schema.Key{Partition: id}, Attributes: id, Throughput: schema.Throughput{Read: 5, Write: 1000}}
		if name == "Orders" {
			def.EnableStream("KEYS_ONLY", d.Now())
		}
		if _, err := d.CreateTable(t.Context(), def); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Orders", "Plain"} {
		hot, _ := d.find(name)
		now := d.clock.Elapsed()
		for range 5 * 60 {
			now += time.Second
			for range 100 {
				hot.limits.Charge(now, throttle.Write, throttle.Place{Hash: rand.Uint64()}, 9.9)
			}
		}
		if n := hot.limits.Partitions(0); n < 2 {
			t.Fatalf("%s has %d partitions", name, n)
		}
	}
	for range 2 { // what was split once is not split again
		if err := d.followHeat(t.Context()); err != nil {
			t.Fatal(err)
		}
		hot, _ := d.find("Orders")
		s, _ := hot.Stream()
		for len(s.Splits) == 0 { // the background work was first
			time.Sleep(time.Millisecond)
			hot, _ = d.find("Orders")
			s, _ = hot.Stream()
		}
		if len(s.Splits) != hot.limits.Partitions(0)-1 || s.Splits[0].Stamp <= s.Start {
			t.Errorf("%d partitions, and the splits %+v", hot.limits.Partitions(0), s.Splits)
		}
	}

	// After a restart the table has the partitions of its stream, so that they are not
	// split again.
	hot, _ := d.find("Orders")
	again := throttle.New(hot.Table, 0, func(uint16) int64 { return 0 })
	if n := again.Partitions(0); n != hot.limits.Partitions(0) || len(again.TakeSplits()) != 0 {
		t.Errorf("after a restart there are %d partitions, before %d", n, hot.limits.Partitions(0))
	}
}

// The warm throughput of an on-demand table and of its indexes rises with the level that
// traffic has made, and does not fall.
func TestWarmThroughputRises(t *testing.T) {
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{Throttle: true})
	id := []schema.Attribute{{Name: "id", Type: item.S}, {Name: "by", Type: item.S}}
	def := schema.Table{Name: "Orders", Key: schema.Key{Partition: id[:1]}, Attributes: id, OnDemand: true, Warm: schema.Throughput{Read: 12_000, Write: 4_000}}
	def.Indexes = []schema.Index{{Name: "by", ID: 1, Global: true, Key: schema.Key{Partition: id[1:]}, Warm: def.Warm}}
	create(t, d, def)
	busy, _ := d.find("Orders")
	now := d.clock.Elapsed()
	charge := func(perSecond float64, minutes int) {
		for range minutes * 60 {
			now += time.Second
			for range 16 {
				for _, index := range []uint16{0, 1} {
					busy.limits.Charge(now, throttle.Write, throttle.Place{Index: index, Hash: rand.Uint64()}, perSecond/16)
				}
			}
		}
	}
	charge(3_500, 35)
	for range 2 {
		if err := d.followHeat(t.Context()); err != nil {
			t.Fatal(err)
		}
		is, _ := d.find("Orders")
		for is.Warm.Write < 7_000 { // the background work was first
			time.Sleep(time.Millisecond)
			is, _ = d.find("Orders")
		}
		if want := (schema.Throughput{Read: 12_000, Write: 7_000}); is.Warm != want || is.Indexes[0].Warm != want {
			t.Errorf("the warm throughput is %+v, of the index %+v; want %+v", is.Warm, is.Indexes[0].Warm, want)
		}
		charge(1, 90)
	}
}
