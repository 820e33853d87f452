package infer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/workload"
)

// shopSample is orders and customers in one table, with an index of the orders that are open.
func shopSample(t *testing.T) *TableSample {
	t.Helper()
	var lines []string
	for i := range 60 {
		status, index := "SHIPPED", ""
		if i%3 == 0 {
			status = "OPEN"
			index = fmt.Sprintf(`, "GSI1PK": {"S": "STATUS#OPEN#%d"}, "GSI1SK": {"S": "AT#2026-01-%02dT10:00:00Z"}`, i/3%2, i%28+1)
		}
		lines = append(lines,
			fmt.Sprintf(`{"PK": {"S": "C#c%d"}, "SK": {"S": "ORDER#o%d"}, "customerId": {"S": "c%d"}, "orderId": {"S": "o%d"}, "status": {"S": %q}, "placedAt": {"S": "2026-01-%02dT10:00:00Z"}, "total": {"N": "12"}%s}`,
				i%10, i, i%10, i, status, i%28+1, index),
			fmt.Sprintf(`{"PK": {"S": "C#c%d"}, "SK": {"S": "META"}, "customerId": {"S": "c%d"}, "name": {"S": "name %d"}, "vip": {"BOOL": true}}`, i%10+i/10*10, i%10+i/10*10, i))
	}
	return sampleText(t, lines...)
}

func TestPatternsOfTraffic(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name              string
		shape             workload.Shape
		returned, scanned int64
		want              string
	}{
		{"a get", workload.Shape{Operation: "GetItem", Partition: "C#", Sort: "ORDER#", Consistent: true}, 1000, 0,
			"get: order; given: [customerId, orderId]; consistent: true; rate: 10/s"},
		{"a get of the other entity", workload.Shape{Operation: "GetItem", Partition: "C#", Sort: "META", Projection: "name"}, 1000, 0,
			"get: c; given: [customerId]; returns: [name]; rate: 10/s"},
		{"a query of one entity", workload.Shape{Operation: "Query", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "ORDER#"}, 6000, 6000,
			"query: order; given: [customerId]; matches: 6; rate: 10/s"},
		{"a query of a whole partition", workload.Shape{Operation: "Query", Form: "PK = ?", Partition: "C#"}, 7000, 7000,
			"query: order; given: [customerId]; matches: 6; with: {c: 1}; rate: 10/s"},
		{"a query of an index asks each shard", workload.Shape{Operation: "Query", Index: "GSI1", Form: "GSI1PK = ? AND GSI1SK BETWEEN ? AND ?", Partition: "STATUS#", Sort: "AT#"}, 3000, 3000,
			"query: order; given: [status]; range: {attribute: placedAt, is: between}; index: GSI1; matches: 6; rate: 5/s"},
		{"a filter", workload.Shape{Operation: "Query", Form: "PK = ? AND begins_with(SK, ?)", Partition: "C#", Sort: "ORDER#", Filter: true, FilterText: "total > ? AND status = ?"}, 2000, 6000,
			"query: order; given: [customerId, status]; range: {attribute: total, is: after}; matches: 2; reads: 6; rate: 10/s"},
		{"a put that creates", workload.Shape{Operation: "PutItem", Partition: "C#", Sort: "ORDER#", Condition: true, ConditionText: "attribute_not_exists(PK)"}, 0, 0,
			`put: order; condition: "attribute_not_exists(#PK)"; rate: 10/s`},
		{"a put without a condition", workload.Shape{Operation: "PutItem", Partition: "C#", Sort: "META"}, 0, 0,
			"put: c; replaces: true; rate: 10/s"},
		{"an update that removes an item from an index", workload.Shape{Operation: "UpdateItem", Partition: "C#", Sort: "ORDER#", Form: "changes GSI1PK, GSI1SK", Changes: "GSI1PK, GSI1SK, status",
			Condition: true, ConditionText: "status = ? AND total < ?"}, 0, 0,
			`update: order; given: [customerId, orderId]; from: {status: SHIPPED}; set: {status: OPEN}; condition: "#status = :status AND #total < :value1"; values: {":value1": 9999999999999999}; rate: 10/s`},
		{"an update of a BOOL", workload.Shape{Operation: "UpdateItem", Partition: "C#", Sort: "META", Changes: "vip"}, 0, 0,
			"update: c; given: [customerId]; set: {vip: true}; rate: 10/s"},
		{"a delete with a condition of alternatives", workload.Shape{Operation: "DeleteItem", Partition: "C#", Sort: "META", Condition: true, ConditionText: "(name = ? AND vip = ?) OR attribute_exists(PK)"}, 0, 0,
			`delete: c; given: [customerId]; condition: "(#name = :name AND #vip = :vip) OR attribute_exists(#PK)"; rate: 10/s`},
		{"a condition with unknown names", workload.Shape{Operation: "DeleteItem", Partition: "C#", Sort: "META", Condition: true, ConditionText: "?? = ?"}, 0, 0,
			`delete: c; given: [customerId]; condition: "attribute_exists(#PK)"; rate: 10/s`},
		{"a scan", workload.Shape{Operation: "Scan"}, 120_000, 120_000,
			"scan: order; matches: 120; rate: 10/s"},
		{"a transaction", workload.Shape{Operation: "TransactWriteItems", Form: "Put, Update", Actions: "Put C# ORDER# if; Update C# META"}, 0, 0,
			`transact: put: order; condition: "attribute_not_exists(#PK)"; update: c; given: [customerId]; rate: 10/s`},
		{"a batch of gets", workload.Shape{Operation: "BatchGetItem", Actions: "Get C# ORDER#"}, 20_000, 0,
			"batch: get: order; each: [customerId, orderId]; times: 20; rate: 10/s"},
		{"a statement", workload.Shape{Operation: "GetItem", Partition: "C#", Sort: "META", Statement: true}, 1000, 0,
			"get: c; given: [customerId]; rate: 10/s"},
		{"keys of no entity", workload.Shape{Operation: "GetItem", Partition: "D#", Sort: "META"}, 1000, 0, ""},
		{"an operation that no model has", workload.Shape{Operation: "ExportTableToPointInTime"}, 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.shape.Table = "test"
			r := From("test", "a test", []*TableSample{shopSample(t)})
			count := workload.ShapeCount{Shape: c.shape, Requests: 1000, Returned: c.returned, Scanned: c.scanned}
			r.AddTraffic(workload.Report{Since: begin, Shapes: []workload.ShapeCount{count}}, begin.Add(100*time.Second))
			text, err := r.Model()
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if len(r.Patterns) != 0 || len(r.Unmatched) != 1 {
					t.Errorf("the patterns are %+v, and %q is unmatched", r.Patterns, r.Unmatched)
				}
				return
			}
			if len(r.Patterns) != 1 {
				t.Fatalf("%d patterns, %q is unmatched\n%s", len(r.Patterns), r.Unmatched, text)
			}
			if got := patternText(r.Patterns[0]); got != c.want {
				t.Errorf("the pattern is\n%s, want\n%s\n%s", got, c.want, text)
			}
		})
	}
}

