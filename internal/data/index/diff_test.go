package index

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
)

// events has an index of every kind.
var events = &schema.Table{
	ID:  3,
	Key: schema.Key{Partition: []schema.Attribute{{Name: "id", Type: item.S}}, Sort: []schema.Attribute{{Name: "at", Type: item.N}}},
	Indexes: []schema.Index{
		{Name: "all", ID: 1, Key: schema.Key{Partition: []schema.Attribute{{Name: "id", Type: item.S}}, Sort: []schema.Attribute{{Name: "a", Type: item.S}}},
			Projection: schema.Projection{Kind: schema.ProjectAll}},
		{Name: "keys", ID: 2, Global: true, Key: schema.Key{Partition: []schema.Attribute{{Name: "a", Type: item.S}}},
			Projection: schema.Projection{Kind: schema.ProjectKeys}},
		{Name: "some", ID: 3, Global: true, Key: schema.Key{Partition: []schema.Attribute{{Name: "a", Type: item.S}, {Name: "b", Type: item.S}}},
			Projection: schema.Projection{Kind: schema.ProjectInclude, Names: []string{"c"}}},
	},
}

func key() item.Item {
	n, _ := item.ParseNumber("1")
	return item.Make(map[string]item.Value{"id": item.String("1"), "at": item.Num(n)})
}

// randomItem draws an item, or nil.
func randomItem(t *rapid.T) item.Item {
	if rapid.IntRange(0, 4).Draw(t, "absent") == 0 {
		return nil
	}
	it := key()
	for _, name := range []string{"a", "b", "c", "d"} {
		switch rapid.IntRange(0, 4).Draw(t, name) {
		case 0, 1:
			it = it.With(name, item.String(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "short")))
		case 2:
			it = it.With(name, item.String(string(make([]byte, rapid.IntRange(0, 2000).Draw(t, "long")))))
		case 3:
			it = it.With(name, item.Null())
		}
	}
	return it
}

// entries is an index built from one item.
func entries(x *schema.Index, it item.Item) map[string]item.Item {
	if it == nil || !x.Key.In(it) {
		return nil
	}
	return map[string]item.Item{string(keyspace.Entry(nil, events, x, it)): events.Entry(x, it)}
}

// The edits turn the old entries into those that a rebuild would make.
func TestDiffIsARebuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := randomItem(t), randomItem(t)
		edits := Diff(events, before, after)
		for i := range events.Indexes {
			x := &events.Indexes[i]
			old, want := entries(x, before), entries(x, after)
			got := maps.Clone(old)
			if got == nil {
				got = make(map[string]item.Item)
			}
			cost, wantCost := 0.0, 0.0
			for _, e := range edits {
				if e.Index != x {
					continue
				}
				if cost += e.Units; e.After == nil {
					delete(got, string(e.Key))
				} else {
					got[string(e.Key)] = e.After
				}
			}
			if !maps.EqualFunc(got, want, item.Item.Equal) {
				t.Errorf("index %s becomes %v, want %v", x.Name, got, want)
			}
			if e, ok := Entry(events, x, after); ok != (len(want) == 1) || ok && !e.After.Equal(want[string(e.Key)]) {
				t.Errorf("the entry in index %s is %v, %v, want %v", x.Name, e, ok, want)
			}
			// The cost depends on the entry alone: removed, added, or changed
			// in place.
			for _, k := range slices.Sorted(maps.Keys(merge(old, want))) {
				if o, n := old[k], want[k]; !o.Equal(n) {
					wantCost += capacity.Write(max(o.Size(), n.Size()))
				}
			}
			if cost != wantCost {
				t.Errorf("index %s costs %v, want %v", x.Name, cost, wantCost)
			}
		}
	})
}

func merge(a, b map[string]item.Item) map[string]item.Item {
	all := make(map[string]item.Item)
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func TestDiffCosts(t *testing.T) {
	small := key().With("a", item.String("x"))
	large := func(name string, n int) item.Item { return small.With(name, item.String(string(make([]byte, n)))) }
	for _, c := range []struct {
		name          string
		before, after item.Item
		want          map[string]float64 // by index
	}{
		{"no item before and after is free", nil, nil, nil},
		{"an item that no index holds is free", nil, key(), nil},
		{"an unchanged item is free", small, small, nil},
		{"an attribute that only one index carries costs that one", small, small.With("d", item.Null()), map[string]float64{"all": 1}},
		{"a new entry costs its size", nil, large("d", 2000), map[string]float64{"all": 2, "keys": 1}},
		{"a removed entry costs its size", large("d", 2000), nil, map[string]float64{"all": 2, "keys": 1}},
		{"a moved entry costs twice", small, small.With("a", item.String("y")), map[string]float64{"all": 2, "keys": 2}},
		{"a moved entry costs the old size and the new", large("d", 2000), large("d", 2000).With("a", item.String("y")), map[string]float64{"all": 4, "keys": 2}},
		{"a change in place costs the larger image when it shrinks", large("d", 3000), small, map[string]float64{"all": 3}},
		{"a change in place costs the larger image when it grows", small, large("d", 3000), map[string]float64{"all": 3}},
		{"an index adds the item when its last key attribute is set", small, small.With("b", item.String("x")), map[string]float64{"all": 1, "some": 1}},
		{"an index drops the item when a key attribute is removed", small.With("b", item.String("x")), small, map[string]float64{"all": 1, "some": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var consumed capacity.Consumed
			for _, e := range Diff(events, c.before, c.after) {
				consumed.Charge(e.Index.Name, e.Index.Global, e.Units)
			}
			got := make(map[string]float64)
			for _, x := range consumed.Indexes {
				got[x.Name] = x.Units
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("it costs %v, want %v", got, c.want)
			}
		})
	}
}
