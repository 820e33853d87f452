package expr

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

// Text returns the condition in a normal form without its values: conditions that
// differ only in values, placeholders, spelling and the order of their parts have the
// same text. A value is written as ?, and so is whatever follows the attribute in a
// document path. name returns how an attribute is written.
func (c *Condition) Text(name func(string) string) string {
	if c.root.Op == 0 {
		return ""
	}
	return c.root.text(name)
}

func (t *Test) text(name func(string) string) string {
	switch t.Op {
	case And, Or:
		parts := slices.Compact(slices.Sorted(slices.Values(t.parts(t.Op, nil, name))))
		return strings.Join(parts, " "+t.Op.String()+" ")
	case Not:
		return "NOT " + t.Tests[0].enclosed(name)
	}
	return t.comparison(name)
}

// parts appends the texts of the tests that op joins. A test of the same operator is
// replaced by its own parts: a AND (b AND c) is a AND b AND c.
func (t *Test) parts(op Op, dst []string, name func(string) string) []string {
	for i := range t.Tests {
		if inner := &t.Tests[i]; inner.Op == op {
			dst = inner.parts(op, dst, name)
		} else {
			dst = append(dst, inner.enclosed(name))
		}
	}
	return dst
}

// enclosed is the text of a test as a part of another one.
func (t *Test) enclosed(name func(string) string) string {
	if t.Op == And || t.Op == Or {
		return "(" + t.text(name) + ")"
	}
	return t.text(name)
}

// comparison is the text of an operator or a function with its operands.
func (t *Test) comparison(name func(string) string) string {
	operands := make([]string, len(t.Operands))
	for i := range t.Operands {
		operands[i] = t.Operands[i].text(name)
	}
	switch {
	case t.Op == Between:
		return operands[0] + " BETWEEN " + operands[1] + " AND " + operands[2]
	case t.Op == In:
		list := slices.Compact(slices.Sorted(slices.Values(operands[1:])))
		return operands[0] + " IN (" + strings.Join(list, ", ") + ")"
	case Equal <= t.Op && t.Op <= GreaterOrEqual:
		op := t.Op
		if t.Operands[0].Path == nil && t.Operands[1].Path != nil {
			operands[0], operands[1] = operands[1], operands[0]
			op = mirrored(op)
		}
		return operands[0] + " " + op.String() + " " + operands[1]
	}
	return t.Op.String() + "(" + strings.Join(operands, ", ") + ")"
}

func (o *Operand) text(name func(string) string) string {
	text := "?"
	if o.Path != nil {
		text = pathText(o.Path, name)
	}
	if o.Size {
		return "size(" + text + ")"
	}
	return text
}

func pathText(p item.Path, name func(string) string) string {
	if len(p) > 1 {
		return name(p[0].Name) + ".?"
	}
	return name(p[0].Name)
}
