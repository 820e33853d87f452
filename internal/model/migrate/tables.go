package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// createTables creates the new tables, adds indexes to those that stay, and
// enables the streams of the old ones.
func (r *phaseRun) createTables(ctx context.Context) error {
	if err := r.m.checkStreams(ctx, r.m.c.askStreams); err != nil {
		return err
	}
	plan, err := apply.Make(ctx, r.m.c.send, r.m.plan.new)
	if err != nil {
		return err
	}
	if len(plan.Faults) > 0 {
		return fmt.Errorf("table %s: %s", plan.Faults[0].Table, plan.Faults[0].Message)
	}
	for _, t := range r.m.plan.targets {
		if is, err := r.describe(ctx, t.Name); err != nil || is != nil && !is.ours {
			return cmp.Or(err, existsAlready(t.Name))
		}
	}
	for _, c := range plan.Changes {
		if c.Kind == apply.CreateTable {
			if err := r.createTable(ctx, c); err != nil {
				return err
			}
		}
	}
	for _, t := range r.m.plan.targets {
		if err := waitActive(ctx, r.m.c, t.Name); err != nil {
			return err
		}
	}
	if err := r.changeTables(ctx, plan); err != nil {
		return err
	}
	for _, table := range r.m.plan.sourceNames() {
		if err := r.enableStream(ctx, table, r.m.plan.forward.needsImages(table)); err != nil {
			return err
		}
	}
	return nil
}

func existsAlready(table string) error {
	return fmt.Errorf("table %s exists already; the items of a migration go into new tables", table)
}

// migrationTag is the tag of a new table until its id is stored.
const migrationTag = "stator-migration"

