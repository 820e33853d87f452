package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/migrate"
)

// The stored phase is the one that a switch reports, whether or not the request
// that stores it was executed before its reply was lost.
func TestMigrateSwitchReportsWhatIsStored(t *testing.T) {
	for _, c := range []struct {
		name     string
		executed bool
		want     migrate.Phase
	}{
		{"not executed", false, migrate.Ready},
		{"executed", true, migrate.Switched},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, oldOrders, newOrders)
			orderWriter(g).fill(20)
			g.do(migrate.Ready)
			lost := false
			send := func(ctx context.Context, operation string, body any) ([]byte, error) {
				text, _ := json.Marshal(body)
				if operation == "UpdateItem" && !lost && strings.Contains(string(text), `\"phase\":\"switched\"`) {
					lost = true
					if c.executed {
						_, _ = g.e.Send(ctx, operation, body)
					}
					return nil, errors.New("no answer")
				}
				return g.e.Send(ctx, operation, body)
			}
			st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Switched)
			if !lost || (err == nil) != (c.want == migrate.Switched) || st.Phase != c.want {
				t.Errorf("the command returns phase %s, %v", st.Phase, err)
			}
			if st, err := g.migrator().Status(t.Context()); err != nil || st.Phase != c.want {
				t.Errorf("phase %s is stored, %v", st.Phase, err)
			}
		})
	}
}

// After a rollback the verification keeps items of entities that only the new
// model has.
func TestMigrateVerifiesAfterRollback(t *testing.T) {
	g := newRig(t, oldShop, newShop)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	coupon := stringItem{"PK": "COUPON#1", "SK": "COUPON", "code": "1"}
	g.send("PutItem", map[string]any{"TableName": "shop", "Item": coupon.json()})
	g.rollBack()
	for _, repair := range []bool{false, true} {
		g.options.Verify, g.options.Repair = true, repair
		if st := g.do(migrate.Ready); st.Verified.Kept != 1 || st.Verified.Repaired != 0 {
			t.Errorf("%+v", st.Verified)
		}
	}
	g.wantItems("shop", []stringItem{coupon})
}

// Late writes, a rollback because of them, and a second switch: the verification
// after the rollback copies them.
func TestMigrateSecondSwitchHasLateWrites(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	late := w.stored[5]
	late["note"], late["region"] = "late", "elsewhere"
	g.send("PutItem", map[string]any{"TableName": "orders", "Item": late.json()})
	g.send("DeleteItem", map[string]any{"TableName": "orders", "Key": w.stored[6].pick("PK", "SK")})
	delete(w.stored, 6)
	g.rollBack()
	if st, err := g.migrator().Run(t.Context(), migrate.Switched); err == nil {
		t.Errorf("it is switched without a verification: %+v", st)
	}
	if st := g.do(migrate.Ready); st.Late != 0 || st.Verified.Repaired == 0 || len(st.Verified.RepairedKeys) == 0 {
		t.Errorf("%d late writes, %+v", st.Late, st.Verified)
	}
	g.do(migrate.Switched)
	g.wantItems("orders", w.mapped(func(stringItem) {}))
	g.wantItems("orders2", w.mapped(toNewOrder))
}

// Writes to the new tables while the application uses the old ones are reported,
// and prevent the switch until the new tables are repaired. Those that the
// migration itself makes there are not.
func TestMigrateReportsEarlyWrites(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(100)
	g.do(migrate.Ready)
	o := g.options
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.Changed = func(st migrate.State) {
		if st.Late > 0 {
			cancel()
		}
	}
	g.whileWriting(100, func() {
		time.AfterFunc(50*time.Millisecond, func() {
			_, _ = g.e.Send(ctx, "PutItem", map[string]any{"TableName": "orders2", "Item": stringItem{"region": "early", "SK": "x/y", "customer": "x", "order": "y"}.json()})
		})
		_, _ = migrate.New(g.e.Send, g.e.SendStreams, g.old, g.new, o).Run(ctx, "")
	}, w)
	st, err := g.migrator().Run(t.Context(), migrate.Switched)
	if err == nil || st.Late != 1 || !strings.Contains(err.Error(), "x/y") || !strings.Contains(err.Error(), "--repair") {
		t.Fatalf("%d early writes, %q: %v", st.Late, st.LateKeys, err)
	}
	g.options.Verify, g.options.Repair = true, true
	if st := g.do(migrate.Ready); st.Late != 0 {
		t.Errorf("after the repair there are %d early writes, %q", st.Late, st.LateKeys)
	}
	g.do(migrate.Switched)
	g.wantItems("orders2", w.mapped(toNewOrder))
}

