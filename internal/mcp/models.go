package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/drift"
)

func (s *Server) addModel() {
	if s.ReadModel == nil {
		return
	}
	add(s, tool{name: "model_check", title: "Check the design", group: Read,
		description: "Whether each access pattern of the model is served by a key lookup or an indexed query, with faults, their lines and what to change. With pattern: the requests of that one."},
		func(ctx context.Context, c *call, in modelIn) (any, error) { return c.modelCheck(in) })
	add(s, tool{name: "model_cost", title: "What the design costs", group: Read,
		description: "Units of each access pattern, table and index, and dollars per month. With pattern: the details of that one. With text: that design, and what changes against the model."},
		func(ctx context.Context, c *call, in modelIn) (any, error) { return c.modelCost(in) })
	add(s, tool{name: "model_drift", title: "Traffic against the design", group: Read,
		description: "Patterns that were never requested, requests that no pattern matches, and those that read or cost more than predicted, from what the server has counted."},
		func(ctx context.Context, c *call, _ noIn) (any, error) { return c.modelDrift(ctx) })
	if s.Prove != nil {
		add(s, tool{name: "model_prove", title: "Run the design", group: Read, long: true,
			description: "Runs each access pattern on a private database in memory, and compares items, pages, units and index with the prediction. Takes up to a minute; touches nothing of the endpoint."},
			func(ctx context.Context, c *call, in modelIn) (any, error) { return c.modelProve(ctx, in) })
	}
	add(s, tool{name: "table_plan", title: "Tables against the design", group: Read,
		description: "The changes that the tables need to match the model; changes nothing."},
		func(ctx context.Context, c *call, in planIn) (any, error) { return c.tablePlan(ctx, in) })
	add(s, tool{name: "table_apply", title: "Change the tables", group: s.firstOf(Tables, Forks), destructive: true, idempotent: true, long: true,
		description: "Makes the changes of table_plan, one by one. Needs confirmation, except on a fork."},
		func(ctx context.Context, c *call, in applyIn) (any, error) { return c.tableApply(ctx, in) })
}

type noIn struct{}

type modelIn struct {
	Text    string `json:"text,omitempty" jsonschema:"a design to look at in place of the model, in YAML"`
	Pattern string `json:"pattern,omitempty" jsonschema:"only this access pattern"`
}

// model returns the model of the arguments.
func (c *call) model(in modelIn) (*model.Model, error) {
	m, err := c.server.ReadModel()
	if in.Text != "" {
		m, err = model.Parse("text", []byte(in.Text))
	}
	if err != nil {
		return nil, err
	}
	known := func(p *model.Pattern) bool { return p.Name == in.Pattern }
	if in.Pattern != "" && !slices.ContainsFunc(m.Patterns, known) {
		return nil, fmt.Errorf("the model has no access pattern %q", in.Pattern)
	}
	return m, nil
}

type checkedPattern struct {
	Name     string          `json:"name"`
	Status   string          `json:"status"`
	ServedBy string          `json:"served_by,omitempty"`
	Request  string          `json:"request,omitempty"`
	Read     float64         `json:"read"`
	Write    float64         `json:"write"`
	Requests []model.Request `json:"requests,omitempty"` // as they are sent
}

func (c *call) modelCheck(in modelIn) (any, error) {
	m, err := c.model(in)
	if err != nil {
		return nil, err
	}
	r := m.Check(model.DefaultPrices())
	patterns := []checkedPattern{}
	for _, p := range r.Patterns {
		if in.Pattern != "" && p.Name != in.Pattern {
			continue
		}
		is := checkedPattern{Name: p.Name, Status: p.Status, Read: p.Read, Write: p.Write}
		if p.Status != model.StatusMissing && p.Plan.Served() {
			is.ServedBy, is.Request = p.Plan.By(), p.Plan.Summary()
		}
		if in.Pattern != "" {
			is.Requests = p.Request
		}
		patterns = append(patterns, is)
	}
	faults := slices.DeleteFunc(append([]*model.Fault{}, r.Faults...), func(f *model.Fault) bool { return in.Pattern != "" && f.Pattern != in.Pattern })
	notes := slices.DeleteFunc(r.Notes, func(n *model.Note) bool { return in.Pattern != "" && n.Pattern != in.Pattern })
	return map[string]any{"ok": len(faults) == 0, "patterns": patterns, "faults": faults, "notes": notes, "hottest": r.Heat[:min(3, len(r.Heat))]}, nil
}

// patternCost is what one run of a pattern consumes, and all runs of a month cost.
type patternCost struct {
	Name    string  `json:"name"`
	Rate    string  `json:"rate"`
	Served  bool    `json:"served"`
	Read    float64 `json:"read"`
	Write   float64 `json:"write"`
	Dollars float64 `json:"dollars"`
}

