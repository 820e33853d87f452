package cloudwatch

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// structure is a request, or a structure in it, as decoded from any of the protocols. Its
// values are structures, lists, strings, numbers of several types, booleans and times.
type structure map[string]any

// valueList is a list of values in a request.
type valueList []any

// replyStruct is a structure of a reply: its members in order. The values are string, float64,
// int64, time.Time, replyStruct, lists of these, and entries.
type replyStruct []member

type member struct {
	name  string
	value any
}

// entries is a map in a reply.
type entries replyStruct

// text returns a member that is a string; not ok if it is absent.
func (s structure) text(name string) (value string, ok bool) {
	value, ok = s[name].(string)
	return value, ok
}

// texts returns a list of strings; nil if it is absent.
func (s structure) texts(name string) (all []string) {
	values, _ := s[name].(valueList)
	for _, v := range values {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// structures returns a list of structures; nil if it is absent.
func (s structure) structures(name string) (all []structure, err error) {
	values, ok := s[name].(valueList)
	if !ok {
		if s[name] != nil && s[name] != "" { // an empty list of a form
			return nil, invalid("The parameter %s must be a list.", name)
		}
		return nil, nil
	}
	for _, v := range values {
		one, ok := v.(structure)
		if !ok {
			return nil, invalid("The parameter %s must be a list of structures.", name)
		}
		all = append(all, one)
	}
	return all, nil
}

// number returns a member that is an integer.
func (s structure) number(name string) (int64, error) {
	v, given := s[name]
	if !given {
		return 0, missing(name)
	}
	n, ok := floatOf(v)
	if !ok || n != math.Trunc(n) || math.Abs(n) > 1<<53 {
		return 0, invalid("The parameter %s must be an integer.", name)
	}
	return int64(n), nil
}

// time returns a member that is a time.
func (s structure) time(name string) (time.Time, error) {
	v, given := s[name]
	if !given {
		return time.Time{}, missing(name)
	}
	if t, ok := v.(time.Time); ok {
		return t.UTC(), nil
	}
	if text, ok := v.(string); ok {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t.UTC(), nil
		}
	}
	// The years that a time.Time can be written with.
	if n, ok := floatOf(v); ok && n >= 0 && n < 253402300800 {
		whole, fraction := math.Modf(n)
		return time.Unix(int64(whole), int64(fraction*1e9)).UTC(), nil
	}
	return time.Time{}, invalid("The parameter %s must be a time.", name)
}

// floatOf returns a number of any type, or of a string of the query protocol.
func floatOf(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, !math.IsNaN(n)
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(n, 64)
		return f, err == nil && !math.IsNaN(f)
	}
	return 0, false
}

// structured converts maps and lists of a decoder.
func structured(v any) any {
	switch v := v.(type) {
	case map[string]any:
		s := make(structure, len(v))
		for name, of := range v {
			if of != nil {
				s[name] = structured(of)
			}
		}
		return s
	case []any:
		l := make(valueList, len(v))
		for i, of := range v {
			l[i] = structured(of)
		}
		return l
	}
	return v
}

// convert calls f for a value and all parts of it, from the inside out, and returns the
// result as plain maps and lists.
func convert(v any, f func(any) any) any {
	object := func(members []member) any {
		all := make(map[string]any, len(members))
		for _, m := range members {
			all[m.name] = convert(m.value, f)
		}
		return all
	}
	switch v := v.(type) {
	case replyStruct:
		return object(v)
	case entries:
		return object(v)
	case []replyStruct:
		return converted(v, f)
	case []string:
		return converted(v, f)
	case []float64:
		return converted(v, f)
	case []time.Time:
		return converted(v, f)
	case string, float64, int64, time.Time:
		return f(v)
	}
	panic(fmt.Sprintf("a reply has a %T", v))
}

func converted[E any](all []E, f func(any) any) []any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = convert(v, f)
	}
	return out
}