// Old tables with writes that came after the switch are not dropped, also if the
// process was killed before it reported them.
func TestMigrateDropKeepsLateWrites(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %t", killed), func(t *testing.T) {
			g := newRig(t, oldOrders, newOrders)
			w := orderWriter(g)
			w.fill(20)
			g.do(migrate.Ready)
			g.do(migrate.Switched)
			late := w.stored[5]
			late["note"] = "late"
			g.send("PutItem", map[string]any{"TableName": "orders", "Item": late.json()})
			if killed {
				g.runUntilPosition("orders")
			}
			st, err := g.migrator().Run(t.Context(), migrate.Dropped)
			if err == nil || st.Late != 1 || !strings.Contains(err.Error(), late["SK"]) || !strings.Contains(err.Error(), "--discard-late") {
				t.Fatalf("%d late writes, %q: %v", st.Late, st.LateKeys, err)
			}
			g.wantItems("orders", w.mapped(func(stringItem) {}))
			if _, err := g.migrator().Run(t.Context(), migrate.Dropped); err == nil {
				t.Error("a second drop succeeds")
			}
			g.options.DiscardLate = true
			g.do(migrate.Dropped)
		})
	}
}

// runUntilPosition runs a process that is killed when it has stored a position in
// the stream of a table.
func (g *rig) runUntilPosition(table string) {
	g.Helper()
	var dead atomic.Bool
	limit := func(send apply.Send) apply.Send {
		return func(ctx context.Context, operation string, body any) ([]byte, error) {
			if dead.Load() {
				return nil, errKilled
			}
			text, err := send(ctx, operation, body)
			if b, _ := json.Marshal(body); operation == "PutItem" && strings.Contains(string(b), "shard#"+table+"#") {
				dead.Store(true)
			}
			return text, err
		}
	}
	_, err := migrate.New(limit(g.e.Send), limit(g.e.SendStreams), g.old, g.new, g.options).Run(g.Context(), "")
	if !errors.Is(err, errKilled) {
		g.Fatal(err)
	}
}

// A number of segments with which nothing would be read is rejected.
func TestMigrateSegments(t *testing.T) {
	for _, n := range []int{-1, 1_000_001} {
		g := newRig(t, oldOrders, newOrders)
		orderWriter(g).fill(20)
		g.options.Segments = n
		if st, err := g.migrator().Run(t.Context(), migrate.Ready); err == nil || !strings.Contains(err.Error(), "segments") {
			t.Errorf("%d segments: %+v, %v", n, st, err)
		}
	}
}

// started runs the migration in a process of its own until the test ends, and
// returns when that process is the owner. The channel gets its error.
func (g *rig) started() (ended <-chan error) {
	g.Helper()
	ran := make(chan error, 1)
	m := g.migrator()
	go func() {
		_, err := m.Run(g.Context(), "")
		ran <- err
	}()
	for {
		st, err := g.migrator().Status(g.Context())
		if err != nil {
			g.Fatal(err)
		}
		if st.Until.After(time.Now()) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	g.options.Owner = "second"
	return ran
}

// A verification that is requested while another process runs the migration is
// executed by that process.
func TestMigrateVerifiesInAnotherProcess(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	before := g.do(migrate.Ready)
	ended := g.started()
	g.options.Verify = true
	if st := g.do(migrate.Ready); st.Verified == nil || !st.Since.After(before.Since) {
		t.Errorf("it was not verified: %+v", st)
	}
	// A new item that has no source item.
	g.send("PutItem", map[string]any{"TableName": "orders2", "Item": stringItem{"region": "r", "SK": "x/y", "customer": "x", "order": "y"}.json()})
	if st, err := g.migrator().Run(t.Context(), migrate.Ready); err == nil || !strings.Contains(err.Error(), "x/y") {
		t.Errorf("it reports %v: %+v", err, st.Verified)
	}
	var differs *migrate.DifferenceError
	if err := <-ended; !errors.As(err, &differs) {
		t.Errorf("the process that verified: %v", err)
	}
	g.options.Repair = true
	g.do(migrate.Ready)
	g.wantItems("orders2", w.mapped(toNewOrder))
}

// A request is executed also if it comes when a process has just become the
// owner, and has not read the state yet.
func TestMigrateRequestAtStart(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(20)
	before := g.do(migrate.Ready)
	owned, requested := make(chan struct{}), make(chan struct{})
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		text, err := g.e.Send(ctx, operation, body)
		if operation == "UpdateItem" && err == nil {
			select {
			case <-owned:
			default:
				close(owned)
				<-requested
			}
		}
		return text, err
	}
	first := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options)
	go func() { _, _ = first.Run(t.Context(), "") }()
	<-owned
	g.options.Owner, g.options.Verify = "second", true
	second := g.migrator()
	verified := make(chan error, 1)
	var st *migrate.State
	go func() {
		var err error
		st, err = second.Run(t.Context(), migrate.Ready)
		verified <- err
	}()
	for {
		st, err := g.migrator().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Request.ID != "" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(requested)
	if err := <-verified; err != nil || st.Verified == nil || !st.Since.After(before.Since) {
		t.Errorf("%v: %+v", err, st)
	}
}

