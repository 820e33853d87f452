package db

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/codec"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// expiringItem returns an item that expires at a time in seconds since 1970.
func expiringItem(id string, at int64) item.Item {
	return key(id, 1).With("ttl", num(int(at)))
}

func hasItem(t *testing.T, d *DB, id string) bool {
	t.Helper()
	found, err := d.Get(t.Context(), Get{Table: "Orders", Consistent: true}, key(id, 1))
	if err != nil {
		t.Fatal(err)
	}
	return found[0] != nil
}

// An item is removed within seconds after it expires, and never before.
func TestItemsExpire(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
		create(t, d, orders("Orders"))
		if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
			t.Fatal(err)
		}
		now := time.Now().Unix()
		put(t, d, "Orders", expiringItem("soon", now+60))
		put(t, d, "Orders", expiringItem("later", now+3600))
		put(t, d, "Orders", expiringItem("moved", now+60))
		put(t, d, "Orders", key("never", 1))
		put(t, d, "Orders", key("text", 1).With("ttl", item.String("1")))
		put(t, d, "Orders", expiringItem("ancient", now-6*365*24*3600))
		put(t, d, "Orders", expiringItem("moved", now+7200)) // the later time replaces the expiry record

		time.Sleep(59 * time.Second)
		for _, id := range []string{"soon", "later", "moved", "never", "text", "ancient"} {
			if !hasItem(t, d, id) {
				t.Errorf("%s was removed early", id)
			}
		}
		time.Sleep(4 * time.Second)
		for id, want := range map[string]bool{"soon": false, "later": true, "moved": true, "never": true, "text": true, "ancient": true} {
			if hasItem(t, d, id) != want {
				t.Errorf("%s exists: %t, want %t", id, !want, want)
			}
		}
		time.Sleep(2 * time.Hour)
		if hasItem(t, d, "moved") || hasItem(t, d, "later") {
			t.Error("an item exists long after it expired")
		}
	})
}

// Items that are older than the table's time to live expire too. After it is
// disabled items do not expire.
func TestTimeToLiveEnabledAndDisabled(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
		create(t, d, orders("Orders"))
		now := time.Now().Unix()
		for i := range 600 {
			put(t, d, "Orders", key("before", i).With("ttl", num(int(now)+10)))
		}
		put(t, d, "Orders", expiringItem("after", now+600))
		if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if left := d.describe(mustFind(t, d)).Counts[0].Items; left != 1 {
			t.Errorf("%d items are left, want 1", left)
		}
		if err := d.SetTimeToLive(t.Context(), "Orders", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if !hasItem(t, d, "after") {
			t.Error("an item expired although the table has no time to live")
		}
		start, end := keyspace.ExpiriesSpan(mustFind(t, d).ID)
		if n := countStored(t, d.engine, start, end); n != 0 {
			t.Errorf("%d expiry records are left", n)
		}
	})
}

// After the attribute of the time to live is changed, during the backfill or later,
// only the new attribute counts.
func TestTimeToLiveAttributeChanges(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
		create(t, d, orders("Orders"))
		now := int(time.Now().Unix())
		for i := range 600 {
			put(t, d, "Orders", key("both", i).With("ttl", num(now+10)).With("other", num(now+1000)))
		}
		for _, attribute := range []string{"ttl", "", "other", "", "ttl", "", "other"} {
			if err := d.SetTimeToLive(t.Context(), "Orders", attribute); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if left := d.describe(mustFind(t, d)).Counts[0].Items; left != 600 {
			t.Errorf("%d items are left, want 600", left)
		}
		time.Sleep(time.Hour)
		if left := d.describe(mustFind(t, d)).Counts[0].Items; left != 0 {
			t.Errorf("%d items are left, want none", left)
		}
	})
}

