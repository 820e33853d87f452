package expr

import (
	"encoding/binary"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// The checks of expressions that arrive as nodes: those that a text gets when it is parsed
// and bound, in the same order and with the same messages. Checks of the text itself and
// of placeholders do not apply. Nodes come from clients, so that any operator can have
// any number of operands.

// CheckAs returns the fault of a condition that was made from nodes, as an expression of
// a kind.
func (c *Condition) CheckAs(kind Kind) error {
	n := nodeChecker{binder: binder{kind: kind}}
	if err := n.testSyntax(&c.root); err != nil {
		return err
	}
	if err := n.count(); err != nil {
		return err
	}
	return n.test(&c.root)
}

// CheckExpression returns the fault of an update that was made from nodes.
func (u *Update) CheckExpression() error {
	n := nodeChecker{binder: binder{kind: UpdateExpression}}
	for i := range u.Actions {
		if err := n.actionSyntax(&u.Actions[i]); err != nil {
			return err
		}
	}
	if err := n.count(); err != nil {
		return err
	}
	if err := checkApart(UpdateExpression, u.Paths()); err != nil {
		return err
	}
	for i := len(u.Actions) - 1; i >= 0; i-- {
		if err := n.action(&u.Actions[i]); err != nil {
			return err
		}
	}
	return nil
}

// CheckProjection returns the fault of a projection that was made from paths.
func CheckProjection(paths []item.Path) error {
	n := nodeChecker{binder: binder{kind: ProjectionExpression}}
	for _, p := range paths {
		if err := n.path(p); err != nil {
			return err
		}
	}
	return checkApart(ProjectionExpression, paths)
}

// nodeChecker checks bound nodes.
type nodeChecker struct {
	binder
	operators int
}

// path checks what syntaxChecker checks of a path, apart from reserved words.
func (c *nodeChecker) path(p item.Path) error {
	if p != nil && (len(p) == 0 || p[0].IsIndex) {
		return c.kind.invalid("A document path does not begin with an attribute;")
	}
	for _, s := range p {
		if s.IsIndex {
			if s.Index < 0 || s.Index > maxIndex {
				return c.kind.invalid("List index is not within the allowable range; index: [%d]", s.Index)
			}
			continue
		}
		if fault, ok := errors.AsType[*apierror.Error](item.CheckName(s.Name)); ok {
			return apierror.Request("%s", fault.Message) // a fault of the request, as in CheckNames
		}
	}
	if len(p) > maxDepth {
		return c.kind.invalid("The document path has too many nesting levels; nesting levels: %d", len(p))
	}
	return nil
}

func (c *nodeChecker) count() error {
	if c.operators > maxOperators {
		return c.kind.invalid("The expression contains too many operators; operator count: %d", maxOperators+1)
	}
	return nil
}

// testSyntax makes the checks of syntaxChecker.test.
func (c *nodeChecker) testSyntax(t *Test) error {
	ok := len(t.Tests) == 0
	switch t.Op {
	case And, Or:
		c.operators += len(t.Tests) - 2
		ok = len(t.Tests) > 0 && len(t.Operands) == 0
	case Not:
		ok = len(t.Tests) == 1 && len(t.Operands) == 0
	case Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual:
		ok = ok && len(t.Operands) == 2
	case Between:
		ok = ok && len(t.Operands) == 3
	case In:
		ok = ok && len(t.Operands) >= 2
	case Exists, NotExists, HasType, BeginsWith, Contains: // test checks how many operands these have
	default:
		return c.kind.invalid("Invalid function name; function: %d", t.Op)
	}
	if !ok {
		return c.wrongCount(t.Op, len(t.Tests)+len(t.Operands))
	}
	c.operators++
	for i := range t.Tests {
		if err := c.testSyntax(&t.Tests[i]); err != nil {
			return err
		}
	}
	for i := range t.Operands {
		o := &t.Operands[i]
		if o.Size {
			c.operators++
		}
		if o.Path == nil && len(o.Value) == 0 && o.Fault == nil {
			return c.wrongCount(t.Op, i)
		}
		if err := c.path(o.Path); err != nil {
			return err
		}
	}
	return nil
}

// test makes the checks of conditionBinder.test.
func (c *nodeChecker) test(t *Test) error {
	for i := range t.Tests {
		if err := c.test(&t.Tests[i]); err != nil {
			return err
		}
	}
	if t.Op <= Not { // And, Or and Not have no operands
		return nil
	}
	for i := range t.Operands {
		o := &t.Operands[i]
		if o.Fault != nil {
			return o.Fault
		}
		if !o.Size {
			continue
		}
		switch of := (&Operand{Path: o.Path, Value: o.Value}).staticType(); of {
		case item.N, item.BOOL, item.NULL:
			return c.operandType(opSize, of.String())
		}
	}
	if err := c.arity(t.Op, len(t.Operands)); err != nil {
		return err
	}
	return c.check(t)
}

func (c *nodeChecker) wrongCount(op Op, operands int) error {
	return c.kind.invalid("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", op, operands)
}

// termSyntax makes the checks of syntaxChecker.assigned.
func (c *nodeChecker) termSyntax(t *Term) error {
	switch t.Op {
	case 0, IfNotExists, Plus, Minus, ListAppend: // term checks how many operands these have
	default:
		return c.kind.invalid("Invalid function name; function: %d", t.Op)
	}
	if t.Op != 0 {
		c.operators++
	}
	if err := c.path(t.Path); err != nil {
		return err
	}
	for i := range t.Args {
		a := &t.Args[i]
		if a.Op == 0 && a.Path == nil && len(a.Value) == 0 {
			return c.wrongCount(t.Op, i)
		}
		if a.Op == Plus || a.Op == Minus { // a text has no parentheses for it
			return c.kind.invalid("An operand is a sum or a difference; operator: %s", a.Op)
		}
		if a.Op == ListAppend {
			return c.kind.invalid("The function is not allowed to be used this way in an expression; function: %s", a.Op)
		}
		if err := c.termSyntax(a); err != nil {
			return err
		}
	}
	return nil
}

// actionSyntax checks the path and the term of an action.
func (c *nodeChecker) actionSyntax(a *Action) error {
	if len(a.Path) == 0 {
		return c.kind.invalid("A document path does not begin with an attribute;")
	}
	if err := c.path(a.Path); err != nil {
		return err
	}
	t, constant := &a.Term, a.Term.Op == 0 && a.Term.Path == nil && len(a.Term.Value) > 0
	switch {
	case a.Verb == Remove:
		return nil
	case a.Verb < Set || a.Verb > Delete:
		return c.kind.invalid("Invalid action; action: %d", a.Verb)
	case a.Verb != Set && !constant, t.Op == 0 && t.Path == nil && !constant:
		return c.kind.invalid("An action has no value; action: %s", a.Verb)
	}
	return c.termSyntax(t)
}

// action makes the checks of updateBinder.value.
func (c *nodeChecker) action(a *Action) error {
	switch a.Verb {
	case Remove:
		return nil
	case Add, Delete:
		return checkConstant(a.Verb, a.Term.Value.Type())
	}
	return c.term(&a.Term)
}

// term makes the checks of updateBinder.term.
func (c *nodeChecker) term(t *Term) error {
	for i := range t.Args {
		if err := c.term(&t.Args[i]); err != nil {
			return err
		}
	}
	want, got := 2, len(t.Args)
	switch {
	case t.Op == 0:
		want = 0
	case t.Op == IfNotExists && t.Path != nil:
		got++ // the path is an operand in the text
	}
	switch {
	case got != want:
		return c.wrongCount(t.Op, got)
	case t.Op == IfNotExists && t.Path == nil:
		return c.requiresPath(t.Op)
	}
	return c.checkArgs(t)
}

// AppendTo appends bytes that are the same exactly for conditions of the same nodes.
func (c *Condition) AppendTo(dst []byte) []byte {
	if c == nil {
		return append(dst, 0)
	}
	return c.root.appendTo(append(dst, 1))
}

func (t *Test) appendTo(dst []byte) []byte {
	dst = append(dst, byte(t.Op))
	dst = binary.AppendUvarint(dst, uint64(len(t.Tests)))
	for i := range t.Tests {
		dst = t.Tests[i].appendTo(dst)
	}
	dst = binary.AppendUvarint(dst, uint64(len(t.Operands)))
	for i := range t.Operands {
		o := &t.Operands[i]
		kind := byte(0)
		if o.Size {
			kind = 1
		}
		dst = appendNode(append(dst, kind), o.Path, o.Value)
	}
	return dst
}

// AppendTo appends bytes that are the same exactly for updates of the same nodes.
func (u *Update) AppendTo(dst []byte) []byte {
	if u == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(append(dst, 1), uint64(len(u.Actions)))
	for i := range u.Actions {
		a := &u.Actions[i]
		dst = appendNode(append(dst, byte(a.Verb)), a.Path, nil)
		dst = a.Term.appendTo(dst)
	}
	return dst
}

func (t *Term) appendTo(dst []byte) []byte {
	dst = appendNode(append(dst, byte(t.Op)), t.Path, t.Value)
	dst = binary.AppendUvarint(dst, uint64(len(t.Args)))
	for i := range t.Args {
		dst = t.Args[i].appendTo(dst)
	}
	return dst
}

// appendNode appends a path and a value, each with its size.
func appendNode(dst []byte, p item.Path, v item.Value) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p)))
	for _, s := range p {
		if s.IsIndex {
			dst = binary.AppendUvarint(append(dst, 1), uint64(s.Index))
			continue
		}
		dst = append(binary.AppendUvarint(append(dst, 0), uint64(len(s.Name))), s.Name...)
	}
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}
