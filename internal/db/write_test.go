package db

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// get returns one item of the table Orders.
func get(t testing.TB, d *DB, k item.Item) item.Item {
	t.Helper()
	items, err := d.Get(t.Context(), Get{Table: "Orders", Consistent: true}, k)
	if err != nil {
		t.Fatal(err)
	}
	return items[0]
}

func exists(before item.Item) bool { return before != nil }

func absent(before item.Item) bool { return before == nil }

func TestWriteOutcomes(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	k := key("a", 1)
	one := k.With("x", item.String("1"))
	two := k.With("x", item.String(strings.Repeat("2", 2000)))
	for _, c := range []struct {
		name          string
		w             Write
		before, after item.Item
		units         float64
		failed        bool
	}{
		{"a condition on a missing item fails", Write{If: exists, Effect: Replace(one)}, nil, nil, 0, true},
		{"a delete of a missing item costs a unit", Write{Effect: Remove}, nil, nil, 1, false},
		{"a condition check of nothing costs a unit", Write{Effect: Keep}, nil, nil, 1, false},
		{"a put creates", Write{If: absent, Effect: Replace(one)}, nil, one, 1, false},
		{"a failed condition carries the item", Write{If: absent, Effect: Replace(two)}, one, one, 0, true},
		{"a put replaces, and costs the larger image", Write{If: exists, Effect: Replace(two)}, one, two, 2, false},
		{"an unchanged item costs as if it were written", Write{Effect: Keep}, two, two, 2, false},
		{"an effect sees the item", Write{Effect: func(before item.Item) (item.Item, error) { return before.Without("x"), nil }}, two, k, 2, false},
		{"a put of the larger image again", Write{Effect: Replace(two)}, k, two, 2, false},
		{"a delete costs what it removes", Write{If: exists, Effect: Remove}, two, nil, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.w.Table, c.w.Key = "Orders", k
			done, err := d.Write(t.Context(), c.w)
			var failed *ConditionFailed
			switch {
			case c.failed && (!errors.As(err, &failed) || !failed.Before.Equal(c.before)):
				t.Errorf("the error is %#v", err)
			case !c.failed && err != nil:
				t.Errorf("the error is %v", err)
			case !c.failed && (!done[0].Before.Equal(c.before) || !done[0].After.Equal(c.after) || done[0].Consumed.Table != c.units):
				t.Errorf("the outcome is %+v", done[0])
			}
			if got := get(t, d, k); !got.Equal(c.after) {
				t.Errorf("the item is %v, want %v", item.Map(got), item.Map(c.after))
			}
		})
	}
}

// Several writes are committed together or not at all, whichever of them fails.
func TestWritesAreAtomic(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	create(t, d, orders("Other"))
	rejected := apierror.Validation("rejected")
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		third Write
		want  error
	}{
		{"a condition", Write{Table: "Other", Key: key("c", 1), If: exists, Effect: Remove}, new(ConditionFailed)},
		{"a key that does not fit", Write{Table: "Other", Key: key("c", 1).Without("at"), Effect: Remove}, apierror.KeyMismatch()},
		{"a table that does not exist", Write{Table: "None", Key: key("c", 1), Effect: Remove}, apierror.NoTable()},
		{"an effect that returns a fault", Write{Table: "Orders", Key: key("c", 1), Effect: func(item.Item) (item.Item, error) { return nil, rejected }}, rejected},
		{"an effect that returns a failure", Write{Table: "Orders", Key: key("c", 1), Effect: func(item.Item) (item.Item, error) { return nil, broken }}, broken},
		{"an item that is too large", Write{Table: "Orders", Key: key("c", 1), Effect: Replace(key("c", 1).With("x", item.Binary(make([]byte, item.MaxSize))))}, apierror.ItemTooLarge()},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := key("a", 1).With("a", item.String("x")), key("b", 1).With("a", item.String("x"))
			writes := []Write{{Table: "Orders", Key: key("a", 1), Effect: Replace(a)}, {Table: "Other", Key: key("b", 1), Effect: Replace(b)}, c.third}
			for i := range writes {
				_, err := d.Write(t.Context(), slices.Concat(writes[i:], writes[:i])...)
				if err == nil || err.Error() != c.want.Error() {
					t.Errorf("the error is %v, want %v", err, c.want)
				}
			}
			for _, name := range []string{"Orders", "Other"} {
				desc, err := d.Describe(name)
				if err != nil {
					t.Fatal(err)
				}
				if start, end := keyspace.TableSpan(desc.ID); countStored(t, d.engine, start, end) != 0 {
					t.Errorf("table %s is not empty", name)
				}
				if n := desc.Counts[0].Items; n != 0 {
					t.Errorf("table %s counts %d items, want 0", name, n)
				}
			}
		})
	}
}

