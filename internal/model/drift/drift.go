// Package drift compares the traffic that a server counted with the access
// patterns of a model.
package drift

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/workload"
)

// Report is how the traffic differs from the model.
type Report struct {
	Since    time.Time  `json:"since"` // start of the counts
	Patterns []*Pattern `json:"patterns"`

	// Strays is traffic on the model's tables that no pattern matches, the most
	// frequent first.
	Strays []*Stray `json:"strays"`

	Elsewhere int64 `json:"elsewhere"` // requests to tables that the model does not have
	Uncounted int64 `json:"uncounted"` // requests with more shapes than the server counts separately
}

// Pattern is the traffic of one pattern.
type Pattern struct {
	Name   string `json:"name"`
	Status string `json:"status"`

	// Shared are other patterns with the same shapes; the counts are the sum of
	// all of them.
	Shared   []string `json:"shared,omitempty"`
	Requests int64    `json:"requests"`
	Returned int64    `json:"returned"`
	Scanned  int64    `json:"scanned"`

	Units     float64 `json:"units"`     // average of a run; 0 if none was measured
	Predicted float64 `json:"predicted"` // of a run, by the model

	shapes         []workload.Shape
	requestsPerRun float64 // requests of a run
	readsPerItem   float64 // items that the model expects to be read for each item returned
	counts         []workload.ShapeCount
}

// The statuses of a pattern.
const (
	OK        = "ok"
	Never     = "never"     // it was never requested
	Wasteful  = "wasteful"  // it reads far more items than it returns, and than the model predicts
	Expensive = "expensive" // it costs far more than the model predicts
)

// Stray is traffic that no pattern matches.
type Stray struct {
	workload.ShapeCount
	Near    string `json:"near,omitempty"`    // the closest pattern
	Differs string `json:"differs,omitempty"` // how it differs from that
}

// OK reports whether the traffic matches the model.
func (r *Report) OK() bool {
	return len(r.Strays) == 0 && !slices.ContainsFunc(r.Patterns, func(p *Pattern) bool { return p.Status != OK })
}

// Count returns how many patterns have a status.
func (r *Report) Count(status string) (n int) {
	for _, p := range r.Patterns {
		if p.Status == status {
			n++
		}
	}
	return n
}

// Join compares traffic with a model.
func Join(m *model.Model, traffic workload.Report) *Report {
	r := &Report{Since: traffic.Since, Patterns: []*Pattern{}, Strays: []*Stray{}, Uncounted: traffic.Other.Requests}
	checked := m.Check(model.DefaultPrices())
	for i, p := range m.Patterns {
		plan := m.Plan(p)
		x := &Pattern{Name: p.Name, Predicted: checked.Patterns[i].Read + checked.Patterns[i].Write, requestsPerRun: float64(max(1, checked.Patterns[i].Requests)), readsPerItem: 1}
		if plan.Served() {
			x.shapes = shapesOf(plan)
			x.readsPerItem = expected(m, plan)
		}
		r.Patterns = append(r.Patterns, x)
	}
	for _, c := range traffic.Shapes {
		if _, ours := m.Table(c.Table); !ours && c.Table != "" {
			r.Elsewhere += c.Requests
			continue
		}
		r.addCount(c)
	}
	for _, p := range r.Patterns {
		r.recordShared(p)
		p.judge()
	}
	return r
}

// addCount adds the counts of a shape to the patterns that have it.
func (r *Report) addCount(c workload.ShapeCount) {
	found := false
	for _, p := range r.Patterns {
		if slices.Contains(p.shapes, c.Shape) {
			p.counts = append(p.counts, c)
			found = true
		}
	}
	if !found {
		r.Strays = append(r.Strays, r.stray(c))
	}
}

// recordShared records the other patterns that have a shape in common with p.
func (r *Report) recordShared(p *Pattern) {
	for _, other := range r.Patterns {
		if other != p && slices.ContainsFunc(p.shapes, func(s workload.Shape) bool { return slices.Contains(other.shapes, s) }) {
			p.Shared = append(p.Shared, other.Name)
		}
	}
}

// A pattern is wasteful or expensive when it exceeds the prediction by these
// factors.
const (
	farMore   = 2.0
	fewScans  = 10  // too few to judge
	muchWaste = 4.0 // items read for each item returned
)

// judge sums up the counts of a pattern and sets its status.
func (p *Pattern) judge() {
	p.Status = OK
	seen := make(map[workload.Shape]bool)
	for _, c := range p.counts {
		seen[c.Shape] = true
		p.Returned += c.Returned
		p.Scanned += c.Scanned
		if c.Measured > 0 && c.Requests > 0 {
			p.Units += c.Units / float64(c.Requests) * p.requestsPerRun
		}
		if p.Requests == 0 || c.Requests < p.Requests {
			p.Requests = c.Requests // a transaction counts once for each of its tables
		}
	}
	if len(p.shapes) == 0 || len(seen) < len(p.shapes) {
		p.Status = Never
		return
	}
	wasted := float64(p.Scanned) / float64(max(1, p.Returned))
	switch {
	case p.Scanned >= fewScans && wasted >= muchWaste && wasted >= farMore*p.readsPerItem:
		p.Status = Wasteful
	case len(p.Shared) == 0 && p.Units > farMore*p.Predicted:
		p.Status = Expensive
	}
}

