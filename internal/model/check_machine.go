package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// machine checks a write against the status machines of its entity. Whether a
// condition prevents a wrong transition is not derived from its text: it is
// evaluated on an item in each state.
func (c *modelChecker) machine(p *Pattern, a *Action) {
	if !a.verb.Writes() || a.verb == Check || a.verb == Delete {
		return
	}
	for _, k := range c.m.MachinesOf(a.entity) {
		to, set := named(a.Set, k.Attribute)
		switch {
		case a.verb == Put && !set:
			c.mayStart(p, a, k, k.Initial[0])
		case a.verb == Put:
			c.mayStart(p, a, k, to.Value.text)
		case slices.Contains(a.Remove, k.Attribute):
			c.patternFault(p, "machine", a.At("remove"), "", "it removes %s, which the machine %s controls", k.Attribute, k.Name)
		case set && a.Creates:
			c.mayStart(p, a, k, to.Value.text)
		case set && !to.Value.templated():
			c.mayMove(p, a, k, to.Value.text)
		case set:
			c.patternFault(p, "machine", to.Position, "declare one pattern for each transition", "it sets %s to any state, which the machine %s does not allow", k.Attribute, k.Name)
		}
	}
}

// mayStart checks a write that creates an item: it must start in an initial
// state, and must not overwrite an item in a later state.
func (c *modelChecker) mayStart(p *Pattern, a *Action, k *Machine, state string) {
	if !slices.Contains(k.Initial, state) && k.into(state) == nil {
		c.patternFault(p, "machine", a.At("set"), "start with "+strings.Join(k.Initial, " or "), "it starts with %s %s, which the machine %s does not allow", k.Attribute, state, k.Name)
		return
	}
	if !slices.Contains(k.Initial, state) && !a.Replaces {
		c.patternFault(p, "machine", a.At("set"), "start with "+strings.Join(k.Initial, " or "), "it starts with %s %s, which is not an initial state of the machine %s", k.Attribute, state, k.Name)
		return
	}
	allowed := k.before(state)
	if bad := c.allowsState(a, k, allowed); bad != "" {
		c.patternFault(p, "machine", a.At("condition"), "add a condition such as attribute_not_exists("+a.entity.table.Key.Partition+")",
			"no condition prevents it from overwriting an item whose %s is %s", k.Attribute, bad)
	}
}

// before returns the states that have a transition to a state.
func (k *Machine) before(state string) (from []string) {
	for _, t := range k.Transitions {
		if t.To == state {
			from = append(from, t.From...)
		}
	}
	return from
}

// mayMove checks an update: it must be a transition, and its condition must
// reject all other states.
func (c *modelChecker) mayMove(p *Pattern, a *Action, k *Machine, state string) {
	allowed := k.before(state)
	if len(allowed) == 0 {
		c.patternFault(p, "machine", a.At("set"), "", "it sets %s to %s, to which the machine %s has no transition", k.Attribute, state, k.Name)
		return
	}
	from, given := named(a.From, k.Attribute)
	if given && !slices.Contains(allowed, from.Value.text) {
		c.patternFault(p, "machine", a.At("from"), "", "the machine %s has no transition from %s to %s", k.Name, from.Value.text, state)
		return
	}
	if bad := c.allowsState(a, k, allowed); bad != "" {
		c.patternFault(p, "machine", a.At("condition"), fmt.Sprintf("add a condition such as #%s = :before, with values: {\":before\": %s}", k.Attribute, allowed[0]),
			"no condition prevents it from setting %s to %s when it is %s, which the machine %s does not allow", k.Attribute, state, bad, k.Name)
		return
	}
	for _, t := range k.Transitions {
		if t.To == state && t.Condition != "" && (!given || slices.Contains(t.From, from.Value.text)) {
			c.requires(p, a, k, t)
		}
	}
}

// allowsState returns a state that the action's condition can accept although it
// is not allowed; "" for none.
func (c *modelChecker) allowsState(a *Action, k *Machine, allowed []string) string {
	_, sample := c.conditionOf(a)
	s := &Step{Action: a, Entity: a.entity, Table: a.entity.table}
	for _, v := range k.field.listedValues() {
		if slices.Contains(allowed, plain(v)) {
			continue
		}
		x := *sample
		x.fixed = itemState{k.Attribute: v}
		if c.m.accepts(s, &x, x.fixed) {
			return plain(v)
		}
	}
	return ""
}

// conditionOf returns the action's condition, nil for none, and the item that
// it is evaluated on.
func (c *modelChecker) conditionOf(a *Action) (*expr.Condition, *sample) {
	d := &scenarioBuilder{m: c.m, stride: 1 << 16}
	s := &Step{Action: a, Entity: a.entity, Table: a.entity.table}
	old := d.sample(s, a.entity, 0, c.m.valuesBefore(a))
	if a.Condition == "" {
		return nil, old
	}
	cond, err := bindCondition(a, &requestRenderer{sample: old, old: old, fresh: old})
	if err != nil {
		return nil, old // reported when the pattern was simulated
	}
	return cond, old
}

// requires reports an action whose condition can hold when the transition's
// does not. It evaluates both with each attribute of the transition's condition
// changed, and removed.
func (c *modelChecker) requires(p *Pattern, a *Action, k *Machine, t *Transition) {
	own, sample := c.conditionOf(a)
	asked := &Action{entity: a.entity, Condition: t.Condition, Values: t.Values}
	wanted, err := bindCondition(asked, &requestRenderer{sample: sample, old: sample, fresh: sample})
	if err != nil {
		c.fault("machine", t.At("condition"), "", "the condition %q: %v", t.Condition, err)
		return
	}
	whole := sample.item()
	for _, path := range wanted.Paths() {
		name := path[0].Name
		tries := []item.Item{whole.Without(name)}
		if f, ok := a.entity.byName[name]; ok && f.template == nil {
			other := *sample
			other.fixed = nil
			other.shared = map[string]int{}
			other.ordinal += 1 << 12
			tries = append(tries, whole.With(name, other.value(f)))
		}
		for _, it := range tries {
			if !wanted.Holds(it) && (own == nil || own.Holds(it)) {
				c.patternFault(p, "machine", a.At("condition"), "add it to the condition",
					"the transition to %s of the machine %s needs %q, but the write succeeds without it", t.To, k.Name, t.Condition)
				return
			}
		}
	}
}
