package ops

import (
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
)

// queryChecks run in the order in which DynamoDB reports faults, which
// conformance/query/order.txt verifies. After them the expressions are bound,
// then the table is looked up.
var queryChecks = []func(*api.Query) error{
	func(in *api.Query) error {
		if in.Limit != nil && *in.Limit < 1 {
			return apierror.Request("Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
		}
		return nil
	},
	func(in *api.Query) error {
		// Clients do send KeyConditions with a FilterExpression, and DynamoDB
		// accepts it: only the two kinds of key condition exclude each other.
		return checkPaged(&in.Paged, parameter{"QueryFilter", in.QueryFilter != nil},
			parameter{"KeyConditionExpression", in.KeyConditionExpression != nil},
			parameter{"KeyConditions", in.KeyConditions != nil && in.KeyConditionExpression != nil})
	},
	func(in *api.Query) error { return checkConditions(in.QueryFilter) },
	func(in *api.Query) error { return checkConditions(in.KeyConditions) },
	func(in *api.Query) error { return checkStartKey(&in.Paged) },
}

func (s *Service) query(in *api.Query) (*reading, error) {
	if err := firstFault(in, queryChecks); err != nil {
		return nil, err
	}
	r := &reading{operation: "Query", keyText: in.KeyConditionExpression, legacy: in.KeyConditions != nil || in.QueryFilter != nil, in: &in.Paged, bind: bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues)}
	keys, err := s.keyCondition(in, r.bind)
	if err != nil {
		return nil, err
	}
	if err := s.bindFilter(r, in.QueryFilter); err != nil {
		return nil, err
	}
	if err := s.bindProjection(r); err != nil {
		return nil, err
	}
	if err := r.bind.Unused(); err != nil {
		return nil, apierror.Bare(err)
	}
	if keys != nil {
		if err := keys.Check(); err != nil {
			return nil, err
		}
	}
	if err := checkSelect(r.in); err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, apierror.Validation("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	r.plan = db.Range{
		Table:   in.TableName,
		Reverse: in.ScanIndexForward != nil && !*in.ScanIndexForward,
		Fit:     func(t *schema.Table, plan *db.Range) error { return r.fitQuery(t, plan, keys, in.QueryFilter != nil) },
	}
	if in.Limit != nil {
		r.plan.Limit = int(*in.Limit)
	}
	return r, nil
}

// fitQuery checks a query against its table and completes its plan.
func (r *reading) fitQuery(t *schema.Table, plan *db.Range, keys *expr.KeyCondition, legacyFilter bool) error {
	if err := r.open(t, plan); err != nil {
		return err
	}
	found, err := r.fitKeys(plan, keys)
	if err != nil {
		return err
	}
	r.keys = found
	if err := r.fitStartKey(plan, "The provided starting key is invalid"); err != nil {
		return err
	}
	if err := r.checkStartKeyInRange(plan, found); err != nil {
		return err
	}
	if err := r.fitFilter(legacyFilter); err != nil {
		return err
	}
	return r.fitIndex(plan)
}

// keyCondition binds the key condition, an expression or legacy KeyConditions;
// nil if there is none. Whether it fits a key is checked after the other
// expressions.
func (s *Service) keyCondition(in *api.Query, b *expr.Bindings) (*expr.KeyCondition, error) {
	if c := in.Compiled; c != nil && c.KeyCondition != nil {
		return c.KeyCondition, c.KeyCondition.CheckAs(expr.KeyConditionExpression)
	}
	if in.KeyConditionExpression == nil {
		return legacyKeyCondition(in.KeyConditions)
	}
	parsed, err := s.parsed.ParseKeyCondition(*in.KeyConditionExpression)
	if err != nil {
		return nil, err
	}
	return parsed.Bind(b)
}

