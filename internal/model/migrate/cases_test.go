package migrate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/migrate"
)

const oldUsers = `
tables: {users: {key: {partition: id}}}
entities:
  user: {attributes: {id: S, email: S}}
patterns: [{name: get, get: user, given: [id], rate: 1/s}]
`

const newUsers = `
tables: {accounts: {key: {partition: email}}}
entities:
  user: {attributes: {id: S, email: S}}
patterns: [{name: get, get: user, given: [email], rate: 1/s}]
`

// A new key passes from one item to another, while no two items have it at the
// same time: the records of the two may arrive in any order.
func TestMigrateKeysPassBetweenItems(t *testing.T) {
	g := newRig(t, oldUsers, newUsers)
	const users, emails = 60, 40
	r := rand.New(rand.NewPCG(g.seed, 1))
	has, taken := make(map[int]int), make(map[int]bool)
	step := func() {
		id := r.IntN(users)
		key := stringItem{"id": fmt.Sprint(id)}
		email, ok := has[id]
		if ok && r.IntN(3) == 0 {
			g.send("DeleteItem", map[string]any{"TableName": "users", "Key": key.json()})
			delete(has, id)
			delete(taken, email)
			return
		}
		next := r.IntN(emails)
		if taken[next] {
			return
		}
		key["email"] = fmt.Sprint(next, "@example.com")
		g.send("PutItem", map[string]any{"TableName": "users", "Item": key.json()})
		if ok {
			delete(taken, email)
		}
		has[id], taken[next] = next, true
	}
	for range 200 {
		step()
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			step()
			time.Sleep(100 * time.Microsecond)
		}
	}()
	g.Logf("%d kills", g.killRepeatedly(migrate.Ready))
	cancel()
	<-done
	g.do(migrate.Switched)
	var want []stringItem
	for id, email := range has {
		want = append(want, stringItem{"id": fmt.Sprint(id), "email": fmt.Sprint(email, "@example.com")})
	}
	g.wantItems("users", want)
	g.wantItems("accounts", want)
}

// Two items with one new key end the run, with both keys in the message.
func TestMigrateCollision(t *testing.T) {
	g := newRig(t, oldUsers, newUsers)
	for _, id := range []string{"first", "second"} {
		g.send("PutItem", map[string]any{"TableName": "users", "Item": stringItem{"id": id, "email": "e"}.json()})
	}
	_, err := g.migrator().Run(t.Context(), migrate.Ready)
	var collision *migrate.CollisionError
	if !errors.As(err, &collision) || !strings.Contains(err.Error(), "first") || !strings.Contains(err.Error(), "second") {
		t.Errorf("the run ends with %v", err)
	}
	g.do(migrate.Aborted)
	if n := len(g.all("users")); n != 2 {
		t.Errorf("after the abort there are %d users", n)
	}
}

// An abort is possible in each phase before the switch, removes what was
// created, and the migration can begin again.
func TestMigrateAborts(t *testing.T) {
	for _, phase := range []migrate.Phase{migrate.Create, migrate.Backfill, migrate.Verify, migrate.Ready} {
		t.Run(string(phase), func(t *testing.T) {
			g := newRig(t, oldOrders, newOrders)
			w := orderWriter(g)
			w.fill(100)
			ctx, cancel := context.WithCancel(t.Context())
			o := g.options
			o.Changed = func(st migrate.State) {
				if st.Phase == phase {
					cancel()
				}
			}
			if st, err := migrate.New(g.e.Send, g.e.SendStreams, g.old, g.new, o).Run(ctx, migrate.Ready); st == nil || st.Phase != phase {
				t.Fatalf("%+v, %v", st, err)
			}
			g.do(migrate.Aborted)
			if _, err := g.e.Send(t.Context(), "DescribeTable", map[string]any{"TableName": "orders2"}); err == nil {
				t.Error("the new table exists after the abort")
			}
			if is := streamOf(g, "orders"); is != "" {
				t.Errorf("the old table has a stream of %s", is)
			}
			g.do(migrate.Ready)
			g.wantItems("orders2", w.mapped(toNewOrder))
		})
	}
}

