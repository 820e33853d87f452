package model

import (
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// KeyLiteral returns the literal text that all values of a key part begin with, and
// whether they consist of it.
func (s *Step) KeyLiteral(k *KeyPart) (text string, whole bool) { return s.literal(k.template.parts) }

func (s *Step) literal(parts []templatePart) (text string, whole bool) {
	for _, p := range parts {
		if p.name == "" {
			text += p.text
			continue
		}
		if constant, ok := s.Action.constant(p.name); ok {
			text += constant
			continue
		}
		f := s.Entity.byName[p.name]
		if f == nil || f.template == nil {
			return text, false
		}
		inner, ok := s.literal(f.template.parts)
		text += inner
		if !ok {
			return text, false
		}
	}
	return text, true
}

// constant returns the value of an attribute in all requests of an action, if the model says
// that it is the same in all.
func (a *Action) constant(name string) (text string, ok bool) {
	lists := [][]*Setting{a.Where, a.From}
	if a.verb == Put {
		lists = [][]*Setting{a.Set}
	}
	for _, list := range lists {
		if w, ok := named(list, name); ok && !w.Value.templated() {
			return w.Value.text, true
		}
	}
	return "", false
}

// FilterCondition returns the filter of a step, with empty values; nil if it has none.
func (s *Step) FilterCondition() *expr.Condition {
	if len(s.Filter) == 0 {
		return nil
	}
	all := expr.Test{Op: expr.And}
	for _, name := range s.Filter {
		test := expr.Test{Op: s.filterOp(name), Operands: []expr.Operand{{Path: item.Path{{Name: name}}}, {Value: item.String("")}}}
		if test.Op == expr.Between {
			test.Operands = append(test.Operands, test.Operands[1])
		}
		all.Tests = append(all.Tests, test)
	}
	return expr.NewCondition(all)
}

// WriteCondition returns the condition of a step, with generated values; nil if it has
// none.
func (m *Model) WriteCondition(s *Step) (*expr.Condition, error) {
	if s.Action.Condition == "" {
		return nil, nil
	}
	d := &scenarioBuilder{m: m, stride: 1 << 16}
	old := d.sample(s, s.Entity, 0, m.valuesBefore(s.Action))
	return bindCondition(s.Action, &requestRenderer{sample: old, old: old, fresh: old})
}
