package expr

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

const (
	// maxPlaceholder is the largest size of a placeholder in bytes.
	maxPlaceholder = 255
	// maxSubstitutions is the largest size of all placeholders of a request,
	// with the names and the values that they stand for.
	maxSubstitutions = item.MaxRequestValues
)

// Bindings are the placeholders of one request: what the #names and :values
// of its expressions stand for. They record which expressions were bound.
type Bindings struct {
	Names  map[string]string
	Values map[string]item.Value // those that are not in few

	few      [fewValues]given // the first values: up to six, a map is not faster
	fewCount int

	bound  []*refs
	inline [4]*refs // the memory of bound; no operation has more expressions
}

const fewValues = 6

type given struct {
	ref   string
	value item.Value
}

// Give sets the value of a placeholder; each is set once.
func (b *Bindings) Give(ref string, v item.Value) {
	if b.fewCount < fewValues {
		b.few[b.fewCount] = given{ref, v}
		b.fewCount++
		return
	}
	if b.Values == nil {
		b.Values = make(map[string]item.Value)
	}
	b.Values[ref] = v
}

// value is what a placeholder stands for.
func (b *Bindings) value(ref string) (item.Value, bool) {
	for i := range b.fewCount {
		if b.few[i].ref == ref {
			return b.few[i].value, true
		}
	}
	v, ok := b.Values[ref]
	return v, ok
}

// use remembers an expression that is being bound.
func (b *Bindings) use(r *refs) {
	if b.bound == nil {
		b.bound = b.inline[:0]
	}
	b.bound = append(b.bound, r)
}

// CheckNames checks a request's ExpressionAttributeNames, nil if it has none.
func CheckNames(names map[string]string) error {
	if names == nil {
		return nil
	}
	if len(names) == 0 {
		return apierror.Request("ExpressionAttributeNames must not be empty")
	}
	good := true
	for key, name := range names {
		good = good && isPlaceholderKey('#', key) && item.CheckName(name) == nil
	}
	if good {
		return nil
	}
	keys := slices.Sorted(maps.Keys(names)) // the first of several faults is reported
	if err := checkPlaceholders("ExpressionAttributeNames", '#', keys); err != nil {
		return err
	}
	for _, key := range keys {
		var fault *apierror.Error
		if errors.As(item.CheckName(names[key]), &fault) {
			return apierror.Request("ExpressionAttributeNames contains invalid value: %s for key %s", fault.Message, key)
		}
	}
	return nil
}

// CheckValues checks the keys of a request's ExpressionAttributeValues, nil
// if it has none. The decoder checks the values.
func CheckValues[V any](values map[string]V) error {
	if values == nil {
		return nil
	}
	if len(values) == 0 {
		return apierror.Request("ExpressionAttributeValues must not be empty")
	}
	good := true
	for key := range values {
		good = good && isPlaceholderKey(':', key)
	}
	if good {
		return nil
	}
	return checkPlaceholders("ExpressionAttributeValues", ':', slices.Sorted(maps.Keys(values)))
}

// CheckSizes checks the sizes of a request's placeholders, whose names and
// values are checked. value returns the value of a V.
func CheckSizes[V any](names map[string]string, values map[string]V, value func(V) item.Value) error {
	ofNames, ofValues := 0, 0
	for key, name := range names {
		ofNames += len(key) + len(name)
	}
	for key, v := range values {
		ofValues += len(key) + value(v).Size()
	}
	switch {
	case ofNames > maxSubstitutions:
		return apierror.Validation("ExpressionAttributeNames exceeds max size")
	case ofValues > maxSubstitutions:
		return apierror.Validation("ExpressionAttributeValues exceeds max size")
	case ofNames+ofValues > maxSubstitutions:
		return apierror.Validation("Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size")
	}
	return nil
}

// CheckParameters checks the size of a statement's parameters.
func CheckParameters(values []item.Value) error {
	size := 0
	for _, v := range values {
		size += v.Size()
	}
	if size > maxSubstitutions {
		return apierror.Validation("Parameters exceeds max size")
	}
	return nil
}

// isPlaceholderKey reports whether a key can be a placeholder.
func isPlaceholderKey(sign byte, key string) bool {
	return len(key) <= maxPlaceholder && len(key) >= 2 && key[0] == sign && wordSize(key[1:]) == len(key)-1
}

func checkPlaceholders(parameter string, sign byte, keys []string) error {
	for _, key := range keys {
		if key == "" {
			return apierror.Request("%s contains invalid key: The expression attribute map contains an empty key;", parameter)
		}
		if len(key) > maxPlaceholder {
			return apierror.Request("%s contains invalid key: The expression attribute map contains a key that is too long; size of key: %d", parameter, len(key))
		}
		if !isPlaceholderKey(sign, key) {
			return apierror.Request(`%s contains invalid key: Syntax error; key: "%s"`, parameter, key)
		}
	}
	return nil
}

// Unused returns the fault of a placeholder that no expression bound so far
// uses.
func (b *Bindings) Unused() error {
	var left []string
	for ref := range b.Names {
		if !slices.ContainsFunc(b.bound, func(r *refs) bool { return r.names.has(ref) }) {
			left = append(left, ref)
		}
	}
	if left != nil {
		return unused("ExpressionAttributeNames", left)
	}
	usesValue := func(ref string) bool {
		return slices.ContainsFunc(b.bound, func(r *refs) bool { return r.values.has(ref) })
	}
	for i := range b.fewCount {
		if !usesValue(b.few[i].ref) {
			left = append(left, b.few[i].ref)
		}
	}
	for ref := range b.Values {
		if !usesValue(ref) {
			left = append(left, ref)
		}
	}
	if left != nil {
		return unused("ExpressionAttributeValues", left)
	}
	return nil
}

func unused(parameter string, left []string) error {
	// DynamoDB lists several in the order of a hash table; we sort them.
	slices.Sort(left)
	return apierror.Request("Value provided in %s unused in expressions: keys: {%s}", parameter, strings.Join(left, ", "))
}

// refs are the placeholders that a text uses.
type refs struct{ names, values refSet }

// refSet is a set of placeholders in the order of the text.
type refSet struct {
	inOrder []string
	members map[string]struct{} // allocated when there are many
}

const manyRefs = 8

func (s *refSet) has(ref string) bool {
	if s.members == nil {
		return slices.Contains(s.inOrder, ref)
	}
	_, ok := s.members[ref]
	return ok
}

func (s *refSet) add(ref string) {
	if s.has(ref) {
		return
	}
	s.inOrder = append(s.inOrder, ref)
	if s.members == nil && len(s.inOrder) > manyRefs {
		s.members = make(map[string]struct{})
		for _, r := range s.inOrder {
			s.members[r] = struct{}{}
		}
	}
	if s.members != nil {
		s.members[ref] = struct{}{}
	}
}
