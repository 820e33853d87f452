package partiql

import "github.com/stator-db/stator/internal/language/expr"

// KeyTests returns the conditions on one attribute that every item must meet:
// those that are alone or joined by AND, and compare the attribute with
// constants. In addition to the operators of a key condition there may be In.
func KeyTests(where expr.Test, name string) []expr.KeyTest {
	var tests []expr.KeyTest
	for _, t := range Conjuncts(where) {
		if k, ok := keyTest(t); ok && k.Name == name {
			tests = append(tests, k)
		}
	}
	return tests
}

// Conjuncts returns the conditions of a clause that must all hold.
func Conjuncts(where expr.Test) []expr.Test {
	switch where.Op {
	case 0:
		return nil
	case expr.And:
		var all []expr.Test
		for _, t := range where.Tests {
			all = append(all, Conjuncts(t)...)
		}
		return all
	}
	return []expr.Test{where}
}

// mirrored are the operators with their operands exchanged: 1 < a is a > 1.
var mirrored = map[expr.Op]expr.Op{
	expr.Equal: expr.Equal, expr.Less: expr.Greater, expr.LessOrEqual: expr.GreaterOrEqual,
	expr.Greater: expr.Less, expr.GreaterOrEqual: expr.LessOrEqual,
}

func keyTest(t expr.Test) (expr.KeyTest, bool) {
	k := expr.KeyTest{Op: t.Op}
	switch t.Op {
	case expr.Equal, expr.Less, expr.LessOrEqual, expr.Greater, expr.GreaterOrEqual, expr.Between, expr.BeginsWith, expr.In:
	default:
		return k, false
	}
	operands := t.Operands
	if op, ok := mirrored[t.Op]; ok && operands[0].Path == nil {
		k.Op = op
		operands = []expr.Operand{operands[1], operands[0]}
	}
	if len(operands[0].Path) != 1 || operands[0].Size {
		return k, false
	}
	k.Name = operands[0].Path[0].Name
	for _, o := range operands[1:] {
		if o.Path != nil || o.Size {
			return k, false
		}
		k.Values = append(k.Values, o.Value)
	}
	return k, true
}