// An expiry record that does not match its item is removed, and does not delay
// others.
func TestStaleExpiryRecordsAreRemoved(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
		create(t, d, orders("Orders"))
		if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		now := time.Now().Unix()
		table := mustFind(t, d)
		for i := range 3 * expiryBatch {
			it := key("kept", i)
			put(t, d, "Orders", it)
			record := keyspace.Expiry(table.ID, now-5, keyspace.Item(nil, table.Table, it))
			if err := d.engine.Update(t.Context(), [][]byte{record}, func(tx store.Tx) error { tx.Set(record, []byte{codec.FormatExpiry}); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		put(t, d, "Orders", expiringItem("due", now-1))
		time.Sleep(5 * time.Second)
		start, end := keyspace.ExpiriesSpan(table.ID)
		if left, records := d.describe(table).Counts[0].Items, countStored(t, d.engine, start, end); left != 3*expiryBatch || records != 0 {
			t.Errorf("%d items and %d expiry records are left, want %d and none", left, records, 3*expiryBatch)
		}
	})
}

// With HideExpired, items that have expired but are not removed yet are not
// returned.
func TestExpiredItemsCanBeHidden(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		for _, hide := range []bool{false, true} {
			d := newDB(t, newEngine(t, pebble.InMemory()), Options{HideExpired: hide, ExpiryInterval: time.Hour})
			create(t, d, orders("Orders"))
			if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
				t.Fatal(err)
			}
			put(t, d, "Orders", expiringItem("expired", time.Now().Unix()-1))
			if hasItem(t, d, "expired") == hide {
				t.Errorf("HideExpired %t: Get returns the item: %t", hide, hide)
			}
			page, err := d.Range(t.Context(), Range{Table: "Orders"})
			if err != nil || (page.Count == 0) != hide {
				t.Errorf("HideExpired %t: a scan returns %d items, %v", hide, page.Count, err)
			}
		}
	})
}

// The change record of an expired item names the expiry as its actor.
func TestExpiryIsRecorded(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{})
		def := orders("Orders")
		def.Recovery = schema.Recovery{Enabled: true, Days: 1}
		create(t, d, def)
		if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
			t.Fatal(err)
		}
		it := expiringItem("soon", time.Now().Unix()+5)
		put(t, d, "Orders", it)
		time.Sleep(10 * time.Second)
		var all []Change
		for slot := range keyspace.Slots {
			found, err := d.Changes(t.Context(), ChangeRange{Table: mustFind(t, d).ID, Slot: slot, To: 1 << 63})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
		if len(all) != 2 || all[0].Actor != change.Customer || all[1].Actor != change.Expiry || all[1].Kind() != "REMOVE" || !all[1].Before.Equal(it) {
			t.Errorf("the change records are %+v", all)
		}
	})
}

// A time in milliseconds causes one warning per table.
func TestMillisecondsAreWarnedAbout(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var log logtest.Log
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{Log: log.Logger()})
		create(t, d, orders("Orders"))
		if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
			t.Fatal(err)
		}
		put(t, d, "Orders", expiringItem("wrong", time.Now().UnixMilli()))
		put(t, d, "Orders", expiringItem("wrong too", time.Now().UnixMilli()))
		time.Sleep(time.Minute)
		if n := strings.Count(log.String(), "milliseconds"); n != 1 {
			t.Errorf("there are %d warnings, want 1:\n%s", n, log.String())
		}
	})
}

func mustFind(t *testing.T, d *DB) *table {
	t.Helper()
	found, ok := d.find("Orders")
	if !ok {
		t.Fatal("no table Orders")
	}
	return found
}

