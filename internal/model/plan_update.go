package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// maxStates is the most combinations of values that an update is planned for.
const maxStates = 1 << 12

// update determines what an update changes: the attributes that the action names,
// and those that depend on them by a template or a when. The changes must be right for
// every state of the item that the condition accepts; where no single request is, it
// reports a fault.
func (c *planner) update() {
	s := c.step
	s.edits = s.namedEdits()
	byAction := s.edits
	for _, f := range s.Entity.fields {
		switch {
		case touched(byAction, f):
			c.checkNamed(f)
		case f.Stored && !s.Table.schema.Key.Has(f.Name):
			if e, changes := c.derivedEdit(f); changes {
				s.edits = append(s.edits, e)
			}
		}
	}
	c.orderStates()
	// An attribute that is not stored decides which keys the item has, but is not written.
	s.edits = slices.DeleteFunc(s.edits, func(e edit) bool { return !e.field.Stored })
}

// checkNamed reports a field that the update sets or removes by its name although the model
// says that the items do not have it afterwards, or have it.
func (c *planner) checkNamed(f *Field) {
	if !f.Stored || f.template == nil && len(f.requires) == 0 {
		return
	}
	deciding := changedBy(c.step.edits, names(f.requires))
	if slices.ContainsFunc(deciding, edit.accumulates) {
		c.accumulated(f, nil)
		return
	}
	p, known := c.presence(f)
	removes, requirement := slices.Contains(c.step.Action.Remove, f.Name), strings.Join(names(f.requires), ", ")
	switch {
	case !known:
	case removes && f.template != nil && p.mayBeAfter:
		c.fault("stale", "remove", "declare with when which items have it, and change that attribute",
			"it removes %s, which the item still has by its template", f.Name)
	case removes && p.mustBeAfter:
		c.fault("stale", "remove", "change "+requirement+" as well",
			"it removes %s, which the item still has by its when", f.Name)
	case !removes && !p.mayBeAfter:
		e := c.step.edits[slices.IndexFunc(c.step.edits, func(e edit) bool { return e.field == f })]
		does := map[string]string{"SET": "sets", "append": "appends to", "ADD": "adds to"}[e.verb]
		c.fault("stale", e.member(), "change "+requirement+" as well, or leave "+f.Name+" out",
			"it %s %s, which the item does not have afterwards by its when", does, f.Name)
	case p.mayBeAfter && !p.mustBeAfter && len(deciding) > 0:
		c.undecided(f)
	}
}

// namedEdits returns the changes that the action names.
func (s *Step) namedEdits() (edits []edit) {
	a := s.Action
	add := func(verb string, list []*Setting) {
		for _, w := range list {
			edits = append(edits, edit{verb: verb, field: s.Entity.byName[w.Name], value: w.Value})
		}
	}
	add("SET", a.Set)
	add("append", a.Append)
	add("ADD", a.Add)
	for _, name := range a.Remove {
		edits = append(edits, edit{verb: "REMOVE", field: s.Entity.byName[name]})
	}
	return edits
}

func touched(edits []edit, f *Field) bool {
	return slices.ContainsFunc(edits, func(e edit) bool { return e.field == f })
}

// derivedEdit returns the change of a field that has a template or a when, if the
// update changes it.
func (c *planner) derivedEdit(f *Field) (e edit, changes bool) {
	s := c.step
	if s.Action.Creates {
		return c.createdEdit(f)
	}
	var parts []edit
	if f.template != nil {
		parts = changedBy(s.edits, s.Entity.dependencies(f.Name))
	}
	switch deciding := changedBy(s.edits, names(f.requires)); {
	case len(parts)+len(deciding) == 0:
		return e, false
	case slices.ContainsFunc(slices.Concat(parts, deciding), edit.accumulates):
		return c.accumulated(f, parts)
	}
	p, known := c.presence(f)
	switch {
	case !known:
		return e, false
	case slices.ContainsFunc(parts, func(e edit) bool { return e.verb == "REMOVE" }), !p.mayBeAfter:
		return edit{verb: "REMOVE", field: f, derived: true}, p.mayBeBefore
	case f.template == nil && p.mustBeAfter && !p.mustBeBefore:
		c.notSet(f)
		return e, false
	case p.mustBeAfter && (len(parts) > 0 || !p.mustBeBefore):
		c.ambiguousFrom(f)
		return edit{verb: "SET", field: f, derived: true}, true
	case p.mustBeAfter || len(parts) == 0 && !p.changes:
		return e, false
	}
	c.undecided(f)
	return e, false
}

