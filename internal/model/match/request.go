// Package match finds the access pattern of a model that a request belongs to.
package match

import (
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/workload"
)

// Request is a request that an access pattern sends, or its part for one table.
type Request struct {
	Pattern *model.Pattern

	shape           workload.Shape // prefixes and actions are not set
	partition, sort []workload.KeyPrefix
	actions         []patternAction
	implied         string // the condition that a statement of the same effect has anyway
}

// patternAction is one action of a batch or a transaction.
type patternAction struct {
	verb            string
	partition, sort []workload.KeyPrefix
	conditional     bool
	optional        bool
}

// requestsOf returns the requests that a pattern sends, one for each table; none if it
// cannot be served.
func requestsOf(m *model.Model, p *model.Pattern) (all []*Request) {
	plan := m.Plan(p)
	if !plan.Served() {
		return nil
	}
	if p.Transact == nil && p.Batch == nil {
		return []*Request{single(m, plan)}
	}
	for _, s := range plan.Steps {
		if !slices.ContainsFunc(all, func(r *Request) bool { return r.shape.Table == s.Table.Name }) {
			all = append(all, part(plan, s.Table))
		}
	}
	return all
}

// single returns the request of a pattern with one action.
func single(m *model.Model, plan *model.Plan) *Request {
	s := plan.Steps[0]
	r := &Request{Pattern: plan.Pattern, shape: workload.Shape{
		Operation: plan.Operation, Table: s.Table.Name,
		Filter: len(s.Filter) > 0, Condition: s.Action.Condition != "", Consistent: s.Action.Consistent,
		Projection: workload.Names(paths(s.Action.Returns), verbatim),
	}}
	r.partition, r.sort = keyPrefixes(s)
	key := s.Table.Schema().Key
	if s.Index != nil {
		r.shape.Index, key = s.Index.Name, s.Index.Schema().Key
	}
	r.setForm(s, key)
	if c := s.FilterCondition(); c != nil {
		r.shape.FilterText = workload.ConditionText(c, verbatim)
	}
	if c, err := m.WriteCondition(s); err == nil && c != nil {
		r.shape.ConditionText = workload.ConditionText(c, verbatim)
	}
	return r
}

func (r *Request) setForm(s *model.Step, key schema.Key) {
	partition := key.Partition[0].Name
	switch s.Action.Verb() {
	case model.Query:
		var sort []expr.KeyTest
		for _, k := range s.Sort {
			sort = append(sort, expr.KeyTest{Name: k.Name, Op: k.Op})
		}
		r.shape.Form = workload.KeyForm(key.Partition, sort)
	case model.Update:
		r.shape.Form = workload.UpdateForm(s.Table.Schema(), paths(s.Changed))
		r.shape.Changes = workload.Names(paths(s.Changed), verbatim)
		r.implied = "attribute_exists(" + partition + ")"
	case model.Put:
		r.implied = "attribute_not_exists(" + partition + ")"
	case model.Scan:
		r.partition, r.sort = nil, nil
	}
}

// part returns the request of a batch or a transaction to one table.
func part(plan *model.Plan, t *model.Table) *Request {
	r := &Request{Pattern: plan.Pattern, shape: workload.Shape{Operation: plan.Operation, Table: t.Name}}
	var returned []string
	for _, s := range plan.Steps {
		if s.Table != t {
			continue
		}
		a := patternAction{verb: verbs[s.Action.Verb()], conditional: s.Action.Condition != "", optional: s.Action.Optional}
		a.partition, a.sort = keyPrefixes(s)
		r.actions = append(r.actions, a)
		if plan.Operation == "BatchGetItem" && s.Action.Consistent {
			r.shape.Consistent = true
		}
		if plan.Operation == "BatchGetItem" {
			returned = append(returned, s.Action.Returns...)
		}
	}
	// A batch of gets has one projection for each table.
	slices.Sort(returned)
	r.shape.Projection = workload.Names(paths(slices.Compact(returned)), verbatim)
	return r
}

var verbs = map[model.Verb]string{model.Get: "Get", model.Put: "Put", model.Update: "Update", model.Delete: "Delete", model.Check: "ConditionCheck"}

func keyPrefixes(s *model.Step) (partition, sort []workload.KeyPrefix) {
	of := func(parts []model.KeyPart) (all []workload.KeyPrefix) {
		for i := range parts {
			text, whole := s.KeyLiteral(&parts[i])
			all = append(all, workload.KeyPrefix{Literal: text, Whole: whole, Begins: parts[i].Op == expr.BeginsWith})
		}
		return all
	}
	return of(s.Partition), of(s.Sort)
}

func verbatim(name string) string { return name }

// paths returns attributes as document paths.
func paths(names []string) (all []item.Path) {
	for _, name := range names {
		all = append(all, item.Path{{Name: name}})
	}
	return all
}
