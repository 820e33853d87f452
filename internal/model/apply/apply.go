// Package apply changes the tables of an endpoint to match a model.
//
// It makes a plan first, and then executes it change by change. It does not
// touch tables that the model does not have, nor properties that no request can
// change.
package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
)

// Send sends one request of the API, or of Application Auto Scaling (see IsScaling), and
// returns the body of the reply. An error reply of the server is returned as an
// *apierror.Error.
type Send func(ctx context.Context, operation string, body any) ([]byte, error)

// Plan is the list of changes that the tables need.
type Plan struct {
	Changes []*Change `json:"changes"`
	Faults  []*Fault  `json:"faults,omitempty"` // if there are any, the plan cannot be executed
	Notes   []string  `json:"notes,omitempty"`  // differences that the API cannot change
}

// Change is one request that changes a table.
type Change struct {
	Table   string        `json:"table"`
	Kind    string        `json:"kind"`
	Text    string        `json:"text"`            // description for people
	Loses   string        `json:"loses,omitempty"` // what is lost by the change
	Request model.Request `json:"request"`
}

// The kinds of change, in the order in which they are made to a table.
const (
	CreateTable = "create table"
	RemoveIndex = "remove index"
	Billing     = "billing"
	Units       = "units"
	AddIndex    = "add index"
	Scaling     = "auto scaling" // what the model does not declare is removed before units are changed
	Stream      = "stream"
	TimeToLive  = "time to live"
	Recovery    = "recovery"
)

// Fault is a difference that no request can resolve.
type Fault struct {
	Table   string `json:"table"`
	Message string `json:"message"`
	Try     string `json:"try,omitempty"`
}

// Make compares a model with the tables of an endpoint and returns the changes
// that they need.
func Make(ctx context.Context, send Send, m *model.Model) (*Plan, error) {
	plan := &Plan{Changes: []*Change{}}
	for _, t := range m.Tables {
		l, err := describe(ctx, send, t.Name)
		if err != nil {
			return nil, err
		}
		c := &comparer{plan: plan, table: t, live: l}
		if err := c.readScaling(ctx, send); err != nil {
			return nil, err
		}
		if l == nil {
			c.create()
		} else {
			c.compare()
		}
	}
	return plan, nil
}

// Waiting says how to wait for the completion of a change.
type Waiting struct {
	Every    time.Duration                 // poll interval
	Progress func(c *Change, state string) // called after each poll; the state is "" when the change is complete
}

// Do executes a plan. The endpoint accepts one change of a table at a time, so
// Do waits for each.
func Do(ctx context.Context, send Send, plan *Plan, w Waiting) error {
	if len(plan.Faults) > 0 {
		return fmt.Errorf("table %s: %s", plan.Faults[0].Table, plan.Faults[0].Message)
	}
	for _, c := range plan.Changes {
		if c.Kind != CreateTable {
			if err := w.waitUntilReady(ctx, send, c); err != nil {
				return err
			}
		}
		if _, err := send(ctx, c.Request.Operation, c.Request.Body); err != nil {
			return fmt.Errorf("table %s: %s: %w", c.Table, c.Text, err)
		}
		if err := w.waitUntilReady(ctx, send, c); err != nil {
			return err
		}
		w.report(c, "")
	}
	return nil
}

func (w *Waiting) report(c *Change, state string) {
	if w.Progress != nil {
		w.Progress(c, state)
	}
}

// waitUntilReady waits until the table accepts the next change.
func (w *Waiting) waitUntilReady(ctx context.Context, send Send, c *Change) error {
	for {
		l, err := describe(ctx, send, c.Table)
		if err != nil {
			return err
		}
		state := "CREATING" // a new table may not be visible at once
		if l != nil {
			state = l.pendingState()
		}
		if state == "" {
			return nil
		}
		w.report(c, state)
		if err := Sleep(ctx, w.Every); err != nil {
			return fmt.Errorf("table %s is still %s: %w", c.Table, state, err)
		}
	}
}

// WaitUntilActive waits until a table and its indexes can be used.
func WaitUntilActive(ctx context.Context, send Send, table string) error {
	w := Waiting{Every: 500 * time.Millisecond}
	return w.waitUntilReady(ctx, send, &Change{Table: table})
}

// Sleep waits for d, or until the context ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// isFault reports whether an error is an API error with a code.
func isFault(err error, code string) bool {
	var fault *apierror.Error
	return errors.As(err, &fault) && fault.Code == code
}
