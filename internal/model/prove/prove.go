// Package prove runs the access patterns of a model on a server and compares
// the replies with what the model predicts.
//
// Run runs each pattern alone, on tables that contain nothing else. Load runs
// all patterns concurrently, at their rates.
package prove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// Options say how patterns are run.
type Options struct {
	Runs               int            // the fewest runs of each pattern, each with other items; defaults to 3
	ConsistencyTimeout time.Duration  // how long a read may return stale items before it counts as a difference
	Progress           func(done int) // called after each pattern
	scenario           func(plan *model.Plan, g model.Generator, run, state int) (*model.Scenario, error)
}

// maxStates is the most states before a write that a pattern is run in.
const maxStates = 32

// Report is the result of all patterns.
type Report struct {
	Patterns []*Pattern `json:"patterns"`
}

// OK reports whether every prediction was right.
func (r *Report) OK() bool { return r.Wrong() == 0 }

// Wrong returns how many patterns did not behave as predicted.
func (r *Report) Wrong() (n int) {
	for _, p := range r.Patterns {
		if !p.OK() {
			n++
		}
	}
	return n
}

// Pattern is the result of one pattern. Returned, Scanned, Pages and Units are
// those of its first run.
type Pattern struct {
	Name        string       `json:"name"`
	Operation   string       `json:"operation"`
	By          string       `json:"by"` // the table or index that served it
	Runs        int          `json:"runs"`
	Requests    int          `json:"requests"` // of all runs, including further pages
	Returned    int          `json:"returned"`
	Scanned     int          `json:"scanned"`
	Pages       int          `json:"pages"`
	Units       []Units      `json:"units"`
	Differences []Difference `json:"differences,omitempty"`
	Error       string       `json:"error,omitempty"` // why it could not run
}

// OK reports whether the pattern behaved as predicted.
func (p *Pattern) OK() bool { return len(p.Differences) == 0 && p.Error == "" }

// Total returns the units of the first run.
func (p *Pattern) Total() (sum float64) {
	for _, u := range p.Units {
		sum += u.Units
	}
	return sum
}

// Units is the units used by a table or one of its indexes.
type Units struct {
	Table string  `json:"table"`
	Index string  `json:"index,omitempty"`
	Units float64 `json:"units"`
}

// Difference is a prediction that was wrong.
type Difference struct {
	Run       int    `json:"run"`     // from 1
	Request   int    `json:"request"` // within the run, from 1
	What      string `json:"what"`
	Predicted string `json:"predicted"`
	Actual    string `json:"actual"`
}

// Run runs every pattern of a model. The tables must exist and be empty; Run
// leaves them empty. It returns an error only if the server cannot be reached;
// a reply that differs from the prediction is in the report.
func Run(ctx context.Context, send apply.Send, m *model.Model, o Options) (*Report, error) {
	if o.Runs == 0 {
		o.Runs = 3
	}
	if o.scenario == nil {
		o.scenario = m.ScenarioIn
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
		for run := range max(o.Runs, min(maxStates, plan.States())) {
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

// PrefixTables adds a prefix to the names of the tables of a model until the
// returned function is called.
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

// Create creates the tables of a model, with their declared billing or else on
// demand, so that nothing is throttled. It leaves out streams, time to live and recovery.
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

// Drop deletes the tables of a model that exist.
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
