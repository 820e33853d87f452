package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/migrate"
)

// beforeRecords returns a function that sends requests of streams, and calls fn
// before the first GetRecords.
func (g *rig) beforeRecords(fn func()) apply.Send {
	var once sync.Once
	return func(ctx context.Context, operation string, body any) ([]byte, error) {
		if operation == "GetRecords" {
			once.Do(fn)
		}
		return g.e.SendStreams(ctx, operation, body)
	}
}

// A stream that is disabled while it is followed has no records of later writes,
// so the switch fails.
func TestMigrateNoticesADisabledStream(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	streams := g.beforeRecords(func() {
		g.send("UpdateTable", map[string]any{"TableName": "orders", "StreamSpecification": map[string]any{"StreamEnabled": false}})
		a := w.stored[3]
		a["note"] = "without record"
		g.send("PutItem", map[string]any{"TableName": "orders", "Item": a.json()})
	})
	st, err := migrate.New(g.e.Send, streams, g.old, g.new, g.options).Run(t.Context(), migrate.Switched)
	if err == nil || !strings.Contains(err.Error(), "replaced or disabled") || st.Phase != migrate.Ready {
		t.Errorf("%+v, %v", st, err)
	}
	if !strings.Contains(fmt.Sprint(err), "abort the migration") {
		t.Errorf("before the switch: %v", err)
	}

	g = newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(20)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	g.send("UpdateTable", map[string]any{"TableName": "orders2", "StreamSpecification": map[string]any{"StreamEnabled": false}})
	_, err = g.migrator().Run(t.Context(), migrate.RolledBack)
	if text := fmt.Sprint(err); !strings.Contains(text, "drop --discard-late") || strings.Contains(text, "abort the migration") {
		t.Errorf("after the switch: %v", err)
	}
	g.options.DiscardLate = true
	g.do(migrate.Dropped)
}

// Empty pages, which AWS may return at any time, are not the end of a shard.
func TestMigrateReadsBeyondEmptyPages(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	a := w.stored[1]
	a["note"] = "changed"
	g.send("PutItem", map[string]any{"TableName": "orders", "Item": a.json()})
	var mutex sync.Mutex
	left := make(map[string]int) // empty pages, by iterator
	streams := func(ctx context.Context, operation string, body any) ([]byte, error) {
		if in, ok := body.(map[string]any); ok && operation == "GetRecords" {
			mutex.Lock()
			defer mutex.Unlock()
			it := in["ShardIterator"].(string)
			if _, ok := left[it]; !ok && len(left) < 8 {
				left[it] = 40
			}
			if left[it] > 0 {
				left[it]--
				return json.Marshal(map[string]any{"Records": []any{}, "NextShardIterator": it})
			}
		}
		return g.e.SendStreams(ctx, operation, body)
	}
	if _, err := migrate.New(g.e.Send, streams, g.old, g.new, g.options).Run(t.Context(), migrate.Switched); err != nil {
		t.Error(err)
	}
	g.wantItems("orders2", w.mapped(toNewOrder))
}

// The clock of the migrator does not decide which changes are followed.
func TestMigrateWithAClockThatIsAhead(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.options.Now = func() time.Time { return time.Now().Add(10 * time.Minute) }
	g.do(migrate.Ready)
	a := w.stored[1]
	a["note"] = "changed"
	g.send("PutItem", map[string]any{"TableName": "orders", "Item": a.json()})
	g.do(migrate.Switched)
	g.wantItems("orders2", w.mapped(toNewOrder))
	toNewOrder(a)
	a["note"] = "changed again"
	g.send("PutItem", map[string]any{"TableName": "orders2", "Item": a.json()})
	g.rollBack()
	a["PK"], a["SK"] = "C#"+a["customer"], "O#"+a["order"]
	g.wantItems("orders", w.mapped(func(stringItem) {}))
}

// Items that expire in the old tables after the switch are no late writes.
func TestMigrateExpiryIsNoLateWrite(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	for i := range 10 {
		g.send("DeleteItem", map[string]any{"TableName": "orders", "Key": w.stored[i].pick("PK", "SK")})
	}
	late := w.stored[15]
	late["note"] = "late"
	g.put("orders", late)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := g.options
	o.Changed = func(st migrate.State) {
		if st.Late > 0 {
			cancel()
		}
	}
	// The deletes are shown as those that the server makes.
	streams := func(ctx context.Context, operation string, body any) ([]byte, error) {
		text, err := g.e.SendStreams(ctx, operation, body)
		return bytes.ReplaceAll(text, []byte(`"eventName":"REMOVE"`), []byte(`"eventName":"REMOVE","userIdentity":{"Type":"Service","PrincipalId":"dynamodb.amazonaws.com"}`)), err
	}
	st, _ := migrate.New(g.e.Send, streams, g.old, g.new, o).Run(ctx, "")
	if st.Late != 1 || !strings.Contains(strings.Join(st.LateKeys, ""), late["SK"]) {
		t.Errorf("%d late writes, %q", st.Late, st.LateKeys)
	}
}

// The creation of tables and indexes may take more than a day: no record of that time
// is needed. Nor does a process end there that continues it later.
func TestMigrateCreatesForDays(t *testing.T) {
	for _, killed := range []bool{true, false} {
		g := newRig(t, oldOrders, newOrders)
		w := orderWriter(g)
		w.fill(20)
		var passed atomic.Int64
		now := time.Now()
		g.options.Now = func() time.Time { return now.Add(time.Duration(passed.Load())) }
		send := func(ctx context.Context, operation string, body any) ([]byte, error) {
			if operation == "CreateTable" && !strings.Contains(fmt.Sprint(body), migrate.StateTable) {
				passed.Add(int64(30 * time.Hour))
			}
			return g.e.Send(ctx, operation, body)
		}
		streams := func(ctx context.Context, operation string, body any) ([]byte, error) {
			if killed && operation == "GetShardIterator" {
				return nil, errKilled
			}
			return g.e.SendStreams(ctx, operation, body)
		}
		st, err := migrate.New(send, streams, g.old, g.new, g.options).Run(t.Context(), migrate.Ready)
		if killed && (!errors.Is(err, errKilled) || st.Phase != migrate.Create || len(st.ARNs) == 0) || !killed && err != nil {
			t.Fatalf("%+v, %v", st, err)
		}
		g.do(migrate.Ready)
		g.do(migrate.Switched)
		g.wantItems("orders2", w.mapped(toNewOrder))
	}
}
