// Package prove plays a model's access patterns on a server and holds what
// comes back against what the model predicts.
//
// Run plays each pattern alone, on tables that hold nothing else. Load plays
// them all at once, at their rates.
package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// Options say how patterns are played.
type Options struct {
	Runs               int            // how often each is played, with other items each time; 3 unless set
	ConsistencyTimeout time.Duration  // for how long a read may come back with what was there before
	Progress           func(done int) // after each pattern
	scenario           func(*model.Plan, model.Generator, int) (*model.Scenario, error)
}

// Report is how all patterns went.
type Report struct {
	Patterns []*Pattern `json:"patterns"`
}

// OK tells whether every prediction was right.
func (r *Report) OK() bool { return r.Wrong() == 0 }

// Wrong is how many patterns did not behave as predicted.
func (r *Report) Wrong() (n int) {
	for _, p := range r.Patterns {
		if !p.OK() {
			n++
		}
	}
	return n
}

// Pattern is how one pattern went. What it returns, reads and costs is of its
// first run.
type Pattern struct {
	Name        string       `json:"name"`
	Operation   string       `json:"operation"`
	By          string       `json:"by"` // the table or index that served it
	Runs        int          `json:"runs"`
	Requests    int          `json:"requests"` // of all runs, pages too
	Returned    int          `json:"returned"`
	Scanned     int          `json:"scanned"`
	Pages       int          `json:"pages"`
	Units       []Units      `json:"units"`
	Differences []Difference `json:"differences,omitempty"`
	Error       string       `json:"error,omitempty"` // why it could not be played
}

// OK tells whether the pattern went as predicted.
func (p *Pattern) OK() bool { return len(p.Differences) == 0 && p.Error == "" }

// Total is what the first run cost.
func (p *Pattern) Total() (sum float64) {
	for _, u := range p.Units {
		sum += u.Units
	}
	return sum
}

// Units is what was spent on a table or one of its indexes.
type Units struct {
	Table string  `json:"table"`
	Index string  `json:"index,omitempty"`
	Units float64 `json:"units"`
}

// Difference is a prediction that was wrong.
type Difference struct {
	Run       int    `json:"run"`     // from 1 on
	Request   int    `json:"request"` // within the run, from 1 on
	What      string `json:"what"`
	Predicted string `json:"predicted"`
	Actual    string `json:"actual"`
}

// Run plays every pattern of a model. The tables must be there, and empty; they
// are empty again afterwards. Only a line that is dead is an error; what a
// server does otherwise than predicted is in the report.
func Run(ctx context.Context, send apply.Send, m *model.Model, o Options) (*Report, error) {
	if o.Runs == 0 {
		o.Runs = 3
	}
	if o.scenario == nil {
		o.scenario = m.Scenario
	}
	checked := m.Check(model.DefaultPrices())
	report := new(Report)
	for i, p := range m.Patterns {
		s := &runner{send: send, model: m, options: &o}
		plan := m.Plan(p)
		s.pattern = &Pattern{Name: p.Name, Operation: plan.Operation}
		report.Patterns = append(report.Patterns, s.pattern)
		if !plan.Served() {
			s.pattern.Error = fmt.Sprintf("no request serves it: %v", errors.Join(faults(plan)...))
			continue
		}
		s.pattern.By = plan.By()
		for run := range o.Runs {
			if err := s.run(ctx, plan, run); err != nil {
				return nil, fmt.Errorf("%q: %w", p.Name, err)
			}
			if s.pattern.Error != "" {
				break
			}
			if predicted := checked.Patterns[i].Read + checked.Patterns[i].Write; run == 0 && s.pattern.Total() != predicted {
				s.differ(run, 0, "units of the run by check", number(predicted), number(s.pattern.Total()))
			}
		}
		if o.Progress != nil {
			o.Progress(i + 1)
		}
	}
	return report, nil
}

func faults(plan *model.Plan) (all []error) {
	for _, f := range plan.Faults {
		all = append(all, f)
	}
	return all
}

// PrefixTables gives the tables of a model other names, each with a text before it,
// until the returned function is called.
func PrefixTables(m *model.Model, before string) (restore func()) {
	for _, t := range m.Tables {
		t.Name = before + t.Name
		t.Schema().Name = t.Name
	}
	return func() {
		for _, t := range m.Tables {
			t.Name = t.Name[len(before):]
			t.Schema().Name = t.Name
		}
	}
}

// Create makes the tables of a model, with the billing that it declares or else
// on demand, where nothing is refused. What looks back at changes is left out.
func Create(ctx context.Context, send apply.Send, m *model.Model, declared bool, w apply.Waiting) error {
	plan := new(apply.Plan)
	for _, t := range m.Tables {
		body := apply.Body(t)
		delete(body, "StreamSpecification")
		if !declared {
			body["BillingMode"] = "PAY_PER_REQUEST"
			delete(body, "ProvisionedThroughput")
			indexes, _ := body["GlobalSecondaryIndexes"].([]any)
			for _, x := range indexes {
				delete(x.(map[string]any), "ProvisionedThroughput")
			}
		}
		plan.Changes = append(plan.Changes, &apply.Change{Table: t.Name, Kind: apply.CreateTable, Text: "create the table",
			Request: model.Request{Operation: "CreateTable", Body: body}})
	}
	return apply.Do(ctx, send, plan, w)
}

// Drop removes the tables of a model, as far as they are there.
func Drop(ctx context.Context, send apply.Send, m *model.Model) (err error) {
	for _, t := range m.Tables {
		_, drop := send(ctx, "DeleteTable", map[string]any{"TableName": t.Name})
		if isFault(drop, "ResourceNotFoundException") {
			drop = nil
		}
		if drop != nil {
			err = errors.Join(err, fmt.Errorf("table %s was not deleted: %w", t.Name, drop))
		}
	}
	return err
}
