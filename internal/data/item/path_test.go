package item

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// goValue is a value as a plain Go value: a map, a list, or a Value that is
// neither.
type goValue any

func grow(v Value) goValue {
	switch v.Type() {
	case M:
		return growItem(v.Item())
	case L:
		list := []goValue{}
		for e := range v.Elements() {
			list = append(list, grow(e))
		}
		return list
	}
	return v
}

func growItem(it Item) map[string]goValue {
	m := make(map[string]goValue)
	for name, v := range it.All() {
		m[name] = grow(v)
	}
	return m
}

func cutDown(of goValue) Value {
	switch x := of.(type) {
	case map[string]goValue:
		return Map(cutDownItem(x))
	case []goValue:
		var elements []Value
		for _, e := range x {
			elements = append(elements, cutDown(e))
		}
		return List(elements...)
	}
	return of.(Value)
}

func cutDownItem(m map[string]goValue) Item {
	attrs := make(map[string]Value)
	for name, v := range m {
		attrs[name] = cutDown(v)
	}
	return Make(attrs)
}

func (s Step) in(of goValue) (goValue, bool) {
	switch x := of.(type) {
	case map[string]goValue:
		inner, ok := x[s.Name]
		return inner, ok && !s.IsIndex
	case []goValue:
		if s.IsIndex && s.Index < len(x) {
			return x[s.Index], true
		}
	}
	return nil, false
}

// change follows a path and replaces the container at its end by the result
// of edit.
func change(of goValue, p Path, edit func(container goValue, s Step) (goValue, bool)) (goValue, bool) {
	if len(p) == 1 {
		return edit(of, p[0])
	}
	inner, ok := p[0].in(of)
	if !ok {
		return nil, false
	}
	if inner, ok = change(inner, p[1:], edit); !ok {
		return nil, false
	}
	return put(inner)(of, p[0])
}

func put(v goValue) func(goValue, Step) (goValue, bool) {
	return func(of goValue, s Step) (goValue, bool) {
		switch x := of.(type) {
		case map[string]goValue:
			if s.IsIndex {
				return nil, false
			}
			x = maps.Clone(x)
			x[s.Name] = v
			return x, true
		case []goValue:
			if !s.IsIndex {
				return nil, false
			}
			x = slices.Clone(x)
			if s.Index < len(x) {
				x[s.Index] = v
			} else {
				x = append(x, v)
			}
			return x, true
		}
		return nil, false
	}
}

func take(of goValue, s Step) (goValue, bool) {
	switch x := of.(type) {
	case map[string]goValue:
		if s.IsIndex {
			return nil, false
		}
		x = maps.Clone(x)
		delete(x, s.Name)
		return x, true
	case []goValue:
		if !s.IsIndex {
			return nil, false
		}
		if s.Index < len(x) {
			x = slices.Concat(x[:s.Index], x[s.Index+1:])
		}
		return x, true
	}
	return nil, false
}

// randomDocument draws nested maps and lists with names that paths find.
func randomDocument(t *rapid.T, depth int) Value {
	kind := rapid.IntRange(0, 2).Draw(t, "kind")
	if depth == 0 {
		kind = 0
	}
	switch kind {
	case 1:
		elements := make([]Value, rapid.IntRange(0, 3).Draw(t, "elements"))
		for i := range elements {
			elements[i] = randomDocument(t, depth-1)
		}
		return List(elements...)
	case 2:
		return Map(randomDocumentItem(t, depth-1))
	}
	return randomScalar(t, S)
}

func randomDocumentItem(t *rapid.T, depth int) Item {
	var b Builder
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		b.Add([]byte(name), randomDocument(t, depth))
	}
	return b.Item()
}

func randomPath(t *rapid.T) Path {
	p := Path{{Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "first")}}
	for range rapid.IntRange(0, 3).Draw(t, "steps") {
		if rapid.Bool().Draw(t, "index") {
			p = append(p, Step{Index: rapid.IntRange(0, 4).Draw(t, "element"), IsIndex: true})
		} else {
			p = append(p, Step{Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "step")})
		}
	}
	return p
}

// Paths read and edit an item like a tree of Go values.
func TestPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it, p := randomDocumentItem(t, 4), randomPath(t)
		model := growItem(it)

		want, has := goValue(model), true
		for _, s := range p {
			if has {
				want, has = s.in(want)
			}
		}
		if got, ok := it.At(p); ok != has || ok && !Equal(got, cutDown(want)) {
			t.Errorf("%v at %v is %v, %v, want %v, %v", Map(it), p, got, ok, want, has)
		}

		v := randomDocument(t, 1)
		want, has = change(model, p, put(grow(v)))
		got, ok := it.Set(p, v)
		checkEdit(t, "Set", it, p, got, ok, want, has)

		want, has = change(model, p, take)
		got, ok = it.Remove(p)
		checkEdit(t, "Remove", it, p, got, ok, want, has)
	})
}

func checkEdit(t *rapid.T, what string, it Item, p Path, got Item, ok bool, want goValue, has bool) {
	switch {
	case ok != has:
		t.Errorf("%s of %v in %v is ok: %v, want %v", what, p, Map(it), ok, has)
	case !ok && !got.Equal(it):
		t.Errorf("%s of %v is not ok, but makes %v of %v", what, p, Map(got), Map(it))
	case ok && !got.Equal(cutDownItem(want.(map[string]goValue))):
		t.Errorf("%s of %v makes %v of %v", what, p, Map(got), Map(it))
	case ok && Check(got) != nil:
		t.Errorf("%s of %v makes no item: %x", what, p, []byte(got))
	}
}

// project is Project in its most naive form: it keeps every leaf and every
// empty container that a path leads to or through.
func project(of goValue, at Path, paths []Path) (goValue, bool) {
	for _, p := range paths {
		if len(p) <= len(at) && slices.Equal(at[:len(p)], p) {
			return of, true
		}
	}
	switch x := of.(type) {
	case map[string]goValue:
		kept := make(map[string]goValue)
		for name, e := range x {
			if e, ok := project(e, append(slices.Clip(at), Step{Name: name}), paths); ok {
				kept[name] = e
			}
		}
		return kept, len(kept) > 0
	case []goValue:
		var kept []goValue
		for i, e := range x {
			if e, ok := project(e, append(slices.Clip(at), Step{Index: i, IsIndex: true}), paths); ok {
				kept = append(kept, e)
			}
		}
		return kept, len(kept) > 0
	}
	return nil, false
}

// A projection keeps the values at the paths, and nothing else.
func TestProject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := randomDocumentItem(t, 4)
		paths := make([]Path, rapid.IntRange(1, 4).Draw(t, "paths"))
		for i := range paths {
			paths[i] = randomPath(t)
		}
		want := Make(nil)
		if kept, ok := project(growItem(it), nil, paths); ok {
			want = cutDownItem(kept.(map[string]goValue))
		}
		if got := it.Project(paths); !got.Equal(want) {
			t.Errorf("%v of %v is %v, want %v", paths, Map(it), Map(got), Map(want))
		}
	})
}

func TestPathText(t *testing.T) {
	p := Path{{Name: "a"}, {Name: "b"}, {Index: 3, IsIndex: true}}
	if got := p.String(); got != "[a, b, [3]]" {
		t.Errorf("the path is shown as %s", got)
	}
}
