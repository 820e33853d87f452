package model

import (
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// rejectsExisting reports whether the condition of a put makes a difference for an item
// that exists. It is evaluated on items with other values of the attributes that it tests,
// smaller and larger ones; a condition that holds for all of them protects none. A
// comparison with a version or a time rejects some. Attributes that not every item has are
// tried without a value as well.
func (c *modelChecker) rejectsExisting(a *Action) bool {
	if a.Condition == "" {
		return false
	}
	cond, own := c.conditionOf(a)
	if cond == nil {
		return true // the condition is reported as invalid
	}
	existing := *own
	existing.whole = true
	var tested, optional []*Field
	for _, path := range cond.Paths() {
		f, ok := a.entity.byName[path[0].Name]
		switch {
		case !ok:
			return true // reported by conditionNames
		case a.entity.table.schema.Key.Has(f.Name):
		case len(f.when) > 0:
			optional = append(optional, f)
			fallthrough
		default:
			tested = append(tested, f)
		}
	}
	base := existing.item()
	if !rejectsSome(cond, base, &existing, tested) {
		return false
	}
	for _, f := range optional {
		base = base.Without(f.Name)
	}
	required := slices.DeleteFunc(tested, func(f *Field) bool { return slices.Contains(optional, f) })
	return len(optional) == 0 || rejectsSome(cond, base, &existing, required)
}

// rejectsSome reports whether a condition rejects an item with other values of some fields.
func rejectsSome(cond *expr.Condition, base item.Item, own *sample, tested []*Field) bool {
	variants := 2
	for _, f := range tested {
		if f.Attribute != nil {
			variants = max(variants, len(f.Attribute.Values))
		}
	}
	for i := range variants {
		it := base
		for _, f := range tested {
			it = it.With(f.Name, otherValue(own, f, i))
		}
		if !cond.Holds(it) {
			return true
		}
	}
	return false
}

// otherValue returns one of the listed values of a field, or alternately a value that is
// smaller and one that is larger than others.
func otherValue(own *sample, f *Field, variant int) item.Value {
	if f.Attribute != nil && len(f.Attribute.Values) > 0 {
		listed := f.listedValues()
		return listed[variant%len(listed)]
	}
	smaller := variant%2 == 0
	v := own.value(f)
	switch v.Type() {
	case item.BOOL:
		return item.Bool(smaller)
	case item.N:
		if smaller {
			return number("-9e125")
		}
		return number("9e125")
	case item.S:
		if smaller {
			return item.String("\x00")
		}
		return item.String("\U0010ffff")
	}
	return v
}

// acceptsExisting reports whether the condition of a put holds for the item that its
// placeholders describe, as one that compares a version does.
func (c *modelChecker) acceptsExisting(a *Action) bool {
	cond, own := c.conditionOf(a)
	return cond != nil && cond.Holds(own.item())
}
