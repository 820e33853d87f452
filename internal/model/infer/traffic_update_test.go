package infer

import (
	"slices"
	"testing"

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
