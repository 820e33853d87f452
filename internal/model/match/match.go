package match

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/workload"
)

// Matcher finds the patterns of a model that requests belong to, by operation, table,
// index, form and prefixes of the key, condition, filter, projection and consistency.
type Matcher struct{ requests []*Request }

// New makes a matcher for a model.
func New(m *model.Model) *Matcher {
	x := new(Matcher)
	for _, p := range m.Patterns {
		x.requests = append(x.requests, requestsOf(m, p)...)
	}
	return x
}

// Requests returns the requests that a pattern sends: several for a batch or a
// transaction of several tables, none if the pattern cannot be served.
func (x *Matcher) Requests(p *model.Pattern) (all []*Request) {
	for _, r := range x.requests {
		if r.Pattern == p {
			all = append(all, r)
		}
	}
	return all
}

// Find returns the requests of patterns that a shape may be: none if no pattern sends
// such a request, several if the shape does not tell which of them it is.
func (x *Matcher) Find(s workload.Shape) (found []*Request) {
	most := 0
	for _, r := range x.requests {
		c := r.compare(s)
		if len(c.differs) > 0 {
			continue
		}
		if c.likeness > most {
			found, most = nil, c.likeness
		}
		if c.likeness == most {
			found = append(found, r)
		}
	}
	return found
}

// Nearest returns the pattern that is closest to a shape that Find does not find, and
// how the shape differs from it; nil if no pattern has the operation and the table.
func (x *Matcher) Nearest(s workload.Shape) (p *model.Pattern, differs []string) {
	least := 0
	for _, r := range x.requests {
		if r.shape.Operation != s.Operation || r.shape.Table != s.Table {
			continue
		}
		if c := r.compare(s); p == nil || c.distance < least {
			p, differs, least = r.Pattern, c.differs, c.distance
		}
	}
	return p, differs
}

// requestDiff is how a request differs from one of a pattern.
type requestDiff struct {
	differs  []string
	distance int // how much it differs
	likeness int // how much speaks for the pattern, if nothing differs
}

func (c *requestDiff) add(distance int, text string) {
	c.differs = append(c.differs, text)
	c.distance += distance
}

// How much a difference counts: another access path or entity is a different request
// sooner than one with another condition.
const (
	otherPath   = 3
	otherEntity = 4
	otherDetail = 1
)

// How much speaks for a pattern: prefixes that only its entity has, then a batch of all
// its actions, then the number of attributes that an update changes.
const (
	sameEntity  = 10_000
	sameActions = 1_000
)

func (r *Request) compare(s workload.Shape) (c requestDiff) {
	if s.Operation != r.shape.Operation || s.Table != r.shape.Table {
		c.add(100, "it is another operation or table")
		return c
	}
	if s.Index != r.shape.Index {
		c.add(otherPath, "it reads "+orElse(s.Index, "the table"))
	}
	if r.actions != nil {
		r.compareActions(&c, s)
	} else {
		r.compareKeys(&c, s)
	}
	c.compareText("filter", s.Filter, s.FilterText, r.shape.Filter, r.shape.FilterText)
	r.compareCondition(&c, s)
	if r.actions == nil || s.Projection != "" { // the code that is generated for a batch reads whole items
		c.compareText("projection", s.Projection != "", s.Projection, r.shape.Projection != "", r.shape.Projection)
	}
	switch {
	case s.Consistent && !r.shape.Consistent:
		c.add(otherDetail, "it is consistent")
	case !s.Consistent && r.shape.Consistent:
		c.add(otherDetail, "it is not consistent")
	}
	return c
}

// compareKeys compares the key of a request with one action.
func (r *Request) compareKeys(c *requestDiff, s workload.Shape) {
	if s.Form != r.shape.Form {
		c.add(otherPath, "its form is "+orElse(s.Form, "empty")+", not "+orElse(r.shape.Form, "empty"))
	}
	if s.Index == r.shape.Index {
		c.comparePrefixes("partition", r.partition, s.Partition)
	}
	if s.Index == r.shape.Index && (s.Form == r.shape.Form || s.Operation != "Query") {
		c.comparePrefixes("sort", r.sort, s.Sort)
	}
	r.compareChanges(c, s)
}

