package migrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/migrate"
)

const oldOrders = `
tables: {orders: {key: {partition: PK, sort: SK}}}
entities:
  order: {keys: {PK: "C#{customer}", SK: "O#{order}"}, attributes: {customer: S, order: S, region: S, note: S}}
patterns:
  - {name: get order, get: order, given: [customer, order], rate: 10/s}
  - {name: put order, put: order, rate: 10/s}
`

const newOrders = `
tables: {orders2: {key: {partition: region, sort: SK}, indexes: {byCustomer: {partition: customer, sort: order}}}}
entities:
  order: {keys: {SK: "{customer}/{order}"}, attributes: {customer: S, order: S, region: S, note: S}}
patterns:
  - {name: get order, query: order, given: [customer, order], rate: 10/s}
  - {name: orders of a region, query: order, given: [region], rate: 10/s}
`

func orderWriter(g *rig) *writer {
	return &writer{g: g, table: "orders", keys: []string{"PK", "SK"}, make: func(r *rand.Rand, n int) stringItem {
		customer, order := fmt.Sprintf("c%d", n%50), fmt.Sprintf("o%d", n)
		return stringItem{"PK": "C#" + customer, "SK": "O#" + order, "customer": customer, "order": order,
			"region": fmt.Sprintf("r%d", r.IntN(5)), "note": fmt.Sprint(r.IntN(1e9))}
	}}
}

func toNewOrder(a stringItem) {
	delete(a, "PK")
	a["SK"] = a["customer"] + "/" + a["order"]
}

// Another partition key, one that changes during the life of an item: from the
// plan to the end, under writes, with kills of the migrator at random requests.
func TestMigrateToAnotherKey(t *testing.T) {
	g := newRig(t, oldOrders, newOrders)
	w := orderWriter(g)
	w.fill(500)
	g.whileWriting(600, func() { g.Logf("%d kills", g.killRepeatedly(migrate.Ready)) }, w)
	g.Logf("%d writes", w.writes.Load())
	st := g.do(migrate.Switched)
	g.Logf("%+v %+v", st.Counts, st.Verified)
	g.wantItems("orders2", w.mapped(toNewOrder))
	g.wantItems("orders", w.mapped(func(stringItem) {}))

	// The application writes to the new table, and the old one follows.
	w.table, w.keys = "orders2", []string{"region", "SK"}
	old := w.make
	w.make = func(r *rand.Rand, n int) stringItem {
		a := old(r, n)
		if was, ok := w.stored[n]; ok {
			a["region"] = was["region"] // a new region would be another item
		}
		toNewOrder(a)
		return a
	}
	for _, a := range w.stored {
		toNewOrder(a)
	}
	g.whileWriting(600, func() {
		r := rand.New(rand.NewPCG(g.seed, 100))
		for range 3 {
			g.runKilled("", 100+r.Int64N(300), r)
		}
	}, w)
	g.rollBack()
	g.wantItems("orders", w.mapped(func(a stringItem) { a["PK"], a["SK"] = "C#"+a["customer"], "O#"+a["order"] }))
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	g.do(migrate.Dropped)
	if text, err := g.e.Send(t.Context(), "DescribeTable", map[string]any{"TableName": "orders"}); err == nil {
		t.Errorf("the old table exists: %s", text)
	}
	g.wantItems("orders2", w.mapped(func(stringItem) {}))
}

const oldShop = `
tables:
  customers: {key: {partition: id}}
  orders: {key: {partition: customer, sort: order}, stream: KEYS_ONLY}
entities:
  customer: {table: customers, attributes: {id: S, note: S}}
  order: {table: orders, attributes: {customer: S, order: S, note: S}}
patterns:
  - {name: customer, get: customer, given: [id], rate: 1/s}
  - {name: orders, query: order, given: [customer], rate: 1/s}
  - {name: put, put: order, rate: 5/s}
`

const newShop = `
tables: {shop: {key: {partition: PK, sort: SK}, stream: NEW_IMAGE}}
entities:
  customer: {keys: {PK: "CUSTOMER#{id}", SK: "PROFILE"}, attributes: {id: {stored: false}, note: S}}
  order: {keys: {PK: "CUSTOMER#{customer}", SK: "ORDER#{order}"}, attributes: {customer: S, order: {stored: false}, note: S}}
  coupon: {keys: {PK: "COUPON#{code}", SK: "COUPON"}, attributes: {code: S}}
patterns:
  - {name: customer, get: customer, given: [id], rate: 1/s}
  - {name: orders, query: order, given: [customer], rate: 1/s}
  - {name: customer with orders, query: order, given: [customer], with: {customer: 1}, rate: 1/s}
`

