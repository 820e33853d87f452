package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/language/expr"
)

// addFaults reports what is wrong with the best candidate for a query.
func (c *planner) addFaults(x *queryCandidate) {
	s := c.step
	a := s.Action
	if x.sparse != "" {
		s.executable = false
		c.fault("sparse", "where", x.trySparse, "%s", x.sparse)
	}
	if x.eventual {
		s.executable = false
		c.fault("consistent", "consistent", "read eventually consistently, or read the table by its key",
			"%s is a global index, which does not support consistent reads", s.Index.Name)
	}
	if x.order != "" {
		name, _ := orderOf(a)
		try := "try " + c.suggestIndex()
		if a.Range != nil && a.Range.Attribute != name {
			try = fmt.Sprintf("order by %s, since a range of an attribute returns items in its order, or sort them in the program", a.Range.Attribute)
		}
		if x.pad {
			try = tryPadding
		}
		if x.random {
			try = "order by a time, or use an identifier that begins with one: format: ulid"
		}
		c.fault("order", "order", try, "items are not returned in order of %s: %s", name, x.order)
	}
	c.checkDisorder(x)
	if len(x.missing) > 0 {
		s.executable = s.executable && len(a.Returns) == 0 && !slices.ContainsFunc(s.Filter, func(n string) bool { return slices.Contains(x.missing, n) })
		c.fault("projection", "returns", fmt.Sprintf("project %s, or list the needed attributes in returns", strings.Join(x.missing, ", ")),
			"%s lacks %s, so each item would be read a second time", s.Index.Name, strings.Join(x.missing, ", "))
	}
	c.checkFilter(x)
	c.checkNeighbours()
}

// checkDisorder reports a range, and notes a range or an order, of an attribute in whose
// order the keys are not.
func (c *planner) checkDisorder(x *queryCandidate) {
	a := c.step.Action
	switch d := x.rangeDisorder; {
	case d == nil:
	case d.certain:
		c.fault("order", "range", d.try, "the range of %s is wrong: %s", a.Range.Attribute, d.reason)
	default:
		c.note(d.note(), "range", d.try, "the range of %s may be wrong: %s", a.Range.Attribute, d.reason)
	}
	if d := x.orderDisorder; d != nil && !d.certain && x.order == "" {
		name, _ := orderOf(a)
		c.note(d.note(), "order", d.try, "items may not be in order of %s: %s", name, d.reason)
	}
}

// minKept is the smallest share of the items read that a filter should keep.
const minKept = 0.5

// checkFilter reports filters that are impossible or discard most items.
func (c *planner) checkFilter(x *queryCandidate) {
	s := c.step
	if len(s.Filter) == 0 {
		return
	}
	for _, name := range s.Filter {
		f := s.Entity.byName[name]
		if !f.Stored {
			s.executable = false
			c.fault("filter", "where", "store it, or put it into a key", "a filter on %s is impossible: it is not stored", name)
			return
		}
		if x.key().Has(name) {
			s.executable = false
			c.fault("filter", "where", fmt.Sprintf("try %s", c.suggestIndex()), "a filter on %s is impossible: it is in the key of %s, but not where a key condition can use it", name, x.name())
			return
		}
	}
	if len(s.selective()) == 0 {
		return
	}
	matches := max(1, s.Action.Matches)
	reads := s.Action.Reads
	if reads == 0 {
		reads = max(matches, int(c.m.inPartition(s)))
	}
	if kept := float64(matches) / float64(reads); kept < minKept {
		c.fault("filter", "where", fmt.Sprintf("try %s", c.suggestIndex()),
			"the filter on %s discards most items: it keeps %d of %d items read", strings.Join(s.selective(), ", "), matches, reads)
	}
}

