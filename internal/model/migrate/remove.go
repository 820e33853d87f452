package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
)

// disableStream ends the stream of a table, if the migration enabled it.
func (r *phaseRun) disableStream(ctx context.Context, table string) error {
	arn, _, err := r.streamOf(ctx, table)
	if isFault(err, "ResourceNotFoundException") || err == nil && (arn == "" || !slices.Contains(r.state.Enabled, table)) {
		return nil
	}
	if is := r.state.ARNs[table]; is != "" && is != arn {
		return nil // something else has replaced it
	}
	if err != nil {
		return err
	}
	for {
		var ignored any
		err = r.m.c.ask(ctx, "UpdateTable", map[string]any{"TableName": table, "StreamSpecification": map[string]any{"StreamEnabled": false}}, &ignored)
		if err == nil {
			return waitActive(ctx, r.m.c, table)
		}
		if !isFault(err, "ResourceInUseException") {
			return fmt.Errorf("end the stream of table %s: %w", table, err)
		}
		// Another change of the table, such as a new index, is not finished.
		if err := apply.Sleep(ctx, max(r.m.options.Poll, time.Millisecond)); err != nil {
			return err
		}
		if is, _, err := r.streamOf(ctx, table); err != nil || is != arn {
			return err
		}
	}
}

// checkUnprotected checks that tables can be deleted, before the first of them is.
func (r *phaseRun) checkUnprotected(ctx context.Context, tables []string) error {
	for _, table := range tables {
		is, err := r.describe(ctx, table)
		if err != nil {
			return err
		}
		if is == nil || slices.Contains(r.state.Created, table) && !is.ours {
			continue
		}
		if is.DeletionProtectionEnabled {
			return fmt.Errorf("table %s has deletion protection; nothing was deleted\n        disable the protection, and repeat the command", table)
		}
	}
	return nil
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

// abort removes what the migration created, and nothing else. Index keys that it
// added to items stay, and so do billing and units of tables that stay.
func (r *phaseRun) abort(ctx context.Context) error {
	for _, table := range r.state.Created {
		is, err := r.describe(ctx, table)
		if err != nil {
			return err
		}
		if is == nil || !is.ours {
			continue
		}
		if err := r.deleteTable(ctx, table); err != nil {
			return err
		}
	}
	// An index that is being created may take hours, during which the table cannot
	// be changed otherwise.
	for _, x := range r.state.Added {
		if err := r.removeIndex(ctx, x); err != nil {
			return err
		}
	}
	for _, table := range r.m.plan.sourceNames() {
		if err := r.disableStream(ctx, table); err != nil {
			return err
		}
	}
	stay := slices.DeleteFunc(slices.Clone(r.state.Expiring), func(table string) bool { return !r.m.plan.inPlace(table) })
	if len(stay) == 0 {
		return nil
	}
	if err := r.restoreExpiry(ctx, stay); err != nil {
		return err
	}
	if r.state.Unfinished != "" {
		return errors.New(r.state.Unfinished)
	}
	return nil
}

// removeIndex removes an index if it exists.
func (r *phaseRun) removeIndex(ctx context.Context, x AddedIndex) error {
	for {
		is, err := r.describe(ctx, x.Table)
		if err != nil || is == nil || !is.hasIndex(x.Index) {
			return err
		}
		part := map[string]any{"Delete": map[string]any{"IndexName": x.Index}}
		var ignored any
		err = r.m.c.ask(ctx, "UpdateTable", map[string]any{"TableName": x.Table, "GlobalSecondaryIndexUpdates": []any{part}}, &ignored)
		// The table may be in another change, or the index is being removed.
		if err != nil && !isFault(err, "ResourceInUseException", "ResourceNotFoundException", "LimitExceededException") {
			return fmt.Errorf("remove index %s of table %s: %w", x.Index, x.Table, err)
		}
		if err := apply.Sleep(ctx, max(r.m.options.Poll, time.Millisecond)); err != nil {
			return err
		}
	}
}