func patternText(p *Pattern) string {
	var all []string
	for _, a := range p.Actions {
		all = append(all, a.fields()...)
	}
	text := strings.Join(append(all, "rate: "+p.Rate), "; ")
	if p.Combined != "" {
		text = p.Combined + ": " + text
	}
	return text
}

// Requests of two shapes that a model does not tell apart are one pattern, and requests about one
// of two entities are divided between them. The sum of the rates is that of the requests.
func TestRatesOfTraffic(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lines := make([]string, 0, 20)
	for i := range 10 {
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "T#%d#A#%d"}, "SK": {"S": "X#%d"}, "a": {"N": "1"}}`, i, i, i), fmt.Sprintf(`{"PK": {"S": "T#%d#B#%d"}, "SK": {"S": "X#%d"}, "b": {"N": "1"}}`, i, i, i))
	}
	r := From("test", "a test", []*TableSample{sampleText(t, lines...)})
	get := workload.Shape{Operation: "GetItem", Table: "test", Partition: "T#", Sort: "X#"}
	statement := get
	statement.Statement = true
	r.AddTraffic(workload.Report{Since: begin, Shapes: []workload.ShapeCount{{Shape: get, Requests: 600}, {Shape: statement, Requests: 400}},
		Other: workload.ShapeCount{Requests: 5}}, begin.Add(100*time.Second))
	text, err := r.Model()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Patterns) != 2 || r.Patterns[0].Rate != "5/s" || r.Patterns[1].Rate != "5/s" {
		t.Errorf("the patterns are\n%s", text)
	}
	if !strings.Contains(string(text), "have the same prefix; the requests are divided evenly") || !strings.Contains(string(text), "# Not derived: 5 requests had more shapes than the server counts") {
		t.Errorf("the model does not say how it was derived:\n%s", text)
	}
	if m, err := model.Parse("test", text); err != nil || len(m.Patterns) != 2 {
		t.Errorf("%v", err)
	}
}

// A single request in a single second is singular.
func TestOneRequest(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := From("test", "a test", []*TableSample{shopSample(t)})
	one := func(partition string) workload.ShapeCount {
		return workload.ShapeCount{Shape: workload.Shape{Operation: "GetItem", Table: "test", Partition: partition, Sort: "ORDER#"}, Requests: 1}
	}
	r.AddTraffic(workload.Report{Since: begin, Shapes: []workload.ShapeCount{one("C#"), one("D#")}}, begin.Add(time.Second))
	if r.Patterns[0].Guess != "1 request in 1 second" || !strings.HasSuffix(r.Unmatched[0], "(1 request)") {
		t.Errorf("the guess is %q, and %q is unmatched", r.Patterns[0].Guess, r.Unmatched)
	}
}

// A number that only a partition key contains keeps its digits, since partition keys have no order.
func TestDigitsOfPartitionKeys(t *testing.T) {
	var lines []string
	for i := range 90 {
		n := []int{123456789, 1234567890, 12345678901}[i%3] + i
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "ACC#%[1]d"}, "SK": {"S": "PROFILE"}, "account": {"N": "%[1]d"}, "name": {"S": "n%[1]d"}}`, n))
	}
	text, err := From("test", "a test", []*TableSample{sampleText(t, lines...)}).Model()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "account: {type: N, digits: ") {
		t.Errorf("the model is\n%s", text)
	}
}