// Items do not expire if the time to live is disabled, or the table is replaced,
// while a batch is being removed.
func TestExpiryAfterTheTableChanged(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, d *DB)
	}{
		{"time to live is disabled", func(t *testing.T, d *DB) {
			if err := d.SetTimeToLive(t.Context(), "Orders", ""); err != nil {
				t.Error(err)
			}
		}},
		{"table is deleted and created again", func(t *testing.T, d *DB) {
			if _, err := d.DeleteTable(t.Context(), "Orders"); err != nil {
				t.Error(err)
			}
			create(t, d, orders("Orders"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int64
			var armed atomic.Bool
			var act func()
			now := func() time.Time {
				// In expireTable, due makes the first call; the second follows it.
				if armed.Load() && calls.Add(1) == 2 {
					armed.Store(false)
					act()
				}
				return time.Now()
			}
			d := newDB(t, newEngine(t, pebble.InMemory()), Options{Clock: clock.Given(now), ExpiryInterval: time.Hour})
			create(t, d, orders("Orders"))
			if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
				t.Fatal(err)
			}
			for mustFind(t, d).TimeToLive.Filling {
				time.Sleep(time.Millisecond)
			}
			it := expiringItem("a", time.Now().Unix()-10)
			put(t, d, "Orders", it)
			time.Sleep(50 * time.Millisecond) // until the builder is idle
			act = func() {
				c.do(t, d)
				put(t, d, "Orders", it)
			}
			old := mustFind(t, d).Table
			armed.Store(true)
			if err := d.expireTable(t.Context(), old); err != nil || armed.Load() {
				t.Fatalf("expireTable returns %v; the change was made during it: %v", err, !armed.Load())
			}
			if !hasItem(t, d, "a") {
				t.Error("an item expired that was written after the time to live was disabled")
			}
		})
	}
}

// A table with an item, or an expiry entry, that others hold does not keep the expired
// items of other tables.
func TestExpiryGoesOnAfterAConflict(t *testing.T) {
	for _, what := range []string{"item", "entry"} {
		t.Run(what, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				e := newEngine(t, pebble.InMemory())
				d := newDB(t, e, Options{})
				for _, name := range []string{"First", "Last"} {
					create(t, d, orders(name))
					if err := d.SetTimeToLive(t.Context(), name, "ttl"); err != nil {
						t.Fatal(err)
					}
					waitUntil(t, "that items can expire", func() bool { return !tableOf(t, d, name).TimeToLive.Filling })
				}
				due := time.Now().Unix() + 2
				first := tableOf(t, d, "First")
				if held := keyspace.Item(nil, first, key("a", 1)); what == "item" {
					put(t, d, "First", expiringItem("a", due))
					holdKey(t, e, held)
				} else {
					entry := keyspace.Expiry(first.ID, due, held)
					writeRaw(t, d, func(tx store.Tx) { tx.Set(entry, []byte{codec.FormatExpiry}) })
					holdKey(t, e, entry)
				}
				put(t, d, "Last", expiringItem("a", due))
				time.Sleep(10 * time.Second) // less than heldFor
				start, end := keyspace.ExpiriesSpan(first.ID)
				if n := countStored(t, e, start, end); n != 1 {
					t.Errorf("the table with the conflict has %d expiry entries, want 1", n)
				}
				start, end = keyspace.IndexSpan(tableOf(t, d, "Last").ID, 0)
				if n := countStored(t, e, start, end); n != 0 {
					t.Errorf("the table without a conflict has %d items that have expired", n)
				}
				time.Sleep(heldFor)
				start, end = keyspace.ExpiriesSpan(first.ID)
				if n := countStored(t, e, start, end); n != 0 {
					t.Errorf("after the conflict the table has %d expiry entries", n)
				}
			})
		})
	}
}

// The progress of adding expiry entries is never stored under the id of an index.
func TestExpiryBuildIDs(t *testing.T) {
	seen := make(map[uint16]bool)
	for changes := range 1 << 16 {
		id := expiryBuild(uint16(changes))
		if id < 1<<15 {
			t.Fatalf("after %d changes the id is %d, which an index can have", changes, id)
		}
		if changes < 1<<15 && seen[id] {
			t.Fatalf("after %d changes the id %d occurs again", changes, id)
		}
		seen[id] = true
	}
}
