package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
)

// query chooses the key or index that serves a query best.
func (c *planner) query() {
	a, t := c.step.Action, c.step.Table
	candidates := []*Index{nil}
	if a.Index != "" {
		candidates = nil
	}
	for _, x := range t.Indexes {
		if a.Index == "" || a.Index == x.Name {
			candidates = append(candidates, x)
		}
	}
	var best *queryCandidate
	var reasons []string
	for _, x := range candidates {
		try := c.try(x)
		if !try.step.executable {
			reasons = append(reasons, try.reason)
			continue
		}
		if best == nil || slices.Compare(try.rank(), best.rank()) < 0 {
			best = try
		}
	}
	if best == nil {
		c.addUnserved(reasons)
		return
	}
	*c.step = best.step
	c.addFaults(best)
}

// addUnserved reports why nothing serves a query, and which index would.
func (c *planner) addUnserved(reasons []string) {
	a := c.step.Action
	if a.Index != "" {
		c.fault("key", "index", "give it the missing attributes, or use another index", "the key condition cannot be built: %s", reasons[0])
		return
	}
	c.fault("missing", "query", "try "+c.suggestIndex(), "no key or index serves it: %s", strings.Join(reasons, "; "))
}

// suggestIndex describes the index that would serve an action.
func (c *planner) suggestIndex() string {
	a := c.step.Action
	equal := slices.Concat(a.Given, names(a.Where))
	sort := ""
	if a.Range != nil {
		sort = a.Range.Attribute
	} else if a.Order != "" {
		sort, _ = orderOf(a)
	}
	if len(equal) == 0 && sort == "" {
		return "giving it an attribute to look for"
	}
	if len(equal) == 0 {
		return fmt.Sprintf("an index with a constant, sharded partition key and sort key %s", sort)
	}
	text := fmt.Sprintf("an index with partition key %s", strings.Join(equal, " and "))
	if sort != "" {
		text += " and sort key " + sort
	}
	for _, name := range equal {
		if f := c.step.Entity.byName[name]; f.Type != item.S && f.Type != item.N && f.Type != item.B {
			text += fmt.Sprintf("; store %s as text with listed values for that, since a key cannot be of type %s", name, f.Type)
		}
	}
	return text
}

func orderOf(a *Action) (attribute string, descending bool) {
	name, direction, _ := strings.Cut(a.Order, " ")
	return name, direction == "desc"
}

// queryCandidate is one way to serve a query.
type queryCandidate struct {
	step     Step
	reason   string   // why it cannot serve the query
	missing  []string // attributes that the index lacks
	order    string   // why items are not in the requested order; "" if they are
	pad      bool     // the only problem with the order is numbers stored as text
	random   bool     // the only problem with the order is that it is of random values
	eventual bool     // the read must be consistent, but the index cannot serve it so
	sparse   string   // why the index does not contain the requested items

	trySparse  string // what to do about it
	neighbours int    // how many entities are read that are not asked for, or the reverse
	endFilters int    // filters that only exclude the end of a range

	rangeDisorder, orderDisorder *disorder // of the keys, by the attributes of the range and of the order
}

// rank compares candidates; the best one has the lowest. A candidate whose keys may be in
// another order than the attribute is worse only than one that has no more faults, filters or
// shards, since the values may well be in order. So is one that reads an item at the end of a
// range too much.
func (x *queryCandidate) rank() []int {
	disorder, index := 0, 0
	if x.mayBeInDisorder() {
		disorder = 1
	}
	if x.step.Index != nil {
		index = 1
	}
	return []int{x.penalty(), x.neighbours, x.step.Shards, disorder, x.endFilters, index}
}

// penalty weighs the filters of a candidate and what is wrong with it.
func (x *queryCandidate) penalty() int {
	p := 8*(len(x.step.Filter)-x.endFilters) + min(4, len(x.missing))
	if x.order != "" || x.rangeDisorder != nil && x.rangeDisorder.certain {
		p += 16
	}
	if x.eventual {
		p += 32
	}
	if x.sparse != "" {
		p += 64
	}
	return p
}

// mayBeInDisorder reports whether some values that the model does not exclude have keys in
// another order.
func (x *queryCandidate) mayBeInDisorder() bool {
	return slices.ContainsFunc([]*disorder{x.rangeDisorder, x.orderDisorder}, func(d *disorder) bool { return d != nil && !d.certain })
}

// try determines how the table itself (nil) or an index would serve the query.
func (c *planner) try(x *Index) *queryCandidate {
	s := *c.step
	s.Index = x
	s.executable = true
	found := &queryCandidate{step: s}
	if !found.partition() {
		return found
	}
	found.sort()
	found.filter(c.conditions())
	found.checkRange()
	found.checkOrder()
	if x != nil {
		found.checkProjection()
		found.eventual = s.Action.Consistent && x.schema.Global
		found.checkSparse()
	}
	unasked, unread := c.neighboursOf(&found.step)
	found.neighbours = len(unasked) + len(unread)
	return found
}

