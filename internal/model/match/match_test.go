package match

import (
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/workload"
)

const shop = `
model: 1
tables:
  shop:
    key: {partition: PK, sort: SK}
    indexes:
      GSI1: {partition: GSI1PK, sort: SK}
  audit:
    key: {partition: id}
entities:
  customer:
    table: shop
    keys: {PK: "C#{customerId}", SK: PROFILE}
    attributes: {customerId: {size: 12}, email: {size: 20}, points: {type: N}}
    count: 100
  order:
    table: shop
    keys: {PK: "C#{customerId}", SK: "O#{orderId}", GSI1PK: "S#{status}"}
    attributes: {customerId: {size: 12, distinct: 100}, orderId: {format: uuid}, status: {values: [OPEN, PAID, SENT]}, total: N, note: {size: 8}}
    count: 1000
  job:
    table: shop
    keys: {PK: "C#{customerId}", SK: "{kind}"}
    attributes: {customerId: {size: 12, distinct: 100}, kind: {values: [SEND, REFUND, AUDIT]}}
    count: 100
  entry:
    table: audit
    attributes: {id: {format: uuid}, text: {size: 20}}
    count: 1000
patterns:
  - {name: get customer, get: customer, given: [customerId], rate: 1/s}
  - {name: get order, get: order, given: [customerId, orderId], rate: 1/s}
  - {name: get order again, get: order, given: [customerId, orderId], rate: 1/s}
  - {name: get order exactly, get: order, given: [customerId, orderId], consistent: true, rate: 1/s}
  - {name: get total, get: order, given: [customerId, orderId], returns: [total], rate: 1/s}
  - {name: orders, query: order, given: [customerId], matches: 10, rate: 1/s}
  - {name: orders by status, query: order, where: {status: OPEN}, index: GSI1, matches: 10, rate: 1/s}
  - {name: place order, put: order, condition: attribute_not_exists(PK), rate: 1/s}
  - {name: change note, update: order, given: [customerId, orderId], set: {note: "{note}"}, rate: 1/s}
  - {name: change note and total, update: order, given: [customerId, orderId], set: {note: "{note}", total: "{total}"}, rate: 1/s}
  - {name: pay, update: order, given: [customerId, orderId], set: {status: PAID}, from: {status: OPEN}, condition: "#status = :open AND attribute_exists(PK)", values: {":open": OPEN}, rate: 1/s}
  - name: place with audit
    transact:
      - {put: order, condition: attribute_not_exists(PK)}
      - {update: customer, given: [customerId], add: {points: 1}}
      - {put: entry}
    rate: 1/s
  - name: load
    batch:
      - {put: customer, replaces: true}
      - {put: order, replaces: true}
    rate: 1/s
  - name: some totals
    batch:
      - {get: order, given: [customerId], each: [orderId], times: 5, returns: [total, note]}
    rate: 1/s
  - name: cancel
    transact:
      - {delete: order, given: [customerId, orderId], condition: attribute_exists(PK)}
      - {check: job, given: [customerId, kind], from: {kind: AUDIT}, condition: attribute_not_exists(PK), absent: true}
      - {delete: job, given: [customerId, kind], from: {kind: SEND}}
      - {put: job, given: [customerId], set: {kind: REFUND}, replaces: true, optional: true}
    rate: 1/s
  - {name: all entries, scan: entry, rate: 1/day}
  - {name: notes of nobody, query: order, given: [note], matches: 1, rate: 1/s}
`