// Two tables become one, and attributes that only the keys contain are read from
// them. The new keys depend on the old ones alone, so a stream of keys suffices.
func TestMigrateTwoTablesIntoOne(t *testing.T) {
	g := newRig(t, oldShop, newShop)
	customers := &writer{g: g, table: "customers", keys: []string{"id"}, make: func(r *rand.Rand, n int) stringItem {
		return stringItem{"id": fmt.Sprint(n), "note": fmt.Sprint(r.IntN(1e9)), "undeclared": "x"}
	}}
	orders := &writer{g: g, table: "orders", keys: []string{"customer", "order"}, make: func(r *rand.Rand, n int) stringItem {
		return stringItem{"customer": fmt.Sprint(n % 40), "order": fmt.Sprint(n), "note": fmt.Sprint(r.IntN(1e9))}
	}}
	customers.fill(200)
	orders.fill(400)
	g.whileWriting(400, func() { g.Logf("%d kills", g.killRepeatedly(migrate.Ready)) }, customers, orders)
	g.do(migrate.Switched)
	toNew := append(customers.mapped(func(a stringItem) {
		a["PK"], a["SK"] = "CUSTOMER#"+a["id"], "PROFILE"
		delete(a, "id")
	}), orders.mapped(func(a stringItem) {
		a["PK"], a["SK"] = "CUSTOMER#"+a["customer"], "ORDER#"+a["order"]
		delete(a, "order")
	})...)
	g.wantItems("shop", toNew)

	// A write to the new table reaches the old one, except of an entity that the
	// old model does not have.
	g.send("PutItem", map[string]any{"TableName": "shop", "Item": stringItem{"PK": "COUPON#1", "SK": "COUPON", "code": "1"}.json()})
	g.send("PutItem", map[string]any{"TableName": "shop", "Item": stringItem{"PK": "CUSTOMER#new", "SK": "ORDER#1", "customer": "new", "note": "n"}.json()})
	g.send("DeleteItem", map[string]any{"TableName": "shop", "Key": toNew[0].pick("PK", "SK")})
	g.rollBack()
	orders.stored[-1] = stringItem{"customer": "new", "order": "1", "note": "n"}
	g.wantItems("orders", orders.mapped(func(stringItem) {}))
	if n := len(g.all("customers")); n != len(customers.stored)-1 {
		t.Errorf("there are %d customers after a delete, want %d", n, len(customers.stored)-1)
	}
	g.do(migrate.Ready)
	g.do(migrate.Switched)
	g.do(migrate.Dropped)
	if is := streamOf(g, "shop"); is != "NEW_IMAGE" {
		t.Errorf("the stream of the new table is %q at the end", is)
	}
}

const oldTasks = `
tables: {tasks: {key: {partition: id}}}
entities:
  task: {attributes: {id: S, state: {values: [OPEN, DONE]}, day: S, note: S}}
patterns:
  - {name: open tasks, scan: task, where: {state: OPEN}, rate: 1/h}
`

