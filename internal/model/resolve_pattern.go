package model

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

func (r *resolver) patterns() {
	if len(r.m.Patterns) > maxPatterns {
		r.fault(r.m.At("patterns"), "a model can have at most %d patterns", maxPatterns)
		return
	}
	seen := make(map[string]bool)
	for _, p := range r.m.Patterns {
		if seen[p.Name] {
			r.fault(p.At("name"), "two patterns are named %q", p.Name)
		}
		seen[p.Name] = true
		r.pattern(p)
	}
}

// pattern checks one pattern and resolves its actions.
func (r *resolver) pattern(p *Pattern) {
	found := r.verb(&p.Action)
	single := found > 0
	if p.Transact != nil {
		found++
	}
	if p.Batch != nil {
		found++
	}
	if found != 1 {
		r.fault(p.Position, "the pattern %q must have exactly one of get, query, scan, put, update, delete, transact and batch", p.Name)
		return
	}
	if p.Peak.Given() && p.Peak.PerSecond < p.Rate.PerSecond {
		r.fault(p.At("peak"), "the peak %s is below the rate %s", p.Peak, p.Rate)
	}
	if single {
		if p.verb == Check {
			r.fault(p.At("check"), "check can be used only in a transaction")
		}
		if p.Optional {
			r.fault(p.At("optional"), "optional can be used only in a transaction")
		}
		r.action(&p.Action)
		return
	}
	for _, a := range p.Actions() {
		if n := r.verb(a); n != 1 {
			r.fault(a.Position, "exactly one of get, put, update, delete and check must be given, not %d", n)
			continue
		}
		r.action(a)
	}
	r.checkActions(p)
	r.checkCombined(p)
}

// checkCombined checks the fields of a transaction or batch itself: of those of an action it has
// only skew, which applies to all of its actions that have the attribute.
func (r *resolver) checkCombined(p *Pattern) {
	for _, member := range actionMembers {
		if at, given := p.Location.members[member]; given {
			r.fault(at, "%s belongs to one of the actions of the %s", member, kindOfPattern(p))
		}
	}
	for _, s := range p.Skew {
		r.checkSkew(s)
		has := func(a *Action) bool { return a.entity == nil || a.entity.byName[s.Name] != nil }
		if !slices.ContainsFunc(p.Actions(), has) {
			r.fault(s.Position, "no action of the %s has an attribute %s", kindOfPattern(p), s.Name)
		}
	}
}

// actionMembers are the fields of an action that a transaction or batch does not have itself.
var actionMembers = []string{"given", "each", "where", "range", "order", "index", "consistent", "matches", "reads", "page", "returns",
	"with", "set", "add", "append", "remove", "from", "condition", "names", "values", "replaces", "creates", "absent", "times", "most", "optional"}

func (r *resolver) checkSkew(s *Setting) {
	if share, err := parseFloat(s.Value.text); err != nil || share <= 0 || share > 1 {
		r.fault(s.Value.Position, "a share must be more than 0 and at most 1, not %s", s.Value.show())
	}
}

// verb determines the verb and the entity of an action. It returns how many
// verbs the action has.
func (r *resolver) verb(a *Action) (found int) {
	for _, v := range []struct {
		verb Verb
		name string
	}{{Get, a.Get}, {Query, a.Query}, {Scan, a.Scan}, {Put, a.Put}, {Update, a.Update}, {Delete, a.Delete}, {Check, a.Check}} {
		if v.name == "" {
			continue
		}
		found++
		a.verb = v.verb
		e, ok := r.m.Entity(v.name)
		if !ok {
			r.fault(a.At(string(v.verb)), "unknown entity %s%s", v.name, suggest(v.name, names(r.m.Entities)))
		}
		a.entity = e
	}
	return found
}

// checkActions checks that the actions of a transaction or batch can be
// combined.
func (r *resolver) checkActions(p *Pattern) {
	reads := 0
	for _, a := range p.Actions() {
		if a.verb == Get {
			reads++
		}
		allowed := []Verb{Get, Put, Delete}
		if p.Transact != nil {
			allowed = []Verb{Get, Put, Update, Delete, Check}
		}
		if a.verb != "" && !slices.Contains(allowed, a.verb) {
			r.fault(a.Position, "a %s cannot be part of a %s", a.verb, kindOfPattern(p))
		}
		if p.Batch != nil && a.Condition != "" {
			r.fault(a.At("condition"), "a batch cannot have conditions: use a transaction, or single writes")
		}
		if p.Batch != nil && a.Optional {
			r.fault(a.At("optional"), "a batch may contain a part of its actions anyway: optional can be used only in a transaction")
		}
	}
	if reads > 0 && reads < len(p.Actions()) {
		r.fault(p.Position, "a %s either reads or writes, not both", kindOfPattern(p))
	}
	if !slices.ContainsFunc(p.Actions(), func(a *Action) bool { return !a.Optional }) {
		r.fault(p.Position, "a %s needs at least one action that is not optional", kindOfPattern(p))
	}
}

