package policy

import (
	"strconv"
	"strings"
)

// Context has the values of the condition keys of one request.
type Context interface {
	// Lookup returns the values of a key, which is in lower case:
	// "dynamodb:leadingkeys", "aws:principaltag/team". It is called only for keys
	// that a statement with a matching action and resource names, so that values can be
	// computed when they are asked for.
	Lookup(key string) Values
}

// Values are the values of a condition key. The zero value is that of a key that the
// request does not have.
type Values struct {
	one   string
	many  []string
	multi bool
	there bool
}

// One returns the value of a key that has one value.
func One(value string) Values { return Values{one: value, there: true} }

// Many returns the values of a key that can have several. Without values it counts as
// a key that the request does not have.
func Many(values []string) Values {
	return Values{many: values, multi: true, there: len(values) > 0}
}

// Present reports whether the request has the key.
func (v Values) Present() bool { return v.there }

// Len returns the number of values.
func (v Values) Len() int {
	switch {
	case !v.there:
		return 0
	case v.multi:
		return len(v.many)
	default:
		return 1
	}
}

// At returns a value.
func (v Values) At(i int) string {
	if v.multi {
		return v.many[i]
	}
	return v.one
}

// All returns the values in a new slice.
func (v Values) All() []string {
	all := make([]string, v.Len())
	for i := range all {
		all[i] = v.At(i)
	}
	return all
}

// Bounds of the values that explanations have: requests may have very many.
const (
	maxShown      = 20
	maxShownBytes = 256
)

// some returns the values in a new slice: the first ones, and how many more there are. Long
// ones are cut.
func (v Values) some() []string {
	shown := make([]string, 0, min(v.Len(), maxShown+1))
	for i := range min(v.Len(), maxShown) {
		shown = append(shown, strings.Clone(beginning(v.At(i))))
	}
	if more := v.Len() - maxShown; more > 0 {
		shown = append(shown, "and "+strconv.Itoa(more)+" more")
	}
	return shown
}

// beginning returns a text, or its beginning if it is long.
func beginning(text string) string {
	if len(text) > maxShownBytes {
		return strings.ToValidUTF8(text[:maxShownBytes], "") + "…"
	}
	return text
}

// Keys is a Context of values that are known beforehand. Its keys are in lower case.
type Keys map[string]Values

// Lookup returns the values of a key.
func (k Keys) Lookup(key string) Values { return k[key] }

// Set sets the values of a key, whatever its case.
func (k Keys) Set(key string, v Values) { k[strings.ToLower(key)] = v }

func lookup(ctx Context, key string) Values {
	if ctx == nil {
		return Values{}
	}
	return ctx.Lookup(key)
}