// expected is how many items a pattern reads for each item that it returns.
func expected(m *model.Model, plan *model.Plan) float64 {
	scenario, err := m.Scenario(plan, model.Generator{}, 0)
	if err != nil {
		return 1
	}
	scanned, count := 0, 0
	for _, c := range scenario.Calls {
		scanned, count = scanned+c.Want.Scanned, count+c.Want.Count
	}
	return float64(max(1, scanned)) / float64(max(1, count))
}

// shapesOf returns the shapes of the requests that a plan sends.
func shapesOf(plan *model.Plan) (all []workload.Shape) {
	first := plan.Steps[0]
	if plan.Pattern.Transact == nil && plan.Pattern.Batch == nil {
		return []workload.Shape{shapeOf(plan, first)}
	}
	for _, s := range plan.Steps {
		shape := workload.Shape{Operation: plan.Operation, Table: s.Table.Name, Form: partForm(plan, s.Table)}
		if plan.Operation == "BatchGetItem" {
			shape.Consistent = slices.ContainsFunc(plan.Steps, func(o *model.Step) bool { return o.Table == s.Table && o.Action.Consistent })
		}
		if !slices.Contains(all, shape) {
			all = append(all, shape)
		}
	}
	return all
}

// partForm is the kinds of writes of a batch or a transaction to one table.
func partForm(plan *model.Plan, t *model.Table) string {
	does := func(v model.Verb) bool {
		return slices.ContainsFunc(plan.Steps, func(s *model.Step) bool { return s.Table == t && s.Action.Verb() == v })
	}
	return workload.PartForm(does(model.Put), does(model.Update), does(model.Delete), does(model.Check))
}

func shapeOf(plan *model.Plan, s *model.Step) workload.Shape {
	shape := workload.Shape{Operation: plan.Operation, Table: s.Table.Name, Filter: len(s.Filter) > 0,
		Condition: s.Action.Condition != "", Consistent: s.Action.Consistent}
	key := s.Table.Schema().Key
	if s.Index != nil {
		shape.Index, key = s.Index.Name, s.Index.Schema().Key
	}
	switch s.Action.Verb() {
	case model.Query:
		var sort []expr.KeyTest
		for _, k := range s.Sort {
			sort = append(sort, expr.KeyTest{Name: k.Name, Op: k.Op})
		}
		shape.Form = workload.KeyForm(key.Partition, sort)
	case model.Update:
		shape.Form = workload.UpdateForm(s.Table.Schema(), paths(s.Changed))
	}
	return shape
}

// stray finds the pattern that is closest to a shape.
func (r *Report) stray(c workload.ShapeCount) *Stray {
	s := &Stray{ShapeCount: c}
	least := 0
	for _, p := range r.Patterns {
		for _, shape := range p.shapes {
			if shape.Operation != c.Operation || shape.Table != c.Table {
				continue
			}
			differs := differences(shape, c.Shape)
			weight := len(differs)
			if shape.Index != c.Index || shape.Form != c.Form {
				weight += 2 // it takes another access path
			}
			if s.Near == "" || weight < least {
				s.Near, s.Differs, least = p.Name, strings.Join(differs, ", "), weight
			}
		}
	}
	return s
}

// differences describes how traffic differs from a pattern.
func differences(pattern, traffic workload.Shape) (all []string) {
	if traffic.Index != pattern.Index {
		all = append(all, fmt.Sprintf("it reads %s", cmp.Or(traffic.Index, "the table")))
	}
	if traffic.Form != pattern.Form {
		all = append(all, fmt.Sprintf("its form is %s, not %s", cmp.Or(traffic.Form, "empty"), cmp.Or(pattern.Form, "empty")))
	}
	flag := func(traffic, pattern bool, yes, no string) {
		switch {
		case traffic && !pattern:
			all = append(all, yes)
		case pattern && !traffic:
			all = append(all, no)
		}
	}
	flag(traffic.Filter, pattern.Filter, "it has a filter", "it has no filter")
	flag(traffic.Condition, pattern.Condition, "it has a condition", "it has no condition")
	flag(traffic.Consistent, pattern.Consistent, "it is consistent", "it is not consistent")
	return all
}

// paths returns attributes as document paths.
func paths(names []string) (all []item.Path) {
	for _, name := range names {
		all = append(all, item.Path{{Name: name}})
	}
	return all
}