// checkNeighbours reports other entities whose items the query also reads, and those that it
// asks for but does not read.
func (c *planner) checkNeighbours() {
	unasked, unread := c.neighboursOf(c.step)
	for _, e := range unasked {
		c.fault("neighbours", "query", fmt.Sprintf("begin their sort keys with different text, or add with: {%s: …}", e.Name),
			"it would also read items of %s, which are in the same partition", e.Name)
	}
	for _, e := range unread {
		c.step.executable = false
		c.fault("neighbours", "with", "remove it", "items of %s are not in the range that the query reads", e.Name)
	}
}

// neighboursOf returns the other entities whose items a query also reads although it does not
// ask for them, and those that it asks for but does not read.
func (c *planner) neighboursOf(s *Step) (unasked, unread []*Entity) {
	for _, e := range c.m.EntitiesOf(s.Table) {
		if _, asked := named(s.Action.With, e.Name); e != s.Entity && !asked && s.overlaps(e) {
			unasked = append(unasked, e)
		}
	}
	for _, w := range s.Action.With {
		if e, _ := c.m.Entity(w.Name); e.table != s.Table || !s.overlaps(e) {
			unread = append(unread, e)
		}
	}
	return unasked, unread
}

// overlaps reports whether items of another entity may be in the range that the
// query reads.
func (s *Step) overlaps(e *Entity) bool {
	key := s.Table.schema.Key
	if s.Index != nil {
		key = s.Index.schema.Key
	}
	for i, a := range key.Partition {
		f, ok := e.byName[a.Name]
		if !ok || !sameForm(s.Entity, s.Partition[i].template, e, templateOf(f)) {
			return false
		}
	}
	for i, a := range key.Sort {
		f, ok := e.byName[a.Name]
		if !ok {
			return false
		}
		if i < len(s.Sort) {
			ours, theirs := s.Sort[i].template.prefix(), templateOf(f)
			theirPrefix := theirs.prefix()
			if ours != "" && theirPrefix != "" && !strings.HasPrefix(ours, theirPrefix) && !strings.HasPrefix(theirPrefix, ours) {
				return false
			}
			if s.Sort[i].Op == expr.Equal && ours != "" && theirPrefix != "" && !sameForm(s.Entity, s.Sort[i].template, e, theirs) {
				return false
			}
		}
	}
	return true
}

// sameForm reports whether templates of two entities can make the same value: they have
// the same text, and attributes in the same places that can have the same value.
func sameForm(e *Entity, a template, other *Entity, b template) bool {
	if a.skeleton() != b.skeleton() || len(a.parts) != len(b.parts) {
		return false
	}
	_, bare := a.single()
	for i := range a.parts {
		if a.parts[i].name == "" {
			continue
		}
		x, y := e.byName[a.parts[i].name], other.byName[b.parts[i].name]
		if x == nil || y == nil {
			return false
		}
		if areApart(x, y) || bare && x.Name != y.Name && areUnlike(x, y) {
			return false
		}
	}
	return true
}

// areApart reports whether no value of one field is one of the other, by their lists of
// values.
func areApart(x, y *Field) bool {
	if x.Attribute == nil || y.Attribute == nil || len(x.Attribute.Values) == 0 || len(y.Attribute.Values) == 0 {
		return false
	}
	return !slices.ContainsFunc(x.Attribute.Values, func(v string) bool { return slices.Contains(y.Attribute.Values, v) })
}

// areUnlike reports whether fields of different names, each of which is a whole key, have
// values of different forms, or identifiers that are made for each item.
func areUnlike(x, y *Field) bool {
	a, b := x.Attribute, y.Attribute
	if a == nil || b == nil || x.template != nil || y.template != nil {
		return true
	}
	ownA, ownB := isGenerated(a) && a.Distinct == 0, isGenerated(b) && b.Distinct == 0
	return a.Format != b.Format || x.Type != y.Type || len(a.Values) > 0 != (len(b.Values) > 0) || ownA && ownB
}

// skeleton is the template without its names.
func (t template) skeleton() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.name != "" {
			b.WriteByte(0)
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}
