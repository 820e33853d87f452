package main

import (
	"encoding/json"
	"maps"
	"slices"
)

// object is a JSON object.
type object = map[string]any

// A step is a request that all servers get, and how their replies are
// compared.
type step struct {
	Op   string `json:"op"`
	Body object `json:"body"`

	// Pages is true if the reply is read to its end, page by page, since
	// servers end their pages at different items.
	Pages bool `json:"pages,omitempty"`
	// Segments is how many segments a parallel scan has; the reply is that of all
	// segments. 0 is a scan without segments.
	Segments int `json:"segments,omitempty"`
	// Order is the order of the reply's items: "" is exact, "any" is none, and
	// everything else is an attribute that determines the order, apart from
	// items that have the same value.
	Order string `json:"order,omitempty"`

	base object // the request without its mutation; nil if it has none
}

func (s step) clone() step {
	s.Body = cloneJSON(s.Body).(object)
	return s
}

// text returns the request's body as JSON, its members by name.
func (s step) text() string {
	b, err := json.Marshal(s.Body)
	if err != nil {
		panic(err) // a step has only strings, numbers, lists and maps
	}
	return string(b)
}

// cloneJSON copies a JSON value.
func cloneJSON(v any) any {
	switch v := v.(type) {
	case object:
		c := make(object, len(v))
		for k, x := range v {
			c[k] = cloneJSON(x)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = cloneJSON(x)
		}
		return c
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// canonical returns a JSON value as text; equal values have equal texts.
func canonical(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