// compareChanges compares the attributes that an update changes. A program may change
// more than the ones that a model lists; the pattern that lists most of them is meant.
func (r *Request) compareChanges(c *requestDiff, s workload.Shape) {
	if r.shape.Changes == "" {
		return
	}
	want, changed := strings.Split(r.shape.Changes, ", "), strings.Split(s.Changes, ", ")
	missing := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return slices.Contains(changed, name) })
	c.likeness += len(want) - len(missing)
	if len(missing) > 0 && workload.Complete(s.Changes) {
		c.add(otherDetail, "it does not change "+strings.Join(missing, ", "))
	}
}

func (c *requestDiff) comparePrefixes(key string, keys []workload.KeyPrefix, text string) {
	ok, sure := samePrefixes(keys, text)
	c.likeness += sure * sameEntity
	if !ok {
		c.add(otherEntity, "its "+key+" key begins with "+orElse(text, "no prefix")+", not "+orElse(literals(keys), "no prefix"))
	}
}

// samePrefixes reports whether keys may have these prefixes, and how many of them
// identify the entity.
func samePrefixes(keys []workload.KeyPrefix, text string) (ok bool, sure int) {
	prefixes := strings.Split(text, ",")
	for i, k := range keys {
		prefix := ""
		if i < len(prefixes) {
			prefix = prefixes[i]
		}
		same, certain := k.Matches(prefix)
		if !same {
			return false, 0
		}
		if certain {
			sure++
		}
	}
	return true, sure
}

// literals returns the prefixes of keys as a difference shows them.
func literals(keys []workload.KeyPrefix) string {
	var all []string
	for _, k := range keys {
		text, ok := k.Prefix()
		if !ok {
			text = k.Literal
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

// compareText compares a filter, a condition or a projection.
func (c *requestDiff) compareText(what string, has bool, text string, wants bool, want string) {
	switch {
	case has && !wants:
		c.add(otherDetail, "it has a "+what+inText(text))
	case wants && !has:
		c.add(otherDetail, "it has no "+what+inText(want))
	case text != "" && want != "" && !workload.SameText(text, want):
		c.add(otherDetail, "its "+what+" is "+text+", not "+want)
	}
}

func inText(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// compareCondition compares the conditions. INSERT and UPDATE have a condition of their
// own, which a pattern may state or not.
func (r *Request) compareCondition(c *requestDiff, s workload.Shape) {
	wants, want := r.shape.Condition, r.shape.ConditionText
	if s.Statement && r.implied != "" && wants {
		parts := slices.DeleteFunc(strings.Split(want, " AND "), func(p string) bool { return p == r.implied })
		want = strings.Join(parts, " AND ")
		wants = want != ""
	}
	c.compareText("condition", s.Condition, s.ConditionText, wants, want)
}

// compareActions compares a batch or a transaction. A batch may contain a part of the
// actions, as one does that repeats what was not processed.
func (r *Request) compareActions(c *requestDiff, s workload.Shape) {
	sent, complete := workload.ParseActions(s.Actions)
	missing := make(map[int]bool)
	for i := range r.actions {
		missing[i] = true
	}
	for _, a := range sent {
		found := false
		for i := range r.actions {
			if ok, sure := r.actions[i].matches(a, s.Statement); ok {
				c.likeness += sure * sameEntity
				found = true
				delete(missing, i)
			}
		}
		if !found {
			c.add(otherDetail, "it contains "+a.String())
		}
	}
	if len(missing) == 0 {
		c.likeness += sameActions
	}
	if complete && strings.HasPrefix(r.shape.Operation, "Transact") {
		for i := range r.actions {
			if missing[i] && !r.actions[i].optional {
				c.add(otherDetail, "it does not contain "+r.actions[i].String())
			}
		}
	}
}

// matches reports whether an action of a request is this one, and how many of its
// prefixes identify the entity.
func (a *patternAction) matches(sent workload.Action, statement bool) (ok bool, sure int) {
	if sent.Verb != a.verb || sent.Conditional != a.conditional && !statement {
		return false, 0
	}
	partition, surePartition := samePrefixes(a.partition, sent.Partition)
	sort, sureSort := samePrefixes(a.sort, sent.Sort)
	return partition && sort, surePartition + sureSort
}

// String returns the action as a shape contains it.
func (a *patternAction) String() string {
	return workload.Action{Verb: a.verb, Partition: literals(a.partition), Sort: literals(a.sort), Conditional: a.conditional}.String()
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