// createTable creates a table, without a stream, whose consumers would see the
// copies as new items. Its name is stored before, and its id afterwards. In
// between the tag says that the table belongs to the migration.
func (r *phaseRun) createTable(ctx context.Context, c *apply.Change) error {
	if !slices.Contains(r.state.Created, c.Table) {
		r.set(func(st *State) { st.Created = append(st.Created, c.Table) })
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	delete(c.Request.Body, "StreamSpecification")
	c.Request.Body["Tags"] = []any{stringMap{"Key": migrationTag, "Value": r.state.ID}}
	var reply struct{ TableDescription tableDescription }
	err := r.m.c.ask(ctx, "CreateTable", c.Request.Body, &reply)
	if err != nil && !isFault(err, "ResourceInUseException") {
		return fmt.Errorf("create table %s: %w", c.Table, err)
	}
	if is := reply.TableDescription; is.TableID != "" {
		if err := r.keepID(ctx, c.Table, is.TableID); err != nil {
			return err
		}
	}
	if err := waitActive(ctx, r.m.c, c.Table); err != nil {
		return err
	}
	// A repeated request may find the table that the first one created.
	is, err := r.describe(ctx, c.Table)
	if err != nil {
		return err
	}
	if is == nil || !is.ours {
		return existsAlready(c.Table)
	}
	// A tag that stays does no harm.
	_, _ = r.m.c.send(ctx, "UntagResource", map[string]any{"ResourceArn": is.TableArn, "TagKeys": []string{migrationTag}})
	return nil
}

// keepID stores the id of a table that the migration created.
func (r *phaseRun) keepID(ctx context.Context, table, id string) error {
	r.set(func(st *State) {
		if st.TableIDs == nil {
			st.TableIDs = make(map[string]string)
		}
		st.TableIDs[table] = id
	})
	return r.save(ctx)
}

// tableDescription is a table of the endpoint.
type tableDescription struct {
	TableID  string `json:"TableId"`
	TableArn string
	Indexes  []struct{ IndexName string } `json:"GlobalSecondaryIndexes"`

	DeletionProtectionEnabled bool

	ours bool // the migration created it
}

// describe describes a table; nil if it does not exist.
func (r *phaseRun) describe(ctx context.Context, table string) (*tableDescription, error) {
	var reply struct{ Table *tableDescription }
	err := r.m.c.ask(ctx, "DescribeTable", map[string]any{"TableName": table}, &reply)
	if isFault(err, "ResourceNotFoundException") {
		return nil, nil
	}
	if err != nil || reply.Table == nil {
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	}
	is := reply.Table
	if id := r.state.TableIDs[table]; id != "" {
		is.ours = is.TableID == id
		return is, nil
	}
	if slices.Contains(r.state.Created, table) {
		is.ours, err = r.adopt(ctx, table, is)
	}
	return is, err
}

// adopt reports whether a table has the tag of the migration, and stores its id.
// AWS may show the tags of a new table some time after the table.
func (r *phaseRun) adopt(ctx context.Context, table string, is *tableDescription) (bool, error) {
	for until := time.Now().Add(r.m.options.Retry); ; {
		tagged, err := r.isTagged(ctx, is.TableArn)
		switch {
		case err != nil:
			return false, err
		case tagged && is.TableID == "":
			return true, nil
		case tagged:
			return true, r.keepID(ctx, table, is.TableID)
		case !time.Now().Before(until):
			return false, nil
		}
		if err := apply.Sleep(ctx, max(r.m.options.Poll, time.Millisecond)); err != nil {
			return false, err
		}
	}
}

func (r *phaseRun) isTagged(ctx context.Context, arn string) (bool, error) {
	body := map[string]any{"ResourceArn": arn}
	for {
		var reply struct {
			Tags      []struct{ Key, Value string }
			NextToken string
		}
		err := r.m.c.ask(ctx, "ListTagsOfResource", body, &reply)
		if isFault(err, "ResourceNotFoundException") {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read the tags of %s: %w", arn, err)
		}
		for _, tag := range reply.Tags {
			if tag.Key == migrationTag && tag.Value == r.state.ID {
				return true, nil
			}
		}
		if reply.NextToken == "" {
			return false, nil
		}
		body["NextToken"] = reply.NextToken
	}
}

// AddedIndex names an index that a migration added to a table that stays.
type AddedIndex struct {
	Table string `json:"table"`
	Index string `json:"index"`
}

// changeTables adds the indexes of the new model to the tables that stay, and
// changes their billing and their units.
func (r *phaseRun) changeTables(ctx context.Context, plan *apply.Plan) error {
	kinds := []string{apply.Billing, apply.Units, apply.AddIndex}
	changes := slices.DeleteFunc(slices.Clone(plan.Changes), func(c *apply.Change) bool { return !slices.Contains(kinds, c.Kind) })
	for _, c := range changes {
		if c.Kind == apply.AddIndex {
			if err := r.recordIndex(ctx, c); err != nil {
				return err
			}
		}
	}
	return apply.Do(ctx, r.m.c.send, &apply.Plan{Changes: changes}, apply.Waiting{Every: r.m.options.Poll})
}

// recordIndex stores that an index is about to be added.
func (r *phaseRun) recordIndex(ctx context.Context, c *apply.Change) error {
	name, err := addedIndex(c.Request)
	if err != nil {
		return err
	}
	is, err := r.describe(ctx, c.Table)
	if err != nil {
		return err
	}
	added := AddedIndex{c.Table, name}
	switch {
	case slices.Contains(r.state.Added, added):
		return nil
	case is != nil && is.hasIndex(name):
		return fmt.Errorf("table %s has an index %s that differs from that of the new model: give the new index another name", c.Table, name)
	}
	r.set(func(st *State) { st.Added = append(st.Added, added) })
	return r.save(ctx)
}

func (is *tableDescription) hasIndex(name string) bool {
	return slices.ContainsFunc(is.Indexes, func(x struct{ IndexName string }) bool { return x.IndexName == name })
}

// addedIndex returns the index that a request adds.
func addedIndex(q model.Request) (string, error) {
	text, err := json.Marshal(q.Body)
	if err != nil {
		return "", err
	}
	var body struct {
		GlobalSecondaryIndexUpdates []struct{ Create struct{ IndexName string } }
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return "", err
	}
	if len(body.GlobalSecondaryIndexUpdates) != 1 {
		return "", errors.New("a request adds no index, or several")
	}
	return body.GlobalSecondaryIndexUpdates[0].Create.IndexName, nil
}

// finishSwitch enables time to live, recovery and auto scaling of the new tables. It does not
// wait until they are enabled, which takes up to an hour on AWS, and it stores
// an error instead of returning it, since the switch has happened.
func (r *phaseRun) finishSwitch(ctx context.Context) error {
	if r.finished {
		return nil
	}
	plan, err := apply.Make(ctx, r.m.c.send, r.m.plan.new)
	r.finished = err == nil
	if err == nil {
		for _, c := range plan.Changes {
			if c.Kind != apply.TimeToLive && c.Kind != apply.Recovery && (c.Kind != apply.Scaling || c.Loses != "") {
				continue
			}
			r.finished = false // the next plan shows whether it is enabled
			if failure := r.keepExpiring(ctx, c); failure != nil {
				return failure
			}
			if _, failure := r.m.c.send(ctx, c.Request.Operation, c.Request.Body); failure != nil {
				err = errors.Join(err, fmt.Errorf("table %s: %s: %w", c.Table, c.Kind, failure))
			}
		}
	}
	return r.setUnfinished(ctx, err)
}

// setUnfinished stores why time to live, recovery or auto scaling are not as they should be.
func (r *phaseRun) setUnfinished(ctx context.Context, reason error) error {
	text := ""
	if reason != nil {
		text = shorten(reason.Error())
	}
	if r.state.Unfinished == text {
		return nil
	}
	r.set(func(st *State) { st.Unfinished = text })
	return r.save(ctx)
}

// keepExpiring stores that the time to live of a table is about to be changed.
func (r *phaseRun) keepExpiring(ctx context.Context, c *apply.Change) error {
	if c.Kind != apply.TimeToLive || slices.Contains(r.state.Expiring, c.Table) {
		return nil
	}
	r.set(func(st *State) { st.Expiring = append(st.Expiring, c.Table) })
	return r.save(ctx)
}

// restoreExpiry makes time to live as it was before the switch: the items of the
// new tables expire with those of the old ones, which they follow, and a table
// that stays expires as the old model says. Like finishSwitch it does not wait,
// and it stores an error: AWS rejects a second change within an hour.
func (r *phaseRun) restoreExpiry(ctx context.Context, tables []string) error {
	before := new(model.Model)
	for _, name := range tables {
		if t, ok := r.m.plan.old.Table(name); ok {
			before.Tables = append(before.Tables, t)
		} else if t, ok := r.m.plan.new.Table(name); ok {
			without := *t
			without.TTL = ""
			before.Tables = append(before.Tables, &without)
		}
	}
	plan, err := apply.Make(ctx, r.m.c.send, before)
	restored := err == nil
	if err == nil {
		for _, c := range plan.Changes {
			if c.Kind != apply.TimeToLive {
				continue
			}
			restored = false // the next plan shows whether it is
			if _, failure := r.m.c.send(ctx, c.Request.Operation, c.Request.Body); failure != nil {
				err = errors.Join(err, fmt.Errorf("table %s: %s: %w", c.Table, c.Kind, failure))
			}
		}
	}
	if restored && len(r.state.Expiring) > 0 {
		r.set(func(st *State) { st.Expiring = nil })
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	return r.setUnfinished(ctx, err)
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
		failure := r.m.c.ask(ctx, "UpdateTable", body, &ignored)
		if err := waitActive(ctx, r.m.c, table); err != nil {
			return err
		}
		// A repeated request fails if the first one enabled the stream.
		if arn, _, err = r.streamOf(ctx, table); err != nil || arn == "" {
			return fmt.Errorf("enable the stream of table %s: %w", table, errors.Join(failure, err))
		}
	}
	if err := r.waitStream(ctx, arn); err != nil {
		return err
	}
	r.set(func(st *State) {
		if st.ARNs == nil {
			st.ARNs = make(map[string]string)
		}
		st.ARNs[table] = arn
	})
	return r.save(ctx)
}

// waitStream waits until a stream is enabled. Writes before may have no record.
func (r *phaseRun) waitStream(ctx context.Context, arn string) error {
	for {
		var reply struct {
			StreamDescription struct{ StreamStatus string }
		}
		if err := r.m.c.askStreams(ctx, "DescribeStream", map[string]any{"StreamArn": arn, "Limit": 1}, &reply); err != nil {
			return fmt.Errorf("describe the stream %s: %w", arn, err)
		}
		if reply.StreamDescription.StreamStatus != "ENABLING" {
			return nil
		}
		if err := apply.Sleep(ctx, max(r.m.options.Poll, time.Millisecond)); err != nil {
			return err
		}
	}
}
