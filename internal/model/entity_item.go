package model

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

// Values returns the values of an item's attributes by the names of the entity:
// those that the item stores, and those that only its keys contain. The item may
// be a key without other attributes. It returns an error if the item's key is
// not one of the entity, or can be read in several ways.
func (e *Entity) Values(it item.Item) (map[string]item.Value, error) {
	values := make(map[string]item.Value)
	for _, f := range e.fields {
		if v, ok := it.Get(f.Name); ok && f.template == nil {
			values[f.Name] = v
		}
	}
	for _, a := range e.table.schema.Key.All() {
		f := e.byName[a.Name]
		v, ok := it.Get(a.Name)
		if !ok {
			return nil, fmt.Errorf("the item has no %s", a.Name)
		}
		if f.template == nil {
			if !f.accepts(v) {
				return nil, fmt.Errorf("%s is not a value of %s", a.Name, e.Name)
			}
			continue
		}
		if err := e.bind(f, v, values); err != nil {
			return nil, err
		}
	}
	for _, f := range e.fields {
		if v, ok := it.Get(f.Name); ok && f.template != nil && !e.table.schema.Key.Has(f.Name) {
			_ = e.bind(f, v, values) // a key of an index may be out of date
		}
	}
	return values, nil
}

// bind adds the values that a template's text contains to those that are known.
func (e *Entity) bind(f *Field, v item.Value, values map[string]item.Value) error {
	if v.Type() != f.Type {
		return fmt.Errorf("%s is of type %s", f.Name, v.Type())
	}
	if name, single := f.template.single(); single && f.Type != item.S {
		if known, ok := values[name]; ok && !item.Equal(known, v) {
			return fmt.Errorf("%s differs from %s", f.Name, name)
		}
		values[name] = v
		return nil
	}
	switch found, ways := e.match(f.template, string(v.Bytes()), values); ways {
	case 0:
		return fmt.Errorf("%s does not match %q", f.Name, f.template.text)
	case 1:
		maps.Copy(values, found)
		return nil
	}
	return &AmbiguousKeyError{f.Name, f.template.text}
}

// AmbiguousKeyError is returned for a key that can be read in several ways.
type AmbiguousKeyError struct{ Key, Template string }

func (e *AmbiguousKeyError) Error() string {
	return fmt.Sprintf("%s can be read as %q in several ways", e.Key, e.Template)
}

// MayHaveKey reports whether a key, without other attributes, may be one of the
// entity, in one or in several ways.
func (e *Entity) MayHaveKey(key item.Item) bool {
	_, err := e.Values(key)
	var ambiguous *AmbiguousKeyError
	return err == nil || errors.As(err, &ambiguous)
}

// parse returns the value of an attribute that a template shows as text.
func (f *Field) parse(text string) (item.Value, bool) {
	v := item.String(text)
	if f.Type == item.N {
		n, err := item.ParseNumber(text)
		if err != nil || n.String() != text {
			return nil, false
		}
		v = item.Num(n)
	}
	return v, f.accepts(v)
}

// accepts reports whether an attribute of a key may have a value.
func (f *Field) accepts(v item.Value) bool {
	if v.Type() != f.Type {
		return false
	}
	return f.Attribute == nil || len(f.Attribute.Values) == 0 || slices.Contains(f.Attribute.Values, plain(v))
}

// MissingAttributeError is returned when an attribute of a template has no value.
type MissingAttributeError struct{ Key, Attribute string }

func (e *MissingAttributeError) Error() string {
	return fmt.Sprintf("%s cannot be built: the item has no %s", e.Key, e.Attribute)
}

// Value returns the value of an attribute of an item that has the given values,
// as Values returns them. It is nil if the item does not have the attribute.
func (f *Field) Value(values map[string]item.Value) (item.Value, error) {
	for _, w := range f.requires {
		if v, ok := values[w.Name]; !ok || !w.Holds(v) {
			return nil, nil
		}
	}
	if f.template == nil {
		return f.own(values), nil
	}
	if name, single := f.template.single(); single {
		v, err := f.entity.byName[name].Value(values)
		if v == nil && err == nil {
			err = &MissingAttributeError{f.Name, name}
		}
		return v, err
	}
	var b strings.Builder
	for _, p := range f.template.parts {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		v, err := f.entity.byName[p.name].Value(values)
		if err != nil {
			return nil, err
		}
		if v == nil || v.Type() != item.S && v.Type() != item.N {
			return nil, &MissingAttributeError{f.Name, p.name}
		}
		b.WriteString(plain(v))
	}
	return item.String(b.String()), nil
}

// Holds reports whether a condition on the value of an attribute holds.
func (s *Setting) Holds(v item.Value) bool {
	switch v.Type() {
	case item.S, item.N, item.BOOL:
		return slices.Contains(s.Value.Texts(), plain(v))
	}
	return false
}

// When returns the conditions under which an item has the field: its own, and those
// of the attributes that it is built from.
func (f *Field) When() []*Setting { return f.requires }

// BuiltLike reports whether a field of another model is built in the same way, under
// the same conditions.
func (f *Field) BuiltLike(g *Field) bool {
	if f.template == nil || g.template == nil || f.Type != g.Type || f.FullTemplate() != g.FullTemplate() || len(f.requires) != len(g.requires) {
		return false
	}
	for _, w := range f.requires {
		if !slices.ContainsFunc(g.requires, w.equal) {
			return false
		}
	}
	for _, name := range f.entity.leaves(f.Name) {
		if a, b := f.entity.byName[name], g.entity.byName[name]; a.isShard() != b.isShard() || a.isShard() && !a.SameShard(b) {
			return false
		}
	}
	return true
}

// equal reports whether two conditions are the same.
func (s *Setting) equal(t *Setting) bool {
	a, b := slices.Clone(s.Value.Texts()), slices.Clone(t.Value.Texts())
	slices.Sort(a)
	slices.Sort(b)
	return s.Name == t.Name && slices.Equal(a, b)
}

func (f *Field) isShard() bool { return f.Attribute != nil && f.Attribute.Shards > 0 }

// SameShard reports whether two fields are shard numbers that are computed in the
// same way.
func (f *Field) SameShard(g *Field) bool {
	return f.isShard() && g.isShard() && f.Attribute.Shards == g.Attribute.Shards && f.Attribute.Of == g.Attribute.Of
}

// own returns the value of an attribute without template. A shard number that is
// not known is computed, by the hash of the attributes that the entity's key
// consists of if the model names no other.
func (f *Field) own(values map[string]item.Value) item.Value {
	v, ok := values[f.Name]
	if ok || f.Attribute == nil || f.Attribute.Shards == 0 {
		return v
	}
	of := []string{f.Attribute.Of}
	if f.Attribute.Of == "" {
		of = slices.DeleteFunc(f.entity.keyLeaves(), func(name string) bool { return name == f.Name })
		slices.Sort(of)
	}
	h := fnv.New64a()
	for i, name := range of {
		part, ok := values[name]
		if !ok || part.Type() != item.S && part.Type() != item.N {
			return nil
		}
		if i > 0 {
			_, _ = h.Write([]byte{0})
		}
		_, _ = h.Write([]byte(plain(part)))
	}
	return shardValue(f, int(h.Sum64()%uint64(cmp.Or(f.Attribute.Shards, 1))))
}

// KeyLeaves returns the attributes that the table's key of the entity is built
// from.
func (e *Entity) KeyLeaves() []string { return e.keyLeaves() }
