package trigger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

// A pattern is a filter in the part of Lambda's event filtering syntax that
// docs/triggers.md describes. It reports whether a node of a record, as decoded by
// encoding/json, matches; present is false where the record does not have the node.
type pattern func(node any, present bool) bool

// passes reports whether a record matches one of the filters, or there are none.
func (t *trigger) passes(text []byte) (bool, error) {
	if len(t.patterns) == 0 {
		return true, nil
	}
	node, err := parseJSON(text)
	if err != nil {
		return false, fmt.Errorf("decode a record: %w", err)
	}
	for _, matches := range t.patterns {
		if matches(node, true) {
			return true, nil
		}
	}
	return false, nil
}

func parseJSON(text []byte) (any, error) {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	var node any
	if err := reader.Decode(&node); err != nil {
		return nil, err
	}
	if _, err := reader.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected text after the end")
	}
	return node, nil
}

// maxPattern is the maximum length of a pattern, as in Lambda.
const maxPattern = 4096

func parsePattern(text string) (pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("is longer than %d bytes", maxPattern)
	}
	node, err := parseJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	fields, ok := node.(map[string]any)
	if !ok || len(fields) == 0 {
		return nil, errors.New("must be an object with at least one member")
	}
	return compileFields(fields)
}

// compileFields compiles an object, all of whose members must match. A list contains
// the rules of a member; an object is compiled recursively.
func compileFields(fields map[string]any) (pattern, error) {
	var all []pattern
	for name, value := range fields {
		var inner pattern
		var err error
		switch v := value.(type) {
		case []any:
			if name == "$or" {
				inner, err = compileOr(v)
				break
			}
			inner, err = compileRules(v)
			inner = below(name, inner)
		case map[string]any:
			inner, err = compileFields(v)
			inner = below(name, inner)
		default:
			err = errors.New("must be a list of rules, or an object")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, inner)
	}
	return func(node any, present bool) bool {
		for _, matches := range all {
			if !matches(node, present) {
				return false
			}
		}
		return true
	}, nil
}

// below matches a member of an object. In a list, one element must match.
func below(name string, inner pattern) pattern {
	var matches pattern
	matches = func(node any, present bool) bool {
		switch n := node.(type) {
		case map[string]any:
			member, present := n[name]
			return inner(member, present)
		case []any:
			for _, element := range n {
				if matches(element, true) {
					return true
				}
			}
			return false
		}
		return inner(nil, false)
	}
	return matches
}

// compileOr compiles $or, one of whose objects must match.
func compileOr(choices []any) (pattern, error) {
	var inners []pattern
	for _, choice := range choices {
		fields, ok := choice.(map[string]any)
		if !ok || len(fields) == 0 {
			return nil, errors.New("must be a list of objects")
		}
		inner, err := compileFields(fields)
		if err != nil {
			return nil, err
		}
		inners = append(inners, inner)
	}
	return oneOf(inners)
}

// compileRules compiles a list of rules, one of which must match.
func compileRules(rules []any) (pattern, error) {
	var choices []pattern
	for _, rule := range rules {
		inner, err := compileRule(rule)
		if err != nil {
			return nil, err
		}
		choices = append(choices, inner)
	}
	return oneOf(choices)
}

func oneOf(choices []pattern) (pattern, error) {
	if len(choices) == 0 {
		return nil, errors.New("must not be empty")
	}
	return func(node any, present bool) bool {
		for _, matches := range choices {
			if matches(node, present) {
				return true
			}
		}
		return false
	}, nil
}

// Rules

func compileRule(rule any) (pattern, error) {
	operator, ok := rule.(map[string]any)
	if !ok {
		equal, err := equals(rule)
		return onLeaf(equal), err
	}
	if len(operator) != 1 {
		return nil, errors.New("a rule must have one operator")
	}
	for name, arg := range operator {
		if name == "exists" {
			want, ok := arg.(bool)
			if !ok {
				return nil, errors.New("exists: must be true or false")
			}
			return func(node any, present bool) bool { return (present && isLeaf(node)) == want }, nil
		}
		holds, err := compileOperator(name, arg)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return onLeaf(holds), nil
	}
	panic("an object with one member has no member")
}

