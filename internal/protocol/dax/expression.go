package dax

import (
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// An expression is encoded as bytes: an array of the version 1, the tree and, except in a
// projection, the values. A node of the tree is an array that begins with a number.
const (
	nodeEqual int64 = iota
	nodeNotEqual
	nodeLess
	nodeGreaterOrEqual
	nodeGreater
	nodeLessOrEqual
	nodeAnd
	nodeOr
	nodeNot
	nodeBetween
	nodeIn
	nodeExists
	nodeNotExists
	nodeHasType
	nodeBeginsWith
	nodeContains
	nodeSize
	nodeValue // the number of a value
	nodePath  // names and list indexes
	nodeSet
	nodeAdd
	nodeDelete
	nodeRemove
	nodeIfNotExists
	nodeListAppend
	nodePlus
	nodeMinus
)

// testOps are the nodes whose members are operands.
var testOps = map[int64]expr.Op{
	nodeEqual: expr.Equal, nodeNotEqual: expr.NotEqual, nodeLess: expr.Less, nodeLessOrEqual: expr.LessOrEqual,
	nodeGreater: expr.Greater, nodeGreaterOrEqual: expr.GreaterOrEqual, nodeBetween: expr.Between,
	nodeExists: expr.Exists, nodeNotExists: expr.NotExists, nodeHasType: expr.HasType,
	nodeBeginsWith: expr.BeginsWith, nodeContains: expr.Contains,
}

const treeVersion = 1

// maxNodes is how many nodes and steps of paths a tree may have: a text of the largest size
// has no more.
const maxNodes = expr.MaxSize

// treeReader reads the tree of one expression. It makes nodes that have as many operands as
// package expr relies on; what a text is rejected for is checked later.
type treeReader struct {
	cbor.Decoder
	kind   expr.Kind
	values []item.Value
	left   int // of maxNodes
	bound  int // size of the names and values
}

func readCondition(b []byte, kind expr.Kind) (expr.Test, error) {
	r, err := newTreeReader(b, kind)
	if err != nil {
		return expr.Test{}, err
	}
	var root expr.Test
	if err := r.test(&root); err != nil {
		return expr.Test{}, r.invalid(err)
	}
	return root, r.invalid(r.end())
}

func readUpdate(b []byte) (*expr.Update, error) {
	r, err := newTreeReader(b, expr.UpdateExpression)
	if err != nil {
		return nil, err
	}
	u := new(expr.Update)
	err = r.each(func() error {
		var a expr.Action
		err := r.action(&a)
		u.Actions = append(u.Actions, a)
		return err
	})
	if err == nil && len(u.Actions) == 0 {
		err = cbor.ErrMalformed
	}
	if err != nil {
		return nil, r.invalid(err)
	}
	return u, r.invalid(r.end())
}

func readProjection(b []byte) ([]item.Path, error) {
	r, err := newTreeReader(b, expr.ProjectionExpression)
	if err != nil {
		return nil, err
	}
	var paths []item.Path
	err = r.each(func() error {
		p, err := r.path()
		paths = append(paths, p)
		return err
	})
	if err == nil && len(paths) == 0 {
		err = cbor.ErrMalformed
	}
	if err != nil {
		return nil, r.invalid(err)
	}
	return paths, r.invalid(r.end())
}

// newTreeReader reads what surrounds the tree: the version and the values.
func newTreeReader(b []byte, kind expr.Kind) (*treeReader, error) {
	r := &treeReader{kind: kind, left: maxNodes}
	tree, values, err := cutExpression(b, kind != expr.ProjectionExpression)
	if err != nil {
		return nil, r.invalid(err)
	}
	if err := r.readValues(values); err != nil {
		return nil, r.invalid(err)
	}
	r.Decoder = cbor.NewDecoder(tree)
	return r, nil
}

// cutExpression splits an expression into its tree and its values.
func cutExpression(b []byte, hasValues bool) (tree, values []byte, err error) {
	d := cbor.NewDecoder(b)
	m, err := d.Array()
	if err != nil {
		return nil, nil, err
	}
	members := 2
	if hasValues {
		members = 3
	}
	if n, ok := m.Count(); !ok || n != members {
		return nil, nil, cbor.ErrMalformed
	}
	if version, err := d.Int(); err != nil || version != treeVersion {
		return nil, nil, cbor.ErrMalformed
	}
	if tree, err = d.Skip(); err != nil || !hasValues {
		return tree, nil, err
	}
	values, err = d.Skip()
	if err == nil && len(d.Rest()) > 0 {
		err = cbor.ErrMalformed
	}
	return tree, values, err
}

// readValues reads the values that the tree refers to.
func (r *treeReader) readValues(b []byte) error {
	if b == nil {
		return nil
	}
	values := cborReader{Decoder: cbor.NewDecoder(b), maxSet: item.MaxRequestValues}
	m, err := values.Array()
	if err != nil {
		return err
	}
	for {
		more, err := values.Next(&m)
		if err != nil || !more {
			return err
		}
		if err := r.count(); err != nil {
			return err
		}
		v, err := values.value(nil, 0)
		if err != nil {
			return err
		}
		if values.fault != nil {
			return values.fault
		}
		if err := r.add(item.Value(v).Size()); err != nil {
			return err
		}
		r.values = append(r.values, v)
	}
}

// add adds to the size of the names and values, which is that of the placeholders of a text.
func (r *treeReader) add(bytes int) error {
	if r.bound += bytes; r.bound > item.MaxRequestValues {
		return apierror.Validation("Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size")
	}
	return nil
}

// count counts a node.
func (r *treeReader) count() error {
	if r.left--; r.left < 0 {
		return apierror.Request("Invalid %s: Expression size has exceeded the maximum allowed size;", r.kind)
	}
	return nil
}

// invalid makes a fault of an error of the encoding, of which clients make none.
func (r *treeReader) invalid(err error) error {
	if isEncoding(err) {
		return apierror.Request("Invalid %s: The expression is malformed", r.kind)
	}
	return err
}

// end checks that nothing follows the tree.
func (r *treeReader) end() error {
	if len(r.Rest()) > 0 {
		return cbor.ErrMalformed
	}
	return nil
}

// each reads an array.
func (r *treeReader) each(element func() error) error {
	m, err := r.Array()
	if err != nil {
		return err
	}
	return r.rest(&m, element)
}

// rest reads the other elements of an array.
func (r *treeReader) rest(m *cbor.Members, element func() error) error {
	for {
		more, err := r.Next(m)
		if err != nil || !more {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

// node reads the beginning of a node and returns its number.
func (r *treeReader) node() (op int64, m cbor.Members, err error) {
	if err := r.count(); err != nil {
		return 0, m, err
	}
	if m, err = r.Array(); err != nil {
		return 0, m, err
	}
	if more, err := r.Next(&m); err != nil || !more {
		return 0, m, cbor.ErrMalformed
	}
	op, err = r.Int()
	return op, m, err
}

// members reads as many members of a node as there are functions, each with one of them.
func (r *treeReader) members(m *cbor.Members, read ...func() error) error {
	for _, f := range read {
		if more, err := r.Next(m); err != nil || !more {
			return cbor.ErrMalformed
		}
		if err := f(); err != nil {
			return err
		}
	}
	if more, err := r.Next(m); err != nil || more {
		return cbor.ErrMalformed
	}
	return nil
}

// test reads a condition.
func (r *treeReader) test(into *expr.Test) error {
	op, m, err := r.node()
	if err != nil {
		return err
	}
	switch op {
	case nodeAnd:
		return r.joined(into, expr.And, &m)
	case nodeOr:
		return r.joined(into, expr.Or, &m)
	case nodeNot:
		into.Op, into.Tests = expr.Not, make([]expr.Test, 1)
		return r.members(&m, func() error { return r.test(&into.Tests[0]) })
	case nodeIn:
		into.Op = expr.In
		return r.members(&m, func() error { return r.operandOf(into) },
			func() error { return r.each(func() error { return r.operandOf(into) }) })
	}
	var ok bool
	if into.Op, ok = testOps[op]; !ok {
		return cbor.ErrMalformed
	}
	if err := r.rest(&m, func() error { return r.operandOf(into) }); err != nil {
		return err
	}
	return checkOperands(into)
}

// joined reads two conditions that And or Or joins. The clients make pairs of three
// conditions and more, the first two together: these become one test, as in package expr.
func (r *treeReader) joined(into *expr.Test, op expr.Op, m *cbor.Members) error {
	var left, right expr.Test
	if err := r.members(m, func() error { return r.test(&left) }, func() error { return r.test(&right) }); err != nil {
		return err
	}
	into.Op = op
	if left.Op == op {
		into.Tests = append(left.Tests, right)
	} else {
		into.Tests = []expr.Test{left, right}
	}
	return nil
}

// checkOperands checks the number of operands. That of a function may be any, which is
// reported with its other faults.
func checkOperands(t *expr.Test) error {
	switch n := len(t.Operands); {
	case n == 0,
		t.Op >= expr.Equal && t.Op <= expr.GreaterOrEqual && n != 2,
		t.Op == expr.Between && n != 3:
		return cbor.ErrMalformed
	}
	return nil
}

func (r *treeReader) operandOf(t *expr.Test) error {
	var o expr.Operand
	err := r.operand(&o)
	t.Operands = append(t.Operands, o)
	return err
}

// operand reads an operand of a condition.
func (r *treeReader) operand(into *expr.Operand) (err error) {
	op, m, err := r.node()
	if err != nil {
		return err
	}
	switch op {
	case nodePath:
		into.Path, err = r.steps(&m)
	case nodeValue:
		into.Value, err = r.value(&m)
	case nodeSize:
		err = r.size(into, &m)
	default:
		err = cbor.ErrMalformed
	}
	return err
}

func (r *treeReader) size(into *expr.Operand, m *cbor.Members) error {
	n := 0
	err := r.rest(m, func() error {
		n++
		*into = expr.Operand{}
		return r.operand(into)
	})
	switch {
	case err != nil:
		return err
	case n != 1:
		into.Fault = expr.CheckOperands(r.kind, expr.Size, n)
	case into.Size && into.Fault == nil: // of another size
		into.Fault = expr.SizeOfNumber(r.kind)
	}
	into.Size = true
	return nil
}

// value reads the number of a value, and returns the value.
func (r *treeReader) value(m *cbor.Members) (v item.Value, err error) {
	err = r.members(m, func() error {
		i, err := r.Int()
		if err != nil || i < 0 || i >= int64(len(r.values)) {
			return cbor.ErrMalformed
		}
		v = r.values[i]
		return nil
	})
	return v, err
}

// path reads a node that is a document path.
func (r *treeReader) path() (item.Path, error) {
	op, m, err := r.node()
	if err != nil {
		return nil, err
	}
	if op != nodePath {
		return nil, cbor.ErrMalformed
	}
	return r.steps(&m)
}

// steps reads the names and list indexes of a document path.
func (r *treeReader) steps(m *cbor.Members) (item.Path, error) {
	var p item.Path
	err := r.rest(m, func() error {
		if err := r.count(); err != nil {
			return err
		}
		s, err := r.step()
		p = append(p, s)
		return err
	})
	if err == nil && (len(p) == 0 || p[0].IsIndex) {
		err = cbor.ErrMalformed
	}
	return p, err
}

func (r *treeReader) step() (item.Step, error) {
	if r.Kind() != cbor.Tag {
		name, err := r.Text()
		if err == nil {
			err = r.add(len(name))
		}
		if err != nil {
			return item.Step{}, err
		}
		return item.Step{Name: string(name)}, nil
	}
	tag, err := r.Tag()
	if err != nil || tag != tagListIndex {
		return item.Step{}, cbor.ErrMalformed
	}
	i, err := r.Int()
	if err == nil && i < 0 {
		err = cbor.ErrMalformed
	}
	return item.Step{Index: int(i), IsIndex: true}, err
}

// action reads an action of an update.
func (r *treeReader) action(into *expr.Action) error {
	op, m, err := r.node()
	if err != nil {
		return err
	}
	path := func() (err error) { into.Path, err = r.path(); return err }
	constant := func() error {
		if err := r.term(&into.Term); err != nil {
			return err
		}
		if into.Term.Value == nil {
			return cbor.ErrMalformed
		}
		return nil
	}
	switch op {
	case nodeSet:
		into.Verb = expr.Set
		return r.members(&m, path, func() error { return r.term(&into.Term) })
	case nodeRemove:
		into.Verb = expr.Remove
		return r.members(&m, path)
	case nodeAdd:
		into.Verb = expr.Add
		return r.members(&m, path, constant)
	case nodeDelete:
		into.Verb = expr.Delete
		return r.members(&m, path, constant)
	}
	return cbor.ErrMalformed
}

// term reads what SET assigns, or an operand of it.
func (r *treeReader) term(into *expr.Term) error {
	op, m, err := r.node()
	if err != nil {
		return err
	}
	switch op {
	case nodePath:
		into.Path, err = r.steps(&m)
		return err
	case nodeValue:
		into.Value, err = r.value(&m)
		return err
	case nodeIfNotExists:
		into.Op = expr.IfNotExists
	case nodeListAppend:
		into.Op = expr.ListAppend
	case nodePlus:
		into.Op = expr.Plus
	case nodeMinus:
		into.Op = expr.Minus
	default:
		return cbor.ErrMalformed
	}
	err = r.rest(&m, func() error {
		var arg expr.Term
		err := r.term(&arg)
		into.Args = append(into.Args, arg)
		return err
	})
	if err != nil {
		return err
	}
	switch into.Op {
	case expr.Plus, expr.Minus:
		if len(into.Args) != 2 {
			return cbor.ErrMalformed
		}
	case expr.IfNotExists: // whether its operands are right is checked with those of the other actions
		if len(into.Args) > 0 && into.Args[0].Op == 0 && into.Args[0].Path != nil {
			into.Path, into.Args = into.Args[0].Path, into.Args[1:]
		}
	}
	return nil
}
