package infer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/exchange"
	"github.com/stator-db/stator/internal/workload"
)

// The values of an enumeration before and after an update are those with which the attributes
// appear and disappear that it changes.
func TestTransitions(t *testing.T) {
	for _, c := range []struct{ name, changes, from, to, undecided string }{
		{"an attribute that appears", "reason, status", "READY", "FAILED", ""},
		{"an attribute that disappears", "leased, status", "READY", "RUNNING", ""}, // or the reverse
		{"one that appears and one that disappears", "leased, reason, status", "RUNNING", "FAILED", ""},
		{"none", "status", "READY", "DONE", ""},
		{"an attribute that may stay", "leased, result, status", "RUNNING", "DONE", "report"},
	} {
		t.Run(c.name, func(t *testing.T) {
			when := func(values ...string) *Presence { return &Presence{"status", values} }
			e := &Entity{
				group: &itemGroup{sample: &TableSample{Table: &exchange.Table{Table: model.Table{Key: &model.Key{Partition: "id"}}}}},
				Attributes: []*Attribute{
					{Name: "status", Type: "S", Values: []string{"READY", "RUNNING", "FAILED", "DONE"}},
					{Name: "leased", Type: "S", When: when("RUNNING")},
					{Name: "reason", Type: "S", When: when("FAILED")},
				},
			}
			if c.undecided != "" {
				e.Attributes = append(e.Attributes, &Attribute{Name: "result", Type: "S", When: when("DONE")}, &Attribute{Name: c.undecided, Type: "S", When: when("DONE", "FAILED")})
			}
			a := new(Action)
			e.changes(a, workload.ShapeCount{Shape: workload.Shape{Changes: c.changes}})
			i := slices.IndexFunc(a.Set, func(s Assignment) bool { return s.Name == "status" })
			if len(a.From) != 1 || a.From[0].Value != c.from || a.Set[i].Value != c.to {
				t.Errorf("from %v to %v, want %s and %s", a.From, a.Set[i].Value, c.from, c.to)
			}
			for _, x := range e.Attributes {
				if decided := x.When != nil; decided != (x.Name != "status" && x.Name != c.undecided) {
					t.Errorf("%s is present when %v", x.Name, x.When)
				}
			}
		})
	}
}

