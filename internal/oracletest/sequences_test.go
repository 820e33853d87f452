package oracletest

import (
	"slices"
	"strings"
	"testing"
)

// Sequences that random steps generate too rarely, and those that once
// failed.
func TestSequences(t *testing.T) {
	orders := &createTable{
		name: "Orders",
		key:  key{[]keyAttribute{{"pk", "S"}}, []keyAttribute{{"sk", "S"}}},
		indexes: []index{
			{name: "local0", key: key{[]keyAttribute{{"pk", "S"}}, []keyAttribute{{"g1", "S"}}}, projection: "ALL"},
			{name: "global0", global: true, key: key{hash: []keyAttribute{{"g2", "S"}}}, projection: "KEYS_ONLY"},
		},
	}
	to := conditional{table: "Orders"}
	k := object{"pk": str("a"), "sk": str("a")}
	put := func(name string, v value) step {
		it := k.clone()
		it["g1"], it[name] = str("a"), v
		return &putItem{to, it}
	}
	set := func(p path, v setTerm) step { return &updateItem{to, k, update{{verb: "SET", path: p, term: v}}} }
	into := func(p path) *condition { return &condition{op: "attribute_exists", operands: []operand{{path: p}}} }
	equals := keyTest{"pk", "=", []value{str("a")}}

	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"updates nest no deeper than puts", append(
			[]step{put("doc", object{})},
			slices.Repeat([]step{set(path{"doc", "x"}, setTerm{path: path{"doc"}})}, 34)...)},
		{"an item and its entries in local indexes share a limit", []step{
			put("pad", str(strings.Repeat("p", maxItemBytes/2-20))),
			put("pad", str(strings.Repeat("p", maxItemBytes/2))),
			set(path{"b"}, setTerm{value: str(strings.Repeat("p", 40))}),
		}},
		{"no path leads into a key", []step{
			put("a", object{}),
			&putItem{conditional{table: "Orders", condition: into(path{"pk", 0})}, k},
			&deleteItem{conditional{table: "Orders", condition: into(path{"g1", "x"})}, k},
			set(path{"g2", "x"}, setTerm{value: str("a")}),
			set(path{"a", "x"}, setTerm{path: path{"sk", "x"}}),
			&getItem{table: "Orders", key: k, projection: []path{{"sk", 1}}},
			&batchGet{tables: map[string]batchKeys{"Orders": {keys: []object{k}, projection: []path{{"g2", 1}}}}},
			&pagedRead{table: "Orders", scan: true, filter: into(path{"pk", 0})},
			&pagedRead{table: "Orders", keys: []keyTest{equals}, projection: []path{{"g1", 0}}},
		}},
		{"a query's filter sees the projected attributes", []step{
			put("a", object{}),
			&pagedRead{table: "Orders", index: "global0", keys: []keyTest{{"g2", "=", []value{str("a")}}}, filter: into(path{"a"})},
			&pagedRead{table: "Orders", index: "global0", scan: true, filter: into(path{"a"})},
			&pagedRead{table: "Orders", index: "global0", scan: true, projection: []path{{"a", "x"}, {"b"}}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := slices.Concat([]step{orders}, c.steps, []step{audit{}})
			if f := new(failedRun{through: unchanged}).rerun(t, steps); f != nil {
				t.Errorf("step %d: %v", len(f.steps), f.err)
			}
		})
	}
}