// An item may have up to 400 KB.
func TestItemSizeLimit(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	k := key("a", 1)
	sized := func(n int) item.Item {
		it := k.With("x", item.Binary(nil))
		return it.With("x", item.Binary(make([]byte, n-it.Size())))
	}
	for _, c := range []struct {
		name   string
		size   int
		update bool
		action int
		want   string
	}{
		{"a put of 400 KB", item.MaxSize, false, 0, ""},
		{"a put of one byte more", item.MaxSize + 1, false, 0, "ValidationException: Item size has exceeded the maximum allowed size"},
		{"an update to 400 KB whose actions are no larger than the key", item.MaxSize, true, k.Size(), ""},
		{"an update to 400 KB whose actions are larger", item.MaxSize, true, k.Size() + 1, "ValidationException: Item size to update has exceeded the maximum allowed size"},
		{"an update to one byte more", item.MaxSize + 1, true, 0, "ValidationException: Item size to update has exceeded the maximum allowed size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := d.Write(t.Context(), Write{Table: "Orders", Key: k, Effect: Replace(sized(c.size)), Update: c.update, ActionBytes: c.action})
			expect(t, "write", err, c.want)
		})
	}
}

// An update cannot set an index key to a value that the index does not allow.
func TestUpdatesFitIndexes(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for _, before := range []item.Item{nil, key("a", 1)} {
		if before != nil {
			put(t, d, "Orders", before)
		}
		_, err := d.Write(t.Context(), Write{Table: "Orders", Key: key("a", 1), Update: true, Effect: Replace(key("a", 1).With("a", item.String("")))})
		expect(t, "an empty key", err, "ValidationException: One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. "+
			"The AttributeValue for a key attribute cannot contain an empty string value.")
		_, err = d.Write(t.Context(), Write{Table: "Orders", Key: key("a", 1), Update: true, Effect: Replace(key("a", 1).With("a", num(1)))})
		expect(t, "a key of another type", err, "ValidationException: One or more parameter values were invalid: Type mismatch for Index Key a Expected: S Actual: N IndexName: local")
	}
}

// randomOrder returns an item that is in some of the indexes.
func randomOrder(r *rand.Rand) item.Item {
	it := key(string(rune('a'+r.IntN(3))), r.IntN(8))
	if r.IntN(3) > 0 {
		it = it.With("a", item.String(string(rune('x'+r.IntN(3)))))
	}
	if r.IntN(3) > 0 {
		it = it.With("b", num(r.IntN(5)))
	}
	if r.IntN(3) > 0 {
		it = it.With("c", item.Binary(make([]byte, r.IntN(3000))))
	}
	return it
}

// indexEntries returns the entries that an index must have for some items, in its
// order. For a nil index it returns the items in the order of the table.
func indexEntries(t *schema.Table, x *schema.Index, items map[string]item.Item) []item.Item {
	entries := make(map[string]item.Item)
	for _, it := range items {
		if x == nil {
			entries[string(keyspace.Item(nil, t, it))] = it
		} else if x.Key.In(it) {
			entries[string(keyspace.Entry(nil, t, x, it))] = t.Entry(x, it)
		}
	}
	var inOrder []item.Item
	for _, k := range slices.Sorted(maps.Keys(entries)) {
		inOrder = append(inOrder, entries[k])
	}
	return inOrder
}

