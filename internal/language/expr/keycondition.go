package expr

import (
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// KeyCondition is a bound KeyConditionExpression. It is checked in two more
// steps, because DynamoDB reports the faults of other parameters in between:
// Check needs no table, Keys does.
type KeyCondition struct{ Condition }

// NewKeyCondition makes a key condition from nodes.
func NewKeyCondition(root Test) *KeyCondition { return &KeyCondition{Condition{root}} }

// KeyTest is a condition on one key attribute: Equal, Less, LessOrEqual,
// Greater, GreaterOrEqual or BeginsWith with one value, or Between with two.
type KeyTest struct {
	Name   string
	Op     Op
	Values []item.Value
}

// KeyRange is the part of a table or an index that a query asks for.
type KeyRange struct {
	Partition []item.Value // one for each partition attribute

	// Sort are the conditions on the sort attributes from the first one on.
	// All but the last are Equal.
	Sort []KeyTest
}

// ParsedKeyCondition is a parsed KeyConditionExpression without a request's
// placeholders.
type ParsedKeyCondition struct{ condition *ParsedCondition }

// ParseKeyCondition parses a KeyConditionExpression. Its grammar is that of
// any condition; Check reports what it must not contain.
func ParseKeyCondition(text string) (*ParsedKeyCondition, error) {
	c, err := ParseCondition(KeyConditionExpression, text)
	if err != nil {
		return nil, err
	}
	return &ParsedKeyCondition{c}, nil
}

// Bind binds the placeholders of a request.
func (c *ParsedKeyCondition) Bind(b *Bindings) (*KeyCondition, error) {
	bound, err := c.condition.Bind(b)
	if err != nil {
		return nil, err
	}
	return &KeyCondition{*bound}, nil
}

// Check returns the fault of a condition that fits no key at all.
func (k *KeyCondition) Check() error {
	_, err := keyTests(&k.root, nil)
	return err
}

// Keys matches the condition with the key of a table or an index: its
// partition attributes, and its sort attributes if it has any.
func (k *KeyCondition) Keys(partition, sort []schema.Attribute) (*KeyRange, error) {
	tests, err := keyTests(&k.root, nil)
	if err != nil {
		return nil, err
	}
	if len(tests) > 2 && len(partition)+len(sort) <= 2 {
		return nil, apierror.Validation("Conditions can be of length 1 or 2 only")
	}
	if len(tests) > len(partition) && len(sort) == 0 {
		return nil, notSupported()
	}
	var r KeyRange
	for _, a := range partition {
		t, err := keyTest(tests, a)
		switch {
		case err != nil:
			return nil, err
		case t == nil:
			return nil, missed(a)
		case t.Op != Equal:
			return nil, notSupported()
		}
		r.Partition = append(r.Partition, t.Values[0])
	}
	for _, a := range sort {
		t, err := keyTest(tests, a)
		left := len(tests) - len(r.Partition) - len(r.Sort)
		switch {
		case err != nil:
			return nil, err
		case t == nil && left > 0:
			return nil, missed(a)
		case t == nil:
			return &r, nil
		case len(r.Sort) > 0 && r.Sort[len(r.Sort)-1].Op != Equal:
			return nil, notSupported()
		}
		r.Sort = append(r.Sort, *t)
	}
	if len(tests) > len(r.Partition)+len(r.Sort) {
		return nil, notSupported()
	}
	return &r, nil
}

func notSupported() error { return apierror.Validation("Query key condition not supported") }

func missed(a schema.Attribute) error {
	return apierror.Validation("Query condition missed key schema element: %s", a.Name)
}

// keyTest finds the condition on one attribute, nil if there is none.
func keyTest(tests []KeyTest, a schema.Attribute) (*KeyTest, error) {
	i := slices.IndexFunc(tests, func(t KeyTest) bool { return t.Name == a.Name })
	if i < 0 {
		return nil, nil
	}
	for _, v := range tests[i].Values {
		if v.Type() != a.Type {
			return nil, apierror.InvalidValues("Condition parameter type does not match schema type")
		}
	}
	return &tests[i], nil
}

// keyTests splits a condition into conditions on single attributes.
func keyTests(t *Test, tests []KeyTest) (_ []KeyTest, err error) {
	switch t.Op {
	case And:
		for i := range t.Tests {
			if tests, err = keyTests(&t.Tests[i], tests); err != nil {
				return nil, err
			}
		}
		return tests, nil
	case Or, Not, NotEqual, In, Exists, NotExists, HasType, Contains:
		return nil, apierror.Validation("Invalid operator used in KeyConditionExpression: %s", t.Op)
	}
	one, err := oneKeyTest(t)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(tests, func(t KeyTest) bool { return t.Name == one.Name }) {
		return nil, KeyConditionExpression.invalid("KeyConditionExpressions must only contain one condition per key")
	}
	return append(tests, one), nil
}

func oneKeyTest(t *Test) (KeyTest, error) {
	one := KeyTest{Op: t.Op, Values: make([]item.Value, 0, 2)}
	if first := &t.Operands[0]; (t.Op == Between || t.Op == BeginsWith) && (first.Path == nil || first.Size) {
		return one, invalidKeyTest("%s operator must have the key attribute as its first operand", t.Op)
	}
	named := false
	for i, o := range t.Operands {
		switch {
		case o.Size:
			return one, KeyConditionExpression.invalid("KeyConditionExpressions cannot contain nested operations")
		case o.Path == nil:
			one.Values = append(one.Values, o.Value)
		case named:
			return one, invalidKeyTest("Multiple attribute names used in one condition")
		case len(o.Path) > 1:
			return one, KeyConditionExpression.invalid("KeyConditionExpressions cannot have conditions on nested attributes")
		default:
			named = true
			one.Name = o.Path[0].Name
			if i > 0 {
				one.Op = mirrored(t.Op)
			}
		}
	}
	if !named {
		return one, invalidKeyTest("No key attribute specified")
	}
	return one, nil
}

func invalidKeyTest(format string, args ...any) error {
	return apierror.Validation("Invalid condition in KeyConditionExpression: "+format, args...)
}

// mirrored is the operator with its operands exchanged: :v < a is a > :v.
func mirrored(op Op) Op {
	switch op {
	case Less:
		return Greater
	case LessOrEqual:
		return GreaterOrEqual
	case Greater:
		return Less
	case GreaterOrEqual:
		return LessOrEqual
	}
	return op
}