// notSet reports a field that the item has after the update, which does not set it.
func (c *planner) notSet(f *Field) {
	c.fault("stale", "set", "set it too, or let its when name an attribute that tells which of these items have it",
		"the item has %s afterwards by its when, and the update does not set it", f.Name)
}

// createdEdit returns the change of a field that an item which the update creates has by its
// template. It reports one that the item has by its when. Nothing is stored yet, so that
// everything that the item has must be set.
func (c *planner) createdEdit(f *Field) (e edit, changes bool) {
	s := c.step
	uses := names(f.requires)
	switch {
	case f.template != nil:
		uses = append(uses, s.Entity.dependencies(f.Name)...)
	case len(uses) == 0:
		return e, false
	}
	if !c.provides(uses) {
		return e, false
	}
	p, known := c.presence(f)
	undecided := known && p.mayBeAfter && !p.mustBeAfter
	switch {
	case f.template != nil:
		if undecided {
			c.undecided(f)
		}
		return edit{verb: "SET", field: f, derived: true}, known && p.mustBeAfter
	case len(changedBy(s.edits, uses)) == 0: // the key alone decides, so that a later update may set it
	case undecided:
		c.undecided(f)
	case known && p.mustBeAfter:
		c.notSet(f)
	}
	return e, false
}

// provides reports whether an item that the update creates has all of some attributes: it
// has what its key contains and what the update sets.
func (c *planner) provides(attributes []string) bool {
	s := c.step
	provided := slices.Concat(s.Action.Given, s.Action.Each)
	for _, k := range s.Table.schema.Key.All() {
		provided = append(provided, s.Entity.dependencies(k.Name)...)
	}
	for _, e := range s.edits {
		provided = append(provided, e.field.Name)
	}
	return !slices.ContainsFunc(attributes, func(name string) bool {
		leaf := s.Entity.byName[name]
		shard := leaf.Attribute != nil && leaf.Attribute.Shards > 0
		return !shard && !slices.Contains(provided, name)
	})
}

// changedBy returns the changes of the named attributes.
func changedBy(edits []edit, names []string) (found []edit) {
	for _, e := range edits {
		if !e.derived && slices.Contains(names, e.field.Name) {
			found = append(found, e)
		}
	}
	return found
}

// accumulates reports whether the new value of an attribute is known only to the
// server.
func (e edit) accumulates() bool { return e.verb == "ADD" || e.verb == "append" }

// member is the field of the action that names the change: set, append, remove or add.
func (e edit) member() string { return strings.ToLower(e.verb) }

// accumulated returns the change of a field when a part of it is added to. A field
// that is a copy of a number can be added to as well; an expression cannot build text
// from a sum.
func (c *planner) accumulated(f *Field, parts []edit) (e edit, changes bool) {
	if f.template != nil {
		if _, single := f.template.single(); single && f.Type == item.N && len(parts) == 1 && parts[0].verb == "ADD" && len(f.requires) == 0 {
			return edit{verb: "ADD", field: f, value: parts[0].value}, true
		}
	}
	for _, e := range changedBy(c.step.edits, slices.Concat(c.step.Entity.dependencies(f.Name), names(f.requires))) {
		if e.accumulates() && e.field != f {
			c.fault("stale", e.member(), "set "+e.field.Name+" to its new value, with a condition on the value before",
				"%s depends on %s, but no expression can compute it from the sum", f.Name, e.field.Name)
			break
		}
	}
	return e, false
}

// fieldPresence says whether an item has a field before and after an update, over all
// states that the condition accepts.
type fieldPresence struct {
	mayBeBefore, mustBeBefore bool
	mayBeAfter, mustBeAfter   bool
	changes                   bool // in at least one state
}

