package oracletest

import (
	"slices"
	"strconv"
	"strings"
)

// condition is a node of a condition or a filter: AND, OR and NOT of other
// conditions, or an operator or function with its operands.
type condition struct {
	op       string
	tests    []condition
	operands []operand
}

// operand is the value at a path, or a constant; with size, the size of it.
type operand struct {
	path  path
	value value
	size  bool
}

// of is the operand's value for one item.
func (o operand) of(it object) (value, bool) {
	v, ok := o.value, true
	if o.path != nil {
		v, ok = at(it, o.path)
	}
	if !ok || !o.size {
		return v, ok
	}
	n, ok := count(v)
	return num(strconv.Itoa(n)), ok
}

// holds reports whether the condition holds for an item, which may be nil.
func (t condition) holds(it object) bool {
	switch t.op {
	case "AND":
		return !slices.ContainsFunc(t.tests, func(s condition) bool { return !s.holds(it) })
	case "OR":
		return slices.ContainsFunc(t.tests, func(s condition) bool { return s.holds(it) })
	case "NOT":
		return !t.tests[0].holds(it)
	}
	var values []value
	all := true
	for _, o := range t.operands {
		v, ok := o.of(it)
		all = all && ok
		values = append(values, v)
	}
	_, first := t.operands[0].of(it)
	switch t.op {
	case "attribute_exists":
		return first
	case "attribute_not_exists":
		return !first
	case "IN":
		return first && slices.ContainsFunc(t.operands[1:], func(o operand) bool {
			v, ok := o.of(it)
			return ok && equal(v, values[0])
		})
	case "<>":
		return !all || !equal(values[0], values[1])
	}
	return all && satisfies(t.op, values)
}

// satisfies evaluates operators whose operands all exist.
func satisfies(op string, v []value) bool {
	switch op {
	case "=":
		return equal(v[0], v[1])
	case "BETWEEN":
		return satisfies(">=", v[:2]) && satisfies("<=", []value{v[0], v[2]})
	case "attribute_type":
		return equal(v[1], str(kindOf(v[0])))
	case "contains":
		return contains(v[0], v[1])
	}
	if kindOf(v[0]) != kindOf(v[1]) || !hasOrder(kindOf(v[0])) {
		return false
	}
	switch c := order(v[0], v[1]); op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	case "begins_with":
		whole, ok := text(v[0])
		start, _ := text(v[1])
		return ok && strings.HasPrefix(whole, start)
	}
	panic("no operator " + op)
}

func contains(v, wanted value) bool {
	switch v := v.(type) {
	case list:
		return slices.ContainsFunc(v, func(e value) bool { return equal(e, wanted) })
	case valueSet:
		return v.has(wanted)
	}
	whole, ok := text(v)
	part, _ := text(wanted)
	return ok && kindOf(v) == kindOf(wanted) && strings.Contains(whole, part)
}

// makesSense reports whether the constants are of kinds that their operators
// accept; otherwise no item is read.
func (t condition) makesSense() bool {
	if slices.ContainsFunc(t.tests, func(s condition) bool { return !s.makesSense() }) {
		return false
	}
	var kinds []string // of the operands that are known without an item
	for i, o := range t.operands {
		switch {
		case o.size:
			if o.path == nil {
				if _, ok := count(o.value); !ok {
					return false
				}
			}
			kinds = append(kinds, "N")
		case o.path == nil:
			kinds = append(kinds, kindOf(o.value))
		case i > 0 && !t.operands[0].size && slices.Equal(o.path, t.operands[0].path):
			return false // the first operand must be distinct
		}
	}
	switch t.op {
	case "<", "<=", ">", ">=", "BETWEEN":
		if slices.ContainsFunc(kinds, func(k string) bool { return !hasOrder(k) }) {
			return false
		}
	case "begins_with":
		if slices.ContainsFunc(kinds, func(k string) bool { return k != "S" && k != "B" }) {
			return false
		}
	}
	if t.op == "BETWEEN" {
		low, high := t.operands[1], t.operands[2]
		if low.path == nil && high.path == nil && !low.size && !high.size {
			return kindOf(low.value) == kindOf(high.value) && order(low.value, high.value) <= 0
		}
	}
	return true
}

// paths returns the paths of a condition, which may be nil.
func (t *condition) paths() []path {
	if t == nil {
		return nil
	}
	var paths []path
	for _, s := range t.tests {
		paths = append(paths, s.paths()...)
	}
	for _, o := range t.operands {
		if o.path != nil {
			paths = append(paths, o.path)
		}
	}
	return paths
}

// write formats the condition, with parentheses only where they are needed.
func (t condition) write(w *placeholders) string {
	switch t.op {
	case "AND", "OR":
		texts := make([]string, len(t.tests))
		for i, s := range t.tests {
			texts[i] = s.write(w)
			if t.op == "AND" && s.op == "OR" {
				texts[i] = "(" + texts[i] + ")"
			}
		}
		return strings.Join(texts, " "+t.op+" ")
	case "NOT":
		inner := t.tests[0].write(w)
		if op := t.tests[0].op; op == "AND" || op == "OR" {
			inner = "(" + inner + ")"
		}
		return "NOT " + inner
	}
	texts := make([]string, len(t.operands))
	for i, o := range t.operands {
		texts[i] = o.write(w)
	}
	switch t.op {
	case "IN":
		return texts[0] + " IN (" + strings.Join(texts[1:], ", ") + ")"
	case "BETWEEN":
		return texts[0] + " BETWEEN " + texts[1] + " AND " + texts[2]
	case "=", "<>", "<", "<=", ">", ">=":
		return texts[0] + " " + t.op + " " + texts[1]
	}
	return t.op + "(" + strings.Join(texts, ", ") + ")"
}

func (o operand) write(w *placeholders) string {
	text := ""
	if o.path != nil {
		text = w.path(o.path)
	} else {
		text = w.value(o.value)
	}
	if o.size {
		return "size(" + text + ")"
	}
	return text
}