// A process that runs the migration executes the commands of others.
func TestMigrateCommandsOfAnotherProcess(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(50)
	g.do(migrate.Ready)
	ran := make(chan error, 1)
	go func() {
		st, err := g.migrator().Run(t.Context(), "")
		if err == nil && st.Phase != migrate.Dropped {
			err = fmt.Errorf("it ended in phase %s", st.Phase)
		}
		ran <- err
	}()
	for {
		if st, err := g.migrator().Status(t.Context()); err != nil || st.Until.After(time.Now()) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	g.options.Owner = "second"
	if _, err := g.migrator().Run(t.Context(), ""); !errors.Is(err, migrate.ErrBusy) {
		t.Errorf("a second process that runs it returns %v", err)
	}
	g.do(migrate.Switched)
	if _, err := g.migrator().Run(t.Context(), migrate.Aborted); err == nil {
		t.Error("a migration that is switched can be aborted")
	}
	g.rollBack()
	g.do(migrate.Ready)
	if _, err := g.migrator().Run(t.Context(), migrate.Dropped); err == nil {
		t.Error("the old tables can be dropped before the switch")
	}
	g.do(migrate.Switched)
	g.options.Window = time.Hour
	if _, err := g.migrator().Run(t.Context(), migrate.Dropped); err == nil || !strings.Contains(err.Error(), "stay for 1h") {
		t.Errorf("within the window: %v", err)
	}
	g.options.Window = 0
	g.do(migrate.Dropped)
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// A switch does not happen while the application writes to the old tables.
func TestMigrateSwitchNeedsAPause(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(50)
	g.do(migrate.Ready)
	g.options.Quiet, g.options.Drain = time.Second, 2*time.Second
	g.whileWriting(50, func() {
		if st, err := g.migrator().Run(t.Context(), migrate.Switched); err == nil || st.Phase != migrate.Ready || !strings.Contains(err.Error(), "stop the writes") {
			t.Errorf("%+v, %v", st, err)
		}
	}, w)
	g.options.Quiet, g.options.Drain = 20*time.Millisecond, time.Minute
	g.do(migrate.Ready)
	g.do(migrate.Switched)
}

// A plan names the items that cannot be mapped, and a run stops at them, except
// if they are to be copied as they are.
func TestMigrateUnmatchedItems(t *testing.T) {
	renamed := strings.NewReplacer("{orders:", "{renamed:").Replace(oldOrders)
	g := newRig(t, oldOrders, renamed)
	odd := stringItem{"PK": "SETTINGS", "SK": "1", "x": "y"}
	g.send("PutItem", map[string]any{"TableName": "orders", "Item": odd.json()})
	plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 100)
	if err != nil || len(plan.Faults) != 1 || !strings.Contains(plan.Faults[0], "SETTINGS") {
		t.Errorf("%+v, %v", plan, err)
	}
	var unmatched *migrate.UnmatchedError
	if _, err := g.migrator().Run(t.Context(), migrate.Ready); !errors.As(err, &unmatched) {
		t.Errorf("%v", err)
	}
	g.do(migrate.Aborted)
	g.options.Unmatched = migrate.CopyUnmatched
	g.do(migrate.Ready)
	g.wantItems("renamed", []stringItem{odd})
}

// Models between which no migration is possible are rejected.
func TestMigrateFaults(t *testing.T) {
	swap := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	for _, c := range []struct{ name, new, want string }{
		{"another key of the same table", swap(newOrders, "orders2", "orders"), "give the new table another name"},
		{"another template in the same table", swap(oldOrders, "C#", "D#"), "another template"},
		{"a missing entity", swap(newOrders, "order: {keys", "other: {keys", "query: order", "query: other"), "no entity order"},
		{"a lost attribute of the old key", swap(newOrders, `"{customer}/{order}"`, `"{order}"`, "customer: S, order: S", "order: S", "{partition: customer, sort: order}", "{partition: note, sort: order}", "[customer, order]", "[note, order]"), "does not keep customer"},
		{"an unknown attribute of the new key", swap(newOrders, "partition: region", "partition: country", "region: S", "country: S", "[region]", "[country]"), "does not declare"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := migrate.New(nil, nil, parse(t, oldOrders), parse(t, c.new), migrate.Options{})
			plan, err := m.Plan(t.Context(), nil, 0)
			if err != nil || !strings.Contains(strings.Join(plan.Faults, "; "), c.want) {
				t.Errorf("the faults are %q, %v", plan.Faults, err)
			}
			if _, err := m.Run(t.Context(), ""); err == nil {
				t.Error("it runs")
			}
		})
	}
}

// A plan has the cost of the sampled items, scaled to the table.
func TestMigratePlan(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(600)
	g.options.WriteUnits = 100
	plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 250)
	if err != nil {
		t.Fatal(err)
	}
	e := plan.Estimate
	if e.Sampled != 250 || e.Items != 600 || e.WriteUnits != 1200 || e.Seconds != 12 || e.Dollars <= 0 || e.FollowWrites != 20 || plan.Entities[0].Items != 600 {
		t.Errorf("%+v", e)
	}
	if len(plan.Patterns) != 3 || plan.Patterns[0].Before != "GetItem of orders" || plan.Patterns[0].After != "Query of orders2.byCustomer" {
		t.Errorf("%+v", plan.Patterns)
	}
}