func kindOfPattern(p *Pattern) string {
	if p.Transact != nil {
		return "transaction"
	}
	return "batch"
}

// action checks that the names in an action are attributes of its entity, and
// that its values fit them.
func (r *resolver) action(a *Action) {
	e := a.entity
	if e == nil {
		return
	}
	r.attributes(e, a.At("given"), a.Given...)
	r.attributes(e, a.At("each"), a.Each...)
	r.attributes(e, a.At("returns"), a.Returns...)
	r.attributes(e, a.At("remove"), a.Remove...)
	if name, direction, _ := strings.Cut(a.Order, " "); a.Order != "" {
		r.attributes(e, a.At("order"), name)
		if direction != "" && direction != "desc" && direction != "asc" {
			r.fault(a.At("order"), "order must be an attribute, optionally followed by asc or desc, not %q", a.Order)
		}
	}
	r.checkRange(e, a.Range)
	r.checkKeyUnchanged(a)
	for _, list := range [][]*Setting{a.Where, a.From, a.Set} {
		for _, s := range list {
			r.setting(e, s)
		}
	}
	for _, s := range a.Add {
		r.addition(e, s)
	}
	for _, s := range a.Append {
		if f, ok := e.Field(s.Name); ok && f.Type != item.L {
			r.fault(s.Position, "%s is of type %s, but only lists can be appended to", s.Name, f.Type)
		}
		r.setting(e, s)
	}
	if a.Index != "" {
		if _, ok := e.table.Index(a.Index); !ok {
			r.fault(a.At("index"), "table %s has no index %s%s", e.table.Name, a.Index, suggest(a.Index, names(e.table.Indexes)))
		}
	}
	r.checkCounts(a)
	for _, s := range a.Skew {
		r.attributes(e, s.Position, s.Name)
		r.checkSkew(s)
	}
	if a.Condition != "" {
		r.expression(&a.Location, e, a.Condition, a.Names, a.Values)
	} else if len(a.Values)+len(a.Names) > 0 {
		r.fault(a.Position, "there are values or names, but no condition that uses them")
	}
	r.checkMembers(a)
}

// checkRange checks that an attribute supports a range.
func (r *resolver) checkRange(e *Entity, in *Range) {
	if in == nil {
		return
	}
	r.attributes(e, in.At("attribute"), in.Attribute)
	f, ok := e.Field(in.Attribute)
	if ok && f.Type != item.S && (f.Type != item.N || in.Is == "begins") {
		r.fault(in.At("attribute"), "%s is of type %s, which does not support this range", in.Attribute, f.Type)
	}
}

// checkKeyUnchanged checks that an update leaves the item's key unchanged.
func (r *resolver) checkKeyUnchanged(a *Action) {
	if a.verb != Update {
		return
	}
	var key []string
	for _, k := range a.entity.table.schema.Key.All() {
		key = append(key, a.entity.dependencies(k.Name)...)
	}
	for _, name := range slices.Concat(names(a.Set), names(a.Add), names(a.Append), a.Remove) {
		if slices.Contains(key, name) || a.entity.table.schema.Key.Has(name) {
			r.fault(a.Position, "an update cannot change %s, which is part of the item's key; delete the item and put a new one", name)
		}
	}
}

func (r *resolver) attributes(e *Entity, at Position, list ...string) {
	for i, name := range list {
		if slices.Contains(list[:i], name) {
			r.fault(at, "%s is named twice", name)
		}
		if _, ok := e.Field(name); !ok {
			r.fault(at, "%s has no attribute %s%s", e.Name, name, suggest(name, e.names()))
		}
	}
}

// setting checks that a value fits its attribute; each value of a list must.
func (r *resolver) setting(e *Entity, s *Setting) {
	f, ok := e.Field(s.Name)
	if !ok {
		r.attributes(e, s.Position, s.Name)
		return
	}
	if f.template != nil {
		r.fault(s.Position, "%s follows from its template; set the attributes that the template uses", s.Name)
		return
	}
	if s.Value.templated() {
		r.template(s.Value.Position, e, s.Value.text, f.Type)
		return
	}
	if _, err := s.Value.value(f.Type); err != nil {
		r.fault(s.Value.Position, "%s: %v", s.Name, err)
		return
	}
	if a := f.Attribute; a != nil && len(a.Values) > 0 && !slices.Contains(a.Values, s.Value.text) {
		r.fault(s.Value.Position, "%s of %s cannot be %q%s", s.Name, e.Name, s.Value.text, suggest(s.Value.text, a.Values))
	}
}

