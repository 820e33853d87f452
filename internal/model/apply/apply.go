// Package apply makes the tables of an endpoint what a model says they are.
//
// It works out a plan first, and carries it out change by change. Tables that
// the model does not have are left alone, and so is what no request can
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

// Send sends one request of the API and returns the reply's body. A fault that
// the server tells is an *apierror.Error.
type Send func(ctx context.Context, operation string, body any) ([]byte, error)

// Plan is what has to be done.
type Plan struct {
	Changes []*Change `json:"changes"`
	Faults  []*Fault  `json:"faults,omitempty"` // with any, nothing can be done
	Notes   []string  `json:"notes,omitempty"`  // what the API cannot do at all
}

// Change is one request that changes a table.
type Change struct {
	Table   string        `json:"table"`
	Kind    string        `json:"kind"`
	Text    string        `json:"text"`            // what it does, for people
	Loses   string        `json:"loses,omitempty"` // what is gone afterwards
	Request model.Request `json:"request"`
}

// The kinds of change, in the order in which those of one table are made.
const (
	CreateTable = "create table"
	RemoveIndex = "remove index"
	Billing     = "billing"
	Units       = "units"
	AddIndex    = "add index"
	Stream      = "stream"
	TimeToLive  = "time to live"
	Recovery    = "recovery"
)

// Fault is a difference that no request can mend.
type Fault struct {
	Table   string `json:"table"`
	Message string `json:"message"`
	Try     string `json:"try,omitempty"`
}

// Make works out what has to be done to a model's tables.
func Make(ctx context.Context, send Send, m *model.Model) (*Plan, error) {
	plan := &Plan{Changes: []*Change{}}
	for _, t := range m.Tables {
		l, err := describe(ctx, send, t.Name)
		if err != nil {
			return nil, err
		}
		c := &comparer{plan: plan, table: t, live: l}
		if l == nil {
			c.create()
		} else {
			c.compare()
		}
		c.noteScaling()
	}
	return plan, nil
}

// Waiting is how the end of a change is waited for.
type Waiting struct {
	Every    time.Duration                 // how often the endpoint is asked
	Progress func(c *Change, state string) // each time the endpoint was asked; the state is "" when the change is done
}

// Do carries a plan out. The endpoint takes one change of a table at a time,
// so each is waited for.
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

// waitUntilReady waits until the table takes the next change.
func (w *Waiting) waitUntilReady(ctx context.Context, send Send, c *Change) error {
	for {
		l, err := describe(ctx, send, c.Table)
		if err != nil {
			return err
		}
		state := "CREATING" // what was just created may not be seen at once
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

// Sleep waits, or until the context ends.
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

// isFault tells whether an error is a fault of a certain code.
func isFault(err error, code string) bool {
	var fault *apierror.Error
	return errors.As(err, &fault) && fault.Code == code
}
