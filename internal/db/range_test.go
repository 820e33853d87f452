package db

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// readPages reads all pages of a range. n is the number of pages.
func readPages(t testing.TB, d *DB, r Range) (items []item.Item, n int) {
	t.Helper()
	for {
		page, err := d.Range(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Limit > 0 && page.Scanned > r.Limit || page.Count > page.Scanned || !r.CountOnly && page.Count != len(page.Items) {
			t.Fatalf("a page of at most %d has %d items, counts %d and scanned %d", r.Limit, len(page.Items), page.Count, page.Scanned)
		}
		items = append(items, page.Items...)
		n++
		if page.Last == nil {
			return items, n
		}
		r.After = page.Last
	}
}

// fillOrders puts random items into the table Orders and returns its contents.
func fillOrders(t testing.TB, d *DB, seed uint64, n int) map[string]item.Item {
	r := rand.New(rand.NewPCG(seed, 0))
	model := make(map[string]item.Item)
	for range n {
		it := randomOrder(r)
		put(t, d, "Orders", it)
		model[string(orders("").Key.Of(it))] = it
	}
	return model
}

// Pages of any length return every item once, in order, forwards and backwards,
// from the table and from every index.
func TestPages(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	model := fillOrders(t, d, 1, 60)
	table, err := d.Table("Orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, index := range []string{"", "local", "all", "two"} {
		x, _ := table.Index(index)
		want := indexEntries(table, x, model)
		for _, limit := range []int{0, 1, 2, 3, 7, len(want), len(want) + 1} {
			for _, reverse := range []bool{false, true} {
				t.Run(fmt.Sprintf("index %q by %d, reverse %v", index, limit, reverse), func(t *testing.T) {
					got, n := readPages(t, d, Range{Table: "Orders", Index: index, Limit: limit, Reverse: reverse})
					if reverse {
						slices.Reverse(got)
					}
					if !slices.EqualFunc(got, want, item.Item.Equal) {
						t.Errorf("%d items are returned, want %d", len(got), len(want))
					}
					// A full page has a last key, even if no item follows.
					if limit > 0 && n != len(want)/limit+1 {
						t.Errorf("%d items are on %d pages, want %d", len(got), n, len(want)/limit+1)
					}
				})
			}
		}
	}
}

// A query reads the items of one partition within its bound, in order.
func TestQuery(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for _, id := range []string{"a", "b", "c"} {
		for at := -5; at <= 5; at++ {
			put(t, d, "Orders", key(id, at).With("a", item.String("x")).With("b", num(-at)))
		}
	}
	b := []item.Value{item.String("b")}
	bound := func(op keyspace.Op, values ...int) keyspace.Bound {
		b := keyspace.Bound{Op: op}
		for _, v := range values {
			b.Values = append(b.Values, num(v))
		}
		return b
	}
	for _, c := range []struct {
		name string
		r    Range
		want []int // of the attribute at
	}{
		{"all of a partition", Range{Partition: b}, []int{-5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5}},
		{"one", Range{Partition: b, Bound: bound(keyspace.Equal, 3)}, []int{3}},
		{"none", Range{Partition: b, Bound: bound(keyspace.Equal, 9)}, nil},
		{"less", Range{Partition: b, Bound: bound(keyspace.Less, -3)}, []int{-5, -4}},
		{"less or equal", Range{Partition: b, Bound: bound(keyspace.LessOrEqual, -3)}, []int{-5, -4, -3}},
		{"greater", Range{Partition: b, Bound: bound(keyspace.Greater, 3)}, []int{4, 5}},
		{"greater or equal", Range{Partition: b, Bound: bound(keyspace.GreaterOrEqual, 3)}, []int{3, 4, 5}},
		{"between", Range{Partition: b, Bound: bound(keyspace.Between, -1, 1)}, []int{-1, 0, 1}},
		{"between with swapped bounds", Range{Partition: b, Bound: bound(keyspace.Between, 1, -1)}, nil},
		{"between with swapped bounds, backwards", Range{Partition: b, Bound: bound(keyspace.Between, 1, -1), Reverse: true}, nil},
		{"backwards", Range{Partition: b, Bound: bound(keyspace.Less, -3), Reverse: true}, []int{-4, -5}},
		{"a partition that does not exist", Range{Partition: []item.Value{item.String("z")}}, nil},
		{"after an item", Range{Partition: b, Bound: bound(keyspace.Greater, 1), After: key("b", 3)}, []int{4, 5}},
		{"after an item, backwards", Range{Partition: b, Bound: bound(keyspace.Greater, 1), After: key("b", 3), Reverse: true}, []int{2}},
		{"after an item before the bound", Range{Partition: b, Bound: bound(keyspace.Greater, 3), After: key("b", 0)}, []int{4, 5}},
		{"after an item after the bound", Range{Partition: b, Bound: bound(keyspace.Less, 3), After: key("b", 4)}, nil},
		{"after the last item, backwards", Range{Partition: b, Bound: bound(keyspace.Less, -3), After: key("b", 4), Reverse: true}, []int{-4, -5}},
		{"a global index by a bound", Range{Index: "all", Partition: []item.Value{item.String("x")}, Bound: bound(keyspace.Equal, 5)}, []int{-5, -5, -5}},
		{"a global index of two attributes", Range{Index: "two", Partition: []item.Value{item.String("x"), num(2)}}, []int{2, 2, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Table = "Orders"
			page, err := d.Range(t.Context(), c.r)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, it := range page.Items {
				v, _ := it.Get("at")
				got = append(got, v.Number().String())
			}
			var want []string
			for _, at := range c.want {
				want = append(want, fmt.Sprint(at))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the items are %v, want %v", got, want)
			}
			if page.Last != nil || page.Scanned != len(want) || page.Count != len(want) {
				t.Errorf("the page has count %d, scanned %d and last key %v, want %d, %d and none", page.Count, page.Scanned, page.Last, len(want), len(want))
			}
		})
	}
	_, err := d.Range(t.Context(), Range{Table: "Orders", Index: "none"})
	expect(t, "an index that does not exist", err, "ValidationException: The table does not have the specified index: none")
}

// The segments of a scan together return every item once.
func TestScanSegments(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for i := range 100 {
		put(t, d, "Orders", key(fmt.Sprint(i), i).With("a", item.String(fmt.Sprint(i))))
	}
	for _, index := range []string{"", "local", "two"} {
		want, _ := readPages(t, d, Range{Table: "Orders", Index: index})
		if len(want) != 100 {
			t.Fatalf("index %q has %d items, want 100", index, len(want))
		}
		for _, segments := range []int{1, 2, 3, 10, 1000} {
			var got []item.Item
			for s := range segments {
				part, _ := readPages(t, d, Range{Table: "Orders", Index: index, Segment: s, Segments: segments, Limit: 3})
				got = append(got, part...)
			}
			if !slices.EqualFunc(got, want, item.Item.Equal) {
				t.Errorf("%d segments of index %q return %d items, want the %d of a scan in its order", segments, index, len(got), len(want))
			}
		}
	}
	// The last key of a page of one segment is not a position in another segment.
	for s := range 4 {
		all, _ := readPages(t, d, Range{Table: "Orders", Segment: s, Segments: 4})
		for _, reverse := range []bool{false, true} {
			for _, it := range slices.Concat(all[:1], all[len(all)-1:]) {
				page, err := d.Range(t.Context(), Range{Table: "Orders", Segment: (s + 2) % 4, Segments: 4, After: orders("").Key.Of(it), Reverse: reverse})
				other, _ := readPages(t, d, Range{Table: "Orders", Segment: (s + 2) % 4, Segments: 4})
				ahead := (s < (s+2)%4) != reverse
				if err != nil || ahead && page.Scanned != len(other) || !ahead && page.Scanned != 0 {
					t.Errorf("segment %d returns %d items after one of segment %d, %v", (s+2)%4, page.Scanned, s, err)
				}
			}
		}
	}
}

// A page may start after an item that has been deleted.
func TestPagesDuringDeletions(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		d := inMemory(t)
		create(t, d, orders("Orders"))
		model := fillOrders(t, d, 2, 60)
		r := Range{Table: "Orders", Index: "local", Limit: 1, Reverse: reverse}
		want, _ := readPages(t, d, Range{Table: "Orders", Index: "local", Reverse: reverse})
		var got []item.Item
		for {
			page, err := d.Range(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page.Items...)
			if page.Last == nil {
				break
			}
			remove(t, d, "Orders", orders("").Key.Of(page.Last))
			delete(model, string(orders("").Key.Of(page.Last)))
			r.After = page.Last
		}
		if !slices.EqualFunc(got, want, item.Item.Equal) {
			t.Errorf("%d items are returned, want %d", len(got), len(want))
		}
		checkTable(t, d, model)
	}
}