// After random writes the table and its indexes have the contents of a model, and
// the counts and collection sizes match them, also after a restart.
func TestWritesMaintainIndexesAndCounts(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			o := pebble.InMemory()
			e := newEngine(t, o)
			d := newDB(t, e, Options{})
			create(t, d, orders("Orders"))
			model := make(map[string]item.Item)
			for range 300 {
				it := randomOrder(r)
				k := string(orders("").Key.Of(it))
				before := model[k]
				var done Outcome
				switch r.IntN(4) {
				case 0:
					done = remove(t, d, "Orders", orders("").Key.Of(it))
					delete(model, k)
				case 1:
					done = write(t, d, Write{Table: "Orders", Key: orders("").Key.Of(it), Update: true, Effect: Replace(it)})
					model[k] = it
				default:
					done = put(t, d, "Orders", it)
					model[k] = it
				}
				if !done.Before.Equal(before) || !done.After.Equal(model[k]) {
					t.Fatalf("the outcome is %+v", done)
				}
				if want := collectionBytes(model, it); done.CollectionBytes != want {
					t.Fatalf("the collection has %d bytes, want %d", done.CollectionBytes, want)
				}
			}
			checkTable(t, d, model)
			d, e = reopen(t, d, e, o)
			checkTable(t, d, model)
			// Nothing else is stored.
			for _, it := range model {
				remove(t, d, "Orders", orders("").Key.Of(it))
			}
			desc, err := d.Describe("Orders")
			if err != nil {
				t.Fatal(err)
			}
			start, end := keyspace.TableSpan(desc.ID)
			first, last := keyspace.CollectionSpan(desc.ID)
			if n := countStored(t, e, start, end) + countStored(t, e, first, last); n != 0 {
				t.Errorf("an empty table has %d stored keys", n)
			}
		})
	}
}

// collectionBytes returns the size of the items of one partition and of their
// entries in local indexes.
func collectionBytes(model map[string]item.Item, member item.Item) (size int64) {
	table := orders("")
	partition, _ := member.Get("id")
	for _, it := range model {
		if p, _ := it.Get("id"); !item.Equal(p, partition) {
			continue
		}
		size += int64(it.Size())
		if x := &table.Indexes[0]; x.Key.In(it) {
			size += int64(table.Entry(x, it).Size())
		}
	}
	return size
}

// checkTable compares a table, its indexes and its counts with a model.
func checkTable(t *testing.T, d *DB, model map[string]item.Item) {
	t.Helper()
	desc, err := d.Describe("Orders")
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, id uint16, x *schema.Index) {
		want := indexEntries(desc.Table, x, model)
		page, err := d.Range(t.Context(), Range{Table: "Orders", Index: name})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(page.Items, want, item.Item.Equal) {
			t.Errorf("index %q has %d entries, want the %d of the model", name, len(page.Items), len(want))
		}
		count := Count{Items: int64(len(want))}
		for _, it := range want {
			count.Bytes += int64(it.Size())
		}
		if desc.Counts[id] != count {
			t.Errorf("index %q is counted as %+v, want %+v", name, desc.Counts[id], count)
		}
	}
	check("", 0, nil)
	for i := range desc.Indexes {
		check(desc.Indexes[i].Name, desc.Indexes[i].ID, &desc.Indexes[i])
	}
}

// Counts are saved while the database runs, not only when it is closed.
func TestCountsAreSaved(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		e := newEngine(t, pebble.InMemory())
		d := newDB(t, e, Options{})
		create(t, d, orders("Orders"))
		it := key("a", 1).With("a", item.String("x"))
		put(t, d, "Orders", it)
		time.Sleep(2 * saveInterval)
		other := newDB(t, e, Options{}) // as after a crash: the first is not closed
		checkTable(t, other, map[string]item.Item{"a": it})
	})
}

