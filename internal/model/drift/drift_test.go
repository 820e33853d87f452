package drift_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/drift"
	"github.com/stator-db/stator/internal/model/prove"
	"github.com/stator-db/stator/internal/workload"
)

func server(t *testing.T, m *model.Model) *apply.Endpoint {
	t.Helper()
	s, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e := &apply.Endpoint{URL: "http://stator.invalid", Client: s.Client(), Sign: func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		return nil
	}}
	if err := prove.Create(t.Context(), e.Send, m, false, apply.Waiting{Every: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return e
}

func shapes(t *testing.T, e *apply.Endpoint) (report workload.Report) {
	t.Helper()
	text, err := e.Get(t.Context(), "/shapes")
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// When all patterns of a model have run, the server has counted them all and
// nothing else. Only the batches that store the fixtures belong to no pattern.
func TestDriftOfModels(t *testing.T) {
	files, err := filepath.Glob("../../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	for _, file := range append(files, "../testdata/shapes.model.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m, err := model.Parse(file, text)
			if err != nil {
				t.Fatal(err)
			}
			e := server(t, m)
			before := drift.Join(m, shapes(t, e))
			if before.Count(drift.Never) != len(m.Patterns) {
				t.Errorf("of %d patterns %d were never requested", len(m.Patterns), before.Count(drift.Never))
			}
			if report, err := prove.Run(t.Context(), e.Send, m, prove.Options{Runs: 1}); err != nil || !report.OK() {
				t.Fatalf("%+v, %v", report, err)
			}
			after := drift.Join(m, shapes(t, e))
			for _, p := range after.Patterns {
				if p.Status != drift.OK && p.Status != drift.Shared || p.Requests == 0 || p.Units == nil || *p.Units == 0 {
					t.Errorf("%+v", *p)
				}
				if p.Status == drift.Shared {
					t.Logf("%s is one of %q", p.Name, p.Shared)
				}
			}
			for _, s := range after.Strays {
				if s.Operation != "BatchWriteItem" {
					t.Errorf("a stray: %+v", *s)
				}
			}
		})
	}
}

const shop = `
model: 1
tables:
  shop:
    key: {partition: PK, sort: SK}
    indexes: {byDay: {partition: day, sort: placed}}
  stock: {key: {partition: id}}
entities:
  order: {table: shop, keys: {PK: "C#{customer}", SK: "O#{order}"}, attributes: {customer: S, order: S, day: {format: date}, placed: {format: iso8601}, state: {values: [NEW, PAID]}}}
  ware: {table: stock, attributes: {id: S, left: N}}
patterns:
  - {name: get order, get: order, given: [customer, order], rate: 1/s}
  - {name: orders, query: order, given: [customer], matches: 4, rate: 1/s}
  - {name: orders of a day, query: order, given: [day], range: {attribute: placed, is: after}, rate: 1/s}
  - {name: paid orders, query: order, given: [customer], where: {state: PAID}, matches: 2, reads: 20, rate: 1/s}
  - {name: put order, put: order, rate: 1/s}
  - {name: put order again, put: order, rate: 1/s}
  - {name: move order, update: order, given: [customer, order], set: {day: "{day}"}, rate: 1/s}
  - {name: pay order, update: order, given: [customer, order], set: {state: PAID}, condition: attribute_exists(PK), rate: 1/s}
  - name: buy
    transact:
      - {put: order}
      - {update: ware, given: [id], add: {left: -1}}
    rate: 1/s
`

func count(s workload.Shape, requests, returned, scanned int64, unitsEach float64) workload.ShapeCount {
	return workload.ShapeCount{Shape: s, Requests: requests, Returned: returned, Scanned: scanned, Units: unitsEach * float64(requests), Measured: 1}
}

