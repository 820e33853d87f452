package db

import (
	"fmt"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// sharedFleet is some servers that share their data.
type sharedFleet struct {
	*testing.T
	fleet   *leadtest.Fleet
	options Options
	servers []*DB
}

func newSharedFleet(t *testing.T, n int, o Options) *sharedFleet {
	t.Helper()
	f := &sharedFleet{T: t, fleet: leadtest.New(newEngine(t, pebble.InMemory())), options: o}
	for range n {
		f.join()
	}
	return f
}

func (f *sharedFleet) join() *DB {
	f.Helper()
	o := f.options
	o.Clock = clock.New(clock.Options{Now: time.Now, Shared: true})
	server := f.fleet.Join()
	server.Lead(len(f.servers) == 0)
	d, err := Open(f.Context(), server, o)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = d.Close() })
	f.servers = append(f.servers, d)
	return d
}

func (f *sharedFleet) create(def schema.Table) {
	f.Helper()
	id := []schema.Attribute{{Name: "id", Type: item.S}}
	def.Name, def.Key, def.Attributes = "Orders", schema.Key{Partition: id}, id
	if _, err := f.servers[0].CreateTable(f.Context(), def); err != nil {
		f.Fatal(err)
	}
}

// puts writes items through a server until it throttles, and returns how many.
func (f *sharedFleet) puts(d *DB, most int) (n int) {
	f.Helper()
	for ; n < most; n++ {
		it := item.Make(map[string]item.Value{"id": item.String(fmt.Sprint("i", n))})
		_, err := d.Write(f.Context(), Write{Table: "Orders", Key: it, Effect: Replace(it)})
		if isThrottled(reasonOf(err)) {
			return n
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	return n
}

// reasonOf returns the reason of a write that was cancelled.
func reasonOf(err error) error {
	if c, ok := err.(*Cancelled); ok { //nolint:errorlint // it is not wrapped
		return c.Reasons[0]
	}
	return err
}

// Three servers that share a table admit, after the first second, as much together as
// the table has units, whichever of them the clients use.
func TestServersShareTheirLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		share []int // the most writes a second through each server
	}{
		{"one server is used", []int{1000, 0, 0}},
		{"all are used evenly", []int{1000, 1000, 1000}},
		{"unevenly", []int{30, 1000, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				f := newSharedFleet(t, 3, Options{Throttle: true})
				f.create(schema.Table{Throughput: schema.Throughput{Read: 100, Write: 100}})
				const seconds = 120
				total := 0
				for range seconds {
					for i, d := range f.servers {
						total += f.puts(d, c.share[i])
					}
					time.Sleep(time.Second)
				}
				// A server that admits has the units of a second in advance. Of each
				// other it misses up to two intervals that are not exchanged yet, since
				// the exchange of one may come just before that of the other, and up to
				// two that were in the first record which it read of it.
				others := len(f.servers) - 1
				if most := 100 * (seconds + 1 + 4*others); total > most || total < 100*(seconds-2) {
					t.Errorf("%d writes in %d seconds with 100 units, want at most %d", total, seconds, most)
				}
			})
		})
	}
}

// A server that joins is not charged what was consumed before, records of servers that
// have ended are removed, and a table that was deleted leaves nothing.
func TestServersJoinAndEnd(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newSharedFleet(t, 2, Options{Throttle: true})
		f.create(schema.Table{Throughput: schema.Throughput{Read: 100, Write: 100}})
		for range 10 {
			f.puts(f.servers[0], 1000)
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		late := f.join()
		time.Sleep(3 * time.Second)
		table, _ := late.find("Orders")
		if units := table.limits.Units(late.clock.Elapsed(), throttle.Write, throttle.Place{}); units < 100 {
			t.Errorf("the server that joined has %.0f units", units)
		}
		if records, err := late.unitsRecords(t.Context()); err != nil || len(records) != 3 {
			t.Errorf("there are %d records: %v", len(records), err)
		}
		if err := f.servers[0].Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(unitsForgotten + 5*time.Second)
		if records, err := late.unitsRecords(t.Context()); err != nil || len(records) != 2 {
			t.Errorf("there are %d records after the end of a server: %v", len(records), err)
		}
	})
}

// Auto scaling knows what a table without limits consumes on all servers.
func TestConsumedOfAllServers(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newSharedFleet(t, 3, Options{})
		f.create(schema.Table{Throughput: schema.Throughput{Read: 100, Write: 100}})
		time.Sleep(2*time.Minute - time.Duration(time.Now().Second())*time.Second) // to the start of a minute
		time.Sleep(10 * time.Second)
		minute := time.Now().Truncate(time.Minute)
		for i, d := range f.servers {
			f.puts(d, 10*(i+1))
		}
		time.Sleep(time.Minute + 5*time.Second)
		for i, d := range f.servers {
			if units, ok := d.Consumed("Orders", "", true, minute); !ok || units != 60 {
				t.Errorf("server %d knows of %v units, %t; want 60", i, units, ok)
			}
		}
	})
}

// units returns what is left of the write units of the table on a server.
func (f *sharedFleet) units(d *DB) float64 {
	f.Helper()
	t, ok := d.find("Orders")
	if !ok {
		f.Fatal("there is no table")
	}
	return t.limits.Units(d.clock.Elapsed(), throttle.Write, throttle.Place{Hash: 1})
}

