package expr

import (
	"cmp"
	"slices"

	"github.com/stator-db/stator/internal/data/item"
)

// ParsedCondition is a parsed condition, checked as far as possible without a
// request's placeholders.
type ParsedCondition struct {
	kind                   Kind
	root                   *node
	refs                   refs
	tests, operands, steps int

	ready *Condition // set if there are no placeholders
}

// ParseCondition parses a ConditionExpression or a FilterExpression.
func ParseCondition(kind Kind, text string) (*ParsedCondition, error) {
	c := &ParsedCondition{kind: kind}
	refs, err := parse(kind, text, func(p *parser) {
		c.root = p.condition()
		check := syntaxChecker{parser: p}
		check.test(c.root)
		check.count()
		c.tests, c.operands, c.steps = check.tests, check.operands, check.steps
	})
	if err != nil {
		return nil, err
	}
	c.refs = refs
	if len(refs.names.inOrder)+len(refs.values.inOrder) == 0 {
		// Bind finds a fault again and reports it.
		c.ready, _ = c.bind(new(Bindings))
	}
	return c, nil
}

// Bind binds the placeholders of a request.
func (c *ParsedCondition) Bind(b *Bindings) (*Condition, error) {
	b.use(&c.refs)
	if c.ready != nil {
		return c.ready, nil
	}
	return c.bind(b)
}

func (c *ParsedCondition) bind(b *Bindings) (*Condition, error) {
	binding := conditionBinder{
		binder:   newBinder(c.kind, b, &c.refs, c.steps),
		tests:    make([]Test, 0, c.tests-1), // the root is in the Condition
		operands: make([]Operand, 0, c.operands),
	}
	bound := new(Condition)
	if err := binding.test(c.root, &bound.root); err != nil {
		return nil, err
	}
	return bound, nil
}

// conditionBinder binds the nodes of a condition. Each comparison and each
// function is checked separately, in the order of the text: first for
// undefined placeholders and the faults of size, operand by operand, then for
// the number of its operands, for operands that must differ, and for their
// types.
type conditionBinder struct {
	binder

	// The bound nodes are in two slices, allocated once at their full size.
	tests    []Test
	operands []Operand
}

func (b *conditionBinder) test(n *node, into *Test) error {
	into.Op = n.op
	switch n.op {
	case And, Or, Not:
		start := len(b.tests)
		b.tests = b.tests[:start+len(n.args)]
		into.Tests = b.tests[start:len(b.tests):len(b.tests)]
		for i, a := range n.args {
			if err := b.test(a, &into.Tests[i]); err != nil {
				return err
			}
		}
		return nil
	}
	start := len(b.operands)
	b.operands = b.operands[:start+len(n.args)]
	into.Operands = b.operands[start:len(b.operands):len(b.operands)]
	for i, a := range n.args {
		if err := b.operand(a, &into.Operands[i]); err != nil {
			return err
		}
	}
	if err := b.operandCount(n); err != nil {
		return err
	}
	return b.check(into)
}

func (b *conditionBinder) operand(n *node, into *Operand) (err error) {
	switch n.op {
	case opPath:
		into.Path, err = b.path(n.path)
	case opValue:
		into.Value, err = b.value(n.text)
	case opSize:
		err = b.size(n, into)
	}
	return err
}

func (b *conditionBinder) size(n *node, into *Operand) error {
	for i, a := range n.args {
		var other Operand
		arg := into
		if i > 0 {
			arg = &other // one too many, checked for its placeholders only
		}
		if err := b.operand(a, arg); err != nil {
			return err
		}
	}
	if err := b.operandCount(n); err != nil {
		return err
	}
	switch t := into.staticType(); t {
	case item.N, item.BOOL, item.NULL:
		return b.operandType(opSize, t.String())
	}
	into.Size = true
	return nil
}

// check checks a test whose operands are bound. The types of BETWEEN come
// before operands that must differ (conformance/expr/condition_errors.txt).
func (b *binder) check(t *Test) error {
	if t.Op == Between {
		return cmp.Or(b.checkTypes(t), b.checkDistinct(t))
	}
	return cmp.Or(b.checkDistinct(t), b.checkTypes(t))
}

func (b *binder) checkDistinct(t *Test) error {
	first := &t.Operands[0]
	if first.Path == nil || first.Size {
		return nil
	}
	for _, o := range t.Operands[1:] {
		if !o.Size && slices.Equal(o.Path, first.Path) {
			return b.notDistinct(t.Op, first.Path)
		}
	}
	return nil
}

func (b *binder) checkTypes(t *Test) error {
	first := &t.Operands[0]
	isPath := first.Path != nil && !first.Size
	switch {
	case (t.Op == Exists || t.Op == NotExists) && !isPath:
		return b.requiresPath(t.Op)
	case t.Op == HasType:
		return b.checkTypeName(&t.Operands[1])
	case t.Op == BeginsWith:
		return b.checkEach(t, func(t item.Type) bool { return t == item.S || t == item.B })
	case t.Op == Between:
		return cmp.Or(b.checkEach(t, hasOrder), b.checkBounds(&t.Operands[1], &t.Operands[2]))
	case t.Op.isOrdering():
		return b.checkEach(t, hasOrder)
	}
	return nil
}

// checkEach returns the fault of the first operand whose type is known and not
// accepted.
func (b *binder) checkEach(t *Test, accepts func(item.Type) bool) error {
	for i := range t.Operands {
		if of := t.Operands[i].staticType(); of != 0 && !accepts(of) {
			return b.operandType(t.Op, of.String())
		}
	}
	return nil
}

// checkTypeName checks the second operand of attribute_type. DynamoDB lists
// types in the order of a hash table; these are two observed orders.
func (b *binder) checkTypeName(o *Operand) error {
	switch t := o.staticType(); t {
	case item.S:
		if _, ok := item.TypeNamed(o.Value.Bytes()); !ok {
			return b.kind.invalid("Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", o.Value.Bytes())
		}
		return nil
	case 0:
		return b.operandType(HasType, "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
	default:
		return b.operandType(HasType, t.String())
	}
}

// checkBounds checks the bounds of BETWEEN if both are constants, which is
// done for types that have an order.
func (b *binder) checkBounds(low, high *Operand) error {
	if low.Path != nil || high.Path != nil || low.Size || high.Size || !hasOrder(low.Value.Type()) {
		return nil
	}
	const operands = " lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s"
	switch {
	case low.Value.Type() != high.Value.Type():
		return b.kind.invalid("The BETWEEN operator requires same data type for lower and upper bounds;"+operands, low.Value, high.Value)
	case item.Compare(low.Value, high.Value) > 0:
		return b.kind.invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound;"+operands, low.Value, high.Value)
	}
	return nil
}