// Traffic is matched with its pattern, or is a stray; the status of a pattern
// depends on what it reads, returns and costs.
func TestJoin(t *testing.T) {
	m, err := model.Parse("shop.model.yaml", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		traffic []workload.ShapeCount
		status  map[string]string // of patterns; all others were never requested
		stray   string            // the closest pattern, and how the stray differs
	}{
		{"nothing", nil, nil, ""},
		{"a get", []workload.ShapeCount{count(workload.Shape{Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "O#"}, 5, 5, 5, 0.5)}, map[string]string{"get order": drift.OK}, ""},
		{"a consistent get", []workload.ShapeCount{count(workload.Shape{Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "O#", Consistent: true}, 5, 5, 5, 1)}, nil, "get order: it is consistent"},
		{"a query", []workload.ShapeCount{count(workload.Shape{Operation: "Query", Table: "shop", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "O#"}, 5, 20, 20, 0.5)},
			map[string]string{"orders": drift.OK}, ""},
		{"a query of an index", []workload.ShapeCount{count(workload.Shape{Operation: "Query", Table: "shop", Index: "byDay", Form: "day = ? AND placed > ?"}, 5, 20, 20, 0.5)},
			map[string]string{"orders of a day": drift.OK}, ""},
		{"another form", []workload.ShapeCount{count(workload.Shape{Operation: "Query", Table: "shop", Index: "byDay", Form: "day = ?"}, 5, 20, 20, 0.5)}, nil,
			"orders of a day: its form is day = ?, not day = ? AND placed > ?"},
		{"another index", []workload.ShapeCount{count(workload.Shape{Operation: "Query", Table: "shop", Index: "byState", Form: "state = ?"}, 5, 20, 20, 0.5)}, nil,
			"orders: it reads byState, its form is state = ?, not PK = ? AND begins_with(SK, ?)"},
		{"an expensive get", []workload.ShapeCount{count(workload.Shape{Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "O#"}, 5, 5, 5, 4)}, map[string]string{"get order": drift.Expensive}, ""},
		{"a filter as declared", []workload.ShapeCount{count(workload.Shape{Operation: "Query", Table: "shop", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "O#", Filter: true, FilterText: "state = ?"}, 5, 10, 100, 0.5)},
			map[string]string{"paid orders": drift.OK}, ""},
		{"a filter that keeps too little", []workload.ShapeCount{count(workload.Shape{Operation: "Query", Table: "shop", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "O#", Filter: true, FilterText: "state = ?"}, 5, 10, 300, 0.5)},
			map[string]string{"paid orders": drift.Wasteful}, ""},
		{"puts that look alike", []workload.ShapeCount{count(workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "O#"}, 5, 0, 0, 2)},
			map[string]string{"put order": drift.Shared, "put order again": drift.Shared}, ""},
		{"an update of an index", []workload.ShapeCount{count(workload.Shape{Operation: "UpdateItem", Table: "shop", Partition: "C#", Sort: "O#", Form: "changes day", Changes: "day"}, 5, 0, 0, 3)}, map[string]string{"move order": drift.OK}, ""},
		{"an update without its condition", []workload.ShapeCount{count(workload.Shape{Operation: "UpdateItem", Table: "shop", Partition: "C#", Sort: "O#", Changes: "state"}, 5, 0, 0, 1)}, nil,
			"pay order: it has no condition (attribute_exists(PK))"},
		{"a whole transaction", []workload.ShapeCount{count(workload.Shape{Operation: "TransactWriteItems", Table: "shop", Form: "Put", Actions: "Put C# O#"}, 5, 0, 0, 3),
			count(workload.Shape{Operation: "TransactWriteItems", Table: "stock", Form: "Update", Actions: "Update - -"}, 5, 0, 0, 2)}, map[string]string{"buy": drift.OK}, ""},
		{"half of a transaction", []workload.ShapeCount{count(workload.Shape{Operation: "TransactWriteItems", Table: "shop", Form: "Put", Actions: "Put C# O#"}, 5, 0, 0, 3)}, nil, ""},
		{"a scan", []workload.ShapeCount{count(workload.Shape{Operation: "Scan", Table: "shop"}, 1, 1000, 1000, 90)}, nil, ": "},
		{"a statement", []workload.ShapeCount{count(workload.Shape{Operation: "GetItem", Table: "shop", Partition: "C#", Sort: "O#", Statement: true}, 5, 5, 5, 0.5)}, map[string]string{"get order": drift.OK}, ""},
		{"another table", []workload.ShapeCount{count(workload.Shape{Operation: "Scan", Table: "elsewhere"}, 7, 1000, 1000, 90)}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := drift.Join(m, workload.Report{Shapes: c.traffic})
			for _, p := range r.Patterns {
				want := c.status[p.Name]
				if want == "" {
					want = drift.Never
				}
				if p.Status != want {
					t.Errorf("%s is %s, want %s: %+v", p.Name, p.Status, want, *p)
				}
			}
			var strays []string
			for _, s := range r.Strays {
				strays = append(strays, s.Near+": "+s.Differs)
			}
			if got := strings.Join(strays, "; "); got != c.stray {
				t.Errorf("the strays are %q, want %q", got, c.stray)
			}
			if r.OK(drift.Allowed{}) {
				t.Error("OK is true, though patterns were never requested")
			}
			if elsewhere := c.name == "another table"; elsewhere != (r.Elsewhere == 7) {
				t.Errorf("%d requests went to other tables", r.Elsewhere)
			}
		})
	}
}

// Traffic that may belong to several patterns is reported as shared, and none of them is
// ok. Requests of shapes beyond the server's limit are reported.
func TestJoinShares(t *testing.T) {
	m, err := model.Parse("shop.model.yaml", []byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	r := drift.Join(m, workload.Report{Other: workload.ShapeCount{Requests: 3},
		Shapes: []workload.ShapeCount{count(workload.Shape{Operation: "PutItem", Table: "shop", Partition: "C#", Sort: "O#"}, 5, 0, 0, 2)}})
	shared := map[string]string{}
	for _, p := range r.Patterns {
		if len(p.Shared) > 0 {
			shared[p.Name] = strings.Join(p.Shared, ", ")
		}
	}
	if len(shared) != 2 || shared["put order"] != "put order again" || shared["put order again"] != "put order" || r.Uncounted != 3 {
		t.Errorf("shared are %v, and %d uncounted", shared, r.Uncounted)
	}
	if r.Count(drift.OK) != 0 || !r.OK(drift.Allowed{Unused: true, Uncounted: true}) {
		t.Errorf("%d patterns are ok, and the report is %t", r.Count(drift.OK), r.OK(drift.Allowed{Unused: true, Uncounted: true}))
	}
}

// Requests that were not counted by shape may be anything, so the traffic does not match.
func TestUncountedRequests(t *testing.T) {
	m, err := model.Parse("x", []byte("model: 1\ntables: {abc: {key: {partition: id}}}\nentities: {a: {attributes: {id: {format: uuid}}, count: 1}}\n"+
		"patterns: [{name: get, get: a, given: [id], rate: 1/s}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := drift.Join(m, workload.Report{Other: workload.ShapeCount{Requests: 3}})
	if r.OK(drift.Allowed{Unused: true}) || !r.OK(drift.Allowed{Unused: true, Uncounted: true}) || r.Uncounted != 3 {
		t.Errorf("%d uncounted requests are accepted, or are not if they are allowed", r.Uncounted)
	}
}
