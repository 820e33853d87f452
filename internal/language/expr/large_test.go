package expr

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

func small(i int) item.Value {
	n, err := item.ParseNumber(fmt.Sprint(i))
	if err != nil {
		panic(err)
	}
	return item.Num(n)
}

func bound(t *testing.T, text string, values map[string]item.Value) *Update {
	t.Helper()
	parsed, err := ParseUpdate(text)
	if err != nil {
		t.Fatal(err)
	}
	b := new(Bindings)
	for name, v := range values {
		b.Give(name, v)
	}
	u, err := parsed.Bind(b)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// listed is an expression with as many actions as fit.
func listed(verb, format string) string {
	var b strings.Builder
	b.WriteString(verb + " ")
	for i := 0; b.Len() < 4080; i++ {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// joinedOften appends a list to itself; only a statement can nest list_append.
func joinedOften(list item.Value, times int) Term {
	t := Term{Value: list}
	for range times {
		t = Term{Op: ListAppend, Args: []Term{t, {Value: list}}}
	}
	return t
}

// An update that would make an item far too large is rejected before the item
// is built.
func TestUpdateDoesNotGrow(t *testing.T) {
	nulls := make([]item.Value, 5000)
	for i := range nulls {
		nulls[i] = item.Null()
	}
	for name, u := range map[string]*Update{
		"a value many times":  bound(t, listed("SET", "x%d=:v"), map[string]item.Value{":v": item.String(strings.Repeat("x", 1<<20))}),
		"a list joined often": {Actions: []Action{{Verb: Set, Path: item.Path{{Name: "a"}}, Term: joinedOften(item.List(nulls...), 240)}}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := u.Apply(item.Make(map[string]item.Value{"k": small(1)}))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 50<<20 {
			t.Errorf("%s: %v, with %d MB of memory", name, err, took>>20)
		}
	}
}

// Updates of large items with many actions. Each took ten seconds and more
// when every action scanned the whole item.
func TestLargeUpdates(t *testing.T) {
	const members = 40_000
	var even, odd []item.Value
	for i := range members {
		even, odd = append(even, small(2*i)), append(odd, small(2*i+1))
	}
	set := item.Make(map[string]item.Value{"a": item.Set(item.NS, even...)})

	const elements = 190_000
	nulls := make([]item.Value, elements)
	for i := range nulls {
		nulls[i] = item.Null()
	}
	list := item.Make(map[string]item.Value{"a": item.List(nulls...)})

	const attributes, actions = 50_000, 10_000
	name := func(i int) string { return fmt.Sprintf("%05d", i) }
	all := make(map[string]item.Value)
	for i := range attributes {
		all[name(i)] = item.Null()
	}
	wide := item.Make(all)
	remove, put := &Update{Legacy: true}, &Update{Legacy: true}
	for i := range actions {
		remove.Actions = append(remove.Actions, Action{Verb: Remove, Path: item.Path{{Name: name(attributes - actions + i)}}})
		put.Actions = append(put.Actions, Action{Verb: Set, Path: item.Path{{Name: name(attributes + i)}}, Term: Term{Value: item.Null()}})
	}
	length := func(it item.Item) int { v, _ := it.Get("a"); return v.Len() }
	for _, c := range []struct {
		name   string
		update *Update
		of     item.Item
		count  func(item.Item) int
		want   int
	}{
		{"members of a set", bound(t, "DELETE a :v", map[string]item.Value{":v": item.Set(item.NS, odd...)}), set, length, members},
		{"elements removed", bound(t, listed("REMOVE", "a[%d]"), nil), list, length, elements - strings.Count(listed("REMOVE", "a[%d]"), "a")},
		{"elements set", bound(t, listed("SET", "a[%d]=:v"), map[string]item.Value{":v": item.Null()}), list, length, elements},
		{"attributes removed", remove, wide, item.Item.Len, attributes - actions},
		{"attributes put", put, wide, item.Item.Len, attributes + actions},
	} {
		after, err := c.update.Apply(c.of)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if n := c.count(after); n != c.want {
			t.Errorf("%s: %d are left, want %d", c.name, n, c.want)
		}
	}
}