// The plan of a new index in a table that stays has the cost of its entries, and
// of the items that get its key.
func TestMigratePlanOfAnIndex(t *testing.T) {
	index := "{partition: id}, indexes: {byState: {partition: state, sort: KEY}}"
	for _, c := range []struct {
		name, key, entity string
		write, read       float64
	}{
		// The server writes an entry of 2 units for each item.
		{"an attribute", "day", "task: {attributes", 20, 0},
		// An item of 2 units is updated, and has an entry of 2 units then.
		{"a template", "GSI", `task: {keys: {GSI: "DAY#{day}"}, attributes`, 40, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			new := strings.NewReplacer("{partition: id}", strings.ReplaceAll(index, "KEY", c.key), "task: {attributes", c.entity).Replace(oldTasks)
			g := newRig(t, oldTasks, new)
			for i := range 10 {
				g.send("PutItem", map[string]any{"TableName": "tasks", "Item": stringItem{"id": fmt.Sprint(i), "state": "OPEN", "day": "1", "note": strings.Repeat("x", 1500)}.json()})
			}
			plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if e := plan.Estimate; e.Items != 10 || e.WriteUnits != c.write || e.Dollars <= 0 || (e.ReadUnits > 0) != (c.read > 0) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// Writes to the old tables after the switch are reported, and those that the
// migration itself makes there are not.
func TestMigrateReportsLateWrites(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(100)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	for i := range 50 {
		a := w.stored[i]
		toNewOrder(a)
		a["note"] = "new"
		g.send("PutItem", map[string]any{"TableName": "orders2", "Item": a.json()})
	}
	late := w.stored[60]
	late["note"] = "late"
	g.send("PutItem", map[string]any{"TableName": "orders", "Item": late.json()})
	g.send("DeleteItem", map[string]any{"TableName": "orders", "Key": w.stored[61].pick("PK", "SK")})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o := g.options
	o.Changed = func(st migrate.State) {
		if st.Late == 2 {
			cancel()
		}
	}
	st, _ := migrate.New(g.e.Send, g.e.SendStreams, g.old, g.new, o).Run(ctx, "")
	if keys := strings.Join(st.LateKeys, "; "); st.Late != 2 || !strings.Contains(keys, late["SK"]) || !strings.Contains(keys, w.stored[61]["SK"]) {
		t.Errorf("%d late writes, %q", st.Late, st.LateKeys)
	}
	st = g.rollBack()
	if st.Late != 2 {
		t.Errorf("after the rollback there are %d late writes, %q", st.Late, st.LateKeys)
	}
}

// Old tables can be dropped when the streams were not read for long, which is all that
// can be done then: each other command says so.
func TestMigrateDropsLate(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(10)
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	g.options.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	for _, goal := range []migrate.Phase{migrate.RolledBack, migrate.Aborted, ""} {
		_, err := g.migrator().Run(t.Context(), goal)
		text := fmt.Sprint(err)
		if !strings.Contains(text, "the old tables are out of date") || !strings.Contains(text, "drop --discard-late") || strings.Contains(text, "abort the migration") || strings.Contains(text, "roll back first") {
			t.Errorf("%s after two days: %v", cmp.Or(goal, "run"), err)
		}
	}
	if st, err := g.migrator().Status(t.Context()); err != nil || st.Answered != st.Request.ID {
		t.Errorf("the rollback that failed remains requested: %+v, %v", st, err)
	}
	if _, err := g.migrator().Run(t.Context(), migrate.Dropped); err == nil || !strings.Contains(err.Error(), "--discard-late") {
		t.Errorf("late writes are not known, but: %v", err)
	}
	g.options.DiscardLate = true
	g.do(migrate.Dropped)
}

// A switch that was requested when no process ran is not made up for later.
func TestMigrateForgetsAnOldSwitch(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(10)
	g.do(migrate.Ready)
	r := rand.New(rand.NewPCG(g.seed, 1))
	g.runKilled(migrate.Switched, 8, r)
	if st, err := g.migrator().Status(t.Context()); err != nil || st.Phase != migrate.Ready || st.Request.Goal != migrate.Switched {
		t.Fatalf("%+v, %v", st, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if st, _ := g.migrator().Run(ctx, ""); st.Phase != migrate.Ready {
		t.Errorf("the migration was switched: %+v", st)
	}
}

// A lease ends when it is not renewed, whatever the clocks of the processes show.
func TestMigrateLeaseDoesNotDependOnClocks(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	orderWriter(g).fill(10)
	g.do(migrate.Ready)
	g.options.Lease = 4 * time.Second
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() {
		_, err := g.migrator().Run(ctx, "")
		ran <- err
	}()
	for {
		if st, err := g.migrator().Status(t.Context()); err != nil || st.Until.After(time.Now()) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	o := g.options
	o.Owner, o.Now = "second", func() time.Time { return time.Now().Add(time.Hour) }
	if _, err := migrate.New(g.e.Send, g.e.SendStreams, g.old, g.new, o).Run(t.Context(), ""); !errors.Is(err, migrate.ErrBusy) {
		t.Errorf("a process whose clock is ahead: %v", err)
	}
	cancel()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("the first process: %v", err)
	}
	// A killed process whose clock was ahead.
	g.options.Owner, g.options.Lease, g.options.Now = "third", 200*time.Millisecond, o.Now
	g.runKilled("", 60, rand.New(rand.NewPCG(g.seed, 1)))
	g.options.Owner, g.options.Lease, g.options.Now = "first", time.Minute, nil
	g.do(migrate.Switched)
}
