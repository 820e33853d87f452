package item

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// splice, Join, Merge and WithoutAll agree with simpler implementations.
func TestEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 3000 {
		var e, f []Value
		for range r.IntN(200) {
			e = append(e, someValue(r, 0))
		}
		for range r.IntN(200) {
			f = append(f, someValue(r, 0))
		}
		l, i, put := List(e...), r.IntN(250), String("put")
		if !Equal(Join(l, List(f...)), List(slices.Concat(e, f)...)) {
			t.Fatal("join")
		}
		set, removed := slices.Clone(e), slices.Clone(e)
		if i < len(e) {
			set[i] = put
			removed = slices.Delete(removed, i, i+1)
		} else {
			set = append(set, put)
		}
		if !Equal(l.splice(i, put), List(set...)) || !Equal(l.splice(i, nil), List(removed...)) {
			t.Fatal("splice", i, len(e))
		}
		it := someItem(r, 0)
		m := map[string]bool{}
		for range r.IntN(40) {
			m[fmt.Sprint(r.IntN(120))] = true
		}
		var names []string
		for n := range m {
			names = append(names, n)
		}
		slices.Sort(names)
		with, without := it, it
		for _, n := range names {
			with, without = with.With(n, put), without.Without(n)
		}
		if !it.Merge(len(names), func(i int) (string, Value) { return names[i], put }).Equal(with) {
			t.Fatal("merge")
		}
		if !it.WithoutAll(len(names), func(i int) string { return names[i] }).Equal(without) {
			t.Fatal("without")
		}
	}
}

// plainProject is Project in its simplest form, for comparison.
func plainProject(it Item, paths []Path) Item {
	var b Builder
	for name, v := range it.All() {
		if rest := tails(paths, Step{Name: name}); rest != nil {
			if v, ok := plainValue(v, rest); ok {
				b.Add([]byte(name), v)
			}
		}
	}
	return b.Item()
}

func plainValue(v Value, paths []Path) (Value, bool) {
	for _, p := range paths {
		if len(p) == 0 {
			return v, true
		}
	}
	switch v.Type() {
	case M:
		it := plainProject(v.Item(), paths)
		return Map(it), it.Len() > 0
	case L:
		var kept []Value
		i := 0
		for e := range v.Elements() {
			if rest := tails(paths, Step{Index: i, IsIndex: true}); rest != nil {
				if e, ok := plainValue(e, rest); ok {
					kept = append(kept, e)
				}
			}
			i++
		}
		return List(kept...), len(kept) > 0
	}
	return nil, false
}

func someValue(r *rand.Rand, depth int) Value {
	n := r.IntN(60)
	switch k := r.IntN(4); {
	case k == 0 && depth > 0:
		var e []Value
		for range n {
			e = append(e, someValue(r, depth-1))
		}
		return List(e...)
	case k == 1 && depth > 0:
		return Map(someItem(r, depth-1))
	}
	return String(fmt.Sprint(n))
}

func someItem(r *rand.Rand, depth int) Item {
	m := map[string]Value{}
	for range r.IntN(60) {
		m[fmt.Sprint(r.IntN(100))] = someValue(r, depth)
	}
	return Make(m)
}

// A projection of many paths agrees with one of few.
func TestProjectManyPaths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 300 {
		it := someItem(r, 2)
		var paths []Path
		for range r.IntN(60) {
			p := Path{{Name: fmt.Sprint(r.IntN(100))}}
			for range r.IntN(3) {
				if r.IntN(2) == 0 {
					p = append(p, Step{Name: fmt.Sprint(r.IntN(100))})
				} else {
					p = append(p, Step{Index: r.IntN(60), IsIndex: true})
				}
			}
			paths = append(paths, p)
		}
		if got, want := it.Project(paths), plainProject(it, paths); !got.Equal(want) || Check(got) != nil {
			t.Fatal("differs", paths)
		}
	}
}