// isLeaf reports whether a node is neither an object nor a list of only objects.
func isLeaf(node any) bool {
	switch n := node.(type) {
	case map[string]any:
		return false
	case []any:
		for _, element := range n {
			if isLeaf(element) {
				return true
			}
		}
		return len(n) == 0
	}
	return true
}

// onLeaf applies a test to a value, or to each element of a list.
func onLeaf(holds func(value any) bool) pattern {
	var matches pattern
	matches = func(node any, present bool) bool {
		switch n := node.(type) {
		case map[string]any:
			return false
		case []any:
			for _, element := range n {
				if matches(element, true) {
					return true
				}
			}
			return false
		}
		return present && holds(node)
	}
	return matches
}

func compileOperator(name string, arg any) (func(value any) bool, error) {
	switch name {
	case "prefix":
		return onText(arg, strings.HasPrefix)
	case "suffix":
		return onText(arg, strings.HasSuffix)
	case "equals-ignore-case":
		return onText(arg, strings.EqualFold)
	case "anything-but":
		return anythingBut(arg)
	case "numeric":
		return numeric(arg)
	}
	return nil, errors.New("is not a supported operator")
}

func onText(arg any, holds func(text, arg string) bool) (func(any) bool, error) {
	want, ok := arg.(string)
	if !ok {
		return nil, errors.New("must be a string")
	}
	return func(value any) bool {
		text, ok := value.(string)
		return ok && holds(text, want)
	}, nil
}

func equals(want any) (func(any) bool, error) {
	switch w := want.(type) {
	case nil, string, bool:
		return func(value any) bool { return value == w }, nil
	case json.Number:
		number, err := item.ParseNumber(string(w))
		if err != nil {
			return nil, err
		}
		return func(value any) bool {
			text, ok := value.(json.Number)
			return ok && compares(string(text), "=", number)
		}, nil
	}
	return nil, errors.New("must be a string, a number, true, false or null")
}

func anythingBut(arg any) (func(any) bool, error) {
	var unwanted []any
	switch a := arg.(type) {
	case map[string]any:
		for name, inner := range a {
			if len(a) != 1 || name == "numeric" || name == "anything-but" {
				break
			}
			holds, err := compileOperator(name, inner)
			return func(value any) bool { return !holds(value) }, err
		}
		return nil, errors.New("must have one of prefix, suffix and equals-ignore-case")
	case []any:
		unwanted = a
	default:
		unwanted = []any{a}
	}
	var excluded []func(any) bool
	for _, value := range unwanted {
		holds, err := equals(value)
		if err != nil {
			return nil, err
		}
		excluded = append(excluded, holds)
	}
	if len(excluded) == 0 {
		return nil, errors.New("must not be empty")
	}
	return func(value any) bool {
		for _, holds := range excluded {
			if holds(value) {
				return false
			}
		}
		return true
	}, nil
}

// numeric makes one or two comparisons: [">", 0, "<=", 5]. The N of an attribute is a
// string in a record and is compared as a number.
func numeric(arg any) (func(any) bool, error) {
	terms, ok := arg.([]any)
	if !ok || len(terms) != 2 && len(terms) != 4 {
		return nil, errors.New("must be a list of one or two comparisons")
	}
	type comparison struct {
		operator string
		number   item.Number
	}
	var all []comparison
	for i := 0; i < len(terms); i += 2 {
		operator, _ := terms[i].(string)
		text, ok := terms[i+1].(json.Number)
		number, err := item.ParseNumber(string(text))
		if !slices.Contains([]string{"=", "<", "<=", ">", ">="}, operator) || !ok || err != nil {
			return nil, errors.New("must compare by =, <, <=, > or >= with a number")
		}
		all = append(all, comparison{operator, number})
	}
	return func(value any) bool {
		var text string
		switch v := value.(type) {
		case json.Number:
			text = string(v)
		case string:
			text = v
		}
		for _, c := range all {
			if !compares(text, c.operator, c.number) {
				return false
			}
		}
		return true
	}, nil
}

// compares reports whether a comparison of text with a number holds. It is false if
// text is not a number.
func compares(text, operator string, to item.Number) bool {
	number, err := item.ParseNumber(text)
	if err != nil {
		return false
	}
	switch c := number.Cmp(to); operator {
	case "=":
		return c == 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	}
	return false
}
