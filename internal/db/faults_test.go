package db

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
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

// lagged are Faults that let reads return what was a minute ago.
type lagged struct{ noted int }

func (*lagged) RejectRead(*schema.Table, *schema.Index) error { return nil }
func (*lagged) RejectWrite(*schema.Table, int, int) error     { return nil }
func (*lagged) Lag(*schema.Index) time.Duration               { return time.Minute }
func (l *lagged) Lagged(*schema.Index, time.Duration)         { l.noted++ }
func (*lagged) PageItems() int                                { return 0 }
func (*lagged) PageEnded(int)                                 {}

// roomWithoutMemory has no memory for large values.
type roomWithoutMemory struct{}

func (roomWithoutMemory) Reserve(int) bool { return false }
func (roomWithoutMemory) Force(int)        {}
func (roomWithoutMemory) Return(int)       {}
func (roomWithoutMemory) Free(int)         {}
func (roomWithoutMemory) Commit()          {}

// The items that a read returns as they were have the bounds of others: of the size and the memory of a reply. What
// has expired is hidden.
func TestBoundsOfLaggingReads(t *testing.T) {
	virtualtime.Test(t, testBoundsOfLaggingReads)
}

func testBoundsOfLaggingReads(t *testing.T) {
	d := newDB(t, newEngine(t, pebble.InMemory()), Options{KeepChanges: true, HideExpired: true, ExpiryInterval: time.Hour})
	create(t, d, orders("Orders"))
	if err := d.SetTimeToLive(t.Context(), "Orders", "ttl"); err != nil {
		t.Fatal(err)
	}
	keys := []item.Item{key("a", 0), key("b", 0), key("c", 0)}
	for i, id := range []string{"a", "b", "c"} {
		it := map[string]item.Value{"id": item.String(id), "at": num(0), "text": item.String(strings.Repeat("x", 100_000))}
		if i == 2 {
			it["ttl"] = num(int(time.Now().Unix()) + 30)
		}
		put(t, d, "Orders", item.Make(it))
	}
	time.Sleep(90 * time.Second)
	for _, k := range keys {
		put(t, d, "Orders", k) // small
	}
	time.Sleep(time.Second)
	read := func(maxBytes int, g Get, keys ...item.Item) ([]item.Item, *lagged, error) {
		f := new(lagged)
		g.Table = "Orders"
		found, err := d.GetWithin(context.WithValue(t.Context(), BillKey{}, &Bill{Faults: f}), g, maxBytes, keys...)
		return found, f, err
	}
	if found, f, err := read(1<<20, Get{}, keys...); err != nil || len(found) != 3 || found[0].Size() < 100_000 || found[1].Size() < 100_000 || f.noted != 1 {
		t.Fatalf("%d items as they were, %v", len(found), err)
	} else if found[2] != nil {
		t.Errorf("an item that has expired is read: %d bytes", found[2].Size())
	}
	if found, _, err := read(50_000, Get{}, keys...); err != nil || len(found) != 1 {
		t.Errorf("of 50,000 bytes %d items are returned, want the first, which exceeds them: %v", len(found), err)
	}
	memory := buffer.TallyOf(context.WithValue(t.Context(), buffer.RoomKey{}, roomWithoutMemory{}), 1, 1<<20)
	if _, _, err := read(1<<20, Get{Memory: &memory}, keys[0]); !errors.Is(err, buffer.ErrNoRoom) {
		t.Errorf("without memory the error is %v", err)
	}
}

// What a write needs has both versions of an item if its change is recorded, also if only for injected faults.
func TestMemoryOfRecordedChanges(t *testing.T) {
	def := orders("Orders")
	if updateBytes(&def, 100, 100, true)-updateBytes(&def, 100, 100, false) != 2*200 {
		t.Error("a record has no memory")
	}
	for _, keep := range []bool{false, true} {
		if d := (&DB{keepChanges: keep}); d.records(&def) != keep {
			t.Errorf("KeepChanges %t: the table is recorded: %t", keep, !keep)
		}
	}
}

// throttling are Faults that throttle everything.
type throttling struct{ lagged }

func (*throttling) RejectRead(t *schema.Table, _ *schema.Index) error {
	return &Throttled{Table: t.Name, Kind: throttle.Read}
}

func (*throttling) RejectWrite(t *schema.Table, _, _ int) error {
	return &Throttled{Table: t.Name, Kind: throttle.Write}
}

// Injected throttles have the place of the key, by which the heat map counts them.
func TestPlaceOfInjectedThrottles(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	def, err := d.Table("Orders")
	if err != nil {
		t.Fatal(err)
	}
	k := key("a", 0)
	want := keyspace.Hash(keyspace.Item(nil, def, k))
	ctx := context.WithValue(t.Context(), BillKey{}, &Bill{Faults: new(throttling)})
	_, read := d.GetOne(ctx, Get{Table: "Orders"}, k)
	_, write := d.Write(ctx, Write{Table: "Orders", Key: k, Fit: (*schema.Table).CheckItem, Effect: Replace(k)})
	var cancelled *Cancelled
	if errors.As(write, &cancelled) {
		write = cancelled.Reasons[0]
	}
	for what, err := range map[string]error{"read": read, "write": write} {
		if e, ok := errors.AsType[*Throttled](err); !ok || e.Hash != want {
			t.Errorf("the %s gives %+v, want a Throttled at %x", what, err, want)
		}
	}
}
