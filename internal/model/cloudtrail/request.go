package cloudtrail

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/workload"
)

// loggedRequest has the parameters of a request as an event has them. The names of some begin with
// a capital letter in a transaction.
type loggedRequest struct {
	Operation                string // of a transaction
	TableName                string
	IndexName                string
	Key                      loggedItem
	ConsistentRead           bool
	KeyConditionExpression   string
	KeyConditions            map[string]struct{ ComparisonOperator string }
	FilterExpression         string
	ProjectionExpression     string
	UpdateExpression         string
	ConditionExpression      string
	Expected                 map[string]any
	AttributeUpdates         map[string]any
	ScanFilter, QueryFilter  map[string]any
	ExpressionAttributeNames map[string]string
	ExclusiveStartKey        loggedItem
}

// loggedItem is the key of an item: a log has plain values, or typed ones as the API.
type loggedItem map[string]json.RawMessage

// value returns the value of an attribute, nil if the log does not have it.
func (it loggedItem) value(name string) item.Value {
	text, ok := it[name]
	if !ok {
		return nil
	}
	var plain string
	var typed struct{ S, N *string }
	switch {
	case json.Unmarshal(text, &plain) == nil:
		return item.String(plain)
	case json.Unmarshal(text, &typed) == nil && typed.S != nil:
		return item.String(*typed.S)
	}
	return item.Bool(true) // a number or binary: it has no prefix
}

// shaper computes the shapes of requests for one table.
type shaper struct {
	recorder *workload.Recorder
	table    *schema.Table
}

func (s *shaper) name(attribute string) string { return s.recorder.Name(s.table, attribute) }

// single returns the shape of a request with one action.
func (s *shaper) single(operation string, p *loggedRequest) (shape workload.Shape, err error) {
	shape = workload.Shape{Operation: operation, Table: s.table.Name, Index: p.IndexName, Consistent: p.ConsistentRead}
	key := s.table.Key
	if p.IndexName != "" {
		x, ok := s.table.Index(p.IndexName)
		if !ok {
			return shape, fmt.Errorf("the table has no index %s", p.IndexName)
		}
		key = x.Key
	}
	switch operation {
	case "Query":
		err = s.query(&shape, key, p)
	case "Scan":
	default:
		shape.Partition, shape.Sort = s.prefixes(s.table.Key.Partition, p.Key), s.prefixes(s.table.Key.Sort, p.Key)
	}
	if err != nil {
		return shape, err
	}
	return shape, s.expressions(&shape, p)
}

// query sets the key condition of a query.
func (s *shaper) query(shape *workload.Shape, key schema.Key, p *loggedRequest) error {
	if p.KeyConditionExpression == "" {
		return s.legacyQuery(shape, key, p)
	}
	parsed, err := expr.ParseKeyCondition(p.KeyConditionExpression)
	if err != nil {
		return fmt.Errorf("its key condition %q: %w", p.KeyConditionExpression, err)
	}
	var keys *expr.KeyRange
	err = tryValues(p.KeyConditionExpression, func(values map[string]item.Value) error {
		c, err := parsed.Bind(&expr.Bindings{Names: p.ExpressionAttributeNames, Values: values})
		if err != nil {
			return err
		}
		// The values are not those of the request, so their types need not fit.
		keys, err = c.Keys(untyped(key.Partition), untyped(key.Sort))
		return err
	})
	if err != nil {
		return fmt.Errorf("its key condition %q: %w", p.KeyConditionExpression, err)
	}
	shape.Form = workload.KeyForm(key.Partition, keys.Sort)
	shape.Partition, shape.Sort = s.prefixes(key.Partition, p.Key), s.prefixes(key.Sort[:len(keys.Sort)], p.Key)
	return nil
}

func untyped(attrs []schema.Attribute) []schema.Attribute {
	attrs = slices.Clone(attrs)
	for i := range attrs {
		attrs[i].Type = item.S
	}
	return attrs
}

