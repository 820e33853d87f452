package model

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
)

// buildWrites builds writes of single items.
func (d *scenarioBuilder) buildWrites() error {
	var steps []*Step
	var renderers []renderer
	var edits [][]edit
	var targets []Target
	var want Want
	for _, s := range d.plan.Steps {
		for range max(1, s.Action.Times) {
			w, err := d.buildWrite(s, d.next)
			if err != nil {
				return err
			}
			d.next++
			if w.before != nil {
				if err := d.store(s, s.Entity, w.before); err != nil {
					return err
				}
			}
			steps, renderers, edits = append(steps, s), append(renderers, w.renderer), append(edits, w.edits)
			cost := writeCost(s.Table.schema, w.before, w.after)
			if d.plan.Operation == "TransactWriteItems" {
				cost = cost.Transactional()
			}
			charge(&want.Write, s.Table.Name, cost)
			d.addWriteLoad(s, w, cost)
			if !d.bare {
				targets = append(targets, w.target(s))
			}
		}
	}
	d.addItems(steps, renderers, edits, targets, want)
	return nil
}

// writeCost is the cost of changing an item: that of the larger version on the
// table, and that of the index entries.
func writeCost(t *schema.Table, before, after item.Item) capacity.Consumed {
	cost := capacity.Consumed{Table: capacity.Write(max(before.Size(), after.Size()))}
	for _, e := range index.Diff(t, before, after) {
		cost.Charge(e.Index.Name, e.Index.Global, e.Units)
	}
	return cost
}

// itemWrite is the write of one item.
type itemWrite struct {
	before, after item.Item
	old, now      *sample
	renderer      renderer
	edits         []edit
}

// target returns the item that a write names.
func (w *itemWrite) target(s *Step) Target {
	t := Target{Table: s.Table.Name, Writes: s.Action.verb != Check, Item: w.after}
	if s.Action.verb == Put {
		return t
	}
	t.Item = s.Table.schema.Key.Of(w.old.item())
	for _, e := range w.edits {
		if v, ok := w.after.Get(e.field.Name); ok && e.verb == "SET" {
			t.Item = t.Item.With(e.field.Name, v)
		}
	}
	return t
}

// buildWrite determines the item before and after one write, and how to request
// it.
func (d *scenarioBuilder) buildWrite(s *Step, ordinal int) (*itemWrite, error) {
	a := s.Action
	old := d.sample(s, s.Entity, ordinal, d.m.valuesBefore(a))
	if len(s.states) > 0 {
		maps.Copy(old.fixed, s.states[d.state%len(s.states)])
	}
	old.entering = a.verb == Put && !a.Replaces || a.verb == Update && a.Creates
	w := &itemWrite{old: old, now: old}
	existed := (a.verb == Delete || a.verb == Check) && !a.Absent || a.verb == Update && !a.Creates || a.verb == Put && a.Replaces
	if existed {
		w.before = old.item()
	}
	switch a.verb {
	case Put:
		now := d.sample(s, s.Entity, ordinal, nil)
		now.entering = old.entering
		if a.Replaces {
			// Only the key stays; all other values are new.
			d.renew(now)
		}
		d.setInitialStates(now)
		d.assign(now, now, a.Set)
		w.now = now
		w.renderer = &requestRenderer{sample: now, old: old}
		w.after = now.item()
	case Update:
		now, fresh := d.updated(s, old)
		w.now = now
		w.renderer = &requestRenderer{sample: now, old: old, fresh: fresh}
		w.edits = s.edits
		after, err := applied(s, w, old)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", d.plan.Pattern.Name, err)
		}
		w.after = after
	case Delete:
		w.renderer = &requestRenderer{sample: old, old: old}
	case Check:
		w.renderer = &requestRenderer{sample: old, old: old}
		w.after = w.before
	}
	holds, err := conditionOf(a, w.renderer, w.before)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", d.plan.Pattern.Name, err)
	}
	if !holds {
		try := "give the item's values before the write in from, or fix the condition"
		if none, err := conditionOf(a, w.renderer, nil); err == nil && none && a.verb == Check {
			try = "set absent: true if no such item exists, or fix the condition"
		}
		return nil, &Fault{Code: "condition", Pattern: d.plan.Pattern.Name, Position: a.At("condition"), Try: try,
			Message: fmt.Sprintf("the condition %q does not hold for the item before the write", a.Condition)}
	}
	return w, nil
}

// setInitialStates gives the attributes of status machines their initial state.
func (d *scenarioBuilder) setInitialStates(x *sample) {
	for _, k := range d.m.MachinesOf(x.entity) {
		x.fixed[k.Attribute] = item.String(k.Initial[0])
	}
}

