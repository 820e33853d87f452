package db

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// Get returns the items in the order of the keys, nil for a key without an item.
func TestGet(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	one, two := key("a", 1).With("x", item.Null()), key("b", 2)
	put(t, d, "Orders", one)
	put(t, d, "Orders", two)
	for _, consistent := range []bool{true, false} {
		got, err := d.Get(t.Context(), Get{Table: "Orders", Consistent: consistent}, two, key("c", 3), key("a", 1), key("a", 2), two)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []item.Item{two, nil, one, nil, two} {
			if !got[i].Equal(want) {
				t.Errorf("item %d is %v, want %v", i, item.Map(got[i]), item.Map(want))
			}
		}
	}
	if got, err := d.Get(t.Context(), Get{Table: "Orders", Consistent: true}); err != nil || len(got) != 0 {
		t.Errorf("Get without keys returns %v, %v", got, err)
	}
}

// Get returns an error if one of several keys does not fit the table.
func TestGetChecksKeys(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for name, k := range map[string]item.Item{
		"one attribute too many": key("a", 1).With("x", item.Null()),
		"one attribute too few":  key("a", 1).Without("at"),
		"another type":           key("a", 1).With("at", item.String("1")),
		"an empty item":          nil,
		"a sort key alone":       key("a", 1).Without("id"),
		"other attributes only":  item.Make(map[string]item.Value{"x": num(1), "y": num(1)}),
	} {
		_, err := d.Get(t.Context(), Get{Table: "Orders", Consistent: true}, key("a", 1), k)
		expect(t, name, err, "ValidationException: The provided key element does not match the schema")
	}
}

// Fit is called with the table that is read. It may complete the range, and its
// fault is that of the read.
func TestReadsFit(t *testing.T) {
	d := inMemory(t)
	create(t, d, orders("Orders"))
	for _, it := range []item.Item{fullItem("a", 1), fullItem("b", 2)} {
		put(t, d, "Orders", it)
	}
	fault := errors.New("does not fit")
	page, err := d.Range(t.Context(), Range{Table: "Orders", Fit: func(table *schema.Table, r *Range) error {
		v, _ := key("b", 2).Get(table.Key.Partition[0].Name)
		r.Partition = []item.Value{v}
		return nil
	}})
	if err != nil || page.Count != 1 {
		t.Errorf("a range that Fit completes finds %d items, %v", page.Count, err)
	}
	if _, err := d.Range(t.Context(), Range{Table: "Orders", Fit: func(*schema.Table, *Range) error { return fault }}); !errors.Is(err, fault) {
		t.Errorf("a range that does not fit returns %v", err)
	}
	g := Get{Table: "Orders", Fit: func(*schema.Table) error { return fault }}
	if _, err := d.Get(t.Context(), g, key("a", 1)); !errors.Is(err, fault) {
		t.Errorf("a get that does not fit returns %v", err)
	}
	if _, err := d.GetOne(t.Context(), g, key("", 1)); !errors.Is(err, fault) {
		t.Errorf("a get of a bad key that does not fit returns %v", err)
	}
}

// readingEngine counts the bytes of values that Get and snapshots return.
type readingEngine struct {
	store.Engine
	bytes atomic.Int64
}

func (e *readingEngine) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	values, err := e.Engine.Get(ctx, c, keys...)
	return e.count(values), err
}

func (e *readingEngine) Snapshot(ctx context.Context) (store.Snapshot, error) {
	s, err := e.Engine.Snapshot(ctx)
	return readingSnapshot{s, e}, err
}

func (e *readingEngine) count(values [][]byte) [][]byte {
	for _, v := range values {
		e.bytes.Add(int64(len(v)))
	}
	return values
}

type readingSnapshot struct {
	store.Snapshot
	engine *readingEngine
}

func (s readingSnapshot) Get(ctx context.Context, keys ...[]byte) ([][]byte, error) {
	values, err := s.Snapshot.Get(ctx, keys...)
	return s.engine.count(values), err
}

// Reads with a limit stop at the item that exceeds it, and load at most one item of
// the largest size more than the limit has room for.
func TestReadsStopAtTheirLimit(t *testing.T) {
	engine := &readingEngine{Engine: newEngine(t, pebble.InMemory())}
	d := newDB(t, engine, Options{})
	create(t, d, orders("Orders"))
	const n = 30
	var keys []item.Item
	var gets []GetKey
	for i := 1; i <= n; i++ { // zero is a byte smaller
		it := key("a", i).With("s", item.String(strings.Repeat("x", 400_000)))
		put(t, d, "Orders", it)
		keys, gets = append(keys, key("a", i)), append(gets, GetKey{"Orders", key("a", i)})
	}
	size := key("a", 1).With("s", item.String(strings.Repeat("x", 400_000))).Size()
	for _, c := range []struct{ limit, items int }{{-1, 0}, {0, 1}, {size - 1, 1}, {size, 2}, {10 * size, 11}, {n * size, n}, {2 * n * size, n}} {
		for name, read := range map[string]func() ([]item.Item, error){
			"Get":         func() ([]item.Item, error) { return d.GetWithin(t.Context(), Get{Table: "Orders"}, c.limit, keys...) },
			"GetSnapshot": func() ([]item.Item, error) { return d.GetSnapshot(t.Context(), c.limit, nil, gets...) },
		} {
			engine.bytes.Store(0)
			items, err := read()
			if err != nil || len(items) != c.items {
				t.Errorf("%s of up to %d bytes returns %d items, want %d (%v)", name, c.limit, len(items), c.items, err)
			}
			if most := max(0, c.limit/item.MaxSize*item.MaxSize) + 2*item.MaxSize; engine.bytes.Load() > int64(most) {
				t.Errorf("%s of up to %d bytes reads %d, want %d at most", name, c.limit, engine.bytes.Load(), most)
			}
		}
	}
}