func TestWriteCosts(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	it := key("a", 1).With("a", item.String("x")).With("c", item.Binary(make([]byte, 1500)))
	for _, c := range []struct {
		name  string
		after item.Item
		want  capacity.Consumed
	}{
		{"new entries cost their sizes", it, capacity.Consumed{Table: 2, Indexes: []capacity.IndexUnits{{Name: "local", Units: 1}, {Name: "two", Global: true, Units: 2}}}},
		{"the same again costs the table alone", it, capacity.Consumed{Table: 2}},
		{"an attribute that no index projects costs the table alone", it.With("d", item.Null()), capacity.Consumed{Table: 2}},
		{"a moved entry costs twice", it.With("a", item.String("y")), capacity.Consumed{Table: 2, Indexes: []capacity.IndexUnits{{Name: "local", Units: 2}, {Name: "two", Global: true, Units: 4}}}},
		{"a new entry costs once", it.With("a", item.String("y")).With("b", num(1)), capacity.Consumed{Table: 2, Indexes: []capacity.IndexUnits{{Name: "all", Global: true, Units: 2}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := put(t, d, "Orders", c.after).Consumed
			if got.Table != c.want.Table || !slices.Equal(got.Indexes, c.want.Indexes) {
				t.Errorf("it costs %+v, want %+v", got, c.want)
			}
		})
	}
}

// Concurrent writers of the same items have the effect of sequential ones.
func TestConcurrentWriters(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	const writers, rounds = 4, 50
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for range rounds {
				_, err := d.Write(t.Context(), increment(key("a", 1)), increment(key("b", 1)))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	want := num(writers * rounds)
	for _, id := range []string{"a", "b"} {
		if v, _ := get(t, d, key(id, 1)).Get("b"); !item.Equal(v, want) {
			t.Errorf("the counter of %s is %v, want %v", id, v, want)
		}
	}
	model := make(map[string]item.Item)
	for _, id := range []string{"a", "b"} {
		model[id] = get(t, d, key(id, 1))
	}
	checkTable(t, d, model)
}

// increment returns a write that adds one to the attribute b, which is part of an
// index key.
func increment(k item.Item) Write {
	one := num(1).Number()
	return Write{Table: "Orders", Key: k, Update: true, Effect: func(before item.Item) (item.Item, error) {
		if before == nil {
			before = k.With("a", item.String("x"))
		}
		b := item.Number{}
		if v, ok := before.Get("b"); ok {
			b = v.Number()
		}
		sum, err := b.Add(one)
		return before.With("b", item.Num(sum)), err
	}}
}

// A stored item that cannot be decoded is an error. It is not treated as missing.
func TestCorruptItem(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	table, err := d.Table("Orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range [][]byte{{9}, {1}, {1 + 1, 0}} {
		setRaw(t, d.engine, keyspace.Item(nil, table, key("a", 1)), value)
		if _, err := d.Write(t.Context(), Write{Table: "Orders", Key: key("a", 1), Effect: Remove}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%x: the error of Write is %v", value, err)
		}
		if _, err := d.Get(t.Context(), Get{Table: "Orders", Consistent: true}, key("a", 1)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%x: the error of Get is %v", value, err)
		}
		if _, err := d.Range(t.Context(), Range{Table: "Orders"}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%x: the error of Range is %v", value, err)
		}
	}
}

// The longest keys that the API allows are not too long for the engine.
func TestLongestKeys(t *testing.T) {
	d := inMemory(t)
	def := orders("Orders")
	def.Key.Sort[0].Type = item.B
	def.Indexes = []schema.Index{{Name: "all", ID: 1, Global: true, Projection: schema.Projection{Kind: schema.ProjectAll}, Key: schema.Key{
		Partition: []schema.Attribute{{Name: "a", Type: item.B}}, Sort: []schema.Attribute{{Name: "b", Type: item.B}}}}}
	create(t, d, def)
	it := item.Make(map[string]item.Value{
		"id": item.String(strings.Repeat("x", 2048)), "at": item.Binary(make([]byte, 1024)),
		"a": item.Binary(bytes.Repeat([]byte{0xff}, 2048)), "b": item.Binary(make([]byte, 1024)),
	})
	put(t, d, "Orders", it)
	for _, index := range []string{"", "all"} {
		page, err := d.Range(t.Context(), Range{Table: "Orders", Index: index})
		if err != nil || len(page.Items) != 1 || !page.Items[0].Equal(it) {
			t.Errorf("index %q has %d items, %v", index, len(page.Items), err)
		}
	}
	remove(t, d, "Orders", def.Key.Of(it))
}
