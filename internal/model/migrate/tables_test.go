package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

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
