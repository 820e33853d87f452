package migrate_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/migrate"
)

// Tables are deleted only if all of them can be.
func TestMigrateKeepsProtectedTables(t *testing.T) {
	new := strings.NewReplacer("aaa", "aaa2", "bbb", "bbb2").Replace(twoTables)
	for _, c := range []struct {
		goal, before migrate.Phase
		table        string
		others       []string
	}{
		{migrate.Dropped, migrate.Switched, "bbb", []string{"aaa", "bbb"}},
		{migrate.Aborted, migrate.Ready, "bbb2", []string{"aaa2", "bbb2"}},
	} {
		t.Run(string(c.goal), func(t *testing.T) {
			g := newRig(t, twoTables, new)
			g.do(migrate.Ready)
			g.do(c.before)
			protect := func(on bool) {
				g.send("UpdateTable", map[string]any{"TableName": c.table, "DeletionProtectionEnabled": on})
			}
			protect(true)
			st, err := g.migrator().Run(t.Context(), c.goal)
			if err == nil || st.Phase != c.before || !strings.Contains(err.Error(), "table "+c.table+" has deletion protection") {
				t.Errorf("phase %s, %v", st.Phase, err)
			}
			for _, table := range c.others {
				if g.describe(table) == "" {
					t.Errorf("table %s was deleted", table)
				}
			}
			protect(false)
			g.do(c.goal)
		})
	}
}

// An abort leaves nothing but the item that says so, and waits for changes of
// tables that are not finished.
func TestMigrateAbortLeavesNothing(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(20)
	g.do(migrate.Ready)
	busy := 3
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		if operation == "UpdateTable" && busy > 0 {
			busy--
			return nil, &apierror.Error{Code: "ResourceInUseException", Status: 400, Message: "Table is being updated"}
		}
		return g.e.Send(ctx, operation, body)
	}
	if st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Aborted); err != nil || st.Phase != migrate.Aborted {
		t.Fatalf("%+v, %v", st, err)
	}
	if is := streamOf(g, "orders"); is != "" {
		t.Errorf("the old table has a stream of %s", is)
	}
	var reply struct{ Items []json.RawMessage }
	if err := json.Unmarshal(g.send("Scan", map[string]any{"TableName": migrate.StateTable}), &reply); err != nil || len(reply.Items) != 1 {
		t.Errorf("the table of states has %d items, %v", len(reply.Items), err)
	}
}
