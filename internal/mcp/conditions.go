package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/past"
)

// plainCondition is a condition on an attribute in plain form: a value that it is equal to, or an
// operator with its operand.
type plainCondition struct {
	name     string
	operator string // one of operators
	operands []any
}

const equal = "="

// operators are the operators of plain conditions; those that a key condition can have are true.
var operators = map[string]bool{equal: true, "<": true, "<=": true, ">": true, ">=": true, "between": true, "begins_with": true,
	"<>": false, "in": false, "contains": false, "exists": false}

// conditions reads plain conditions, in the order of their attributes.
func conditions(in map[string]any) (all []plainCondition, err error) {
	for _, name := range slices.Sorted(maps.Keys(in)) {
		c := plainCondition{name: name, operator: equal, operands: []any{in[name]}}
		if m, ok := in[name].(map[string]any); ok && len(m) == 1 {
			for op, operand := range m {
				if _, known := operators[op]; known {
					c.operator, c.operands = op, []any{operand}
				}
			}
		}
		list, isList := c.operands[0].([]any)
		switch {
		case c.operator == "between" && (!isList || len(list) != 2):
			return nil, fmt.Errorf("%s: between needs a list of two values", name)
		case c.operator == "in" && (!isList || len(list) == 0 || len(list) > 100):
			return nil, fmt.Errorf("%s: in needs a list of 1 to 100 values", name)
		case c.operator == "between" || c.operator == "in":
			c.operands = list
		case c.operator == "exists":
			if _, ok := c.operands[0].(bool); !ok {
				return nil, fmt.Errorf("%s: exists needs true or false", name)
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// expressionBuilder builds expressions with their names and values.
type expressionBuilder struct {
	table  *past.Table
	names  map[string]string
	values past.Item
}

func newExpression(t *past.Table) *expressionBuilder {
	return &expressionBuilder{table: t, names: make(map[string]string), values: make(past.Item)}
}

// addTo adds the names and values to the body of a request.
func (x *expressionBuilder) addTo(body map[string]any) {
	if len(x.names) > 0 {
		body["ExpressionAttributeNames"] = x.names
	}
	if len(x.values) > 0 {
		body["ExpressionAttributeValues"] = x.values
	}
}

// name returns the placeholder of an attribute.
func (x *expressionBuilder) name(attribute string) string {
	for placeholder, known := range x.names {
		if known == attribute {
			return placeholder
		}
	}
	placeholder := fmt.Sprintf("#a%d", len(x.names))
	x.names[placeholder] = attribute
	return placeholder
}

// value returns the placeholder of a value.
func (x *expressionBuilder) value(attribute string, v any) (string, error) {
	text, err := typedAttribute(x.table, attribute, v)
	if err != nil {
		return "", err
	}
	return x.typed(text), nil
}

func (x *expressionBuilder) typed(text json.RawMessage) string {
	placeholder := fmt.Sprintf(":v%d", len(x.values))
	x.values[placeholder] = text
	return placeholder
}

// all returns conditions joined by AND; empty for none.
func (x *expressionBuilder) all(in []plainCondition) (string, error) {
	var terms []string
	for _, c := range in {
		term, err := x.term(c)
		if err != nil {
			return "", err
		}
		terms = append(terms, term)
	}
	return strings.Join(terms, " AND "), nil
}

func (x *expressionBuilder) term(c plainCondition) (string, error) {
	name := x.name(c.name)
	if c.operator == "exists" {
		if c.operands[0] == true {
			return "attribute_exists(" + name + ")", nil
		}
		return "attribute_not_exists(" + name + ")", nil
	}
	var values []string
	for _, operand := range c.operands {
		v, err := x.value(c.name, operand)
		if err != nil {
			return "", err
		}
		values = append(values, v)
	}
	switch c.operator {
	case "between":
		return fmt.Sprintf("%s BETWEEN %s AND %s", name, values[0], values[1]), nil
	case "in":
		return fmt.Sprintf("%s IN (%s)", name, strings.Join(values, ", ")), nil
	case "begins_with", "contains":
		return fmt.Sprintf("%s(%s, %s)", c.operator, name, values[0]), nil
	}
	return fmt.Sprintf("%s %s %s", name, c.operator, values[0]), nil
}

// accessPath is how conditions are served: by a table or an index.
type accessPath struct {
	index  *past.Index // nil for the table
	key    past.Key
	keyed  []plainCondition // of the key condition; none for a scan
	filter []plainCondition
}

// text names what the path reads.
func (p *accessPath) text(t *past.Table) string {
	if p.index != nil {
		return "index " + p.index.Name + " of table " + t.Name
	}
	return "table " + t.Name
}

// choose returns the path that serves conditions with a key condition: with one index only, if
// it is named. If there is none, why tells what each of them lacks.
func choose(t *past.Table, named string, in []plainCondition, consistent bool) (best *accessPath, why []string) {
	score := -1
	consider := func(x *past.Index, key past.Key, worth int) {
		p, lack := served(t, x, key, in)
		if lack == "" && consistent && x != nil && x.Global {
			lack = "a global index cannot be read consistently"
		}
		if lack == "" && x != nil && x.Global && x.Status != "" && x.Status != "ACTIVE" {
			lack = "it is " + x.Status
		}
		if lack != "" {
			why = append(why, (&accessPath{index: x}).text(t)+" (key "+keyText(key)+"): "+lack)
			return
		}
		if points := len(p.keyed)*10 + worth; points > score {
			best, score = p, points
		}
	}
	if named == "" {
		consider(nil, t.Key, 3)
	}
	for i := range t.Indexes {
		x := &t.Indexes[i]
		if named != "" && named != x.Name {
			continue
		}
		worth := 0
		if x.Projection == "ALL" {
			worth++
		}
		if !x.Global {
			worth++
		}
		consider(x, x.Key, worth)
	}
	return best, why
}

func keyText(k past.Key) string {
	text := strings.Join(k.Partition, " + ")
	if len(k.Sort) > 0 {
		text += ", " + strings.Join(k.Sort, " + ")
	}
	return text
}

// served returns the path by a key, or what it lacks.
func served(t *past.Table, x *past.Index, key past.Key, in []plainCondition) (p *accessPath, lack string) {
	p = &accessPath{index: x, key: key}
	rest := slices.Clone(in)
	take := func(name string, fits func(plainCondition) bool) (c plainCondition, ok bool) {
		i := slices.IndexFunc(rest, func(c plainCondition) bool { return c.name == name && fits(c) })
		if i < 0 {
			return c, false
		}
		c = rest[i]
		rest = slices.Delete(rest, i, i+1)
		p.keyed = append(p.keyed, c)
		return c, true
	}
	for _, name := range key.Partition {
		if _, ok := take(name, func(c plainCondition) bool { return c.operator == equal }); !ok {
			return nil, "there is no value for " + name
		}
	}
	for _, name := range key.Sort {
		c, ok := take(name, func(c plainCondition) bool { return operators[c.operator] })
		if !ok || c.operator != equal {
			break
		}
	}
	for _, c := range rest {
		if slices.Contains(key.All(), c.name) {
			return nil, fmt.Sprintf("a query cannot have the condition %s on its key attribute %s there", c.operator, c.name)
		}
		if x != nil && x.Global && !projects(t, x, c.name) {
			return nil, "it does not project " + c.name
		}
	}
	p.filter = rest
	return p, ""
}

// projects reports whether an index has an attribute.
func projects(t *past.Table, x *past.Index, name string) bool {
	return x.Projection == "ALL" || slices.Contains(t.Key.All(), name) || slices.Contains(x.Key.All(), name) || slices.Contains(x.Includes, name)
}
