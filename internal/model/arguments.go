package model

import (
	"slices"

	"github.com/stator-db/stator/internal/data/item"
)

// Arguments are the values that a caller of generated code passes for one
// action, so that it sends the request of a scenario.
type Arguments struct {
	Request *StepRequest
	Values  map[Param]item.Value
	Item    map[string]item.Value // of a put: the attributes of the item, also those that are not stored
}

// Arguments returns the arguments for the scenario that ScenarioIn returns, in the
// order of the actions.
func (m *Model) Arguments(plan *Plan, g Generator, run, state int) ([]Arguments, error) {
	d, err := m.buildScenario(plan, g, run, state)
	if err != nil {
		return nil, err
	}
	d.next = 0
	var all []Arguments
	for _, r := range m.StepRequests(plan) {
		for range max(1, r.Action.Times) {
			args, err := d.arguments(r)
			if err != nil {
				return nil, err
			}
			all = append(all, args)
			d.next++
		}
	}
	return all, nil
}

// arguments returns the arguments of one action.
func (d *scenarioBuilder) arguments(r *StepRequest) (Arguments, error) {
	args := Arguments{Request: r, Values: make(map[Param]item.Value)}
	a := r.Action
	var old, fresh *sample
	var matching *ordinalRange
	switch {
	case a.verb == Query:
		matching = &ordinalRange{first: d.base + d.next, count: max(1, a.Matches)}
		old = d.sample(r.Step, r.Entity, d.next+1, d.m.requiredValues(r.Step))
	case a.verb == Get:
		old = d.sample(r.Step, r.Entity, d.next, a.Where)
	default:
		w, err := d.buildWrite(r.Step, d.next)
		if err != nil {
			return args, err
		}
		old, fresh = w.old, w.renderer.(*requestRenderer).fresh
		if a.verb == Put {
			args.Item = w.now.attributes()
		}
	}
	for _, p := range r.Params {
		switch p.Role {
		case NewValue:
			args.Values[p] = fresh.value(p.Field)
		case RangeFrom, RangeTo:
			ends := matching.around(old, p.Field, a.Range.Is)
			if p.Role == RangeTo {
				slices.Reverse(ends)
			}
			args.Values[p] = ends[0].(requestValue).value
		default:
			args.Values[p] = old.value(p.Field)
		}
	}
	return args, nil
}

// attributes returns the values of the fields that have one of their own.
func (s *sample) attributes() map[string]item.Value {
	all := make(map[string]item.Value)
	for _, f := range s.entity.fields {
		if f.template == nil && s.present(f) {
			all[f.Name] = s.value(f)
		}
	}
	return all
}
