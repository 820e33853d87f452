package ops

import (
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
)

// conditionalParameters are the parameters that all conditional writes have.
func conditionalParameters(in *api.Conditional) parameters {
	return parameters{
		legacy: []parameter{
			{"Expected", in.Expected != nil},
			{"ConditionalOperator", in.ConditionalOperator != nil},
		},
		expressions: []parameter{{"ConditionExpression", in.ConditionExpression != nil}},
		names:       in.ExpressionAttributeNames,
		values:      in.ExpressionAttributeValues,
		write:       true,
	}
}

// writeCondition binds the condition of a write, an expression or a legacy
// Expected; nil if it has none.
func (s *Service) writeCondition(in *api.Conditional, b *expr.Bindings) (*expr.Condition, error) {
	if in.Compiled != nil {
		return compiledCondition(expr.ConditionExpression, in.Compiled.Condition)
	}
	if in.ConditionExpression != nil {
		return s.condition(expr.ConditionExpression, in.ConditionExpression, b)
	}
	return expectedCondition(in.Expected, in.ConditionalOperator)
}

// onlyCondition binds the condition of a write that has no other expression.
func (s *Service) onlyCondition(in *api.Conditional) (*expr.Condition, error) {
	if in.Compiled != nil {
		return compiledCondition(expr.ConditionExpression, in.Compiled.Condition)
	}
	if in.ConditionExpression == nil {
		return expectedCondition(in.Expected, in.ConditionalOperator) // without an expression there are no placeholders
	}
	b := bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues)
	cond, err := s.writeCondition(in, b)
	if err != nil {
		return nil, err
	}
	return cond, b.Unused()
}

// holds returns a condition in the form of db.Write.If.
func holds(c *expr.Condition) func(item.Item) bool {
	if c == nil {
		return nil
	}
	return c.Holds
}

// fitting returns a db.Write.Fit that runs first and then checks that no path
// of the condition leads into a key attribute.
func fitting(first func(*schema.Table, item.Item) error, c *expr.Condition) func(*schema.Table, item.Item) error {
	if c == nil {
		return first
	}
	return func(t *schema.Table, key item.Item) error {
		if err := first(t, key); err != nil {
			return err
		}
		return t.CheckPaths(c.Nested())
	}
}

// conditionFault turns a failed condition into the customer's fault, with the
// item if the request asks for it. Other errors are returned unchanged.
func conditionFault(err error, in *api.Conditional) error {
	var failed *db.ConditionFailed
	if !errors.As(err, &failed) {
		return err
	}
	if isSet(in.ReturnValuesOnConditionCheckFailure, "ALL_OLD") && failed.Before != nil {
		return apierror.ConditionFailed(&api.ConditionFailure{Item: failed.Before})
	}
	return apierror.ConditionFailed(nil)
}
