// Package tablemodel makes the tables of a DynamoDB endpoint match a model file.
//
// A model file (*.model.yaml, docs/model.md) describes tables with their keys,
// indexes, units, auto scaling, streams and time to live. An application embeds its file and calls
// Ensure when it starts:
//
//	m, err := tablemodel.Parse("shop.model.yaml", text)
//	if err != nil {
//		return err
//	}
//	return tablemodel.Ensure(ctx, client, m)
//
// Compare returns the changes without making them, so that an operator can
// confirm them first; Plan.Apply makes them.
//
// The package sends requests through the AWS SDK, and those of Application Auto Scaling with
// its configuration. The endpoint can be stator, AWS, or any other server of the DynamoDB API.
package tablemodel

import (
	"context"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// Model is a parsed model file.
type Model struct{ model *model.Model }

// Parse parses the text of a model file. The file's name is used in errors only.
func Parse(file string, text []byte) (*Model, error) {
	m, err := model.Parse(file, text)
	if err != nil {
		return nil, err
	}
	return &Model{m}, nil
}

// Tables returns the names of the model's tables, in the order of the file.
func (m *Model) Tables() []string {
	names := make([]string, len(m.model.Tables))
	for i, t := range m.model.Tables {
		names[i] = t.Name
	}
	return names
}

// Plan lists the changes that make the tables of an endpoint match a model.
type Plan struct {
	// Changes are in the order in which Apply makes them.
	Changes []Change `json:"changes"`

	// Conflicts are differences that no request can resolve, such as another
	// key. Apply refuses a plan that has one.
	Conflicts []Conflict `json:"conflicts,omitempty"`

	// Notes describe what could not be compared, such as auto scaling at an endpoint without it.
	Notes []string `json:"notes,omitempty"`

	plan *apply.Plan
	send apply.Send
}

// Change is one request that changes a table.
type Change struct {
	Table   string  `json:"table"`
	Kind    string  `json:"kind"`            // such as CreateTable
	Text    string  `json:"text"`            // what the change does, for people
	Loses   string  `json:"loses,omitempty"` // what is lost by it; empty for most changes
	Request Request `json:"request"`
}

// The kinds of changes.
const (
	CreateTable = apply.CreateTable
	AddIndex    = apply.AddIndex
	RemoveIndex = apply.RemoveIndex
	Billing     = apply.Billing
	Units       = apply.Units
	Scaling     = apply.Scaling
	Stream      = apply.Stream
	TimeToLive  = apply.TimeToLive
	Recovery    = apply.Recovery
)

// Request is a request of the DynamoDB API or of Application Auto Scaling. Its body can be marshalled as JSON.
type Request struct {
	Operation string `json:"operation"`
	Body      any    `json:"body"`
}

// Conflict is a difference between a table and its model that no request can
// resolve.
type Conflict struct {
	Table   string `json:"table"`
	Message string `json:"message"`
	Try     string `json:"try,omitempty"` // what to do instead
}

// Compare compares the tables of an endpoint with a model. It changes nothing.
// Tables that the model does not name are ignored.
func Compare(ctx context.Context, client Client, m *Model, options ...Option) (*Plan, error) {
	var s settings
	for _, set := range options {
		set(&s)
	}
	send := sendWith(client, s)
	inner, err := apply.Make(ctx, send, m.model)
	if err != nil {
		return nil, fmt.Errorf("compare the tables with the model: %w", err)
	}
	p := &Plan{Changes: []Change{}, Notes: inner.Notes, plan: inner, send: send}
	for _, c := range inner.Changes {
		p.Changes = append(p.Changes, newChange(c))
	}
	for _, f := range inner.Faults {
		p.Conflicts = append(p.Conflicts, Conflict{Table: f.Table, Message: f.Message, Try: f.Try})
	}
	return p, nil
}

func newChange(c *apply.Change) Change {
	return Change{Table: c.Table, Kind: c.Kind, Text: c.Text, Loses: c.Loses, Request: Request{c.Request.Operation, c.Request.Body}}
}

// Select returns a plan with the changes that keep reports true for, and with the
// conflicts of p.
func (p *Plan) Select(keep func(Change) bool) *Plan {
	chosen := &Plan{Changes: []Change{}, Conflicts: p.Conflicts, Notes: p.Notes, plan: &apply.Plan{Faults: p.plan.Faults, Notes: p.plan.Notes}, send: p.send}
	for i, c := range p.Changes {
		if keep(c) {
			chosen.Changes = append(chosen.Changes, c)
			chosen.plan.Changes = append(chosen.plan.Changes, p.plan.Changes[i])
		}
	}
	return chosen
}

// pollInterval is how often Apply asks for the state of a table that changes.
const pollInterval = time.Second

// Apply makes the changes of a plan, those that lose something included. It
// waits for each change to complete, since an endpoint takes one change of a
// table at a time.
//
// While Apply waits it calls progress, which may be nil, with the change and the
// table's state, such as "CREATING"; the state is empty when the change is
// complete.
func (p *Plan) Apply(ctx context.Context, progress func(c Change, state string)) error {
	waiting := apply.Waiting{Every: pollInterval}
	if progress != nil {
		waiting.Progress = func(c *apply.Change, state string) { progress(newChange(c), state) }
	}
	return apply.Do(ctx, p.send, p.plan, waiting)
}

// Ensure creates the tables of a model that do not exist, and changes those that
// differ from it. It makes no change, and returns an error, if a difference
// cannot be resolved or if a change would lose something, such as an index or auto
// scaling that the model no longer has: that is left to an operator.
func Ensure(ctx context.Context, client Client, m *Model, options ...Option) error {
	p, err := Compare(ctx, client, m, options...)
	if err != nil {
		return err
	}
	for _, c := range p.Conflicts {
		return fmt.Errorf("table %s does not match the model: %s; %s", c.Table, c.Message, c.Try)
	}
	for _, c := range p.Changes {
		if c.Loses != "" {
			return fmt.Errorf("table %s does not match the model: to %s would lose something (%s); use `stator model apply`", c.Table, c.Text, c.Loses)
		}
	}
	return p.Apply(ctx, nil)
}
