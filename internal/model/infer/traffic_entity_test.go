package infer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/workload"
)

// lineSample is orders and their lines, whose keys have the same prefixes.
func lineSample(t *testing.T) *TableSample {
	t.Helper()
	var lines []string
	for i := range 20 {
		status, index := []string{"OPEN", "PAID"}[i%2], ""
		if i%2 == 0 {
			index = fmt.Sprintf(`, "GSI1PK": {"S": "OPEN#%d"}`, i%3)
		}
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "C#c%d"}, "SK": {"S": "ORDER#o%02d"}, "customerId": {"S": "c%d"}, "orderId": {"S": "o%02d"}, "status": {"S": %q}%s}`, i, i, i, i, status, index))
		for n := range 3 {
			lines = append(lines, fmt.Sprintf(`{"PK": {"S": "C#c%d"}, "SK": {"S": "ORDER#o%02d#LINE#%d"}, "customerId": {"S": "c%d"}, "orderId": {"S": "o%02d"}, "qty": {"N": "%d"}}`, i, i, n, i, i, n+1))
		}
	}
	return sampleText(t, lines...)
}

// Requests are about the entities that have the attributes that they change and test, and the
// actions of a transaction that differ only in a condition are about different entities.
func TestEntitiesOfTraffic(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		shape workload.Shape
		want  []string // parts of the model
		not   string
	}{
		{"an update", workload.Shape{Operation: "UpdateItem", Partition: "C#", Sort: "ORDER#", Form: "changes GSI1PK", Changes: "GSI1PK, status"}, []string{"update: order"}, "update: line"},
		{"an update of the other", workload.Shape{Operation: "UpdateItem", Partition: "C#", Sort: "ORDER#", Changes: "qty"}, []string{"update: line"}, "update: order"},
		{"a condition", workload.Shape{Operation: "DeleteItem", Partition: "C#", Sort: "ORDER#", Condition: true, ConditionText: "attribute_exists(PK) AND status = ?"}, []string{"delete: order"}, "delete: line"},
		{"a projection", workload.Shape{Operation: "GetItem", Partition: "C#", Sort: "ORDER#", Projection: "qty"}, []string{"get: line"}, "get: order"},
		{"an attribute that no item has", workload.Shape{Operation: "UpdateItem", Partition: "C#", Sort: "ORDER#", Changes: "note"}, []string{"update: line", "update: order"}, ""},
		{"a get", workload.Shape{Operation: "GetItem", Partition: "C#", Sort: "ORDER#"}, []string{"get: line", "get: order"}, ""},
		{"a transaction", workload.Shape{Operation: "TransactWriteItems", Form: "Put", Actions: "Put C# ORDER#; Put C# ORDER# if"}, []string{"- put: line\n        replaces", "- put: order\n        condition"}, ""},
		{"a transaction of one kind", workload.Shape{Operation: "TransactWriteItems", Form: "Put", Actions: "Put C# ORDER# if"}, []string{"- put: line", "# guess: the keys of line and order have the same prefix"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.shape.Table = "test"
			r := From("test", "a test", []*TableSample{lineSample(t)})
			r.AddTraffic(workload.Report{Since: begin, Shapes: []workload.ShapeCount{{Shape: c.shape, Requests: 1000, Returned: 1000, Scanned: 1000}}}, begin.Add(100*time.Second))
			text, err := r.Model()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("the model lacks %q", want)
				}
			}
			if c.not != "" && strings.Contains(string(text), c.not) {
				t.Errorf("the model has %q", c.not)
			}
			if t.Failed() {
				t.Logf("%s", text)
			}
		})
	}
}
