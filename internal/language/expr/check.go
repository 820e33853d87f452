package expr

import (
	"math"

	"github.com/stator-db/stator/internal/data/item"
)

// The limits that can be checked without placeholders.
const (
	maxOperators = 300
	maxDepth     = 32 // steps of a document path
	maxIndex     = math.MaxInt32
	maxInList    = 100 // operands of IN, the first not counted
)

// syntaxChecker makes the checks that need no placeholders, in the order of
// the text: reserved words, list indexes, and the names and positions of
// functions.
type syntaxChecker struct {
	*parser
	operators int

	// The sizes that binding the text needs.
	tests, operands, steps int
}

// test checks a node that must be a condition.
func (c *syntaxChecker) test(n *node) {
	c.tests++
	switch n.op {
	case And, Or:
		c.operators += len(n.args) - 1
		for _, a := range n.args {
			c.test(a)
		}
		return
	case Not:
		c.operators++
		c.test(n.args[0])
		return
	case opCall:
		c.function(n)
		if n.op == opSize {
			c.misused(n)
		}
	default:
		c.operators++
	}
	for _, a := range n.args {
		c.operand(a)
	}
}

// operand checks an operand of a condition.
func (c *syntaxChecker) operand(n *node) {
	c.operands++
	if n.op == opPath {
		c.path(n.path)
	}
	if n.op != opCall {
		return
	}
	if c.function(n); n.op != opSize {
		c.misused(n)
	}
	for _, a := range n.args {
		c.operand(a)
	}
}

// assigned checks the value of a SET. It may be a list_append, which an
// operand may not.
func (c *syntaxChecker) assigned(n *node) {
	switch n.op {
	case opPath:
		c.path(n.path)
	case opCall:
		c.function(n)
	case Plus, Minus:
		c.operators++
	}
	for _, a := range n.args {
		if a.op == opCall && a.text == ListAppend.String() {
			c.misused(a)
		}
		c.assigned(a)
	}
}

// function looks a function up, and checks that this kind of expression may
// use it.
func (c *syntaxChecker) function(n *node) {
	c.operators++
	f, ok := functions[n.text]
	if !ok {
		c.stop("Invalid function name; function: %s", n.text)
	}
	n.op = f.op
	switch inUpdates := n.op == IfNotExists || n.op == ListAppend; {
	case c.kind == UpdateExpression && !inUpdates:
		c.stop("The function is not allowed in an update expression; function: %s", n.text)
	case c.kind != UpdateExpression && inUpdates:
		c.stop("The function is not allowed in a condition expression; function: %s", n.text)
	}
}

func (c *syntaxChecker) misused(n *node) {
	c.stop("The function is not allowed to be used this way in an expression; function: %s", n.text)
}

func (c *syntaxChecker) path(p item.Path) {
	c.steps += len(p)
	for _, s := range p {
		switch {
		case s.IsIndex && s.Index > maxIndex:
			c.stop("List index is not within the allowable range; index: [%s]", c.largeIndex)
		case !s.IsIndex && isReserved(s.Name):
			c.stop("Attribute name is a reserved keyword; reserved keyword: %s", s.Name)
		}
	}
	if len(p) > maxDepth {
		c.stop("The document path has too many nesting levels; nesting levels: %d", len(p))
	}
}

// count checks the number of operators and functions. DynamoDB stops counting
// at the first that is too many, and reports that number.
func (c *syntaxChecker) count() {
	if c.operators > maxOperators {
		c.stop("The expression contains too many operators; operator count: %d", maxOperators+1)
	}
}