// presence determines when an item has a field. It is not known if there are too many
// states.
func (c *planner) presence(f *Field) (p fieldPresence, known bool) {
	if c.step.Action.Creates {
		return c.createdPresence(f), true
	}
	p = fieldPresence{mustBeBefore: true, mustBeAfter: true}
	deciding := names(f.requires)
	before, ok := c.acceptedStates(deciding)
	if !ok {
		c.tooManyStates(f, deciding)
		return p, false
	}
	kept := slices.DeleteFunc(slices.Clone(deciding), func(name string) bool { return len(changedBy(c.step.edits, []string{name})) > 0 })
	after := make(map[string][2]bool) // whether it may and must be present afterwards, by the unchanged part of the state
	for _, state := range before {
		was := c.sampleIn(state).present(f)
		p.mayBeBefore, p.mustBeBefore = p.mayBeBefore || was, p.mustBeBefore && was
		is, known := after[state.text(kept)]
		if !known {
			is = c.presentAfter(f, state, deciding)
			after[state.text(kept)] = is
		}
		p.mayBeAfter, p.mustBeAfter = p.mayBeAfter || is[0], p.mustBeAfter && is[1]
		p.changes = p.changes || was != is[0] || was != is[1]
	}
	return p, true
}

// createdPresence determines whether an item that the update creates has a field. It has no
// state before, so that its attributes are independent of each other.
func (c *planner) createdPresence(f *Field) fieldPresence {
	p := fieldPresence{mayBeAfter: true, mustBeAfter: true}
	for _, name := range names(f.requires) {
		by := c.createdPresenceBy(f, name)
		p.mayBeAfter, p.mustBeAfter = p.mayBeAfter && by.mayBeAfter, p.mustBeAfter && by.mustBeAfter
	}
	return p
}

// createdPresenceBy is createdPresence as far as one of the attributes decides that the field
// depends on.
func (c *planner) createdPresenceBy(f *Field, name string) (p fieldPresence) {
	p.mustBeAfter = true
	for _, v := range c.createdValues(name) {
		needed := !slices.ContainsFunc(f.requires, func(w *Setting) bool { return w.Name == name && !slices.Contains(w.Value.Texts(), plain(v)) })
		p.mayBeAfter, p.mustBeAfter = p.mayBeAfter || needed, p.mustBeAfter && needed
	}
	p.mustBeAfter = p.mustBeAfter && p.mayBeAfter
	return p
}

// createdValues returns the values that an attribute of an item that the update creates can
// have, of those that are listed. There are none if the update removes it. One of the key has
// the value that from says, with which the request is sent.
func (c *planner) createdValues(name string) []item.Value {
	f := c.step.Entity.byName[name]
	if edits := changedBy(c.step.edits, []string{name}); len(edits) > 0 {
		return c.newValues(edits[0])
	}
	if from, given := named(c.step.Action.From, name); given && !from.Value.templated() && slices.Contains(c.step.Entity.keyLeaves(), name) {
		return []item.Value{c.sampleIn(nil).literal(from.Value, f.Type)}
	}
	return f.listedValues()
}

// newValues returns the values that a change of an attribute with listed values can give it.
func (c *planner) newValues(e edit) []item.Value {
	switch {
	case e.verb == "REMOVE":
		return nil
	case e.value.templated():
		return e.field.listedValues()
	}
	return []item.Value{c.sampleIn(nil).literal(e.value, e.field.Type)}
}

// presentAfter returns whether an item that was in a state may have a field, and whether
// it must.
func (c *planner) presentAfter(f *Field, before itemState, deciding []string) (is [2]bool) {
	is[1] = true
	for _, after := range c.statesAfter(before, deciding) {
		has := after != nil && c.sampleIn(after).present(f)
		is[0], is[1] = is[0] || has, is[1] && has
	}
	return is
}

// tooManyStates reports that an update cannot be planned for all states.
func (c *planner) tooManyStates(f *Field, names []string) {
	c.fault("stale", "condition", "", "whether the item has %s depends on more than %d combinations of %s", f.Name, maxStates, strings.Join(names, ", "))
}

// itemState gives attributes with listed values one of these each.
type itemState map[string]item.Value

// text is the state of the named attributes, to compare it.
func (s itemState) text(names []string) (text string) {
	for _, name := range names {
		text += plain(s[name]) + "\x00"
	}
	return text
}