// An update of several enumerations has values of each that decides which attributes an item
// has. What none can explain is not decided by the enumeration: no update contradicts the
// model.
func TestUpdatesAgreeWithTheModel(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name    string
		shape   workload.Shape
		want    string
		decided bool // whether the phase decides which items have a stage
	}{
		{"a second enumeration", workload.Shape{Changes: "grade, phase"},
			"from: {grade: HIGH, phase: TEST}; set: {grade: LOW, phase: VIEW}", true},
		{"a second enumeration that ends a when", workload.Shape{Changes: "grade, phase, stage"},
			"from: {grade: HIGH, phase: BUILD}; set: {grade: LOW, phase: TEST}; remove: [stage]", true},
		{"an attribute that stays in an unknown state", workload.Shape{Changes: "phase"},
			"from: {phase: TEST}; set: {phase: VIEW}", true},
		{"an attribute that stays in a known state", workload.Shape{Changes: "phase", Condition: true, ConditionText: "phase = ?"},
			`from: {phase: SHIP}; set: {phase: WAIT}; condition: "#phase = :phase"`, true},
		{"keys that no values explain", workload.Shape{Changes: "phase", Form: "changes GSI1PK"},
			`set: {phase: "{phase}"}`, false},
		{"an attribute that no enumeration decides", workload.Shape{Changes: "stage, vote"},
			`from: {vote: "NO"}; set: {stage: "{stage}", vote: "YES"}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines []string
			for i := range 90 {
				phase, grade, more := []string{"TEST", "BUILD", "SHIP", "WAIT", "VIEW"}[i%5], []string{"HIGH", "LOW", "NONE"}[i/5%3], ""
				switch phase {
				case "BUILD":
					more += fmt.Sprintf(`, "stage": {"S": "stage %d"}`, i)
				case "SHIP", "WAIT":
					more += fmt.Sprintf(`, "label": {"S": "label %d"}`, i)
				}
				if grade == "NONE" {
					more += fmt.Sprintf(`, "GSI1PK": {"S": "QUEUE#%d"}, "queue": {"S": "%d"}`, i, i)
				}
				lines = append(lines, fmt.Sprintf(`{"PK": {"S": "JOB#%d"}, "SK": {"S": "META"}, "id": {"S": "%d"}, "phase": {"S": %q}, "grade": {"S": %q}, "vote": {"S": %q}%s}`,
					1000+i, 1000+i, phase, grade, []string{"YES", "NO"}[i/15%2], more))
			}
			r := From("test", "a test", []*TableSample{sampleText(t, lines...)})
			c.shape.Operation, c.shape.Table, c.shape.Partition, c.shape.Sort = "UpdateItem", "test", "JOB#", "META"
			r.AddTraffic(workload.Report{Since: begin, Shapes: []workload.ShapeCount{{Shape: c.shape, Requests: 100}}}, begin.Add(100*time.Second))
			text, err := r.Model()
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Patterns) != 1 || !strings.Contains(patternText(r.Patterns[0]), c.want+"; rate") {
				t.Errorf("want %s, got\n%s", c.want, text)
			}
			if decided := r.Entities[0].attribute("stage").When != nil; decided != c.decided {
				t.Errorf("the phase decides which items have a stage: %v\n%s", decided, text)
			}
			m, err := model.Parse("test", text)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range m.Check(model.DefaultPrices()).Faults {
				if f.Code == "stale" || f.Code == "condition" {
					t.Errorf("%v\n%s", f, text)
				}
			}
		})
	}
}

// Each of two enumerations of an update decides whether an item has a key of an index.
func TestUpdatesOfSeveralKeys(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, changed := range []string{"GSI1PK, GSI2PK", "GSI1PK", "GSI2PK"} {
		t.Run(changed, func(t *testing.T) {
			var lines []string
			for i := range 90 {
				phase, grade, more := []string{"TEST", "BUILD", "SHIP", "WAIT", "VIEW"}[i%5], []string{"HIGH", "LOW", "NONE"}[i/5%3], ""
				if phase == "BUILD" {
					more += fmt.Sprintf(`, "GSI2PK": {"S": "LINE#%d"}, "line": {"S": "%d"}`, i, i)
				}
				if grade == "NONE" {
					more += fmt.Sprintf(`, "GSI1PK": {"S": "QUEUE#%d"}, "queue": {"S": "%d"}`, i, i)
				}
				lines = append(lines, fmt.Sprintf(`{"PK": {"S": "JOB#%d"}, "SK": {"S": "META"}, "id": {"S": "%d"}, "phase": {"S": %q}, "grade": {"S": %q}%s}`, 1000+i, 1000+i, phase, grade, more))
			}
			r := From("test", "a test", []*TableSample{sampleText(t, lines...)})
			r.AddTraffic(workload.Report{Since: begin, Shapes: []workload.ShapeCount{{Requests: 100,
				Shape: workload.Shape{Operation: "UpdateItem", Table: "test", Partition: "JOB#", Sort: "META", Changes: "grade, phase", Form: "changes " + changed}}}}, begin.Add(100*time.Second))
			text, err := r.Model()
			if err != nil {
				t.Fatal(err)
			}
			m, err := model.Parse("test", text)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range m.Check(model.DefaultPrices()).Faults {
				if f.Code == "stale" {
					t.Error(f)
				}
			}
			if strings.Contains(patternText(r.Patterns[0]), "\"{") || t.Failed() {
				t.Errorf("the values are not known:\n%s", text)
			}
		})
	}
}
