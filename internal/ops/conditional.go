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

// conditionalParameters are the parameters that every conditional write has.
func conditionalParameters(in *api.Conditional) parameters {
	return parameters{
		legacy: []parameter{
			{"Expected", in.Expected != nil},
			{"ConditionalOperator", in.ConditionalOperator != nil},
		},
		expressions: []parameter{{"ConditionExpression", in.ConditionExpression != nil}},
		names:       in.ExpressionAttributeNames,
		values:      in.ExpressionAttributeValues,
	}
}

// writeCondition binds the condition of a write, in whichever form it comes;
// nil when there is none.
func (s *Service) writeCondition(in *api.Conditional, b *expr.Bindings) (*expr.Condition, error) {
	if in.ConditionExpression != nil {
		return s.condition(expr.ConditionExpression, in.ConditionExpression, b)
	}
	return expectedCondition(in.Expected, in.ConditionalOperator)
}

// onlyCondition binds the condition of a write that has no other expression.
func (s *Service) onlyCondition(in *api.Conditional) (*expr.Condition, error) {
	if in.ConditionExpression == nil {
		return expectedCondition(in.Expected, in.ConditionalOperator) // placeholders come with expressions only
	}
	b := bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues)
	cond, err := s.writeCondition(in, b)
	if err != nil {
		return nil, err
	}
	return cond, b.Unused()
}

// holds is a condition as a write takes it.
func holds(c *expr.Condition) func(item.Item) bool {
	if c == nil {
		return nil
	}
	return c.Holds
}

// fitting is how a write is fitted to its table: as first says, and its
// condition leads into no key.
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

// conditionFault words the failed condition of a write, with the item if the
// customer asked for it. Other errors stay as they are.
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