// addition checks that a value can be added to an attribute.
func (r *resolver) addition(e *Entity, s *Setting) {
	f, ok := e.Field(s.Name)
	if !ok {
		r.attributes(e, s.Position, s.Name)
		return
	}
	if f.Type != item.N && !f.Type.IsSet() {
		r.fault(s.Position, "%s is of type %s, but only numbers and sets can be added to", s.Name, f.Type)
		return
	}
	if s.Value.templated() {
		r.template(s.Value.Position, e, s.Value.text, f.Type)
		return
	}
	if _, err := s.Value.value(f.Type); err != nil {
		r.fault(s.Value.Position, "%s: %v", s.Name, err)
	}
}

// template checks that a text names existing attributes and makes a value of
// type t; 0 is any type.
func (r *resolver) template(at Position, e *Entity, text string, t item.Type) {
	parsed, err := parseTemplate(text)
	if err != nil {
		r.fault(at, "%s", err)
		return
	}
	_, single := parsed.single()
	for _, name := range parsed.names() {
		f, ok := e.Field(name)
		switch {
		case !ok:
			r.fault(at, "%q names %s, which %s does not have%s", text, name, e.Name, suggest(name, e.names()))
		case single && t != 0 && f.Type != t && !(t.IsSet() && f.Type == t.Member()):
			r.fault(at, "%s is of type %s, not %s", name, f.Type, t)
		case !single && f.Type != item.S && f.Type != item.N:
			r.fault(at, "%s is of type %s, which cannot be used in a template", name, f.Type)
		}
	}
	if !single && t != 0 && t != item.S && t != item.SS {
		r.fault(at, "%q makes a string, not a value of type %s", text, t)
	}
}

// checkCounts checks that the counts of an action are consistent.
func (r *resolver) checkCounts(a *Action) {
	if a.Reads != 0 && a.Reads < max(1, a.Matches) {
		r.fault(a.At("reads"), "reads (%d) cannot be less than matches (%d)", a.Reads, max(1, a.Matches))
	}
	if max(a.Reads, a.Matches) > maxMatches && a.Page == 0 {
		r.fault(a.Position, "a run can read at most %d items: set page", maxMatches)
	}
	if max(a.Times, a.Most) > maxTimes {
		r.fault(a.Position, "%d times is more than one request can hold", max(a.Times, a.Most))
	}
	if a.Most != 0 && a.Most < max(1, a.Times) {
		r.fault(a.At("most"), "most (%d) cannot be less than times (%d)", a.Most, max(1, a.Times))
	}
	for _, s := range a.With {
		if _, ok := r.m.Entity(s.Name); !ok {
			r.fault(s.Position, "unknown entity %s%s", s.Name, suggest(s.Name, names(r.m.Entities)))
		}
		if n, err := parseCount(s.Value.text); err != nil || n > maxMatches {
			r.fault(s.Value.Position, "the number of %s items read must be a count", s.Name)
		}
	}
	if len(a.Set)+len(a.Add)+len(a.Append)+len(a.Remove) > maxUpdateSettings {
		r.fault(a.Position, "an action can write at most %d attributes", maxUpdateSettings)
	}
}

// checkMembers checks that each field of an action applies to its verb, so that
// none is ignored silently.
func (r *resolver) checkMembers(a *Action) {
	reads, writes, update := []Verb{Get, Query, Scan}, []Verb{Put, Update, Delete, Check}, []Verb{Update}
	query := []Verb{Query, Scan}
	for _, m := range []struct {
		member string
		given  bool
		verbs  []Verb
	}{
		{"range", a.Range != nil, query}, {"order", a.Order != "", query}, {"index", a.Index != "", query},
		{"matches", a.Matches != 0, query}, {"reads", a.Reads != 0, query}, {"page", a.Page != 0, query},
		{"with", a.With != nil, []Verb{Query}},
		{"consistent", a.Consistent, reads}, {"returns", a.Returns != nil, reads},
		{"where", a.Where != nil, reads},
		{"set", a.Set != nil, []Verb{Put, Update}}, {"add", a.Add != nil, update}, {"append", a.Append != nil, update},
		{"remove", a.Remove != nil, update}, {"creates", a.Creates, update}, {"replaces", a.Replaces, []Verb{Put}},
		{"absent", a.Absent, []Verb{Check, Delete}},
		{"from", a.From != nil, writes}, {"condition", a.Condition != "", writes},
	} {
		if m.given && !slices.Contains(m.verbs, a.verb) {
			r.fault(a.At(m.member), "%s cannot be used with %s", m.member, a.verb)
		}
	}
}
