package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/migrate"
)

// addIndex adds an index of an attribute to a table.
func (g *rig) addIndex(table, index, attribute string) {
	g.Helper()
	g.send("UpdateTable", map[string]any{"TableName": table,
		"AttributeDefinitions": []any{map[string]string{"AttributeName": attribute, "AttributeType": "S"}},
		"GlobalSecondaryIndexUpdates": []any{map[string]any{"Create": map[string]any{"IndexName": index,
			"KeySchema": []any{map[string]string{"AttributeName": attribute, "KeyType": "HASH"}}, "Projection": map[string]string{"ProjectionType": "ALL"}}}}})
	for !strings.Contains(g.describe(table), `"IndexStatus":"ACTIVE"`) {
		time.Sleep(time.Millisecond)
	}
}

// describe returns the description of a table, "" if it does not exist.
func (g *rig) describe(table string) string {
	text, err := g.e.Send(g.Context(), "DescribeTable", map[string]any{"TableName": table})
	if err != nil {
		return ""
	}
	return string(text)
}

// An abort removes the indexes that the migration added, and no others.
func TestMigrateAbortKeepsOtherIndexes(t *testing.T) {
	t.Run("of a table that is copied", func(t *testing.T) {
		g := newRig(t, oldOrders, newOrders)
		g.addIndex("orders", "byNote", "note")
		g.do(migrate.Ready)
		g.do(migrate.Aborted)
		if !strings.Contains(g.describe("orders"), "byNote") {
			t.Error("abort removed the index byNote")
		}
	})
	t.Run("of a table that stays", func(t *testing.T) {
		g := newRig(t, oldTasks, strings.NewReplacer("{partition: id}", "{partition: id}, indexes: {byState: {partition: state}}").Replace(oldTasks))
		g.addIndex("tasks", "byNote", "note")
		g.do(migrate.Ready)
		if !strings.Contains(g.describe("tasks"), "byState") {
			t.Fatal("the index byState was not added")
		}
		g.do(migrate.Aborted)
		if is := g.describe("tasks"); !strings.Contains(is, "byNote") || strings.Contains(is, "byState") {
			t.Errorf("after the abort: %s", is)
		}
	})
}

const twoTables = `
tables: {aaa: {key: {partition: id}}, bbb: {key: {partition: id}}}
entities:
  one: {table: aaa, attributes: {id: S}}
  two: {table: bbb, attributes: {id: S}}
patterns: [{name: get, get: one, given: [id], rate: 1/s}]
`

func (g *rig) createTable(table string) {
	g.Helper()
	g.send("CreateTable", map[string]any{"TableName": table, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []any{map[string]string{"AttributeName": "id", "AttributeType": "S"}}, "KeySchema": []any{map[string]string{"AttributeName": "id", "KeyType": "HASH"}}})
}

// An abort deletes the tables that the migration created, and no others that
// have their names.
func TestMigrateAbortKeepsOtherTables(t *testing.T) {
	new := strings.NewReplacer("aaa", "aaa2", "bbb", "bbb2").Replace(twoTables)
	t.Run("created after a run that stopped", func(t *testing.T) {
		g := newRig(t, twoTables, new)
		g.createTable("bbb2")
		_, err := g.migrator().Run(t.Context(), migrate.Ready)
		if err == nil || !strings.Contains(err.Error(), "bbb2 exists already") {
			t.Fatal(err)
		}
		g.createTable("aaa2")
		if _, err := g.migrator().Run(t.Context(), migrate.Ready); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("a second run: %v", err)
		}
		g.do(migrate.Aborted)
		if g.describe("aaa2") == "" || g.describe("bbb2") == "" {
			t.Error("abort deleted a table that the migration did not create")
		}
	})
	t.Run("created instead of those of the migration", func(t *testing.T) {
		g := newRig(t, twoTables, new)
		g.do(migrate.Ready)
		g.send("DeleteTable", map[string]any{"TableName": "aaa2"})
		for g.describe("aaa2") != "" {
			time.Sleep(time.Millisecond)
		}
		g.createTable("aaa2")
		g.do(migrate.Aborted)
		if g.describe("aaa2") == "" || g.describe("bbb2") != "" {
			t.Error("abort deleted the wrong table")
		}
	})
	t.Run("created when the reply is lost", func(t *testing.T) {
		g := newRig(t, twoTables, new)
		send := func(ctx context.Context, operation string, body any) ([]byte, error) {
			text, err := g.e.Send(ctx, operation, body)
			if b, _ := json.Marshal(body); operation == "CreateTable" && strings.Contains(string(b), "aaa2") {
				return nil, errors.New("no answer")
			}
			return text, err
		}
		if _, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Ready); err == nil {
			t.Fatal("no error")
		}
		g.do(migrate.Ready)
		g.do(migrate.Aborted)
		if g.describe("aaa2") != "" || g.describe("bbb2") != "" {
			t.Error("a table of the migration exists after the abort")
		}
	})
}