func shopMatcher(t *testing.T) (*model.Model, *Matcher) {
	t.Helper()
	m, err := model.Parse("shop", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	return m, New(m)
}

// A request belongs to the patterns that send it. A request that differs in its entity, its
// access path or a detail belongs to none, and the closest pattern and the difference are
// found.
func TestFind(t *testing.T) {
	_, x := shopMatcher(t)
	order := workload.Shape{Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "O#"}
	update := workload.Shape{Operation: "UpdateItem", Table: "shop", Partition: "C#", Sort: "O#"}
	transaction := func(actions string) workload.Shape {
		return workload.Shape{Operation: "TransactWriteItems", Table: "shop", Actions: actions}
	}
	with := func(s workload.Shape, change func(*workload.Shape)) workload.Shape { change(&s); return s }
	for _, c := range []struct {
		name  string
		shape workload.Shape
		want  string // patterns that are found, or else the closest one and the differences
	}{
		{"the entity by its prefix", with(order, func(s *workload.Shape) { s.Sort = "PROFILE" }), "get customer"},
		{"two patterns with the same request", order, "get order, get order again"},
		{"consistency", with(order, func(s *workload.Shape) { s.Consistent = true }), "get order exactly"},
		{"a projection", with(order, func(s *workload.Shape) { s.Projection = "total" }), "get total"},
		{"another projection", with(order, func(s *workload.Shape) { s.Projection = "note" }), "near get order: it has a projection (note)"},
		{"an unknown prefix", with(order, func(s *workload.Shape) { s.Sort = workload.Unknown }), "get customer, get order, get order again"},
		{"another entity", with(order, func(s *workload.Shape) { s.Sort = "X#" }), "near get customer: its sort key begins with X#, not PROFILE"},
		{"a statement", with(order, func(s *workload.Shape) { s.Statement = true }), "get order, get order again"},

		{"a query", workload.Shape{Operation: "Query", Table: "shop", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "O#"}, "orders"},
		{"a query with a shorter prefix", workload.Shape{Operation: "Query", Table: "shop", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "O"}, "orders"},
		{"a query of the whole partition", workload.Shape{Operation: "Query", Table: "shop", Form: "PK = ?", Partition: "C#"},
			"near orders: its form is PK = ?, not PK = ? AND begins_with(SK, ?)"},
		{"a query of an index", workload.Shape{Operation: "Query", Table: "shop", Index: "GSI1", Form: "GSI1PK = ? AND begins_with(SK, ?)", Partition: "S#", Sort: "O#"}, "orders by status"},
		{"a whole partition of an index", workload.Shape{Operation: "Query", Table: "shop", Index: "GSI1", Form: "GSI1PK = ?", Partition: "S#"}, "near orders by status: its form is GSI1PK = ?, not GSI1PK = ? AND begins_with(SK, ?)"},
		{"a filter", workload.Shape{Operation: "Query", Table: "shop", Index: "GSI1", Form: "GSI1PK = ? AND begins_with(SK, ?)", Partition: "S#", Sort: "O#", Filter: true, FilterText: "total > ?"}, "near orders by status: it has a filter (total > ?)"},

		{"a put with its condition", workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "O#", Condition: true, ConditionText: "attribute_not_exists(PK)"}, "place order"},
		{"a lost condition", workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "O#"}, "near place order: it has no condition (attribute_not_exists(PK))"},
		{"an INSERT, which has the condition by itself", workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "O#", Statement: true}, "place order"},
		{"a condition with unknown names", workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "O#", Condition: true, ConditionText: "attribute_not_exists(??)"}, "place order"},

		{"an update", with(update, func(s *workload.Shape) { s.Changes = "note" }), "change note"},
		{"an update that changes more", with(update, func(s *workload.Shape) { s.Changes = "note, updatedAt" }), "change note"},
		{"the pattern that lists most of the changes", with(update, func(s *workload.Shape) { s.Changes = "note, total" }), "change note and total"},
		{"an update that changes less", with(update, func(s *workload.Shape) { s.Changes = "total" }), "near change note: it does not change note"},
		{"an update of an index key", with(update, func(s *workload.Shape) {
			s.Form, s.Changes, s.Condition, s.ConditionText = "changes GSI1PK", "GSI1PK, status", true, "attribute_exists(PK) AND status = ?"
		}), "pay"},
		{"an UPDATE, which has a part of the condition by itself", with(update, func(s *workload.Shape) {
			s.Form, s.Changes, s.Condition, s.ConditionText, s.Statement = "changes GSI1PK", "GSI1PK, status", true, "status = ?", true
		}), "pay"},

		{"a transaction", workload.Shape{Operation: "TransactWriteItems", Table: "shop", Form: "Put, Update", Actions: "Put C# O# if; Update C# PROFILE"}, "place with audit"},
		{"its part in another table", workload.Shape{Operation: "TransactWriteItems", Table: "audit", Form: "Put", Actions: "Put - -"}, "place with audit"},
		{"a transaction without an action", workload.Shape{Operation: "TransactWriteItems", Table: "shop", Form: "Put", Actions: "Put C# O# if"}, "near place with audit: it does not contain Update C# PROFILE"},
		{"a transaction with another action", workload.Shape{Operation: "TransactWriteItems", Table: "shop", Form: "Put, Update, Delete", Actions: "Delete C# O#; Put C# O# if; Update C# PROFILE"},
			"near place with audit: it contains Delete C# O#"},
		{"a transaction without a condition", workload.Shape{Operation: "TransactWriteItems", Table: "shop", Form: "Put, Update", Actions: "Put C# O#; Update C# PROFILE"},
			"near place with audit: it contains Put C# O#, it does not contain Put C# O# if"},
		{"a transaction with keys that constants decide", transaction("ConditionCheck C# AUDIT if; Delete C# O# if; Delete C# SEND; Put C# REFUND"), "cancel"},
		{"a transaction without an optional action", transaction("ConditionCheck C# AUDIT if; Delete C# O# if; Delete C# SEND"), "cancel"},
		{"a transaction with other constants", transaction("ConditionCheck C# AUDIT if; Delete C# AUDIT; Delete C# O# if"),
			"near cancel: it contains Delete C# AUDIT, it does not contain Delete C# SEND"},
		{"a batch", workload.Shape{Operation: "BatchWriteItem", Table: "shop", Form: "Put", Actions: "Put C# O#; Put C# PROFILE"}, "load"},
		{"a part of a batch", workload.Shape{Operation: "BatchWriteItem", Table: "shop", Form: "Put", Actions: "Put C# O#"}, "load"},
		{"a batch of other actions", workload.Shape{Operation: "BatchWriteItem", Table: "shop", Form: "Delete", Actions: "Delete C# O#"}, "near load: it contains Delete C# O#"},

		{"a batch of gets", workload.Shape{Operation: "BatchGetItem", Table: "shop", Actions: "Get C# O#", Projection: "note, total"}, "some totals"},
		{"a batch of gets with another projection", workload.Shape{Operation: "BatchGetItem", Table: "shop", Actions: "Get C# O#", Projection: "note"}, "near some totals: its projection is note, not note, total"},
		{"a batch of gets without its projection", workload.Shape{Operation: "BatchGetItem", Table: "shop", Actions: "Get C# O#"}, "some totals"},

		{"a scan", workload.Shape{Operation: "Scan", Table: "audit"}, "all entries"},
		{"an operation that no pattern has", workload.Shape{Operation: "DeleteItem", Table: "shop", Partition: "C#", Sort: "O#"}, "none"},
		{"another table", workload.Shape{Operation: "GetItem", Table: "other"}, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := foundText(x, c.shape); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// foundText describes what is found for a shape.
func foundText(x *Matcher, s workload.Shape) string {
	var names []string
	for _, r := range x.Find(s) {
		names = append(names, r.Pattern.Name)
	}
	if names != nil {
		return strings.Join(names, ", ")
	}
	p, differs := x.Nearest(s)
	if p == nil {
		return "none"
	}
	return "near " + p.Name + ": " + strings.Join(differs, ", ")
}

// A pattern has one request for each of its tables, and none if nothing serves it.
func TestRequests(t *testing.T) {
	m, x := shopMatcher(t)
	for name, want := range map[string][]string{"orders": {"shop"}, "place with audit": {"shop", "audit"}, "notes of nobody": nil} {
		i := slices.IndexFunc(m.Patterns, func(p *model.Pattern) bool { return p.Name == name })
		var tables []string
		for _, r := range x.Requests(m.Patterns[i]) {
			tables = append(tables, r.shape.Table)
		}
		if !slices.Equal(tables, want) {
			t.Errorf("%q has requests to %q, want %q", name, tables, want)
		}
	}
}