// legacyQuery sets the key condition of a query with KeyConditions.
func (s *shaper) legacyQuery(shape *workload.Shape, key schema.Key, p *loggedRequest) error {
	operators := map[string]expr.Op{"EQ": expr.Equal, "LT": expr.Less, "LE": expr.LessOrEqual, "GT": expr.Greater, "GE": expr.GreaterOrEqual,
		"BETWEEN": expr.Between, "BEGINS_WITH": expr.BeginsWith}
	var tests []expr.KeyTest
	for _, a := range key.Sort {
		c, ok := p.KeyConditions[a.Name]
		if !ok {
			break
		}
		tests = append(tests, expr.KeyTest{Name: a.Name, Op: operators[c.ComparisonOperator], Values: []item.Value{item.String("")}})
	}
	if len(p.KeyConditions) == 0 {
		return errors.New("the log has no key condition")
	}
	shape.Form = workload.KeyForm(key.Partition, tests)
	shape.Partition, shape.Sort = s.prefixes(key.Partition, p.Key), s.prefixes(key.Sort[:len(tests)], p.Key)
	return nil
}

// prefixes returns the prefixes of key attributes; those that the log does not have are
// unknown.
func (s *shaper) prefixes(attrs []schema.Attribute, key loggedItem) string {
	all := make([]string, len(attrs))
	for i, a := range attrs {
		all[i] = workload.Unknown
		if v := key.value(a.Name); v != nil {
			all[i] = s.recorder.Prefix(s.table, a.Name, v)
		}
	}
	joined := strings.Join(all, ",")
	if strings.Trim(joined, ",") == "" {
		return ""
	}
	return joined
}

// expressions sets what the expressions of a request contribute to its shape.
func (s *shaper) expressions(shape *workload.Shape, p *loggedRequest) (err error) {
	if shape.FilterText, err = s.condition(p.FilterExpression, p); err != nil {
		return err
	}
	if shape.ConditionText, err = s.condition(p.ConditionExpression, p); err != nil {
		return err
	}
	shape.Filter = p.FilterExpression != "" || len(p.ScanFilter)+len(p.QueryFilter) > 0
	shape.Condition = p.ConditionExpression != "" || len(p.Expected) > 0
	if p.ProjectionExpression != "" {
		parsed, err := expr.ParseProjection(p.ProjectionExpression)
		if err != nil {
			return fmt.Errorf("its projection %q: %w", p.ProjectionExpression, err)
		}
		bound, err := parsed.Bind(&expr.Bindings{Names: p.ExpressionAttributeNames})
		if err != nil {
			return fmt.Errorf("its projection %q: %w", p.ProjectionExpression, err)
		}
		shape.Projection = workload.Names(bound.Paths(), s.name)
	}
	if shape.Operation == "UpdateItem" {
		paths, err := updatedPaths(p)
		if err != nil {
			return err
		}
		shape.Form, shape.Changes = workload.UpdateForm(s.table, paths), workload.Names(paths, s.name)
	}
	return nil
}

// condition returns a condition or a filter without values.
func (s *shaper) condition(text string, p *loggedRequest) (shown string, err error) {
	if text == "" {
		return "", nil
	}
	parsed, err := expr.ParseCondition(expr.ConditionExpression, text)
	if err == nil {
		err = tryValues(text, func(values map[string]item.Value) error {
			c, err := parsed.Bind(&expr.Bindings{Names: p.ExpressionAttributeNames, Values: values})
			if err == nil {
				shown = workload.ConditionText(c, s.name)
			}
			return err
		})
	}
	if err != nil {
		return "", fmt.Errorf("its condition %q: %w", text, err)
	}
	return shown, nil
}

// updatedPaths returns what an update changes.
func updatedPaths(p *loggedRequest) (paths []item.Path, err error) {
	if p.UpdateExpression == "" {
		for _, name := range slices.Sorted(maps.Keys(p.AttributeUpdates)) {
			paths = append(paths, item.Path{{Name: name}})
		}
		return paths, nil
	}
	parsed, err := expr.ParseUpdate(p.UpdateExpression)
	if err == nil {
		err = tryValues(p.UpdateExpression, func(values map[string]item.Value) error {
			u, err := parsed.Bind(&expr.Bindings{Names: p.ExpressionAttributeNames, Values: values})
			if err == nil {
				paths = u.Paths()
			}
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("its update %q: %w", p.UpdateExpression, err)
	}
	return paths, nil
}
