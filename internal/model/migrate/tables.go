package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// createTables creates the new tables, adds indexes to those that stay, and
// enables the streams of the old ones.
func (r *phaseRun) createTables(ctx context.Context) error {
	for _, t := range r.m.plan.targets {
		if slices.Contains(r.state.Created, t.Name) {
			continue
		}
		exists, err := apply.Exists(ctx, r.m.c.send, t.Name)
		if err != nil {
			return err
		}
		if exists {
			return fmt.Errorf("table %s exists already; the items of a migration go into new tables", t.Name)
		}
		r.set(func(st *State) { st.Created = append(st.Created, t.Name) })
	}
	if err := r.save(ctx); err != nil {
		return err
	}
	if err := r.change(ctx, apply.CreateTable, apply.Billing, apply.Units, apply.AddIndex); err != nil {
		return err
	}
	for _, table := range r.m.plan.sourceNames() {
		if err := r.enableStream(ctx, table, r.m.plan.forward.needsImages(table)); err != nil {
			return err
		}
	}
	return nil
}

// change makes the changes of some kinds that the tables need to match the new
// model. New tables are created without a stream, whose consumers would see the
// copies as new items.
func (r *phaseRun) change(ctx context.Context, kinds ...string) error {
	plan, err := apply.Make(ctx, r.m.c.send, r.m.plan.new)
	if err != nil {
		return err
	}
	plan.Changes = slices.DeleteFunc(plan.Changes, func(c *apply.Change) bool { return !slices.Contains(kinds, c.Kind) })
	for _, c := range plan.Changes {
		if c.Kind == apply.CreateTable {
			delete(c.Request.Body, "StreamSpecification")
		}
	}
	return apply.Do(ctx, r.m.c.send, plan, apply.Waiting{Every: r.m.options.Poll})
}

// streamOf describes the stream of a table.
func (r *phaseRun) streamOf(ctx context.Context, table string) (arn, view string, err error) {
	var reply struct {
		Table struct {
			LatestStreamArn     string
			StreamSpecification struct {
				StreamEnabled  bool
				StreamViewType string
			}
		}
	}
	err = r.m.c.ask(ctx, "DescribeTable", map[string]any{"TableName": table}, &reply)
	if err != nil || !reply.Table.StreamSpecification.StreamEnabled {
		return "", "", err
	}
	return reply.Table.LatestStreamArn, reply.Table.StreamSpecification.StreamViewType, nil
}

const bothImages = "NEW_AND_OLD_IMAGES"

// enableStream makes sure that a table has a stream, with old images if they are
// needed, and records which one it is.
func (r *phaseRun) enableStream(ctx context.Context, table string, images bool) error {
	arn, view, err := r.streamOf(ctx, table)
	if err != nil {
		return err
	}
	if arn != "" && images && view != bothImages && view != "OLD_IMAGE" {
		return fmt.Errorf("table %s has a stream of %s, but the migration needs old images, since the new key depends on more than the old one\n        replace the stream by one of %s", table, view, bothImages)
	}
	if arn == "" {
		if !slices.Contains(r.state.Enabled, table) {
			r.set(func(st *State) { st.Enabled = append(st.Enabled, table) })
			if err := r.save(ctx); err != nil {
				return err
			}
		}
		body := map[string]any{"TableName": table, "StreamSpecification": map[string]any{"StreamEnabled": true, "StreamViewType": bothImages}}
		var ignored any
		if err := r.m.c.ask(ctx, "UpdateTable", body, &ignored); err != nil {
			return fmt.Errorf("enable the stream of table %s: %w", table, err)
		}
		if err := waitActive(ctx, r.m.c, table); err != nil {
			return err
		}
		if arn, _, err = r.streamOf(ctx, table); err != nil || arn == "" {
			return fmt.Errorf("table %s has no stream after it was enabled: %w", table, err)
		}
	}
	r.set(func(st *State) {
		if st.ARNs == nil {
			st.ARNs = make(map[string]string)
		}
		st.ARNs[table] = arn
	})
	return r.save(ctx)
}

// disableStream ends the stream of a table, if the migration enabled it.
func (r *phaseRun) disableStream(ctx context.Context, table string) error {
	arn, _, err := r.streamOf(ctx, table)
	if isFault(err, "ResourceNotFoundException") || err == nil && (arn == "" || !slices.Contains(r.state.Enabled, table)) {
		return nil
	}
	if err != nil {
		return err
	}
	var ignored any
	err = r.m.c.ask(ctx, "UpdateTable", map[string]any{"TableName": table, "StreamSpecification": map[string]any{"StreamEnabled": false}}, &ignored)
	if err != nil {
		return err
	}
	return waitActive(ctx, r.m.c, table)
}

// deleteTable deletes a table if it exists.
func (r *phaseRun) deleteTable(ctx context.Context, table string) error {
	for {
		var ignored any
		err := r.m.c.ask(ctx, "DeleteTable", map[string]any{"TableName": table}, &ignored)
		if isFault(err, "ResourceNotFoundException") {
			return nil
		}
		if err != nil && !isFault(err, "ResourceInUseException") {
			return fmt.Errorf("delete table %s: %w", table, err)
		}
		if err := apply.Sleep(ctx, max(r.m.options.Poll, time.Millisecond)); err != nil {
			return err
		}
	}
}

// drop removes what only the old model needs.
func (r *phaseRun) drop(ctx context.Context) error {
	for _, t := range r.m.plan.sources {
		if err := r.deleteTable(ctx, t.Name); err != nil {
			return err
		}
	}
	for _, t := range r.m.plan.old.Tables {
		if _, stays := r.m.plan.new.Table(t.Name); stays && t.Stream == "" {
			if err := r.disableStream(ctx, t.Name); err != nil {
				return err
			}
		}
	}
	plan, err := apply.Make(ctx, r.m.c.send, r.m.plan.new)
	if err != nil {
		return err
	}
	return apply.Do(ctx, r.m.c.send, plan, apply.Waiting{Every: r.m.options.Poll})
}

// abort removes what the migration created. Index keys that it added to items
// stay.
func (r *phaseRun) abort(ctx context.Context) error {
	for _, table := range r.state.Created {
		if err := r.deleteTable(ctx, table); err != nil {
			return err
		}
	}
	for _, table := range r.m.plan.sourceNames() {
		if err := r.disableStream(ctx, table); err != nil {
			return err
		}
	}
	plan, err := apply.Make(ctx, r.m.c.send, r.m.plan.old)
	if err != nil {
		return err
	}
	plan.Changes = slices.DeleteFunc(plan.Changes, func(c *apply.Change) bool { return c.Kind != apply.RemoveIndex })
	return apply.Do(ctx, r.m.c.send, plan, apply.Waiting{Every: r.m.options.Poll})
}