// A new index replaces a scan. With an attribute that the items have, nothing is
// copied; with a key that is built from others, the items get it in place.
func TestMigrateAddsAnIndex(t *testing.T) {
	for _, c := range []struct{ name, new, key, kind string }{
		{"an attribute", `
tables: {tasks: {key: {partition: id}, indexes: {byState: {partition: state, sort: day}}}}
entities:
  task: {attributes: {id: S, state: {values: [OPEN, DONE]}, day: S, note: S}}
patterns:
  - {name: open tasks, query: task, where: {state: OPEN}, rate: 1/h}
`, "", migrate.Unchanged},
		{"a sparse key", `
tables: {tasks: {key: {partition: id}, indexes: {open: {partition: openDay}}}}
entities:
  task: {keys: {openDay: {template: "OPEN#{day}", when: {state: OPEN}}}, attributes: {id: S, state: {values: [OPEN, DONE]}, day: S, note: S}}
patterns:
  - {name: open tasks of a day, query: task, given: [day], where: {state: OPEN}, rate: 1/h}
`, "openDay", migrate.Rewritten},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, oldTasks, c.new)
			w := &writer{g: g, table: "tasks", keys: []string{"id"}, make: func(r *rand.Rand, n int) stringItem {
				return stringItem{"id": fmt.Sprint(n), "state": []string{"OPEN", "DONE"}[r.IntN(2)], "day": fmt.Sprint(r.IntN(9)), "note": fmt.Sprint(r.IntN(1e9))}
			}}
			w.fill(400)
			plan, err := g.migrator().Plan(t.Context(), model.DefaultPrices(), 0)
			if err != nil || len(plan.Faults) > 0 || plan.Entities[0].Kind != c.kind || len(plan.Changes) != 1 {
				t.Fatalf("%+v, %v", plan, err)
			}
			g.whileWriting(400, func() { g.Logf("%d kills", g.killRepeatedly(migrate.Ready)) }, w)
			g.do(migrate.Switched)
			want := w.mapped(func(a stringItem) {
				if c.key != "" && a["state"] == "OPEN" {
					a[c.key] = "OPEN#" + a["day"]
				}
			})
			g.wantItems("tasks", want)
			g.do(migrate.Dropped)
			g.wantItems("tasks", want)
			if is := streamOf(g, "tasks"); is != "" {
				t.Errorf("the table has a stream of %s at the end", is)
			}
		})
	}
}

func streamOf(g *rig, table string) string {
	var reply struct {
		Table struct {
			StreamSpecification struct{ StreamViewType string }
		}
	}
	if err := json.Unmarshal(g.send("DescribeTable", map[string]any{"TableName": table}), &reply); err != nil {
		g.Fatal(err)
	}
	return reply.Table.StreamSpecification.StreamViewType
}

// The control: verification finds the item whose stream record is lost, and
// repairs it if it should.
func TestMigrateFindsALostRecord(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *rig, a stringItem)
	}{
		{"of a put", func(g *rig, a stringItem) {
			a["note"] = "lost"
			g.send("PutItem", map[string]any{"TableName": "orders", "Item": a.json()})
		}},
		{"of a move", func(g *rig, a stringItem) {
			a["region"] = "lost"
			g.send("PutItem", map[string]any{"TableName": "orders", "Item": a.json()})
		}},
		{"of a delete", func(g *rig, a stringItem) {
			g.send("DeleteItem", map[string]any{"TableName": "orders", "Key": a.pick("PK", "SK")})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, oldOrders, newOrders)
			w := orderWriter(g)
			w.fill(300)
			a := w.stored[77]
			sort := a["SK"]
			lossy := func(ctx context.Context, operation string, body any) ([]byte, error) {
				text, err := g.e.SendStreams(ctx, operation, body)
				if err != nil || operation != "GetRecords" {
					return text, err
				}
				return withoutRecords(t, text, sort), nil
			}
			changed := false
			o := g.options
			o.Changed = func(st migrate.State) {
				if st.Phase == migrate.Verify && !changed {
					changed = true
					c.change(g, a)
				}
			}
			st, err := migrate.New(g.e.Send, lossy, g.old, g.new, o).Run(t.Context(), migrate.Ready)
			var differs *migrate.DifferenceError
			if !errors.As(err, &differs) || st.Phase != migrate.Verify || !strings.Contains(strings.Join(differs.Differences, "; "), a["order"]) {
				t.Fatalf("the lost record is not found: %+v, %v", st, err)
			}
			o.Repair = true
			st, err = migrate.New(g.e.Send, lossy, g.old, g.new, o).Run(t.Context(), migrate.Ready)
			if err != nil || st.Verified.Repaired == 0 {
				t.Fatalf("%+v, %v", st, err)
			}
			o.Repair, o.Verify = false, true
			st, err = migrate.New(g.e.Send, lossy, g.old, g.new, o).Run(t.Context(), migrate.Ready)
			if err != nil || st.Verified.Repaired+st.Verified.Compared > 0 {
				t.Fatalf("after the repair: %+v, %v", st, err)
			}
		})
	}
}

// withoutRecords returns a reply of GetRecords without those of one sort key.
func withoutRecords(t *testing.T, text []byte, sort string) []byte {
	var reply map[string]any
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Error(err)
	}
	reply["Records"] = slices.DeleteFunc(reply["Records"].([]any), func(r any) bool {
		record, _ := json.Marshal(r)
		return strings.Contains(string(record), `"`+sort+`"`)
	})
	text, _ = json.Marshal(reply)
	return text
}
