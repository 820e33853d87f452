package expr

import (
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
// undefined placeholders, then for the number of its operands, for operands
// that must differ, and for their types.
type conditionBinder struct {
	binder

	// The bound nodes are in two slices, allocated once at their full size.
	tests    []Test
	operands []Operand

	// The first fault of each kind. A later kind is reported if there is no
	// fault of an earlier one.
	count, distinct, types error
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
	setFirst(&b.count, b.operandCount(n))
	if b.count != nil {
		return b.count
	}
	b.checkDistinct(into)
	b.checkTypes(into)
	if b.distinct != nil {
		return b.distinct
	}
	return b.types
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
	setFirst(&b.count, b.operandCount(n))
	switch t := into.staticType(); t {
	case item.N, item.BOOL, item.NULL:
		setFirst(&b.types, b.operandType(opSize, t.String()))
	}
	into.Size = true
	return nil
}

func (b *conditionBinder) checkDistinct(t *Test) {
	first := &t.Operands[0]
	if first.Path == nil || first.Size {
		return
	}
	for _, o := range t.Operands[1:] {
		if !o.Size && slices.Equal(o.Path, first.Path) {
			setFirst(&b.distinct, b.notDistinct(t.Op, first.Path))
		}
	}
}

func (b *conditionBinder) checkTypes(t *Test) {
	first := &t.Operands[0]
	isPath := first.Path != nil && !first.Size
	switch {
	case (t.Op == Exists || t.Op == NotExists) && !isPath:
		setFirst(&b.types, b.requiresPath(t.Op))
	case t.Op == HasType:
		b.checkTypeName(&t.Operands[1])
	case t.Op == BeginsWith:
		b.checkEach(t, func(t item.Type) bool { return t == item.S || t == item.B })
	case t.Op.isOrdering():
		b.checkEach(t, hasOrder)
		if t.Op == Between {
			b.checkBounds(&t.Operands[1], &t.Operands[2])
		}
	}
}

// checkEach records the first operand whose type is known and not accepted.
func (b *conditionBinder) checkEach(t *Test, accepts func(item.Type) bool) {
	for i := range t.Operands {
		if of := t.Operands[i].staticType(); of != 0 && !accepts(of) {
			setFirst(&b.types, b.operandType(t.Op, of.String()))
		}
	}
}

// checkTypeName checks the second operand of attribute_type. DynamoDB lists
// types in the order of a hash table; these are two observed orders.
func (b *conditionBinder) checkTypeName(o *Operand) {
	switch t := o.staticType(); t {
	case item.S:
		if _, ok := item.TypeNamed(o.Value.Bytes()); !ok {
			setFirst(&b.types, b.kind.invalid("Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}", o.Value.Bytes()))
		}
	case 0:
		setFirst(&b.types, b.operandType(HasType, "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}"))
	default:
		setFirst(&b.types, b.operandType(HasType, t.String()))
	}
}

// checkBounds checks the bounds of BETWEEN if both are constants.
func (b *conditionBinder) checkBounds(low, high *Operand) {
	if low.Path != nil || high.Path != nil || low.Size || high.Size || b.types != nil {
		return
	}
	const operands = " lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s"
	switch {
	case low.Value.Type() != high.Value.Type():
		setFirst(&b.types, b.kind.invalid("The BETWEEN operator requires same data type for lower and upper bounds;"+operands, low.Value, high.Value))
	case item.Compare(low.Value, high.Value) > 0:
		setFirst(&b.types, b.kind.invalid("The BETWEEN operator requires upper bound to be greater than or equal to lower bound;"+operands, low.Value, high.Value))
	}
}
