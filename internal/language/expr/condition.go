package expr

import (
	"strconv"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/data/item"
)

// Condition is a predicate on items: a bound ConditionExpression or
// FilterExpression. The zero Condition holds for every item.
type Condition struct{ root Test }

// NewCondition makes a condition from nodes.
func NewCondition(root Test) *Condition { return &Condition{root} }

// Holds reports whether the condition holds for an item, which may be nil.
// A Filter is faster for many items.
//
// It has no budget of steps: an expression of the largest size, with the largest
// values and item, takes fewer steps than MaxPageSteps.
func (c *Condition) Holds(it item.Item) bool {
	e := evaluationOf(it)
	return e.condition(c, it)
}

// Paths returns the document paths of the condition, in the order of its
// text.
func (c *Condition) Paths() []item.Path { return c.root.appendPaths(nil) }

// Nested returns those of Paths that lead into an attribute.
func (c *Condition) Nested() []item.Path { return c.root.appendNested(nil) }

// Test is one node of a condition: And, Or and Not of other tests, or an
// operator or function with its operands.
type Test struct {
	Op       Op
	Tests    []Test    // of And, Or and Not
	Operands []Operand // of other operators and functions
}

// Operand is the value at a path, or a constant; with Size, the size of it.
type Operand struct {
	Path  item.Path
	Value item.Value // if Path is nil
	Size  bool

	// Fault is set by readers of compiled expressions for an operand that cannot be represented.
	// Condition.CheckAs reports it in its place.
	Fault error
}

func (t *Test) appendPaths(dst []item.Path) []item.Path {
	for i := range t.Tests {
		dst = t.Tests[i].appendPaths(dst)
	}
	for i := range t.Operands {
		if p := t.Operands[i].Path; p != nil {
			dst = append(dst, p)
		}
	}
	return dst
}

func (t *Test) appendNested(dst []item.Path) []item.Path {
	for i := range t.Tests {
		dst = t.Tests[i].appendNested(dst)
	}
	for i := range t.Operands {
		if p := t.Operands[i].Path; len(p) > 1 {
			dst = append(dst, p)
		}
	}
	return dst
}

// staticType is the operand's type if it is known without an item; otherwise
// 0.
func (o *Operand) staticType() item.Type {
	switch {
	case o.Size:
		return item.N
	case o.Path == nil:
		return o.Value.Type()
	}
	return 0
}

// size is the function size. A string's size is the number of its UTF-16
// units.
func size(v item.Value) (item.Value, bool) {
	var n int
	switch v.Type() {
	case item.S:
		for rest := v.Bytes(); len(rest) > 0; n++ {
			r, width := utf8.DecodeRune(rest)
			if r > 0xFFFF {
				n++
			}
			rest = rest[width:]
		}
	case item.B:
		n = len(v.Bytes())
	case item.N, item.BOOL, item.NULL:
		return nil, false
	default:
		n = v.Len()
	}
	var digits [20]byte
	number, err := item.ParseNumber(strconv.AppendInt(digits[:0], int64(n), 10))
	if err != nil {
		panic("a size is not a number: " + err.Error())
	}
	return item.Num(number), true
}

// compare compares two values. Values of different types are neither equal
// nor ordered; only S, N and B have an order.
func compare(op Op, a, b item.Value) bool {
	switch op {
	case Equal:
		return item.Equal(a, b)
	case NotEqual:
		return !item.Equal(a, b)
	}
	if a.Type() != b.Type() || !hasOrder(a.Type()) {
		return false
	}
	c := item.Compare(a, b)
	switch op {
	case Less:
		return c < 0
	case LessOrEqual:
		return c <= 0
	case Greater:
		return c > 0
	}
	return c >= 0
}

func isText(v item.Value) bool { return v.Type() == item.S || v.Type() == item.B }

func hasOrder(t item.Type) bool { return t == item.S || t == item.N || t == item.B }
