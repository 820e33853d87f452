package ops

import (
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The legacy parameters (Expected, QueryFilter, ScanFilter, KeyConditions,
// AttributeUpdates) are translated to the same nodes as expressions.

// comparison is a ComparisonOperator: how many values it takes and of which
// types, and the test that it is translated to.
type comparison struct {
	least, most int
	types       []item.Type // of the values; any if none are listed
	test        func(operands []expr.Operand) expr.Test
}

const anyNumber = 1 << 30

var (
	ordered    = []item.Type{item.S, item.N, item.B}
	texts      = []item.Type{item.S, item.B}
	containing = []item.Type{item.S, item.N, item.B, item.BOOL, item.NULL}
)

var comparisons = map[string]comparison{
	"EQ":           {1, 1, nil, simple(expr.Equal)},
	"NE":           {1, 1, nil, simple(expr.NotEqual)},
	"LE":           {1, 1, ordered, simple(expr.LessOrEqual)},
	"LT":           {1, 1, ordered, simple(expr.Less)},
	"GE":           {1, 1, ordered, simple(expr.GreaterOrEqual)},
	"GT":           {1, 1, ordered, simple(expr.Greater)},
	"BETWEEN":      {2, 2, ordered, simple(expr.Between)},
	"IN":           {1, anyNumber, ordered, simple(expr.In)},
	"BEGINS_WITH":  {1, 1, texts, simple(expr.BeginsWith)},
	"CONTAINS":     {1, 1, containing, simple(expr.Contains)},
	"NOT_CONTAINS": {1, 1, containing, notContains},
	"NULL":         {0, 0, nil, simple(expr.NotExists)},
	"NOT_NULL":     {0, 0, nil, simple(expr.Exists)},
}

func simple(op expr.Op) func([]expr.Operand) expr.Test {
	return func(operands []expr.Operand) expr.Test { return expr.Test{Op: op, Operands: operands} }
}

// notContains is true for an attribute that exists and does not contain the
// value.
func notContains(operands []expr.Operand) expr.Test {
	return expr.Test{Op: expr.And, Tests: []expr.Test{
		{Op: expr.Exists, Operands: operands[:1]},
		{Op: expr.Not, Tests: []expr.Test{{Op: expr.Contains, Operands: operands}}},
	}}
}

// check checks the values of a ComparisonOperator.
func (c comparison) check(name string, values []api.Value) error {
	if len(values) < c.least || len(values) > c.most {
		return apierror.InvalidValues("Invalid number of argument(s) for the %s ComparisonOperator", name)
	}
	for _, v := range values {
		if c.types != nil && !slices.Contains(c.types, v.Value.Type()) {
			return apierror.InvalidValues("ComparisonOperator %s is not valid for %s AttributeValue type", name, v.Value.Type())
		}
	}
	for _, v := range values {
		if v.Value.Type() != values[0].Value.Type() {
			return apierror.InvalidValues("AttributeValues inside AttributeValueList must be of same type")
		}
	}
	if name == "BETWEEN" && item.Compare(values[0].Value, values[1].Value) > 0 {
		return apierror.Validation("The BETWEEN condition was provided a range where the lower bound is greater than the upper bound")
	}
	return nil
}

func (c comparison) on(attribute string, values []api.Value) expr.Test {
	operands := []expr.Operand{{Path: item.Path{{Name: attribute}}}}
	for _, v := range values {
		operands = append(operands, expr.Operand{Value: v.Value})
	}
	return c.test(operands)
}

// valuesFault returns the first fault of values in a request.
func valuesFault(values []api.Value) error {
	for _, v := range values {
		if v.Fault != nil {
			return v.Fault
		}
	}
	return nil
}

// checkConditions checks the conditions of a filter or of a key.
func checkConditions(conditions map[string]api.Condition) error {
	for _, name := range sortedKeys(conditions) {
		if err := valuesFault(conditions[name].AttributeValueList); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(conditions) {
		c := conditions[name]
		if err := comparisons[*c.ComparisonOperator].check(*c.ComparisonOperator, c.AttributeValueList); err != nil {
			return err
		}
		if err := item.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// filterCondition translates a checked filter; nil if there is none.
func filterCondition(conditions map[string]api.Condition, operator *string) (*expr.Condition, error) {
	var tests []expr.Test
	for _, name := range sortedKeys(conditions) {
		c := conditions[name]
		tests = append(tests, comparisons[*c.ComparisonOperator].on(name, c.AttributeValueList))
	}
	return joinTests(tests, operator)
}

// joinTests joins tests with the ConditionalOperator.
func joinTests(tests []expr.Test, operator *string) (*expr.Condition, error) {
	if operator != nil {
		switch len(tests) {
		case 0:
			return nil, apierror.Validation("ConditionalOperator cannot be used without Filter or Expected")
		case 1:
			return nil, apierror.Validation("ConditionalOperator can only be used when Filter or Expected has two or more elements")
		}
	}
	op := expr.And
	if isSet(operator, "OR") {
		op = expr.Or
	}
	if len(tests) == 0 {
		return nil, nil
	}
	return expr.NewCondition(expr.Test{Op: op, Tests: tests}), nil
}

// legacyKeyCondition translates checked KeyConditions; nil if there are none.
func legacyKeyCondition(conditions map[string]api.Condition) (*expr.KeyCondition, error) {
	if conditions == nil {
		return nil, nil
	}
	var tests []expr.Test
	for _, name := range sortedKeys(conditions) {
		c := conditions[name]
		switch *c.ComparisonOperator {
		case "NULL", "NOT_NULL", "NE", "IN", "CONTAINS", "NOT_CONTAINS":
			return nil, apierror.Validation("Attempted conditional constraint is not an indexable operation")
		}
		tests = append(tests, comparisons[*c.ComparisonOperator].on(name, c.AttributeValueList))
	}
	// A key of a global index has up to eight attributes; whether there are too many
	// conditions for the key is checked with the table.
	if len(tests) == 0 || len(tests) > 2*maxKeyParts {
		return nil, apierror.Validation("Conditions can be of length 1 or 2 only")
	}
	return expr.NewKeyCondition(expr.Test{Op: expr.And, Tests: tests}), nil
}

// expectedCondition translates an Expected; nil if there is none.
func expectedCondition(expected map[string]api.ExpectedAttributeValue, operator *string) (*expr.Condition, error) {
	var tests []expr.Test
	for _, name := range sortedKeys(expected) {
		t, err := expectedTest(name, expected[name])
		if err != nil {
			return nil, err
		}
		if err := item.CheckName(name); err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return joinTests(tests, operator)
}

func expectedTest(name string, e api.ExpectedAttributeValue) (expr.Test, error) {
	fault := func(format string, args ...any) (expr.Test, error) {
		return expr.Test{}, apierror.InvalidValues(format+" for Attribute: %s", append(args, name)...)
	}
	values := e.AttributeValueList
	if e.Value != nil {
		values = []api.Value{*e.Value}
	}
	if err := valuesFault(values); err != nil {
		return expr.Test{}, err
	}
	switch {
	case e.Exists != nil && e.ComparisonOperator != nil:
		return fault("Exists and ComparisonOperator cannot be used together")
	case e.Value != nil && e.AttributeValueList != nil:
		return fault("Value and AttributeValueList cannot be used together")
	case e.AttributeValueList != nil && e.ComparisonOperator == nil:
		return fault("AttributeValueList can only be used with a ComparisonOperator")
	case e.ComparisonOperator != nil:
		c := comparisons[*e.ComparisonOperator]
		if len(values) == 0 && c.least > 0 && e.AttributeValueList == nil {
			return fault("Value or AttributeValueList must be used with ComparisonOperator: %s", *e.ComparisonOperator)
		}
		if err := c.check(*e.ComparisonOperator, values); err != nil {
			return expr.Test{}, err
		}
		return c.on(name, values), nil
	case e.Exists != nil && !*e.Exists && e.Value != nil:
		return fault("Value cannot be used when Exists is false")
	case e.Exists != nil && !*e.Exists:
		return comparisons["NULL"].on(name, nil), nil
	case e.Value == nil:
		state := "null"
		if e.Exists != nil {
			state = "true"
		}
		return fault("Value must be provided when Exists is %s", state)
	}
	return comparisons["EQ"].on(name, values), nil
}

var updateVerbs = map[string]expr.Verb{"PUT": expr.Set, "ADD": expr.Add, "DELETE": expr.Delete}

var (
	addable   = []item.Type{item.N, item.SS, item.NS, item.BS, item.L}
	deletable = []item.Type{item.SS, item.NS, item.BS}
)

// attributeUpdates translates an AttributeUpdates. Without one, the update has
// no actions.
func attributeUpdates(updates map[string]api.AttributeValueUpdate) (*expr.Update, error) {
	u := &expr.Update{Legacy: true}
	for _, name := range sortedKeys(updates) {
		a, err := attributeUpdate(name, updates[name])
		if err != nil {
			return nil, err
		}
		if err := item.CheckName(name); err != nil {
			return nil, err
		}
		u.Actions = append(u.Actions, a)
	}
	return u, nil
}

func attributeUpdate(name string, in api.AttributeValueUpdate) (expr.Action, error) {
	action := "PUT"
	if in.Action != nil {
		action = *in.Action
	}
	a := expr.Action{Verb: updateVerbs[action], Path: item.Path{{Name: name}}}
	if in.Value == nil {
		if action != "DELETE" {
			return a, apierror.InvalidValues("Only DELETE action is allowed when no attribute value is specified")
		}
		a.Verb = expr.Remove
		return a, nil
	}
	if in.Value.Fault != nil {
		return a, in.Value.Fault
	}
	a.Term.Value = in.Value.Value
	t := in.Value.Value.Type()
	switch {
	case action == "DELETE" && !slices.Contains(deletable, t):
		return a, apierror.InvalidValues("DELETE action with value is not supported for the type %s", t)
	case action == "ADD" && !slices.Contains(addable, t):
		return a, apierror.InvalidValues("ADD action is not supported for the type %s", t)
	case in.Value.Value.Size() > item.MaxRequestValues: // of a set some members may be missing
		return a, apierror.UpdateTooLarge()
	}
	return a, nil
}