// name is the name of the index, or "the table".
func (x *queryCandidate) name() string {
	if x.step.Index == nil {
		return "the table"
	}
	return x.step.Index.Name
}

func (x *queryCandidate) key() schema.Key {
	if x.step.Index == nil {
		return x.step.Table.schema.Key
	}
	return x.step.Index.schema.Key
}

// reject rules a candidate out.
func (x *queryCandidate) reject(format string, args ...any) bool {
	x.step.executable = false
	x.reason = fmt.Sprintf(format, args...)
	return false
}

// partition builds the condition on the partition key. If only the shard is
// unknown, the query takes one request for each shard.
func (x *queryCandidate) partition() bool {
	s := &x.step
	for _, a := range x.key().Partition {
		f, ok := s.Entity.byName[a.Name]
		if !ok {
			return x.reject("%s contains no %s items", x.name(), s.Entity.Name)
		}
		for _, name := range s.unknownLeaves(f) {
			leaf := s.Entity.byName[name]
			if leaf.Attribute.Shards > 0 && (s.shard == nil || s.shard == leaf) {
				s.shard, s.Shards = leaf, leaf.Attribute.Shards
				continue
			}
			if f.Templated() {
				return x.reject("%s of %s is %q, and %s is not known", a.Name, x.name(), f.Template(), name)
			}
			return x.reject("%s starts with %s, which is not known", x.name(), a.Name)
		}
		s.Partition = append(s.Partition, KeyPart{Name: a.Name, Op: expr.Equal, Text: f.Template(), field: f, template: templateOf(f)})
	}
	return true
}

// sort builds the conditions on the sort keys, as far as their values are
// known. A query for several entities reads the whole partition.
func (x *queryCandidate) sort() {
	s := &x.step
	if len(s.Action.With) > 0 {
		return
	}
	for _, a := range x.key().Sort {
		f, ok := s.Entity.byName[a.Name]
		if !ok {
			return
		}
		part := KeyPart{Name: a.Name, Op: expr.Equal, field: f, template: templateOf(f)}
		if s.known(f) {
			part.Text = f.Template()
			s.Sort = append(s.Sort, part)
			continue
		}
		if x.begin(&part) {
			s.Sort = append(s.Sort, part)
		}
		return
	}
}

// begin builds a condition on the beginning of a sort key: up to the first
// unknown attribute, or a range on that attribute.
func (x *queryCandidate) begin(part *KeyPart) bool {
	s := &x.step
	whole := part.template
	cut := len(whole.parts)
	for i, p := range whole.parts {
		if p.name != "" && !s.known(s.Entity.byName[p.name]) {
			cut = i
			break
		}
	}
	begin := template{parts: whole.parts[:cut]}
	for _, p := range begin.parts {
		begin.text += p.show()
	}
	r := s.Action.Range
	if cut < len(whole.parts) && r != nil && r.Attribute == whole.parts[cut].name {
		begin.parts = append(slices.Clip(begin.parts), whole.parts[cut])
		part.ranged, part.rangeIs = r.Attribute, r.Is
		if part.suffix = cut+1 < len(whole.parts); part.suffix {
			part.next = whole.parts[cut+1].text
		}
		part.template = begin
		part.Op, part.Text = rangeOp(r.Is, len(begin.parts) > 1), begin.text+"{"+r.Attribute+"}"
		if r.Is == "before" && part.Op == expr.Between && !part.suffix {
			return x.excludeEnd(r.Attribute)
		}
		return true
	}
	if len(begin.parts) == 0 || part.field.Type == item.N {
		return false
	}
	part.template = begin
	part.Op, part.Text = expr.BeginsWith, begin.text
	return true
}

// excludeEnd adds a filter that excludes the end of a range: BETWEEN includes it, and no
// text is the last one before it.
func (x *queryCandidate) excludeEnd(attribute string) bool {
	if !x.step.Entity.byName[attribute].Stored {
		return x.reject("a key condition of %s for what is before %s includes it, and %s is not stored, so that no filter can exclude it", x.name(), attribute, attribute)
	}
	x.step.Filter = append(x.step.Filter, attribute)
	x.endFilters = 1
	return true
}

func (p templatePart) show() string {
	if p.name != "" {
		return "{" + p.name + "}"
	}
	return p.text
}

// rangeOp is the operator of a range. A range after a constant prefix is closed
// on both sides, so that it does not extend to other prefixes.
func rangeOp(is string, within bool) expr.Op {
	switch {
	case is == "begins":
		return expr.BeginsWith
	case is == "between" || within:
		return expr.Between
	}
	return map[string]expr.Op{"before": expr.Less, "after": expr.Greater, "from": expr.GreaterOrEqual, "until": expr.LessOrEqual}[is]
}

