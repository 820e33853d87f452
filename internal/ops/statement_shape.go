package ops

import (
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/workload"
)

// asked returns what a SELECT asks for, as the operation that reads the same: a
// GetItem or, for several items, a BatchGetItem, a Query or a Scan.
func (r *selection) asked(text *string) asked {
	a := asked{operation: "Scan", table: r.Table, index: r.Index, consistent: r.consistent, statement: true, selects: true,
		expressions: [3]*string{text}, where: r.Where}
	for _, c := range r.Columns {
		a.paths = append(a.paths, c.Path)
	}
	first := &r.lookups[0]
	switch {
	case first.item != nil && len(r.lookups) == 1:
		a.operation, a.key = "GetItem", first.item
	case first.item != nil:
		a.operation = "BatchGetItem"
		for i := range r.lookups[:min(len(r.lookups), maxBatchKeys)] {
			a.addAction(maxBatchKeys, askedAction{kind: workload.Get, key: r.lookups[i].item})
		}
	case first.partition != nil:
		a.operation, a.keys = "Query", first.keys(r.key().Sort)
	}
	return a
}

// keys returns the lookup as a key condition.
func (l *lookup) keys(sort []schema.Attribute) *expr.KeyRange {
	found := &expr.KeyRange{Partition: l.partition}
	for i, v := range l.bound.Equals {
		found.Sort = append(found.Sort, expr.KeyTest{Name: sort[i].Name, Op: expr.Equal, Values: []item.Value{v}})
	}
	if len(l.bound.Values) > 0 {
		found.Sort = append(found.Sort, expr.KeyTest{Name: sort[len(found.Sort)].Name, Op: testOps[l.bound.Op], Values: l.bound.Values})
	}
	return found
}

// testOps are the operators of bounds in key conditions.
var testOps = func() map[keyspace.Op]expr.Op {
	ops := make(map[keyspace.Op]expr.Op)
	for test, bound := range boundOps {
		ops[bound] = test
	}
	return ops
}()

// asked returns what a statement asks for that changes an item, as the operation that
// makes the same change.
func (p *statementWrite) asked(text *string) asked {
	a := asked{operation: p.kind.Form() + "Item", table: p.Table, statement: true, expressions: [3]*string{text}, where: p.where, update: p.update}
	if p.kind == workload.Put {
		a.item = p.Key
	} else {
		a.key = p.Key
	}
	return a
}

// split sets the filter or the condition of a statement: the part of its clause that is
// not about the key.
func (s shaping) split() {
	key := s.table.Key
	if x, ok := s.table.Index(s.index); ok {
		key = x.Key
	}
	var rest []expr.Test
	for _, t := range partiql.Conjuncts(s.where) {
		if s.operation == "Scan" || !isKeyTest(t, key) {
			rest = append(rest, t)
		}
	}
	if rest == nil {
		return
	}
	c := expr.NewCondition(expr.Test{Op: expr.And, Tests: rest})
	if s.selects {
		s.filter = c
	} else {
		s.condition = c
	}
}

// isKeyTest reports whether a key condition can express a test.
func isKeyTest(t expr.Test, key schema.Key) bool {
	has := func(attrs []schema.Attribute, allowed func(expr.KeyTest) bool) bool {
		return slices.ContainsFunc(attrs, func(a schema.Attribute) bool {
			return slices.ContainsFunc(partiql.KeyTests(t, a.Name), allowed)
		})
	}
	return has(key.Partition, isChoice) || has(key.Sort, func(k expr.KeyTest) bool { return k.Op != expr.In })
}