func (c *call) modelCost(in modelIn) (any, error) {
	m, err := c.model(in)
	if err != nil {
		return nil, err
	}
	prices := model.DefaultPrices()
	cost := m.Cost(prices)
	out := map[string]any{"dollars_per_month": cost.Dollars, "prices": fmt.Sprintf("of %s in %s", cost.Prices.Date, cost.Prices.Region)}
	patterns := []patternCost{}
	for _, p := range cost.Patterns {
		patterns = append(patterns, patternCost{p.Name, p.Rate, p.Served, p.Run.Read(), p.Run.Write(), p.Dollars})
		if p.Name == in.Pattern {
			out["pattern"] = p
		}
	}
	if in.Pattern == "" {
		out["patterns"], out["tables"] = patterns, cost.Tables
	}
	if in.Text != "" {
		is, err := c.server.ReadModel()
		if err != nil {
			return nil, err
		}
		out["against_the_model"] = model.Compare(is.Cost(prices), m.Cost(prices))
	}
	return out, nil
}

func (c *call) modelDrift(ctx context.Context) (any, error) {
	m, err := c.server.ReadModel()
	if err != nil {
		return nil, err
	}
	e := c.endpoint()
	traffic, err := drift.Traffic(ctx, e.URL, e.Get)
	if err != nil {
		return nil, err
	}
	r := drift.Join(m, traffic)
	return map[string]any{"ok": r.OK(drift.Allowed{}), "report": r}, nil
}

func (c *call) modelProve(ctx context.Context, in modelIn) (any, error) {
	m, err := c.model(in)
	if err != nil {
		return nil, err
	}
	if in.Pattern != "" {
		m.Patterns = slices.DeleteFunc(m.Patterns, func(p *model.Pattern) bool { return p.Name != in.Pattern })
	}
	release, err := c.takePrivate(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r, err := c.server.Prove(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("cannot prove the design: %w", err)
	}
	out := []map[string]any{}
	for _, p := range r.Patterns {
		is := map[string]any{"name": p.Name, "served_by": p.By, "operation": p.Operation, "returned": p.Returned, "looked_at": p.Scanned, "units": p.Total()}
		if p.Error != "" {
			is["error"] = p.Error
		}
		if len(p.Differences) > 0 {
			is["differences"] = p.Differences[:min(5, len(p.Differences))]
		}
		out = append(out, is)
	}
	return map[string]any{"ok": r.OK(), "wrong": r.Wrong(), "patterns": out}, nil
}

type planIn struct {
	Fork string `json:"fork,omitempty" jsonschema:"fork to look at"`
}

// plan compares the tables with the model.
func (c *call) plan(ctx context.Context) (*apply.Plan, error) {
	m, err := c.server.ReadModel()
	if err != nil {
		return nil, err
	}
	plan, err := apply.Make(ctx, c.send, m)
	if err != nil {
		return nil, fmt.Errorf("cannot compare the model with the tables: %w", err)
	}
	return plan, nil
}

func (c *call) tablePlan(ctx context.Context, in planIn) (any, error) {
	if err := c.use("", in.Fork); err != nil {
		return nil, err
	}
	return c.plan(ctx)
}

type applyIn struct {
	Confirm string `json:"confirm,omitempty" jsonschema:"the token of the plan"`
	Fork    string `json:"fork,omitempty" jsonschema:"fork to change"`
}

func (c *call) tableApply(ctx context.Context, in applyIn) (any, error) {
	if err := c.use("", in.Fork); err != nil {
		return nil, err
	}
	if err := c.server.check("CreateTable", nil, c.fork.name); err != nil {
		return nil, err
	}
	plan, err := c.plan(ctx)
	if err != nil {
		return nil, err
	}
	if len(plan.Faults) > 0 {
		return nil, fmt.Errorf("table %s: %s\n        %s\n        nothing was changed", plan.Faults[0].Table, plan.Faults[0].Message, plan.Faults[0].Try)
	}
	if len(plan.Changes) == 0 {
		return map[string]any{"done": true, "changes": plan.Changes, "note": "the tables match the model already"}, nil
	}
	sum, err := c.digest(plan)
	if err != nil {
		return nil, err
	}
	if c.fork.name == "" {
		summary := fmt.Sprintf("Change the tables of %s?", c.server.Endpoint.URL)
		for _, x := range plan.Changes {
			summary += fmt.Sprintf("\n%s: %s", x.Table, x.Text)
			if x.Loses != "" {
				summary += " (" + x.Loses + ")"
			}
		}
		token := in.Confirm
		in.Confirm = ""
		state, answer, err := c.confirm(in, token, summary, plan, string(sum[:]))
		if answer != nil || err != nil {
			return answer, err
		}
		if state != string(sum[:]) {
			return nil, errors.New("the model or the tables have changed since the plan; nothing was changed: repeat the call without confirm")
		}
	}
	made := 0
	err = apply.Do(ctx, c.send, plan, apply.Waiting{Every: 200 * time.Millisecond, Progress: func(_ *apply.Change, state string) {
		if state == "" {
			made++
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("%d of %d changes were made: %w", made, len(plan.Changes), err)
	}
	return map[string]any{"done": true, "changes": plan.Changes}, nil
}
