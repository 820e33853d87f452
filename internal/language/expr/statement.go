package expr

import "github.com/stator-db/stator/internal/data/item"

// The checks of nodes that package partiql makes: the same rules as for bound
// expressions, with the same messages.

// Check returns the fault of one comparison or function of a statement. Those
// within And, Or and Not are checked separately.
func (t *Test) Check() error {
	b := binder{kind: Statement}
	if err := b.arity(t.Op, len(t.Operands)); err != nil {
		return err
	}
	return b.check(t)
}

// Check returns the fault of a statement's operand.
func (o *Operand) Check() error {
	b := binder{kind: Statement}
	if o.Size {
		switch t := (&Operand{Path: o.Path, Value: o.Value}).staticType(); t {
		case item.N, item.BOOL, item.NULL:
			return b.operandType(opSize, t.String())
		}
	}
	return nil
}

// Check returns the fault of a statement's update: overlapping paths, then
// operands of the wrong type.
func (u *Update) Check() error {
	if err := CheckApart(u.Paths()); err != nil {
		return err
	}
	b := binder{kind: Statement}
	for i := range u.Actions {
		if err := b.checkTerm(&u.Actions[i].Term); err != nil {
			return err
		}
	}
	return nil
}

// checkTerm checks the operands of a term, then the term itself.
func (b *binder) checkTerm(t *Term) error {
	for i := range t.Args {
		if err := b.checkTerm(&t.Args[i]); err != nil {
			return err
		}
	}
	return b.checkArgs(t)
}

// CheckApart returns the fault of two paths of a statement that overlap or
// conflict.
func CheckApart(paths []item.Path) error { return checkApart(Statement, paths) }

// Arity returns the fault of a statement's function with the wrong number of
// operands.
func Arity(op Op, operands int) error {
	b := binder{kind: Statement}
	return b.arity(op, operands)
}

// CheckPath returns the fault of a statement's document path.
func CheckPath(p item.Path) error {
	if len(p) > maxDepth {
		return Statement.invalid("The document path has too many nesting levels; nesting levels: %d", len(p))
	}
	return nil
}

// CheckOperators returns the fault of a statement with too many operators.
func CheckOperators(count int) error {
	if count > maxOperators {
		return Statement.invalid("The expression contains too many operators; operator count: %d", maxOperators+1)
	}
	return nil
}

// arity returns the fault of a function, or of IN, with the wrong number of
// operands.
func (b *binder) arity(op Op, operands int) error {
	n := &node{op: op, text: op.String(), args: make([]*node, operands)}
	return b.operandCount(n)
}

// Function returns a function by its name.
func Function(name string) (op Op, inUpdates, ok bool) {
	f, ok := functions[name]
	return f.op, f.op == IfNotExists || f.op == ListAppend, ok
}

// Size is the function size, which is part of an Operand.
const Size = opSize