// A page ends with the item that makes it reach a megabyte.
func TestPagesEndAtAMegabyte(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	const n, size = 30, 128 << 10
	for i := range n {
		it := key("a", i).With("x", item.Binary(nil))
		put(t, d, "Orders", it.With("x", item.Binary(make([]byte, size-it.Size()))))
	}
	for _, reverse := range []bool{false, true} {
		r := Range{Table: "Orders", Reverse: reverse, Consistent: true}
		var got []item.Item
		for i := 0; ; i++ {
			page, err := d.Range(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, page.Items...)
			if page.Last == nil {
				break
			}
			if page.Scanned != 8 || page.Consumed.Table != 256 {
				t.Errorf("page %d has %d items and costs %v, want 8 and 256", i, page.Scanned, page.Consumed.Table)
			}
			r.After = page.Last
		}
		if reverse {
			slices.Reverse(got)
		}
		for i, it := range got {
			if at, _ := it.Get("at"); !item.Equal(at, num(i)) {
				t.Fatalf("item %d has the sort key %v", i, at)
			}
		}
		if len(got) != n {
			t.Errorf("%d items are returned, want %d", len(got), n)
		}
	}
	// Items that are not kept count as well.
	page, err := d.Range(t.Context(), Range{Table: "Orders", Keep: none})
	if err != nil || page.Scanned != 8 || page.Count != 0 || page.Last == nil {
		t.Errorf("the page has scanned %d, count %d and last key %v, %v", page.Scanned, page.Count, page.Last, err)
	}
}

