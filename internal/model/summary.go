package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/language/expr"
)

// By names the tables and indexes that serve the plan, each once.
func (p *Plan) By() string {
	var all []string
	for _, s := range p.Steps {
		name := s.Table.Name
		if s.Index != nil {
			name += "." + s.Index.Name
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}

// Summary describes the request in one line.
func (p *Plan) Summary() string {
	var parts []string
	for _, s := range p.Steps {
		parts = append(parts, s.summary(len(p.Steps) > 1 || p.Pattern.Transact != nil || p.Pattern.Batch != nil))
	}
	text := p.Operation
	if n := p.Steps[0].Shards; n > 1 {
		text += fmt.Sprintf(" x %d", n)
	}
	return text + " " + strings.Join(parts, "; ")
}

func (s *Step) summary(several bool) string {
	w := newHumanRenderer(s)
	var tests []string
	for _, k := range slices.Concat(s.Partition, s.Sort) {
		text := w.render(k.template)
		if slices.Contains(s.Action.Given, k.Name) && k.Op == expr.Equal {
			text = "{" + k.Name + "}"
		}
		switch {
		case k.ranged != "":
			tests = append(tests, fmt.Sprintf("%s %s %s", k.Name, k.rangeIs, text))
		case k.Op == expr.BeginsWith:
			tests = append(tests, fmt.Sprintf("%s begins with %s", k.Name, text))
		default:
			tests = append(tests, fmt.Sprintf("%s = %s", k.Name, text))
		}
	}
	text := strings.Join(tests, ", ")
	if several {
		text = fmt.Sprintf("%s %s", s.Action.verb, text)
		if n := s.Action.Times; n > 1 {
			text += fmt.Sprintf(" x %d", n)
		}
	}
	if s.Reverse {
		text += ", descending"
	}
	if len(s.Filter) > 0 {
		text += ", filter " + strings.Join(s.Filter, ", ")
	}
	if s.Action.Condition != "" {
		text += " if " + s.Action.Condition
	}
	return text
}