// The length of the pause of writes is that of the command, also if another
// process executes it.
func TestMigrateSwitchHasItsOwnPause(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	g.started()
	g.options.Quiet = 2 * time.Second // that of the other process is less than the time between two writes
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		for apply.Sleep(ctx, 100*time.Millisecond) == nil {
			_, _ = g.e.Send(ctx, "PutItem", map[string]any{"TableName": "orders", "Item": w.stored[0].json()})
			w.stored[0]["note"] += "x"
		}
	}()
	g.options.Drain = time.Millisecond
	if st, err := g.migrator().Run(t.Context(), migrate.Switched); err == nil || !strings.Contains(err.Error(), "stop the writes") {
		t.Errorf("it is switched: %+v, %v", st, err)
	}
	cancel()
	<-written
}

// A migration does not begin, also not again, while another one that is not
// finished reads or writes one of its tables.
func TestMigrateExcludesOthers(t *testing.T) {
	third := strings.NewReplacer("orders2", "orders3").Replace(newOrders)
	g := newRig(t, oldOrders, newOrders)
	g.do(migrate.Ready)
	other := func(old, new string) *migrate.Migrator {
		o := g.options
		o.ID = "other"
		return migrate.New(g.e.Send, g.e.SendStreams, parse(t, old), parse(t, new), o)
	}
	for name, m := range map[string]*migrate.Migrator{
		"the same old table":         other(oldOrders, third),
		"from the new table":         other(newOrders, third),
		"from another into the same": other(third, newOrders),
	} {
		if _, err := m.Run(t.Context(), migrate.Ready); err == nil || !strings.Contains(err.Error(), "migration test of the same tables") {
			t.Errorf("%s: %v", name, err)
		}
	}
	g.do(migrate.Aborted)
	if _, err := other(oldOrders, third).Run(t.Context(), migrate.Ready); err != nil {
		t.Fatal(err)
	}
	if _, err := g.migrator().Run(t.Context(), migrate.Ready); err == nil || !strings.Contains(err.Error(), "migration other of the same tables") {
		t.Errorf("it begins again: %v", err)
	}
}

// Of two migrations of the same tables that begin at the same time, one does not.
func TestMigrateExcludesOthersThatBegin(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	o := g.options
	o.ID = "other"
	other := migrate.New(g.e.Send, g.e.SendStreams, g.old, parse(t, strings.ReplaceAll(newOrders, "orders2", "orders3")), o)
	var once sync.Once
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		if text, _ := json.Marshal(body); operation == "PutItem" && strings.Contains(string(text), "attribute_not_exists(id)") {
			once.Do(func() {
				if _, err := other.Run(ctx, migrate.Ready); err != nil {
					t.Error(err)
				}
			})
		}
		return g.e.Send(ctx, operation, body)
	}
	if _, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Ready); err == nil || !strings.Contains(err.Error(), "migration other of the same tables") {
		t.Errorf("it begins: %v", err)
	}
	if st, err := g.migrator().Status(t.Context()); err != nil || st != nil {
		t.Errorf("it has the state %+v, %v", st, err)
	}
}

// Positions without a migration, whose item was lost, are not used by a new one.
func TestMigrateForgetsOldPositions(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	g.send("DeleteItem", map[string]any{"TableName": migrate.StateTable, "Key": stringItem{"id": "test", "part": "migration"}.json()})
	g.send("DeleteTable", map[string]any{"TableName": "orders2"})
	for g.describe("orders2") != "" {
		time.Sleep(time.Millisecond)
	}
	if st := g.do(migrate.Ready); st.Counts.Copied != 20 {
		t.Errorf("%d of 20 items were copied", st.Counts.Copied)
	}
	g.wantItems("orders2", w.mapped(toNewOrder))
}

// The state is stored also if many long keys differ.
func TestMigrateManyLongDifferences(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	g.do(migrate.Ready)
	for i := range 100 {
		long := fmt.Sprintf("%d%s", i, strings.Repeat("x", 1010))
		g.send("PutItem", map[string]any{"TableName": "orders2", "Item": stringItem{"region": long + long, "SK": "y/" + long, "customer": "y", "order": long}.json()})
	}
	g.options.Verify = true
	_, err := g.migrator().Run(t.Context(), migrate.Ready)
	var differs *migrate.DifferenceError
	if !errors.As(err, &differs) || len(differs.Differences) != 100 {
		t.Errorf("%v", err)
	}
	if st, err := g.migrator().Status(t.Context()); err != nil || st.Verified == nil || len(st.Verified.Differences) != 100 {
		t.Errorf("the differences are not stored: %v", err)
	}
}

