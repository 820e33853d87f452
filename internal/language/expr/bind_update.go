package expr

import (
	"slices"

	"github.com/stator-db/stator/internal/data/item"
)

// ParsedUpdate is a parsed UpdateExpression without a request's placeholders.
type ParsedUpdate struct {
	sections []section
	refs     refs
	actions  int
	steps    int
}

// ParseUpdate parses an UpdateExpression.
func ParseUpdate(text string) (*ParsedUpdate, error) {
	u := new(ParsedUpdate)
	refs, err := parse(UpdateExpression, text, func(p *parser) {
		u.sections = p.update()
		check := syntaxChecker{parser: p}
		for _, s := range u.sections {
			u.actions += len(s.actions)
			for _, a := range s.actions {
				check.path(a.path.path)
				if a.value != nil {
					check.term(a.value)
				}
			}
		}
		check.sections(u.sections)
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

// Bind binds the placeholders of a request.
//
// The faults of the whole update are reported in this order: undefined names,
// then undefined values; overlapping paths, then conflicting ones; a constant
// that ADD or DELETE cannot use; then the operands of functions, plus and
// minus.
func (u *ParsedUpdate) Bind(b *Bindings) (*Update, error) {
	b.use(&u.refs)
	binding := updateBinder{binder: newBinder(UpdateExpression, b, &u.refs, u.steps)}
	if err := binding.checkDefined(&u.refs); err != nil {
		return nil, err
	}
	bound := &Update{Actions: make([]Action, 0, u.actions)}
	for _, s := range u.sections {
		for _, a := range s.actions {
			bound.Actions = append(bound.Actions, binding.action(s.verb, a))
		}
	}
	if len(bound.Actions) > 1 {
		if err := checkApart(UpdateExpression, bound.Paths()); err != nil {
			return nil, err
		}
	}
	if binding.constant != nil {
		return nil, binding.constant
	}
	if binding.function != nil {
		return nil, binding.function
	}
	return bound, nil
}

// updateBinder binds the actions of an update, whose placeholders are known to
// be defined.
type updateBinder struct {
	binder
	constant error // the first of an ADD or DELETE
	function error // the first of a function, plus or minus
}

func (b *updateBinder) checkDefined(r *refs) error {
	for _, name := range r.names.inOrder {
		if _, ok := b.b.Names[name]; !ok {
			return b.undefinedName(name)
		}
	}
	for _, value := range r.values.inOrder {
		if _, ok := b.b.value(value); !ok {
			return b.undefinedValue(value)
		}
	}
	return nil
}

func (b *updateBinder) action(verb Verb, parsed parsedAction) Action {
	a := Action{Verb: verb}
	a.Path, _ = b.path(parsed.path.path)
	if parsed.value != nil {
		a.Term = b.term(parsed.value)
	}
	if verb == Add || verb == Delete {
		setFirst(&b.constant, checkConstant(verb, a.Term.Value.Type()))
	}
	return a
}

// term binds what SET assigns.
func (b *updateBinder) term(n *node) Term {
	var t Term
	switch n.op {
	case opPath:
		t.Path, _ = b.path(n.path)
		return t
	case opValue:
		t.Value, _ = b.value(n.text)
		return t
	}
	t.Op = n.op
	t.Args = make([]Term, len(n.args))
	for i, a := range n.args {
		t.Args[i] = b.term(a)
	}
	if err := b.operandCount(n); err != nil {
		setFirst(&b.function, err)
		return t
	}
	switch n.op {
	case IfNotExists:
		if t.Args[0].Op != 0 || t.Args[0].Path == nil {
			setFirst(&b.function, b.requiresPath(n.op))
		}
		t.Path, t.Args = t.Args[0].Path, t.Args[1:]
	case ListAppend:
		b.checkArgs(&t, item.L)
	case Plus, Minus:
		b.checkArgs(&t, item.N)
	}
	return t
}

// checkArgs records an operand that is a constant of another type.
func (b *updateBinder) checkArgs(t *Term, want item.Type) {
	for _, a := range t.Args {
		if a.Op == 0 && a.Path == nil && a.Value.Type() != want {
			setFirst(&b.function, b.operandType(t.Op, a.Value.Type().String()))
		}
	}
}

// longTypeNames are the types as ADD and DELETE call them.
var longTypeNames = map[item.Type]string{
	item.S: "STRING", item.N: "NUMBER", item.B: "BINARY", item.BOOL: "BOOL",
	item.NULL: "NULL", item.L: "LIST", item.M: "MAP",
}

// checkConstant checks the constant of ADD and DELETE. DynamoDB names ADD's
// types even when it rejects one of DELETE (TestUpdateFaults).
func checkConstant(verb Verb, t item.Type) error {
	if t.IsSet() || verb == Add && t == item.N {
		return nil
	}
	return UpdateExpression.invalid("Incorrect operand type for operator or function; operator: %s, operand type: %s, typeSet: ALLOWED_FOR_ADD_OPERAND", verb, longTypeNames[t])
}