// acceptedStates returns the states of an item, by the values of the named attributes,
// in which the condition can hold. ok is false if there are too many.
func (c *planner) acceptedStates(names []string) (states []itemState, ok bool) {
	id := strings.Join(names, "\x00")
	if states, ok := c.accepted[id]; ok {
		return states, true
	}
	defer func() {
		if ok {
			if c.accepted == nil {
				c.accepted = make(map[string][]itemState)
			}
			c.accepted[id] = states
		}
	}()
	all := []itemState{{}}
	for _, name := range names {
		f := c.step.Entity.byName[name]
		if len(all)*len(f.Attribute.Values) > maxStates {
			return nil, false
		}
		var next []itemState
		for _, state := range all {
			for _, v := range f.listedValues() {
				with := maps.Clone(state)
				with[name] = v
				next = append(next, with)
			}
		}
		all = next
	}
	for _, state := range all {
		if c.m.accepts(c.step, c.sampleIn(state), state) {
			states = append(states, state)
		}
	}
	if len(states) == 0 {
		// The condition is reported where the pattern is simulated.
		states = []itemState{c.sampleIn(nil).state(names)}
	}
	return states, true
}

// listedValues returns the values that a field declares.
func (f *Field) listedValues() (values []item.Value) {
	for _, text := range f.Attribute.Values {
		v, err := listedLiteral(f, text).value(f.Type)
		if err != nil {
			panic(fmt.Sprintf("convert a listed value that was checked: %v", err))
		}
		values = append(values, v)
	}
	return values
}

// state returns the values of attributes of a sample.
func (s *sample) state(names []string) itemState {
	state := make(itemState)
	for _, name := range names {
		state[name] = s.value(s.entity.byName[name])
	}
	return state
}

// sampleIn returns an item before the update in a state.
func (c *planner) sampleIn(state itemState) *sample {
	d := &scenarioBuilder{m: c.m, stride: 1 << 16}
	x := d.sample(c.step, c.step.Entity, 0, c.m.valuesBefore(c.step.Action))
	maps.Copy(x.fixed, state)
	return x
}

// statesAfter returns the states that the update can leave an item in. A nil state is
// one that lacks an attribute.
func (c *planner) statesAfter(before itemState, names []string) []itemState {
	states := []itemState{before}
	for _, e := range changedBy(c.step.edits, names) {
		if e.verb == "REMOVE" {
			return []itemState{nil}
		}
		var next []itemState
		for _, state := range states {
			for _, v := range c.newValues(e) {
				with := maps.Clone(state)
				with[e.field.Name] = v
				next = append(next, with)
			}
		}
		states = next
	}
	return states
}

// accepts reports whether the condition of a step can hold for an item of which only
// the state is known.
func (m *Model) accepts(s *Step, x *sample, state itemState) bool {
	if s.Action.Condition == "" {
		return true
	}
	// A placeholder has the item's own value, unless the pattern gives it.
	caller := *x
	caller.fixed = maps.Clone(x.fixed)
	for _, w := range s.Action.From {
		if !w.Value.templated() {
			caller.fixed[w.Name] = x.literal(w.Value, s.Entity.byName[w.Name].Type)
		}
	}
	cond, err := bindCondition(s.Action, &requestRenderer{sample: &caller, old: &caller, fresh: &caller})
	if err != nil {
		return false
	}
	return cond.MayHold(x.item(), func(op expr.Op, p item.Path) bool {
		f, ok := s.Entity.byName[p[0].Name]
		if _, decided := state[p[0].Name]; decided || !ok {
			return decided
		}
		exists := op == expr.Exists || op == expr.NotExists
		conditional := len(f.requires) > 0 && !slices.ContainsFunc(f.requires, func(w *Setting) bool { return state[w.Name] == nil })
		if conditional && !x.present(f) {
			return true // a test of a missing attribute has one result
		}
		return exists && (conditional || s.Table.schema.Key.Has(f.Name))
	})
}

// undecided reports a field that some items have after the update and others do not.
// It reports only the first of several fields that depend on the same attributes.
func (c *planner) undecided(f *Field) {
	what := strings.Join(names(f.requires), ", ")
	if slices.Contains(c.undecidedBy, what) {
		return
	}
	c.undecidedBy = append(c.undecidedBy, what)
	for _, e := range changedBy(c.step.edits, names(f.requires)) {
		if e.value.templated() && !(c.step.Action.Creates && c.createdPresenceBy(f, e.field.Name).mustBeAfter) {
			c.fault("stale", "set", "declare one pattern for each value of "+e.field.Name,
				"whether the item has %s depends on the new value of %s, so that no single request is right", f.Name, e.field.Name)
			return
		}
	}
	if c.step.Action.Creates {
		c.undecidedNew(f)
		return
	}
	c.fault("stale", "condition", "add a condition on "+what+", with one pattern for the items that have "+f.Name+" and one for the others",
		"whether the item has %s depends on %s, which the condition does not determine, so that no single request is right", f.Name, what)
}