// renew gives all attributes outside the table's key new values.
func (d *scenarioBuilder) renew(x *sample) {
	key := x.entity.keyLeaves()
	for _, f := range x.entity.fields {
		if f.template == nil && !slices.Contains(key, f.Name) {
			x.shared[f.Name] = x.ordinal + d.freshOffset()
		}
	}
}

// valuesBefore returns the values of an item before a write, from the pattern
// or else from a machine.
func (m *Model) valuesBefore(a *Action) []*Setting {
	from := slices.Clone(a.From)
	for _, k := range m.MachinesOf(a.entity) {
		if _, given := named(from, k.Attribute); given {
			continue
		}
		if to, ok := named(a.Set, k.Attribute); ok && a.verb == Update {
			if t := k.into(to.Value.text); t != nil {
				from = append(from, &Setting{Name: k.Attribute, Value: StringLiteral(t.From[0])})
			}
		}
	}
	return from
}

// into returns the first transition to a state, nil if there is none.
func (k *Machine) into(state string) *Transition {
	for _, t := range k.Transitions {
		if t.To == state {
			return t
		}
	}
	return nil
}

// updated returns the item after an update, as far as attributes are set, and
// the source of their new values.
func (d *scenarioBuilder) updated(s *Step, old *sample) (now, fresh *sample) {
	now, fresh = new(sample), new(sample)
	*now, *fresh = *old, *old
	now.shared, now.fixed = maps.Clone(old.shared), maps.Clone(old.fixed)
	fresh.shared, fresh.fixed = nil, make(map[string]item.Value)
	fresh.ordinal, fresh.entering = old.ordinal+d.freshOffset(), true
	for _, w := range s.Action.Set {
		// All items have the same typical value of an attribute with few values.
		if f := s.Entity.byName[w.Name]; w.Value.templated() && item.Equal(fresh.value(f), old.value(f)) {
			fresh.fixed[w.Name] = f.otherThan(old.value(f))
		}
	}
	d.assign(now, fresh, s.Action.Set)
	return now, fresh
}

// otherThan returns another value of a field, if it has several.
func (f *Field) otherThan(v item.Value) item.Value {
	if f.Attribute == nil {
		return v
	}
	if f.Type == item.BOOL {
		return item.Bool(!v.Bool())
	}
	for _, other := range f.listedValues() {
		if !item.Equal(other, v) {
			return other
		}
	}
	return v
}

// assign sets attributes to the values of an action; names in these refer to
// values of another sample.
func (d *scenarioBuilder) assign(x, names *sample, set []*Setting) {
	for _, w := range set {
		f := x.entity.byName[w.Name]
		x.fixed[w.Name] = names.literal(w.Value, f.Type)
	}
}

// literal evaluates a literal of the model; its names refer to the sample's
// values.
func (s *sample) literal(l Literal, t item.Type) item.Value {
	if l.templated() {
		tpl, err := parseTemplate(l.text)
		if err != nil {
			panic(fmt.Sprintf("parse a template that was checked: %v", err))
		}
		v := item.String(s.fill(&tpl))
		if name, single := tpl.single(); single {
			v = s.value(s.entity.byName[name])
		}
		if t.IsSet() && v.Type() == t.Member() {
			return item.Set(t, v)
		}
		return v
	}
	v, err := l.value(t)
	if err != nil {
		panic(fmt.Sprintf("convert a value that was checked: %v", err))
	}
	return v
}

// applied returns the item after an update, as package expr evaluates it.
func applied(s *Step, w *itemWrite, old *sample) (item.Item, error) {
	writing := newRequestBuilder(w.renderer)
	text := writing.update(w.edits)
	key := s.Table.schema.Key.Of(old.item())
	before := w.before
	if before == nil {
		before = key
	}
	if text == "" {
		return before, nil
	}
	parsed, err := expr.ParseUpdate(text)
	if err != nil {
		return nil, fmt.Errorf("the update %q: %w", text, err)
	}
	u, err := parsed.Bind(&expr.Bindings{Names: writing.names, Values: valuesOf(writing.values)})
	if err != nil {
		return nil, fmt.Errorf("the update %q: %w", text, err)
	}
	return u.Apply(before)
}

// conditionOf evaluates an action's condition on an item.
func conditionOf(a *Action, v renderer, before item.Item) (bool, error) {
	if a.Condition == "" {
		return true, nil
	}
	c, err := bindCondition(a, v)
	if err != nil {
		return false, err
	}
	return c.Holds(before), nil
}

func bindCondition(a *Action, v renderer) (*expr.Condition, error) {
	w := newRequestBuilder(v)
	w.condition(a)
	parsed, err := expr.ParseCondition(expr.ConditionExpression, a.Condition)
	if err != nil {
		return nil, err
	}
	return parsed.Bind(&expr.Bindings{Names: w.names, Values: valuesOf(w.values)})
}
