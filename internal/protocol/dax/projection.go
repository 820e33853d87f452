package dax

import (
	"cmp"
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// projectionTree is the paths of a projection as a tree. An item with a projection is answered
// as a map of ordinals, the places of the paths in the projection, and values.
//
// The items are projected already, and the elements of their lists have moved together. The
// client moves them together too: it needs not know which of its paths led to an element, if
// the ordinals are in the order of the indexes and fit what the element has.
type projectionTree struct {
	ordinal  int64 // of the path that ends here; -1 if none does
	step     item.Step
	children []*projectionTree // all names or all indexes, in order
}

// newProjection makes the tree of paths that do not overlap; nil if there are none.
func newProjection(paths []item.Path) *projectionTree {
	if len(paths) == 0 {
		return nil
	}
	root := &projectionTree{ordinal: -1}
	for i, p := range paths {
		at := root
		for _, s := range p {
			at = at.child(s)
		}
		at.ordinal = int64(i)
	}
	return root
}

// child returns the child for a step, and adds it if it is new.
func (p *projectionTree) child(s item.Step) *projectionTree {
	i, found := slices.BinarySearchFunc(p.children, s, func(c *projectionTree, s item.Step) int {
		return cmp.Or(cmp.Compare(c.step.Name, s.Name), cmp.Compare(c.step.Index, s.Index))
	})
	if !found {
		p.children = slices.Insert(p.children, i, &projectionTree{ordinal: -1, step: s})
	}
	return p.children[i]
}

// append appends a projected item.
func (p *projectionTree) append(dst []byte, it item.Item) []byte {
	return cbor.AppendBreak(p.entries(cbor.AppendOpenMap(dst), it))
}

// entries appends the values below the entries of a map.
func (p *projectionTree) entries(dst []byte, it item.Item) []byte {
	children := p.children
	for name, v := range it.Names() {
		var c *projectionTree
		if c, children = cutNamed(children, name); c != nil {
			dst = c.value(dst, v)
		}
	}
	return dst
}

// cutNamed returns the child with a name, nil if there is none, and the children after it.
func cutNamed(children []*projectionTree, name []byte) (_ *projectionTree, rest []*projectionTree) {
	for len(children) > 0 && children[0].step.Name < string(name) {
		children = children[1:]
	}
	if len(children) == 0 || children[0].step.Name != string(name) {
		return nil, children
	}
	return children[0], children[1:]
}

// value appends a value, or the values below it.
func (p *projectionTree) value(dst []byte, v item.Value) []byte {
	if p.ordinal >= 0 {
		return appendValue(cbor.AppendInt(dst, p.ordinal), v)
	}
	switch v.Type() {
	case item.M:
		return p.entries(dst, v.Item())
	case item.L:
		children := p.children
		for e := range v.Elements() {
			var c *projectionTree
			if c, children = cutFitting(children, e); c == nil {
				break
			}
			dst = c.value(dst, e)
		}
	}
	return dst
}

// cutFitting returns the child that an element of a list belongs to, the first that it fits,
// and the children after it; nil if there is none.
func cutFitting(children []*projectionTree, e item.Value) (_ *projectionTree, rest []*projectionTree) {
	for i, c := range children {
		if c.fits(e) {
			return c, children[i+1:]
		}
	}
	return nil, nil
}

// fits reports whether a path leads to each part of a value. It does not copy the value, which
// may be compared with many paths.
func (p *projectionTree) fits(v item.Value) bool {
	if p.ordinal >= 0 {
		return true
	}
	children := p.children
	switch v.Type() {
	case item.M:
		for name, e := range v.Item().Names() {
			var c *projectionTree
			if c, children = cutNamed(children, name); c == nil || !c.fits(e) {
				return false
			}
		}
		return true
	case item.L:
		for e := range v.Elements() {
			var c *projectionTree
			if c, children = cutFitting(children, e); c == nil {
				return false
			}
		}
		return true
	}
	return false
}