// A switch does not wait for time to live, which takes up to an hour on AWS. It
// is enabled after the switch, and again by the next process if that fails.
func TestMigrateSwitchDoesNotWaitForTimeToLive(t *testing.T) {
	g := newRig(t, sessions, strings.NewReplacer("sessions:", "sessions2:").Replace(sessions))
	g.do(migrate.Ready)
	var mutex sync.Mutex
	requests, fails := 0, true
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		mutex.Lock()
		defer mutex.Unlock()
		switch operation {
		case "UpdateTimeToLive":
			if requests++; fails {
				return nil, errors.New("no answer")
			}
		case "DescribeTimeToLive":
			if requests > 1 {
				return []byte(`{"TimeToLiveDescription":{"TimeToLiveStatus":"ENABLING","AttributeName":"until"}}`), nil
			}
		}
		return g.e.Send(ctx, operation, body)
	}
	st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Switched)
	if err != nil || st.Phase != migrate.Switched || requests != 1 || !strings.Contains(st.Unfinished, "time to live") {
		t.Fatalf("%d requests, %+v, %v", requests, st, err)
	}
	fails = false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := g.options
	o.Changed = func(st migrate.State) {
		if st.Unfinished == "" {
			cancel()
		}
	}
	if st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, o).Run(ctx, ""); !errors.Is(err, context.Canceled) || requests != 2 || st.Unfinished != "" {
		t.Errorf("%d requests, %+v, %v", requests, st, err)
	}
}

// A new table scales its units after the switch, when the application uses it.
func TestMigrateSwitchRegistersAutoScaling(t *testing.T) {
	g := newRig(t, sessions, strings.NewReplacer("sessions: {", "sessions2: {billing: provisioned, read: {min: 5, max: 50}, write: {units: 5}, ").Replace(sessions))
	describe := func() string {
		return string(g.send("DescribeScalingPolicies", map[string]any{"ServiceNamespace": "dynamodb", "ResourceId": "table/sessions2"}))
	}
	g.do(migrate.Ready)
	if got := describe(); strings.Contains(got, "PolicyName") {
		t.Errorf("before the switch: %s", got)
	}
	g.do(migrate.Switched)
	if got := describe(); !strings.Contains(got, "DynamoDBReadCapacityUtilization:table/sessions2") {
		t.Errorf("after the switch: %s", got)
	}
}

const sessions = `
tables: {sessions: {key: {partition: id}, ttl: until}}
entities:
  session: {attributes: {id: S, until: N, note: S}}
patterns: [{name: get, get: session, given: [id], rate: 1/s}]
`

// An abort or a drop that was interrupted can only be continued, and no other
// command continues it.
func TestMigrateInterruptedRemoval(t *testing.T) {
	for _, c := range []struct{ phase, goal, during migrate.Phase }{
		{migrate.Ready, migrate.Aborted, migrate.Aborting},
		{migrate.Switched, migrate.Dropped, migrate.Dropping},
	} {
		t.Run(string(c.goal), func(t *testing.T) {
			g := newRig(t, oldOrders, newOrders)
			orderWriter(g).fill(20)
			g.do(migrate.Ready)
			g.do(c.phase)
			send := func(ctx context.Context, operation string, body any) ([]byte, error) {
				if operation == "UpdateTable" {
					return nil, errors.New("no answer")
				}
				return g.e.Send(ctx, operation, body)
			}
			if st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), c.goal); err == nil || st.Phase != c.during {
				t.Fatalf("%+v, %v", st, err)
			}
			for _, goal := range []migrate.Phase{"", migrate.Ready, migrate.Switched, migrate.RolledBack, migrate.Aborted, migrate.Dropped} {
				if goal == c.goal {
					continue
				}
				if st, err := g.migrator().Run(t.Context(), goal); err == nil || st.Phase != c.during {
					t.Errorf("%q: %+v, %v", goal, st, err)
				}
			}
			g.options.Window = time.Hour
			g.do(c.goal)
		})
	}
}