// undecidedNew reports a field that only some of the items have which an update creates. A
// condition cannot tell which, since there is no item yet.
func (c *planner) undecidedNew(f *Field) {
	key := c.step.Entity.keyLeaves()
	for _, name := range names(f.requires) {
		switch {
		case c.createdPresenceBy(f, name).mustBeAfter, len(c.createdValues(name)) < 2: // it decides nothing
		case slices.Contains(key, name):
			c.fault("stale", "from", "declare one pattern for each value of "+name+", and say with from which it has",
				"whether the new item has %s depends on %s in its key, so that no single request is right", f.Name, name)
			return
		default:
			c.fault("stale", "set", "set "+name+" too", "whether the new item has %s depends on %s, which the update does not set", f.Name, name)
			return
		}
	}
}

// ambiguousFrom reports a field that must be built from an attribute which has more
// values before the write than from says.
func (c *planner) ambiguousFrom(f *Field) {
	s := c.step
	for _, name := range s.Entity.dependencies(f.Name) {
		from, given := named(s.Action.From, name)
		leaf := s.Entity.byName[name]
		if !given || len(changedBy(s.edits, []string{name})) > 0 || leaf.Attribute == nil || len(leaf.Attribute.Values) == 0 || from.Value.templated() {
			continue
		}
		states, ok := c.acceptedStates([]string{name})
		if !ok {
			c.tooManyStates(f, []string{name})
			return
		}
		for _, state := range states {
			if other := plain(state[name]); other != from.Value.text {
				c.fault("stale", "condition", "add a condition on "+name,
					"%s is built from %s, which from says is %s, but the condition accepts %s as well", f.Name, name, from.Value.text, other)
				return
			}
		}
	}
}

// orderStates determines the states of an item before the update that its requests
// differ in, the most likely one first: what from says, then what a machine implies,
// then a state that the update changes, then the most common one.
func (c *planner) orderStates() {
	s := c.step
	var deciding []string
	for _, e := range s.edits {
		if !e.derived {
			continue
		}
		for _, name := range slices.Concat(names(e.field.requires), s.Entity.dependencies(e.field.Name)) {
			f := s.Entity.byName[name]
			if f.Attribute != nil && len(f.Attribute.Values) > 0 && !slices.Contains(deciding, name) && !slices.Contains(s.Entity.keyLeaves(), name) {
				deciding = append(deciding, name)
			}
		}
	}
	if s.Action.Creates || len(deciding) == 0 {
		return
	}
	states, ok := c.acceptedStates(deciding)
	if !ok {
		return
	}
	states = slices.DeleteFunc(states, func(state itemState) bool {
		// Other attributes prevent the write, with the values that a sample has.
		x := c.sampleIn(state)
		holds, err := conditionOf(s.Action, &requestRenderer{sample: x, old: x, fresh: x}, x.item())
		return err != nil || !holds
	})
	usual := c.sampleIn(nil).state(deciding)
	fixed := c.m.valuesBefore(s.Action)
	rank := func(state itemState) (r float64) {
		for _, name := range deciding {
			f, v := s.Entity.byName[name], state[name]
			if _, given := named(fixed, name); given && !item.Equal(v, usual[name]) {
				r += 100
			}
			for _, e := range changedBy(s.edits, []string{name}) {
				if e.verb == "SET" && !e.value.templated() && item.Equal(v, c.sampleIn(nil).literal(e.value, f.Type)) {
					r += 10
				}
			}
			if i := slices.Index(f.Attribute.Values, plain(v)); i >= 0 {
				r -= f.Attribute.shares(0)[i]
			}
		}
		return r
	}
	slices.SortStableFunc(states, func(a, b itemState) int { return cmp.Compare(rank(a), rank(b)) })
	s.states = states
}

// States returns how many states of the items before the write the requests of a plan
// differ in; 1 if there is only one.
func (p *Plan) States() int {
	n := 1
	for _, s := range p.Steps {
		n = max(n, len(s.states))
	}
	return n
}