func none(item.Item) (kept, last bool) { return false, false }

func TestKeepAndCount(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for at := range 10 {
		put(t, d, "Orders", key("a", at))
	}
	even := func(it item.Item) (kept, last bool) {
		at, _ := it.Get("at")
		return (at.Number().String()[0]-'0')%2 == 0, false
	}
	third := func(it item.Item) (kept, last bool) {
		at, _ := it.Get("at")
		return false, at.Number().String() == "2"
	}
	for _, c := range []struct {
		name                  string
		r                     Range
		items, count, scanned int
		last                  bool
	}{
		{"all are kept", Range{}, 10, 10, 10, false},
		{"some are kept", Range{Keep: even}, 5, 5, 10, false},
		{"some are counted", Range{Keep: even, CountOnly: true}, 0, 5, 10, false},
		{"all are counted", Range{CountOnly: true}, 0, 10, 10, false},
		{"the limit counts scanned items", Range{Keep: even, Limit: 3}, 2, 2, 3, true},
		{"a limit that is reached exactly gives a last key", Range{Limit: 10}, 10, 10, 10, true},
		{"a limit that is not reached gives none", Range{Limit: 11}, 10, 10, 10, false},
		{"none are kept", Range{Keep: none, Limit: 4}, 0, 0, 4, true},
		{"the page ends with an item that is not kept", Range{Keep: third}, 0, 0, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.r.Table = "Orders"
			page, err := d.Range(t.Context(), c.r)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) != c.items || page.Count != c.count || page.Scanned != c.scanned || (page.Last != nil) != c.last {
				t.Errorf("the page has %d items, count %d, scanned %d and last key %v", len(page.Items), page.Count, page.Scanned, page.Last)
			}
			if page.Last != nil && !page.Last.Equal(key("a", c.scanned-1)) {
				t.Errorf("the last key is %v", item.Map(page.Last))
			}
			if page.Consumed.Table != 0.5 {
				t.Errorf("the page costs %v, want 0.5", page.Consumed.Table)
			}
		})
	}
}