// charge charges units on a server, as requests do.
func (f *sharedFleet) charge(d *DB, units float64) {
	f.Helper()
	t, _ := d.find("Orders")
	t.limits.Charge(d.clock.Elapsed(), throttle.Write, throttle.Place{Hash: 1}, units)
}

// Units that were charged in advance and given back after an exchange are given back
// on all servers.
func TestRefundsAreShared(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newSharedFleet(t, 2, Options{Throttle: true})
		f.create(schema.Table{Throughput: schema.Throughput{Read: 100, Write: 100}})
		for range 60 {
			f.charge(f.servers[0], 90)
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Second)
		before := f.units(f.servers[1])
		f.charge(f.servers[0], 50)
		time.Sleep(2 * time.Second)
		f.charge(f.servers[0], -50)
		time.Sleep(2 * time.Second)
		if after := f.units(f.servers[1]); after < before {
			t.Errorf("after a refund the other server has %.0f units, before %.0f", after, before)
		}
	})
}

// A server whose record was removed, as after a pause, is not charged for all of its past.
func TestServerThatIsSeenAgain(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newSharedFleet(t, 2, Options{Throttle: true})
		f.create(schema.Table{Throughput: schema.Throughput{Read: 100, Write: 100}})
		load := func(seconds int) {
			for range seconds {
				f.charge(f.servers[0], 90)
				time.Sleep(time.Second)
			}
		}
		load(600)
		key := unitsKey(f.servers[0].units.server)
		if err := f.servers[1].update(t.Context(), [][]byte{key}, func(tx store.Tx) error { tx.Delete(key); return nil }); err != nil {
			t.Fatal(err)
		}
		load(30)
		if units := f.units(f.servers[1]); units < 0 {
			t.Errorf("the other server has %.0f units", units)
		}
	})
}

// A partition that is hot on one server is split on all, so that none of them is charged
// in one partition what two consume.
func TestHeatSplitsAreShared(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newSharedFleet(t, 3, Options{Throttle: true})
		f.create(schema.Table{OnDemand: true})
		hot, _ := f.servers[0].find("Orders")
		for range 12 * 60 {
			for i := range 18 {
				hash := uint64(i%2)<<60 + uint64(i)<<40 // two halves of the first partition
				hot.limits.Charge(f.servers[0].clock.Elapsed(), throttle.Write, throttle.Place{Hash: hash}, 100)
			}
			time.Sleep(time.Second)
		}
		late := f.join()
		time.Sleep(3 * time.Second)
		for i, d := range append(f.servers[:3:3], late) {
			is, _ := d.find("Orders")
			if n := is.limits.Partitions(0); n != hot.limits.Partitions(0) || n < 5 {
				t.Errorf("server %d has %d partitions, the busy one %d", i, n, hot.limits.Partitions(0))
			}
		}
	})
}

// What a table has consumed on demand is not reported when it gets provisioned units.
func TestConsumedAfterASwitch(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newSharedFleet(t, 2, Options{})
		f.create(schema.Table{OnDemand: true})
		f.puts(f.servers[0], 100)
		time.Sleep(2*time.Minute - time.Duration(time.Now().Second())*time.Second)
		time.Sleep(10 * time.Second)
		minute := time.Now().Truncate(time.Minute)
		if _, err := f.servers[0].UpdateTable(t.Context(), "Orders", func(def *schema.Table) error {
			def.OnDemand, def.Throughput = false, schema.Throughput{Read: 5, Write: 5}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if units, ok := f.servers[1].Consumed("Orders", "", true, minute); !ok || units != 0 {
			t.Errorf("%v units, %t; nothing was written", units, ok)
		}
	})
}

// A server reads each interval once, and of a server that it does not know, none of those before.
func TestIntervalsAreReadOnce(t *testing.T) {
	at := unitsPlace{Table: 1, Kind: throttle.Write}
	var r unitsRecord
	var o otherServer
	total := 0.0
	read := func() { o.read(&r, func(u placeUnits) { total += u.Units }) }
	for i := range 40 {
		r.add([]placeUnits{{at, 1}})
		if i%3 == 0 { // so it misses some of the records
			read()
			read()
		}
	}
	if total != 39 {
		t.Errorf("the sum is %v, want 39: all but the first", total)
	}
	for range 2 * keptIntervals {
		r.add([]placeUnits{{at, 1}})
	}
	read()
	if total != 39+keptIntervals {
		t.Errorf("after a long pause the sum is %v, want %d more", total, keptIntervals)
	}
}

// What a table or an index consumed before this server knew of it is not known.
func TestConsumedBeforeCreation(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		f := newSharedFleet(t, 2, Options{})
		known := func(index string, want bool) {
			t.Helper()
			minute := time.Now().Truncate(time.Minute).Add(-time.Minute)
			for i, d := range f.servers {
				if units, ok := d.Consumed("Orders", index, true, minute); ok != want || units != 0 {
					t.Errorf("server %d, index %q: %v units, %t; want %t", i, index, units, ok, want)
				}
			}
		}
		time.Sleep(5 * time.Minute)
		f.create(schema.Table{Throughput: schema.Throughput{Read: 5, Write: 5}})
		known("", false)
		time.Sleep(3 * time.Minute)
		known("", true)
		if _, err := f.servers[0].UpdateTable(t.Context(), "Orders", func(def *schema.Table) error {
			def.Indexes = append(def.Indexes, schema.Index{Name: "by", ID: 1, Global: true, Key: def.Key, Throughput: def.Throughput})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		known("by", false)
		known("", true)
		time.Sleep(3 * time.Minute)
		known("by", true)
	})
}