// A range of numbers that a key contains as text is right only if all have as many digits: the
// model has digits if those of the sample do.
func TestDigitsOfKeys(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, digits, guess, fault string
		of                         func(i int) string
	}{
		{"several lengths", "", "; it has 1 to 4 digits\n", "10 sorts before 9", func(i int) string { return fmt.Sprint([]int{7, 12, 250, 1999}[i%4] + i) }},
		{"one length", ", digits: 4", "in all items\n", "", func(i int) string { return fmt.Sprint(1911 + i) }},
		{"fractions of one length", ", digits: 3", "in all items\n", "", func(i int) string { return fmt.Sprintf("%d.%d", 10+i, i%7+1) }},
		{"fractions of several lengths", "", "; fractions have several lengths\n", "10 sorts before 9", func(i int) string { return fmt.Sprint(10+i) + []string{"", ".5", ".55"}[i%3] }},
		{"negative numbers", "", "; some are negative\n", "10 sorts before 9", func(i int) string { return fmt.Sprint(i - 45) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines []string
			for i := range 90 {
				lines = append(lines, fmt.Sprintf(`{"PK": {"S": "SHOP#%[1]d"}, "SK": {"S": "PRICE#%[2]s#%[3]d"}, "shop": {"S": "%[1]d"}, "price": {"N": "%[2]s"}, "stock": {"N": "%[3]d"}, "id": {"S": "%[3]d"}}`, i%9, c.of(i), i*7))
			}
			r := From("test", "a test", []*TableSample{sampleText(t, lines...)})
			r.AddTraffic(workload.Report{Since: begin, Shapes: []workload.ShapeCount{{Requests: 100, Returned: 500, Scanned: 500,
				Shape: workload.Shape{Operation: "Query", Table: "test", Partition: "SHOP#", Sort: "PRICE#", Form: "PK = ? AND SK BETWEEN ? AND ?"}}}}, begin.Add(100*time.Second))
			text, err := r.Model()
			if err != nil {
				t.Fatal(err)
			}
			_, price, _ := strings.Cut(string(text), "\n      price: ")
			price, _, _ = strings.Cut(price, "      ")
			if digits := strings.Contains(price, ", digits: "); !strings.HasPrefix(price, "{type: N"+c.digits) || digits != (c.digits != "") || !strings.HasSuffix(price, c.guess) {
				t.Errorf("the price is %swant %q with the guess %q", price, c.digits, c.guess)
			}
			if !strings.Contains(string(text), "stock: {type: N, digits: 3}") {
				t.Error("a number that is in no key has no digits")
			}
			m, err := model.Parse("test", text)
			if err != nil {
				t.Fatal(err)
			}
			var faults []string
			for _, f := range m.Check(model.DefaultPrices()).Faults {
				if f.Code == "order" {
					faults = append(faults, f.Message)
				}
			}
			if got := strings.Join(faults, "\n"); (got == "") != (c.fault == "") || !strings.Contains(got, c.fault) {
				t.Errorf("the faults are %q, want %q", got, c.fault)
			}
			if t.Failed() {
				t.Log(string(text))
			}
		})
	}
}
