package expr

import (
	"slices"

	"github.com/stator-db/stator/internal/data/item"
)

// ParsedUpdate is a parsed UpdateExpression without a request's placeholders.
type ParsedUpdate struct {
	actions []parsedAction
	refs    refs
	steps   int
}

// ParseUpdate parses an UpdateExpression.
func ParseUpdate(text string) (*ParsedUpdate, error) {
	u := new(ParsedUpdate)
	refs, err := parse(UpdateExpression, text, func(p *parser) {
		sections := p.update()
		check := syntaxChecker{parser: p}
		for _, s := range sections {
			u.actions = append(u.actions, s.actions...)
			for _, a := range s.actions {
				check.path(a.path.path)
				if a.value != nil {
					check.assigned(a.value)
				}
			}
		}
		check.sections(sections)
		check.count()
		u.steps = check.steps
	})
	if err != nil {
		return nil, err
	}
	u.refs = refs
	return u, nil
}

// sections checks that no section occurs twice.
func (c *syntaxChecker) sections(sections []section) {
	for i, s := range sections {
		if slices.ContainsFunc(sections[:i], func(before section) bool { return before.verb == s.verb }) {
			c.stop("The \"%s\" section can only be used once in an update expression;", s.verb)
		}
	}
}

// Bind binds the placeholders of a request. It reports the first fault of the
// paths that the update changes, then the first of the values that it writes.
// Like DynamoDB it checks the actions from the last to the first, and each
// action in the order of its text (conformance/expr/update_order.txt).
func (u *ParsedUpdate) Bind(b *Bindings) (*Update, error) {
	b.use(&u.refs)
	binding := updateBinder{newBinder(UpdateExpression, b, &u.refs, u.steps)}
	bound := &Update{Actions: make([]Action, len(u.actions))}
	if err := u.bindPaths(&binding, bound); err != nil {
		return nil, err
	}
	for i := len(u.actions) - 1; i >= 0; i-- {
		if err := binding.value(u.actions[i].value, &bound.Actions[i]); err != nil {
			return nil, err
		}
	}
	return bound, nil
}

func (u *ParsedUpdate) bindPaths(b *updateBinder, bound *Update) error {
	var few [8]item.Path
	paths := few[:0]
	for i := range u.actions {
		paths = append(paths, u.actions[i].path.path)
	}
	if err := b.targets(paths); err != nil {
		return err
	}
	for i, p := range paths {
		bound.Actions[i].Verb, bound.Actions[i].Path = u.actions[i].verb, p
	}
	return nil
}

// updateBinder binds the values of an update's actions.
type updateBinder struct{ binder }

// value binds what an action writes; n is nil for REMOVE.
func (b *updateBinder) value(n *node, into *Action) (err error) {
	if n == nil {
		return nil
	}
	if into.Term, err = b.term(n); err != nil {
		return err
	}
	if into.Verb == Add || into.Verb == Delete {
		return checkConstant(into.Verb, into.Term.Value.Type())
	}
	return nil
}

// term binds what SET assigns, or an operand of it.
func (b *updateBinder) term(n *node) (t Term, err error) {
	switch n.op {
	case opPath:
		t.Path, err = b.path(n.path)
		return t, err
	case opValue:
		t.Value, err = b.binder.value(n.text)
		return t, err
	}
	t.Op = n.op
	t.Args = make([]Term, len(n.args))
	for i, a := range n.args {
		if t.Args[i], err = b.term(a); err != nil {
			return t, err
		}
	}
	if err := b.operandCount(n); err != nil {
		return t, err
	}
	if n.op == IfNotExists {
		if t.Args[0].Op != 0 || t.Args[0].Path == nil {
			return t, b.requiresPath(n.op)
		}
		t.Path, t.Args = t.Args[0].Path, t.Args[1:]
	}
	return t, b.checkArgs(&t)
}

// checkArgs returns the fault of a term's operands, apart from those of the
// operands themselves.
func (b *binder) checkArgs(t *Term) error {
	switch t.Op {
	case IfNotExists:
		if a := &t.Args[0]; a.Op == 0 && a.Path != nil && slices.Equal(a.Path, t.Path) {
			return b.notDistinct(t.Op, t.Path)
		}
	case ListAppend:
		return b.checkConstants(t, item.L)
	case Plus, Minus:
		return b.checkConstants(t, item.N)
	}
	return nil
}

// checkConstants returns the fault of an operand that is a constant of another
// type.
func (b *binder) checkConstants(t *Term, want item.Type) error {
	for i := range t.Args {
		if a := &t.Args[i]; a.Op == 0 && a.Path == nil && a.Value.Type() != want {
			return b.operandType(t.Op, a.Value.Type().String())
		}
	}
	return nil
}

// longTypeNames are the types as ADD and DELETE call them.
var longTypeNames = map[item.Type]string{
	item.S: "STRING", item.N: "NUMBER", item.B: "BINARY", item.BOOL: "BOOLEAN",
	item.NULL: "NULL", item.L: "LIST", item.M: "MAP",
}

// checkConstant checks the constant of ADD and DELETE.
func checkConstant(verb Verb, t item.Type) error {
	if t.IsSet() || verb == Add && t == item.N {
		return nil
	}
	return UpdateExpression.invalid("Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_%s_OPERAND", verb, longTypeNames[t], verb)
}