// The backfill begins when the stream of the old table is enabled: writes before
// have no record.
func TestMigrateWaitsForStreams(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(20)
	var mutex sync.Mutex
	enabling, scans := 5, 0
	streams := func(ctx context.Context, operation string, body any) ([]byte, error) {
		text, err := g.e.SendStreams(ctx, operation, body)
		mutex.Lock()
		defer mutex.Unlock()
		if operation == "DescribeStream" && enabling > 0 {
			enabling--
			return bytes.ReplaceAll(text, []byte(`"ENABLED"`), []byte(`"ENABLING"`)), err
		}
		return text, err
	}
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		mutex.Lock()
		if m, ok := body.(map[string]any); ok && operation == "Scan" && m["TableName"] == "orders" && enabling > 0 {
			scans++
		}
		mutex.Unlock()
		return g.e.Send(ctx, operation, body)
	}
	if _, err := migrate.New(send, streams, g.old, g.new, g.options).Run(t.Context(), migrate.Ready); err != nil || scans > 0 {
		t.Errorf("%d scans before the stream was enabled, %v", scans, err)
	}
}

// AWS may show the tags of a table some time after it was created. The table
// belongs to the migration nevertheless, also if the reply was lost.
func TestMigrateCreatesTablesWithoutTags(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("reply lost %t", lost), func(t *testing.T) {
			g := newRig(t, oldOrders, newOrders)
			orderWriter(g).fill(20)
			untagged := 3
			send := func(ctx context.Context, operation string, body any) ([]byte, error) {
				if operation == "ListTagsOfResource" && untagged > 0 {
					untagged--
					return []byte(`{"Tags": []}`), nil
				}
				text, err := g.e.Send(ctx, operation, body)
				if b, _ := json.Marshal(body); operation == "CreateTable" && lost && strings.Contains(string(b), "orders2") {
					lost = false
					return nil, errors.New("no answer")
				}
				return text, err
			}
			g.options.Retry = time.Minute
			if _, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Ready); err != nil {
				t.Fatal(err)
			}
			g.do(migrate.Aborted)
			if g.describe("orders2") != "" {
				t.Error("the new table exists after the abort")
			}
		})
	}
}

func (g *rig) ttlOf(table string) string {
	g.Helper()
	var reply struct {
		TimeToLiveDescription struct{ AttributeName, TimeToLiveStatus string }
	}
	if err := json.Unmarshal(g.send("DescribeTimeToLive", map[string]any{"TableName": table}), &reply); err != nil {
		g.Fatal(err)
	}
	if d := reply.TimeToLiveDescription; d.TimeToLiveStatus == "ENABLED" {
		return d.AttributeName
	}
	return ""
}

// After a rollback items expire as they did before the switch: new ones follow the
// old ones, and those of a table that stays do not expire by the new model.
func TestMigrateRollbackRestoresTimeToLive(t *testing.T) {
	replace := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for _, c := range []struct{ name, old, new, table, before, after string }{
		{"a new table", sessions, replace(sessions, "sessions:", "sessions2:"), "sessions2", "", "until"},
		{"a table that stays", replace(sessions, ", ttl: until", ""), sessions, "sessions", "", "until"},
		{"a table that stays with another attribute", replace(sessions, "note: S", "ends: N", "ttl: until", "ttl: ends"), replace(sessions, "note: S", "ends: N"), "sessions", "ends", "until"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, c.old, c.new)
			if c.before != "" {
				g.send("UpdateTimeToLive", map[string]any{"TableName": c.table, "TimeToLiveSpecification": map[string]any{"AttributeName": c.before, "Enabled": true}})
			}
			g.do(migrate.Ready)
			want := func(when, is string) {
				t.Helper()
				if got := g.ttlOf(c.table); got != is {
					t.Errorf("%s items expire by %q, want %q", when, got, is)
				}
			}
			want("before the switch", c.before)
			g.do(migrate.Switched)
			want("after the switch", c.after)
			// The first change is rejected, as AWS does within an hour.
			rejected := false
			send := func(ctx context.Context, operation string, body any) ([]byte, error) {
				if operation == "UpdateTimeToLive" && !rejected {
					rejected = true
					return nil, &apierror.Error{Code: "ValidationException", Status: 400, Message: "Time to live has been modified multiple times within a fixed interval"}
				}
				return g.e.Send(ctx, operation, body)
			}
			st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.RolledBack)
			if err != nil || !strings.Contains(st.Unfinished, "fixed interval") {
				t.Errorf("%+v, %v", st, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ran := make(chan struct{})
			go func() {
				defer close(ran)
				_, _ = g.migrator().Run(ctx, "")
			}()
			for ctx.Err() == nil && g.ttlOf(c.table) != c.before {
				time.Sleep(time.Millisecond)
			}
			want("after the rollback", c.before)
			cancel()
			<-ran
			g.do(migrate.Ready)
			g.do(migrate.Switched)
			want("after another switch", c.after)
			g.rollBack()
			if c.table == "sessions2" {
				want("after another rollback", c.before)
				return
			}
			g.do(migrate.Aborted)
			want("after an abort", c.before)
		})
	}
}
