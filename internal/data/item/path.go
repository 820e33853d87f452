package item

import (
	"encoding/binary"
	"slices"
	"strconv"
)

// Step is one step of a document path: into a map by name, or into a list by
// index.
type Step struct {
	Name    string
	Index   int
	IsIndex bool
}

// Path leads from an item to a value inside it. Its first step is the name of
// an attribute.
type Path []Step

// String is the path as DynamoDB shows it in messages: [a, b, [3]].
func (p Path) String() string {
	out := []byte{'['}
	for i, s := range p {
		if i > 0 {
			out = append(out, ", "...)
		}
		if s.IsIndex {
			out = append(out, '[')
			out = strconv.AppendInt(out, int64(s.Index), 10)
			out = append(out, ']')
		} else {
			out = append(out, s.Name...)
		}
	}
	return string(append(out, ']'))
}

// At returns the value at the end of a path.
func (it Item) At(p Path) (Value, bool) {
	v, ok := it.Get(p[0].Name)
	for _, s := range p[1:] {
		if !ok {
			return nil, false
		}
		v, ok = v.at(s)
	}
	return v, ok
}

func (v Value) at(s Step) (Value, bool) {
	switch {
	case s.IsIndex && v.Type() == L:
		return v.Index(s.Index)
	case !s.IsIndex && v.Type() == M:
		return v.Item().Get(s.Name)
	}
	return nil, false
}

// Set returns the item with a value put at the end of a path. An index past
// the end of a list appends. It is not ok when a container on the path is
// missing or of another type.
func (it Item) Set(p Path, v Value) (Item, bool) {
	if len(p) == 1 {
		return it.With(p[0].Name, v), true
	}
	inner, ok := it.Get(p[0].Name)
	if !ok {
		return it, false
	}
	inner, ok = inner.set(p[1:], v)
	if !ok {
		return it, false
	}
	return it.With(p[0].Name, inner), true
}

func (v Value) set(p Path, put Value) (Value, bool) {
	s := p[0]
	if len(p) > 1 {
		inner, ok := v.at(s)
		if !ok {
			return nil, false
		}
		if put, ok = inner.set(p[1:], put); !ok {
			return nil, false
		}
	}
	switch {
	case s.IsIndex && v.Type() == L:
		return v.splice(s.Index, put), true
	case !s.IsIndex && v.Type() == M:
		return Map(v.Item().With(s.Name, put)), true
	}
	return nil, false
}

// Remove returns the item without the value at the end of a path, or
// unchanged if there is no such value. It is not ok when a container on the
// path is missing or of another type.
func (it Item) Remove(p Path) (Item, bool) {
	if len(p) == 1 {
		return it.Without(p[0].Name), true
	}
	inner, ok := it.Get(p[0].Name)
	if !ok {
		return it, false
	}
	inner, ok = inner.remove(p[1:])
	if !ok {
		return it, false
	}
	return it.With(p[0].Name, inner), true
}

func (v Value) remove(p Path) (Value, bool) {
	s := p[0]
	if len(p) > 1 {
		inner, ok := v.at(s)
		if !ok {
			return nil, false
		}
		if inner, ok = inner.remove(p[1:]); !ok {
			return nil, false
		}
		return v.set(p[:1], inner)
	}
	switch {
	case s.IsIndex && v.Type() == L:
		return v.splice(s.Index, nil), true
	case !s.IsIndex && v.Type() == M:
		return Map(v.Item().Without(s.Name)), true
	}
	return nil, false
}

// splice returns a list with its i-th element replaced by put, or with put
// appended if it has fewer; when put is nil, the element is removed.
func (v Value) splice(i int, put Value) Value {
	row := v.body()
	count, begin := length(row, 0)
	row = row[begin:]
	rest := row
	for ; i > 0 && len(rest) > 0; i-- {
		_, rest = cut(rest)
	}
	before := row[:len(row)-len(rest)]
	if len(rest) > 0 {
		_, rest = cut(rest)
		count--
	}
	if put != nil {
		count++
	}
	return listOf(count, before, put, rest)
}

// Join returns the concatenation of two lists.
func Join(a, b Value) Value {
	x, y := a.body(), b.body()
	countX, beginX := length(x, 0)
	countY, beginY := length(y, 0)
	return listOf(countX+countY, x[beginX:], y[beginY:])
}

// listOf makes a list of the count elements in rows.
func listOf(count int, rows ...[]byte) Value {
	size := uvarintLen(count)
	for _, r := range rows {
		size += len(r)
	}
	out := binary.AppendUvarint(append(make([]byte, 0, 1+binary.MaxVarintLen64+size), byte(L)), uint64(size))
	out = binary.AppendUvarint(out, uint64(count))
	for _, r := range rows {
		out = append(out, r...)
	}
	return out
}

// Project returns the item with only the values at the paths. Elements of a
// list move together and keep their order; paths through one element are
// merged.
func (it Item) Project(paths []Path) Item {
	const few = 16
	if len(paths) > few {
		return it.project(paths).Item()
	}
	var b Builder
	for i, p := range paths {
		name := p[0].Name
		if slices.ContainsFunc(paths[:i], func(q Path) bool { return q[0].Name == name }) {
			continue // handled with the first path of this name
		}
		v, ok := it.Get(name)
		if !ok {
			continue
		}
		if v, ok = v.project(tails(paths[i:], p[0])); ok {
			b.Add([]byte(name), v)
		}
	}
	return b.Item()
}

// project is Project for many paths: it visits each attribute once. A page
// can have thousands of items with none of the paths.
func (it Item) project(paths []Path) *Builder {
	b := new(Builder)
	rests := restsOf(paths, it.Len())
	for name, v := range it.All() {
		if rest := rests(Step{Name: name}); rest != nil {
			if v, ok := v.project(rest); ok {
				b.Add([]byte(name), v)
			}
		}
	}
	return b
}

// restsOf returns a function that finds the rests of the paths that begin
// with a step, for a container of this many members.
func restsOf(paths []Path, members int) func(Step) []Path {
	const few = 32 // up to which a linear search is faster
	if members <= few {
		return func(s Step) []Path { return tails(paths, s) }
	}
	rests := make(map[Step][]Path, len(paths))
	for _, p := range paths {
		rests[p[0]] = append(rests[p[0]], p[1:])
	}
	return func(s Step) []Path { return rests[s] }
}

// tails returns the rests of the paths that begin with step s.
func tails(paths []Path, s Step) []Path {
	var rest []Path
	for _, p := range paths {
		if p[0] == s {
			rest = append(rest, p[1:])
		}
	}
	return rest
}

func (v Value) project(paths []Path) (Value, bool) {
	for _, p := range paths {
		if len(p) == 0 {
			return v, true
		}
	}
	switch v.Type() {
	case M:
		b := v.Item().project(paths)
		return Map(b.Item()), len(b.entries) > 0
	case L:
		var kept []Value
		i, rests := 0, restsOf(paths, v.Len())
		for e := range v.Elements() {
			if rest := rests(Step{Index: i, IsIndex: true}); rest != nil {
				if e, ok := e.project(rest); ok {
					kept = append(kept, e)
				}
			}
			i++
		}
		return List(kept...), len(kept) > 0
	}
	return nil, false
}
