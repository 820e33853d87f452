package partiql

import (
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// where makes a test from a WHERE clause, which may be absent. Amazon's library
// first translates the whole clause, then checks how its operands are used, so
// that the faults of the latter are reported last (observed on DynamoDB Local).
func (b *binder) where(n *node) (expr.Test, error) {
	if n == nil {
		return expr.Test{}, nil
	}
	b.operators, b.misused = 0, nil
	if !n.isExpression() || n.isCall("size") {
		return expr.Test{}, b.notCondition(n, "WHERE clause must contain an expression that resolves to a boolean")
	}
	t, err := b.test(n)
	switch {
	case err != nil:
		return t, err
	case b.misused != nil:
		return t, b.misused
	}
	return t, expr.CheckOperators(b.operators)
}

// misuse records the fault of an operand's use, if there is one and it is the
// first.
func (b *binder) misuse(err error) {
	if b.misused == nil {
		b.misused = err
	}
}

// check checks how operands are used. After a fault they may be incomplete.
func (b *binder) check(operands interface{ Check() error }) {
	if b.misused == nil {
		b.misused = operands.Check()
	}
}

// notCondition returns the fault within an operand that is in place of a
// condition, or the message.
func (b *binder) notCondition(n *node, message string) error {
	if _, err := b.operand(expr.Equal, n); err != nil {
		return err
	}
	return apierror.Validation("%s", message)
}

// isExpression reports whether a node is an operator or a function, not an
// operand.
func (n *node) isExpression() bool {
	switch n.kind {
	case nodeUnary, nodeBinary, nodeBetween, nodeIs, nodeIn, nodeCall, nodeSelect:
		return true
	}
	return false
}

var comparisons = map[string]expr.Op{
	"=": expr.Equal, "<>": expr.NotEqual,
	"<": expr.Less, "<=": expr.LessOrEqual, ">": expr.Greater, ">=": expr.GreaterOrEqual,
}

func (b *binder) test(n *node) (expr.Test, error) {
	b.operators++
	switch n.kind {
	case nodeBinary:
		if n.text == "and" || n.text == "or" {
			return b.junction(n)
		}
		if op, ok := comparisons[n.text]; ok {
			return b.comparison(op, n.args...)
		}
		return expr.Test{}, unsupportedOperator(n)
	case nodeUnary:
		if n.text != "not" {
			return expr.Test{}, unsupportedOperator(n)
		}
		if !n.args[0].isExpression() {
			return expr.Test{}, b.notCondition(n.args[0], "The argument to NOT must be a Type or Expression")
		}
		return b.negation(n.args[0])
	case nodeBetween:
		t, err := b.comparison(expr.Between, n.args...)
		return negate(t, n.text == "not_between"), err
	case nodeIn:
		t, err := b.membership(n)
		return negate(t, n.text == "not_in"), err
	case nodeIs:
		t, err := b.is(n)
		return negate(t, n.text == "is_not"), err
	case nodeCall:
		return b.function(n)
	}
	return expr.Test{}, unsupportedSelect(n)
}

func unsupportedSelect(n *node) error {
	return apierror.Validation("Unsupported token in expression: SELECT%s", n.position())
}

func unsupportedOperator(n *node) error {
	return apierror.Validation("Unsupported operator in Condition Expression. Operator: %s", strings.TrimPrefix(n.text, "not_"))
}

func negate(t expr.Test, negative bool) expr.Test {
	if !negative {
		return t
	}
	return expr.Test{Op: expr.Not, Tests: []expr.Test{t}}
}

func (b *binder) junction(n *node) (expr.Test, error) {
	t := expr.Test{Op: expr.And}
	if n.text == "or" {
		t.Op = expr.Or
	}
	b.operators += len(n.args) - 2
	var operand error // the fault of an argument that is no condition
	for i, a := range n.args {
		if i > 1 && operand != nil { // the operator before this argument has its own two
			return t, operand
		}
		if !a.isExpression() {
			operand = apierror.Validation("The arguments to AND/OR must be Expressions")
			if _, err := b.operand(t.Op, a); err != nil {
				return t, err
			}
			continue
		}
		inner, err := b.condition(a)
		if err != nil {
			return t, err
		}
		t.Tests = append(t.Tests, inner)
	}
	for _, a := range n.args {
		b.misuse(notSize(t.Op, a))
	}
	return t, operand
}

func (b *binder) negation(n *node) (expr.Test, error) {
	t, err := b.condition(n)
	b.misuse(notSize(expr.Not, n))
	return negate(t, true), err
}

// condition makes a test from the argument of a logical operator.
func (b *binder) condition(n *node) (expr.Test, error) {
	if n.isCall("size") {
		_, err := b.size(n)
		return expr.Test{}, err
	}
	return b.test(n)
}

// notSize returns the fault of the function size, whose result is a number,
// where a condition is required.
func notSize(op expr.Op, n *node) error {
	if n.isCall("size") {
		return operandType(op, "N")
	}
	return nil
}

func operandType(op expr.Op, t string) error {
	return apierror.Validation("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", op, t)
}

func (b *binder) comparison(op expr.Op, args ...*node) (expr.Test, error) {
	t := expr.Test{Op: op}
	for _, a := range args {
		o, err := b.operand(op, a)
		if err != nil {
			return t, err
		}
		t.Operands = append(t.Operands, o)
	}
	b.check(&t)
	return t, nil
}

func (b *binder) membership(n *node) (expr.Test, error) {
	list := n.args[1]
	if list.kind != nodeList && list.kind != nodeBag || len(list.args) == 0 {
		return expr.Test{}, apierror.Validation("IN operator must have a left hand argument of type Variable Reference " +
			"and right hand argument of type Seq with at least one member")
	}
	return b.comparison(expr.In, append([]*node{n.args[0]}, list.args...)...)
}

// isTypes are the types that IS accepts.
var isTypes = map[string]string{
	"null": "NULL", "boolean": "BOOL", "blob": "B", "string": "S", "numeric": "N", "struct": "M", "tuple": "M", "list": "L",
}

func (b *binder) is(n *node) (expr.Test, error) {
	of, what := n.args[0], n.args[1].text
	switch {
	case of.isExpression(), of.kind == nodeParameter, of.kind == nodeList, of.kind == nodeStruct, of.kind == nodeBag:
		return expr.Test{}, apierror.Validation("The left hand side argument to IS must be a Variable Reference, Literal, or Path")
	}
	name, ok := isTypes[what]
	if !ok && what != "missing" {
		return expr.Test{}, apierror.Validation("Unsupported data type for IS operator: %s. "+
			"Supported data types are [MISSING, NULL, BOOLEAN, BLOB, STRING, NUMERIC, STRUCT, TUPLE, LIST]%s", strings.ToUpper(what), n.position())
	}
	o, err := b.operand(expr.Equal, of)
	if err != nil {
		return expr.Test{}, err
	}
	if what == "missing" {
		return expr.Test{Op: expr.NotExists, Operands: []expr.Operand{o}}, nil
	}
	return expr.Test{Op: expr.HasType, Operands: []expr.Operand{o, {Value: item.String(name)}}}, nil
}

// function makes a test from a function. Its name is not case-sensitive.
func (b *binder) function(n *node) (expr.Test, error) {
	name := strings.ToLower(n.text)
	op, inUpdates, ok := expr.Function(name)
	if !ok || inUpdates { // set_add and set_delete, too
		if err := b.operands(n.args); err != nil {
			return expr.Test{}, err
		}
	}
	switch {
	case inUpdates || name == "set_add" || name == "set_delete":
		return expr.Test{}, apierror.Validation("The function is not allowed in a condition expression; function: %s", name)
	case !ok:
		return expr.Test{}, apierror.Validation("Unrecognized function: %s", name)
	case op == expr.Size:
		return expr.Test{}, misused(name)
	}
	if err := expr.Arity(op, len(n.args)); err != nil {
		return expr.Test{}, b.wrongNumber(n.args, err)
	}
	return b.comparison(op, n.args...)
}

// operands translates the operands of a function that conditions do not have, or
// not with this number of them.
func (b *binder) operands(args []*node) error {
	for _, a := range args {
		var err error
		switch {
		case a.kind == nodeCall && strings.EqualFold(a.text, "size"):
			_, err = b.size(a)
		case a.isExpression():
			_, err = b.test(a)
		default:
			_, err = b.operand(expr.Equal, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wrongNumber translates operands whose number is wrong. How they are used is
// checked after their number.
func (b *binder) wrongNumber(args []*node, number error) error {
	if err := b.operands(args); err != nil {
		return err
	}
	b.misuse(number)
	return nil
}

func misused(function string) error {
	return apierror.Validation("The function is not allowed to be used this way in an expression; function: %s", function)
}

// operand makes an operand for an operator.
func (b *binder) operand(op expr.Op, n *node) (expr.Operand, error) {
	var o expr.Operand
	var err error
	switch {
	case n.kind == nodeName || n.kind == nodePath:
		o.Path, err = path(n)
	case n.kind == nodeParameter:
		o.Value, err = b.parameter(n)
	case n.kind == nodeMissing:
		err = apierror.Validation("MISSING must be compared using IS operator")
	case n.kind == nodeCall && strings.EqualFold(n.text, "size"):
		return b.size(n)
	case n.kind == nodeCall:
		_, err = b.function(n)
		b.misuse(misused(strings.ToLower(n.text)))
	case n.kind == nodeSelect:
		err = unsupportedSelect(n)
	case n.isExpression():
		_, err = b.test(n)
		b.misuse(operandType(op, "BOOL")) // DynamoDB Local compares the result of a condition; we do not
	default:
		o.Value, err = constant(n, "root", 0)
	}
	return o, err
}

func (b *binder) size(n *node) (expr.Operand, error) {
	b.operators++
	if err := expr.Arity(expr.Size, len(n.args)); err != nil {
		return expr.Operand{}, b.wrongNumber(n.args, err)
	}
	o, err := b.operand(expr.Size, n.args[0])
	if err != nil {
		return o, err
	}
	if o.Size {
		b.misuse(operandType(expr.Size, "N"))
		return o, nil
	}
	o.Size = true
	b.check(&o)
	return o, nil
}