// The application may put an item under another old key before it deletes the
// earlier one. The two have one new key for a moment.
func TestMigrateWaitsForTheEndOfACollisionBeforeTheSwitch(t *testing.T) {
	g := newRig(t, oldStates, newStates)
	g.options.Patience = time.Minute
	g.put("tasks", stringItem{"PK": "OPEN#1", "id": "1", "state": "OPEN"})
	g.put("tasks", stringItem{"PK": "DONE#1", "id": "1", "state": "DONE"})
	var once sync.Once
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		text, err := g.e.Send(ctx, operation, body)
		if operation == "TransactGetItems" {
			once.Do(func() {
				_, err := g.e.Send(g.Context(), "DeleteItem", map[string]any{"TableName": "tasks", "Key": stringItem{"PK": "OPEN#1"}.json()})
				if err != nil {
					t.Error(err)
				}
			})
		}
		return text, err
	}
	if st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.Ready); err != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	g.wantItems("tasks2", []stringItem{{"id": "1", "state": "DONE"}})
}

const oldStates = `
tables: {tasks: {key: {partition: PK}}}
entities:
  task: {keys: {PK: "{state}#{id}"}, attributes: {id: S, state: {values: [OPEN, DONE]}}}
patterns: [{name: get, get: task, given: [id, state], rate: 1/s}]
`

const newStates = `
tables: {tasks2: {key: {partition: id}}}
entities:
  task: {attributes: {id: S, state: {values: [OPEN, DONE]}}}
patterns: [{name: get, get: task, given: [id], rate: 1/s}]
`

// After the switch the application may put an item under another key before it
// deletes the earlier one. The two have one old key for a moment.
func TestMigrateWaitsForTheEndOfACollision(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	g.options.Patience = time.Minute
	w := orderWriter(g)
	w.fill(20)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	a := w.stored[5]
	toNewOrder(a)
	before := a.pick("region", "SK")
	a["region"] = "elsewhere"
	g.send("PutItem", map[string]any{"TableName": "orders2", "Item": a.json()})
	collided := make(chan struct{})
	var once sync.Once
	send := func(ctx context.Context, operation string, body any) ([]byte, error) {
		if operation == "TransactGetItems" {
			once.Do(func() { close(collided) })
		}
		return g.e.Send(ctx, operation, body)
	}
	go func() {
		<-collided
		_, _ = g.e.Send(g.Context(), "DeleteItem", map[string]any{"TableName": "orders2", "Key": before})
	}()
	if st, err := migrate.New(send, g.e.SendStreams, g.old, g.new, g.options).Run(t.Context(), migrate.RolledBack); err != nil {
		t.Fatalf("%+v, %v", st, err)
	}
	delete(w.stored, 5)
	want := append(w.mapped(func(stringItem) {}), stringItem{"PK": "C#" + a["customer"], "SK": "O#" + a["order"], "customer": a["customer"], "order": a["order"], "region": "elsewhere", "note": a["note"]})
	g.wantItems("orders", want)
}

// A plan finds items that the new tables would not accept.
func TestMigratePlanChecksNewItems(t *testing.T) {
	for _, c := range []struct {
		name, want string
		item       map[string]any
	}{
		{"too large", "400 KB", map[string]any{"id": map[string]string{"S": "1"}, "tag": map[string]string{"S": "t"}, "note": map[string]string{"S": strings.Repeat("x", 400<<10-12)}}},
		{"an empty index key", "index", map[string]any{"id": map[string]string{"S": "1"}, "tag": map[string]string{"S": ""}}},
		{"an index key of another type", "Index", map[string]any{"id": map[string]string{"S": "1"}, "tag": map[string]string{"N": "1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := `
tables: {things: {key: {partition: id}}}
entities:
  thing: {attributes: {id: S, note: S}}
patterns: [{name: get, get: thing, given: [id], rate: 1/s}]
`
			new := `
tables: {things2: {key: {partition: PK}, indexes: {byTag: {partition: tag}}}}
entities:
  thing: {keys: {PK: "THING#{id}"}, attributes: {id: S, note: S, tag: S}}
patterns: [{name: get, get: thing, given: [id], rate: 1/s}]
`
			g := newRig(t, old, new)
			g.send("PutItem", map[string]any{"TableName": "things", "Item": c.item})
			plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 0)
			if err != nil || len(plan.Faults) != 1 || !strings.Contains(plan.Faults[0], c.want) || !strings.Contains(plan.Faults[0], "id=") {
				t.Errorf("%q, %v", plan.Faults, err)
			}
		})
	}
}