// filter adds the conditions that neither a key condition nor a sparse index covers to
// the filter.
func (x *queryCandidate) filter(conditions []string) {
	for _, name := range conditions {
		if !x.step.uses(name) && !x.implies(name) && !slices.Contains(x.step.Filter, name) {
			x.step.Filter = append(x.step.Filter, name)
		}
	}
}

// implies reports whether all items in an index have the requested value of an attribute,
// because one of its keys is present only with that value.
func (x *queryCandidate) implies(name string) bool {
	s := &x.step
	asked, ok := named(s.Action.Where, name)
	if s.Index == nil || !ok {
		return false
	}
	for _, a := range x.key().All() {
		f, ok := s.Entity.byName[a.Name]
		if !ok {
			continue
		}
		if w, ok := named(f.when, name); ok && slices.Equal(w.Value.Texts(), []string{asked.Value.text}) {
			return true
		}
	}
	return false
}

// checkRange compares the order of the key with that of the attribute of a range.
func (x *queryCandidate) checkRange() {
	s := &x.step
	for _, k := range s.Sort {
		if k.ranged != "" && k.rangeIs != "begins" {
			x.rangeDisorder = disorderOf(s.Entity.byName[k.ranged], k.field, k.next)
		}
	}
}

// checkOrder checks whether the items are returned in the requested order.
func (x *queryCandidate) checkOrder() {
	s := &x.step
	if s.Action.Order == "" {
		return
	}
	name, descending := orderOf(s.Action)
	s.Reverse = descending
	if s.known(s.Entity.byName[name]) {
		return // all items have the same value
	}
	if x.rangeDisorder != nil && s.Action.Range.Attribute == name {
		return
	}
	x.order = x.orderProblem(name) // each shard is in order; the caller merges them
}

// orderProblem is why items are not returned in the order of an attribute, ""
// if they are.
func (x *queryCandidate) orderProblem(name string) string {
	s := &x.step
	for _, a := range x.key().Sort {
		f, ok := s.Entity.byName[a.Name]
		if !ok {
			break
		}
		if f.Name == name {
			return x.orderOfValues(f)
		}
		if s.known(f) {
			continue
		}
		parts := templateOf(f).parts
		for i, p := range parts {
			if p.name == "" {
				continue
			}
			leaf := s.Entity.byName[p.name]
			if p.name != name {
				if s.known(leaf) {
					continue
				}
				return fmt.Sprintf("%s orders by %s first", a.Name, p.name)
			}
			next := ""
			if i+1 < len(parts) {
				next = parts[i+1].text
			}
			x.orderDisorder = disorderOf(leaf, f, next)
			if d := x.orderDisorder; d != nil && d.certain {
				x.pad = d.numbers
				return d.reason
			}
			return x.orderOfValues(leaf)
		}
	}
	return fmt.Sprintf("the sort key of %s does not contain it", x.name())
}

// orderOfValues is why the values of a field have no order that means anything,
// "" if they do.
func (x *queryCandidate) orderOfValues(f *Field) string {
	if f.Attribute == nil || f.Attribute.Format != "uuid" {
		return ""
	}
	x.random = true
	return fmt.Sprintf("%s has the format uuid, whose order is random", f.Name)
}

// checkProjection finds requested attributes that the index lacks.
func (x *queryCandidate) checkProjection() {
	s := &x.step
	needed := slices.Clone(s.Action.Returns)
	if len(needed) == 0 {
		for _, f := range s.Entity.fields {
			if f.Stored {
				needed = append(needed, f.Name)
			}
		}
	}
	needed = append(needed, s.Filter...)
	for _, name := range needed {
		if f := s.Entity.byName[name]; f.Stored && !s.Table.schema.Projects(s.Index.schema, name) && !slices.Contains(x.missing, name) {
			x.missing = append(x.missing, name)
		}
	}
}

// checkSparse checks whether the index contains the requested items.
func (x *queryCandidate) checkSparse() {
	s := &x.step
	for _, a := range x.key().All() {
		f, ok := s.Entity.byName[a.Name]
		if !ok {
			x.sparse = fmt.Sprintf("%s contains no %s items: they have no %s", s.Index.Name, s.Entity.Name, a.Name)
			x.trySparse = fmt.Sprintf("give them %s, or use another index", a.Name)
			return
		}
		for _, w := range f.when {
			asked, ok := named(s.Action.Where, w.Name)
			only := fmt.Sprintf("%s contains %s items only when %s is %s", s.Index.Name, s.Entity.Name, w.Name, strings.Join(w.Value.Texts(), " or "))
			switch {
			case ok && !slices.Contains(w.Value.Texts(), asked.Value.text):
				x.sparse = fmt.Sprintf("%s, not %s", only, asked.Value.text)
				x.trySparse = "make the key present for this value too, or query another value"
			case !ok && s.Action.Index == "" && !slices.Contains(s.Action.Given, w.Name):
				x.sparse = only + ", and the query asks for all"
				x.trySparse = "make the key always present, ask for these values with where, or name the index to read what it contains"
			}
		}
	}
}
