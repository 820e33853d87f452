package partiql

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// action makes an action from one assignment.
func (b *binder) action(s assignment) (expr.Action, error) {
	p, err := path(s.path)
	if err != nil {
		return expr.Action{}, err
	}
	if s.value == nil {
		return expr.Action{Verb: expr.Remove, Path: p}, nil
	}
	a := expr.Action{Verb: expr.Set, Path: p}
	switch n := s.value; {
	case n.isCall("set_add"):
		a.Verb = expr.Add
		a.Term, err = b.setFunction(p, n)
	case n.isCall("set_delete"):
		a.Verb = expr.Delete
		a.Term, err = b.setFunction(p, n)
	default:
		a.Term, err = b.assigned(n)
	}
	return a, err
}

func (n *node) isCall(name string) bool { return n.kind == nodeCall && strings.EqualFold(n.text, name) }

// setFunction reads path = set_add(path, set).
func (b *binder) setFunction(assigned item.Path, n *node) (t expr.Term, err error) {
	name := strings.ToUpper(n.text)
	if len(n.args) != 2 {
		return t, apierror.Validation("%s must have exactly two arguments%s", name, n.position())
	}
	for _, a := range n.args {
		if a.kind == nodeBag {
			continue
		}
		if _, err := b.assigned(a); err != nil {
			return t, err
		}
	}
	first, err := path(n.args[0])
	if err != nil {
		return t, err
	}
	if !slices.Equal(first, assigned) {
		return t, apierror.Validation("The first argument to %s must equal the assignment value", name)
	}
	second := n.args[1]
	if second.kind == nodeParameter {
		t.Value, err = b.parameter(second)
	} else if second.kind == nodeBag {
		t.Value, err = set(second)
	}
	if err == nil && (t.Value == nil || !t.Value.Type().IsSet()) {
		err = apierror.Validation("The second argument to %s must be a value with type SET%s", name, n.args[0].position())
	}
	return t, err
}

// assigned makes a term from the right side of a SET.
func (b *binder) assigned(n *node) (expr.Term, error) {
	var t expr.Term
	var err error
	switch n.kind {
	case nodeName, nodePath:
		t.Path, err = path(n)
	case nodeParameter:
		t.Value, err = b.parameter(n)
	case nodeMissing:
		err = apierror.Validation("MISSING must be compared using IS operator")
	case nodeBinary, nodeUnary:
		return b.sum(n)
	case nodeCall:
		return b.updateFunction(n)
	case nodeSelect:
		err = unsupportedSelect(n)
	case nodeIs:
		err = apierror.Validation("IS operator is not supported in update expressions")
	case nodeBetween, nodeIn:
		err = apierror.Validation("Unsupported operator in Update Expression. Operator: %s", n.text)
	default:
		t.Value, err = constant(n, "root", 0)
	}
	return t, err
}

func (b *binder) sum(n *node) (expr.Term, error) {
	op, ok := map[string]expr.Op{"+": expr.Plus, "-": expr.Minus}[n.text]
	if !ok {
		if n.text == "=" { // the operands of which are translated first, unlike those of other comparisons
			if t, err := b.terms(op, n.args); err != nil {
				return t, err
			}
		}
		return expr.Term{}, apierror.Validation("Unsupported operator in Update Expression. Operator: %s", n.text)
	}
	if len(n.args) != 2 {
		b.miscount(apierror.Validation("Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", op, len(n.args)))
	}
	return b.terms(op, n.args)
}

func (b *binder) terms(op expr.Op, args []*node) (expr.Term, error) {
	t := expr.Term{Op: op}
	for _, a := range args {
		inner, err := b.assigned(a)
		if err != nil {
			return t, err
		}
		t.Args = append(t.Args, inner)
	}
	return t, nil
}

// updateFunction makes a term from a function. Its operands are translated
// before the function is looked up.
func (b *binder) updateFunction(n *node) (expr.Term, error) {
	name := strings.ToLower(n.text)
	op, inUpdates, ok := expr.Function(name)
	if ok && !inUpdates {
		b.misuse(apierror.Validation("The function is not allowed in an update expression; function: %s", name))
	}
	t, err := b.terms(op, n.args)
	switch {
	case err != nil:
		return t, err
	case !ok: // set_add and set_delete, too

		return t, apierror.Validation("Unrecognized function: %s", name)
	case !inUpdates:
		return t, nil
	}
	b.miscount(expr.Arity(op, len(n.args)))
	if b.misused != nil || b.miscounted != nil || op != expr.IfNotExists {
		return t, nil
	}
	if t.Args[0].Path == nil {
		b.miscount(apierror.Validation("Operator or function requires a document path; operator or function: %s", op))
		return t, nil
	}
	t.Path, t.Args = t.Args[0].Path, t.Args[1:]
	return t, nil
}

// miscount records the first fault of the number and the kind of an update's
// operands.
func (b *binder) miscount(err error) {
	if b.miscounted == nil {
		b.miscounted = err
	}
}

// checkUpdate returns the fault of a function that updates do not have, of paths
// that overlap, and of operands, in this order (conformance/execute_statement/order.txt).
func (b *binder) checkUpdate(u *expr.Update) error {
	if b.misused != nil {
		return b.misused
	}
	if err := expr.CheckApart(u.Paths()); err != nil {
		return err
	}
	if b.miscounted != nil {
		return b.miscounted
	}
	return u.Check()
}
