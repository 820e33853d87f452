package home

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/tablemodel"
)

// ensureTables creates the tables that do not exist. Tables that exist are not changed
// without o.Apply: an operator may have set their units, recovery and indexes. A
// difference without which the application cannot work is an error, any other is
// reported.
func (o *Options) ensureTables(ctx context.Context, db *dynamodb.Client, m *tablemodel.Model) error {
	plan, err := o.compare(ctx, db, m)
	if err != nil {
		return err
	}
	for _, c := range plan.Conflicts {
		return fmt.Errorf("table %s does not match the model: %s; %s", c.Table, c.Message, c.Try)
	}
	created := make(map[string]bool)
	for _, c := range plan.Changes {
		if c.Kind == tablemodel.CreateTable {
			created[c.Table] = true
		}
	}
	if o.LookOnly {
		return o.checkExist(m, created)
	}
	if err := o.checkDifferences(plan, created); err != nil {
		return err
	}
	wanted := plan.Select(func(c tablemodel.Change) bool { return created[c.Table] || o.Apply })
	return wanted.Apply(ctx, func(c tablemodel.Change, state string) {
		if state == "" && !created[c.Table] {
			o.report("table %s: %s: done", c.Table, c.Text)
		}
	})
}

// checkExist returns an error if a table does not exist.
func (o *Options) checkExist(m *tablemodel.Model, missing map[string]bool) error {
	for _, name := range m.Tables() {
		if missing[name] {
			return fmt.Errorf("there is no table %s %s; this command creates none", name, o.where())
		}
	}
	return nil
}

// where describes where the tables are.
func (o *Options) where() string {
	switch {
	case o.Endpoint == "aws":
		return "on AWS in the configured region"
	case o.Endpoint != "":
		return "at " + o.Endpoint
	}
	return "in " + o.Data
}

// checkDifferences reports how tables that exist differ from the model, and returns an
// error if the application cannot work with them.
func (o *Options) checkDifferences(plan *tablemodel.Plan, created map[string]bool) error {
	var blocking []error
	for _, c := range plan.Changes {
		switch {
		case created[c.Table]:
		case o.Apply && c.Loses != "":
			blocking = append(blocking, fmt.Errorf("table %s does not match the model: to %s would lose something (%s); use `stator model apply`", c.Table, c.Text, c.Loses))
		case o.Apply:
		case c.Kind == tablemodel.AddIndex || c.Kind == tablemodel.Stream:
			blocking = append(blocking, fmt.Errorf("table %s lacks what the application needs: %s; start it with --apply, or use `stator model apply`", c.Table, c.Text))
		default:
			o.report("table %s differs from the model and stays as it is; --apply, or `stator model apply`, would: %s", c.Table, c.Text)
		}
	}
	return errors.Join(blocking...)
}

// report reports something about the tables to an operator.
func (o *Options) report(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if o.Log != nil {
		o.Log.Warn(text)
		return
	}
	fmt.Fprintln(os.Stderr, strings.TrimSpace(text))
}