// With Whole, an entry that lacks attributes is completed from its item, which costs
// a read.
func TestWholeItems(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	var want []item.Item
	for at := range 3 {
		it := key("a", at).With("a", item.String(fmt.Sprint(at))).With("x", item.Binary(make([]byte, 5000)))
		put(t, d, "Orders", it)
		want = append(want, it)
	}
	for _, c := range []struct {
		consistent, whole bool
		table, index      float64
	}{
		{false, false, 0, 0.5}, {true, false, 0, 1}, {false, true, 3, 0.5}, {true, true, 6, 1},
	} {
		page, err := d.Range(t.Context(), Range{Table: "Orders", Index: "local", Partition: []item.Value{item.String("a")}, Consistent: c.consistent, Whole: c.whole})
		if err != nil {
			t.Fatal(err)
		}
		for i, it := range page.Items {
			if it.Equal(want[i]) != c.whole {
				t.Errorf("item %d is whole: %v, want %v", i, it.Equal(want[i]), c.whole)
			}
		}
		if got := page.Consumed; len(page.Items) != 3 || got.Table != c.table || len(got.Indexes) != 1 || got.Indexes[0].Units != c.index || got.Indexes[0].Global {
			t.Errorf("%d items cost %+v, want %v and %v", len(page.Items), got, c.table, c.index)
		}
	}
	// Keep sees the whole item.
	has := func(it item.Item) (kept, last bool) { _, ok := it.Get("x"); return ok, false }
	page, err := d.Range(t.Context(), Range{Table: "Orders", Index: "local", Whole: true, Keep: has})
	if err != nil || page.Count != 3 {
		t.Errorf("%d whole items are kept, %v, want 3", page.Count, err)
	}
}

// The last key of an index page has the key attributes of the index and of the
// table.
func TestLastKeyOfAnIndexPage(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	it := key("a", 1).With("a", item.String("x")).With("b", num(2)).With("c", item.Null())
	put(t, d, "Orders", it)
	for index, want := range map[string]item.Item{
		"":      key("a", 1),
		"local": key("a", 1).With("a", item.String("x")),
		"all":   key("a", 1).With("a", item.String("x")).With("b", num(2)),
		"two":   key("a", 1).With("a", item.String("x")),
	} {
		page, err := d.Range(t.Context(), Range{Table: "Orders", Index: index, Limit: 1, CountOnly: true})
		if err != nil || !page.Last.Equal(want) {
			t.Errorf("the last key of index %q is %v, %v, want %v", index, item.Map(page.Last), err, item.Map(want))
		}
	}
}

// Reading the next page does not modify the items of a page.
func TestPagesAreIndependent(t *testing.T) {
	d := inMemory(t)
	def := orders("Orders")
	def.Indexes = []schema.Index{}
	create(t, d, def)
	for at := range 20 {
		put(t, d, "Orders", key("a", at))
	}
	got, _ := readPages(t, d, Range{Table: "Orders", Limit: 3})
	for i, it := range got {
		if !it.Equal(key("a", i)) {
			t.Errorf("item %d is %v, want %v", i, item.Map(it), item.Map(key("a", i)))
		}
	}
}

// plainEngine reads ranges from a snapshot, as an engine may.
type plainEngine struct{ store.Engine }

func (e plainEngine) ReadRange(ctx context.Context, r store.Range, fn func(store.Pair) (more bool)) error {
	s, err := e.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	for pair, err := range s.Scan(ctx, r) {
		if err != nil || !fn(pair) {
			return err
		}
	}
	return nil
}

// A page is the same whether the engine reads it with an iterator or from a snapshot.
func TestPagesOfAnyEngine(t *testing.T) {
	engine := newEngine(t, pebble.InMemory())
	d := newDB(t, engine, Options{})
	create(t, d, orders("Orders"))
	fillOrders(t, d, 3, 40)
	plain := newDB(t, plainEngine{engine}, Options{})
	for _, r := range []Range{
		{Table: "Orders"},
		{Table: "Orders", Limit: 3, Reverse: true},
		{Table: "Orders", Index: "all", Limit: 4},
		{Table: "Orders", CountOnly: true, Limit: 7},
	} {
		want, n := readPages(t, d, r)
		got, m := readPages(t, plain, r)
		if n != m || !slices.EqualFunc(got, want, item.Item.Equal) {
			t.Errorf("%+v: %d items on %d pages, want %d on %d", r, len(got), m, len(want), n)
		}
	}
}
