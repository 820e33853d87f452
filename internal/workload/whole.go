package workload

import (
	"strings"

	"github.com/stator-db/stator/internal/data/schema"
)

// A whole value of a key, as PROFILE, may name an entity, or be a customer's data in
// capitals, as a name or a booking reference. Names are few and repeat. So a report
// contains no whole values of a key attribute that has more than MaxWhole of them, and
// none that was in one request only if there are more than maxSingle such values.
const (
	MaxWhole  = 16
	maxSingle = 4
)

// isWhole reports whether a prefix is a whole value.
func isWhole(prefix string) bool {
	return prefix != "" && prefix != Unknown && !isSeparator(prefix[len(prefix)-1])
}

// wholeValue is a whole value of a key attribute.
type wholeValue struct{ table, attribute, text string }

// wholeValues decides which whole values a report contains.
type wholeValues struct {
	tables   map[string]*schema.Table
	requests map[wholeValue]int64
	hidden   map[wholeValue]bool // without text: all of an attribute
}

// hideWhole replaces whole values that may be a customer's data by Unknown, and adds the
// counts of shapes that are then the same.
func (p *countPeriod) hideWhole(all []ShapeCount) []ShapeCount {
	w := &wholeValues{requests: make(map[wholeValue]int64)}
	w.tables, w.hidden = p.terms.wholeValues()
	for i := range all {
		c := &all[i]
		w.visit(&c.Shape, func(v wholeValue) bool { w.requests[v] += c.Requests; return false })
	}
	w.hideSingle()
	if len(w.hidden) == 0 {
		return all
	}
	for i := range all {
		w.visit(&all[i].Shape, func(v wholeValue) bool { return w.hidden[v] || w.hidden[wholeValue{v.table, v.attribute, ""}] })
	}
	return sameTogether(all)
}

// add adds the counts of another shape.
func (c *ShapeCount) add(other *ShapeCount) {
	c.Requests += other.Requests
	c.Returned += other.Returned
	c.Scanned += other.Scanned
	c.Units += other.Units
	c.Measured += other.Measured
}

// hideSingle hides the values that were in one request, where there are many.
func (w *wholeValues) hideSingle() {
	single := make(map[wholeValue]int)
	of := func(v wholeValue) wholeValue { return wholeValue{v.table, v.attribute, ""} }
	for v, n := range w.requests {
		if n == 1 {
			single[of(v)]++
		}
	}
	for v, n := range w.requests {
		if n == 1 && single[of(v)] > maxSingle {
			w.hidden[v] = true
		}
	}
}

// visit calls hide for each whole value of a shape, and replaces those for which it
// returns true.
func (w *wholeValues) visit(s *Shape, hide func(wholeValue) bool) {
	t := w.tables[s.Table]
	if t == nil {
		return
	}
	key := t.Key
	if x, ok := t.Index(s.Index); ok {
		key = x.Key
	}
	replace := func(attrs []schema.Attribute, prefixes string) string {
		if prefixes == "" {
			return ""
		}
		all := strings.Split(prefixes, ",")
		for i, p := range all {
			if i < len(attrs) && isWhole(p) && hide(wholeValue{s.Table, attrs[i].Name, p}) {
				all[i] = Unknown
			}
		}
		return strings.Join(all, ",")
	}
	s.Partition, s.Sort = replace(key.Partition, s.Partition), replace(key.Sort, s.Sort)
	if s.Actions == "" {
		return
	}
	actions, complete := ParseActions(s.Actions)
	for i := range actions {
		a := &actions[i]
		a.Partition, a.Sort = replace(t.Key.Partition, a.Partition), replace(t.Key.Sort, a.Sort)
	}
	s.Actions = Actions(actions)
	if !complete {
		s.Actions += "; " + cut
	}
}