// fitKeys checks the key condition against the key that is queried.
func (r *reading) fitKeys(plan *db.Range, k *expr.KeyCondition) (*expr.KeyRange, error) {
	found, err := k.Keys(r.key().Partition, r.key().Sort)
	if err != nil {
		return nil, err
	}
	for i, v := range found.Partition {
		if len(v.Sortable()) == 0 {
			return nil, r.emptyKey(r.key().Partition[i], v)
		}
	}
	plan.Partition = found.Partition
	for i, t := range found.Sort {
		for _, v := range t.Values {
			if len(v.Sortable()) == 0 && t.Op != expr.BeginsWith {
				return nil, r.emptyKey(r.key().Sort[i], v)
			}
		}
		if t.Op == expr.Equal && i+1 < len(found.Sort) {
			plan.Bound.Equals = append(plan.Bound.Equals, t.Values[0])
			continue
		}
		plan.Bound.Op, plan.Bound.Values = boundOps[t.Op], t.Values
	}
	return found, nil
}

// emptyKey is the fault of an empty value in a key condition.
func (r *reading) emptyKey(a schema.Attribute, v item.Value) error {
	if r.index != nil {
		return schema.EmptyIndexKey(r.index.Name, a, v)
	}
	return schema.EmptyKey(a, v)
}

// checkStartKeyInRange checks that ExclusiveStartKey is within the partition and the
// sort keys that the query selects (conformance/query/pages.txt).
func (r *reading) checkStartKeyInRange(plan *db.Range, found *expr.KeyRange) error {
	if plan.After == nil {
		return nil
	}
	for _, t := range found.Sort {
		operands := []expr.Operand{{Path: item.Path{{Name: t.Name}}}}
		for _, v := range t.Values {
			operands = append(operands, expr.Operand{Value: v})
		}
		if !expr.NewCondition(expr.Test{Op: t.Op, Operands: operands}).Holds(plan.After) {
			return apierror.Validation("The provided starting key does not match the range key predicate")
		}
	}
	for i, a := range r.key().Partition {
		v, _ := plan.After.Get(a.Name)
		switch {
		case item.Equal(v, found.Partition[i]):
		case len(found.Sort) > 0:
			return apierror.Validation("The query can return at most one row and cannot be restarted")
		default:
			return apierror.Validation("The provided starting key is outside query boundaries based on provided conditions")
		}
	}
	if key := r.table.Key; r.index == nil && len(key.Sort) == 0 {
		v, _ := plan.After.Get(key.Partition[0].Name)
		return apierror.Validation("The provided exclusive start key is invalid: ExclusiveStartKey: {%s=AttributeValue: %s}", key.Partition[0].Name, v)
	}
	return nil
}

var boundOps = map[expr.Op]keyspace.Op{
	expr.Equal:          keyspace.Equal,
	expr.Less:           keyspace.Less,
	expr.LessOrEqual:    keyspace.LessOrEqual,
	expr.Greater:        keyspace.Greater,
	expr.GreaterOrEqual: keyspace.GreaterOrEqual,
	expr.Between:        keyspace.Between,
	expr.BeginsWith:     keyspace.BeginsWith,
}

// fitFilter checks that the filter does not use the key, which a query's must
// not, and that the index projects what it uses. A scan allows both: attributes
// that the index lacks are absent (conformance/query/indexes.txt).
func (r *reading) fitFilter(legacy bool) error {
	if r.filter == nil {
		return nil
	}
	for _, p := range r.filter.Paths() {
		if !r.key().Has(p[0].Name) {
			continue
		}
		if legacy {
			return apierror.Validation("QueryFilter can only contain non-primary key attributes: Primary key attribute: %s", p[0].Name)
		}
		return apierror.Validation("Filter Expression can only contain non-primary key attributes: Primary key attribute: %s", p[0].Name)
	}
	if r.index == nil {
		return nil
	}
	if missing := r.notProjected(r.filter.Paths()); len(missing) > 0 {
		return apierror.InvalidValues("Secondary index %s does not project one or more filter attributes: [%s]",
			r.index.Name, strings.Join(missing, ", "))
	}
	return nil
}
