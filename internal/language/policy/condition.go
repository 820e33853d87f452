package policy

import (
	"encoding/base64"
	"strings"
	"time"
)

// Condition is one key of one operator of a statement, with the values that it is
// compared with.
type Condition struct {
	Position
	Operator string
	Key      string
	Values   []string

	op       operator
	quantity quantifier
	ifExists bool
	key      string // in lower case

	// The values, made for the family of the operator.
	globs    []glob
	arns     [][]glob
	numbers  []decimal
	dates    []time.Time
	bools    []bool
	networks []network
	vars     bool // a value has variables
}

// compile makes a value for the operator. It returns what is wrong with it.
func (c *Condition) compile(value string, variables bool) (fault string) {
	ok := true
	switch c.op.family {
	case familyString, familyFold, familyLike:
		g, fault := compileGlob(value, c.op.family == familyLike, variables)
		c.globs, c.vars = append(c.globs, g), c.vars || g.vars
		return fault
	case familyARN:
		g, fault := compileGlob(value, true, variables)
		if fault != "" {
			return fault
		}
		c.vars = c.vars || g.vars
		fields := splitGlob(g, arnFields)
		if !g.matchesAll() && !isARN(fields) {
			return quote(value) + " is not an ARN: arn:partition:service:region:account:resource"
		}
		c.arns = append(c.arns, fields)
	case familyNumber:
		var d decimal
		d, ok = parseDecimal(value)
		c.numbers = append(c.numbers, d)
	case familyDate:
		var t time.Time
		t, ok = parseDate(value)
		c.dates = append(c.dates, t)
	case familyBool, familyNull:
		var b bool
		b, ok = parseBool(value)
		c.bools = append(c.bools, b)
	case familyIP:
		var n network
		n, ok = parseNetwork(value)
		c.networks = append(c.networks, n)
	case familyBinary:
		_, err := base64.StdEncoding.DecodeString(value)
		ok = err == nil
		c.globs = append(c.globs, glob{parts: []globPart{{text: value}}})
	}
	if !ok {
		return quote(value) + " is not " + familyNames[c.op.family]
	}
	return ""
}

// familyNames describe the values of the families that check theirs.
var familyNames = map[family]string{
	familyNumber: "a number, such as 12 or -0.5",
	familyDate:   "a date, such as 2026-11-18T10:00:00Z, or seconds since 1970",
	familyBool:   "true or false",
	familyNull:   "true or false",
	familyIP:     "an IP address or a range in CIDR form, such as 203.0.113.0/24",
	familyBinary: "binary in base64",
}

// isARN reports whether the fields of a pattern are those of an ARN.
func isARN(fields []glob) bool {
	if len(fields) != arnFields || len(fields[0].parts) == 0 || len(fields[5].parts) == 0 {
		return false
	}
	first := fields[0].parts[0]
	return first.kind != globLiteral || first.text == "arn" || len(fields[0].parts) > 1
}

// holds reports whether the condition is true for a request.
func (c *Condition) holds(ctx Context) bool {
	v := lookup(ctx, c.key)
	switch {
	case c.op.family == familyNull:
		for _, null := range c.bools {
			if null != v.Present() {
				return true
			}
		}
		return false
	case !v.Present() && c.ifExists:
		return true
	case c.vars && c.unresolved(ctx) != "":
		return false
	case !v.Present():
		return c.holdsAbsent()
	}
	switch c.quantity {
	case forAll:
		for i := range v.Len() {
			if !c.test(v.At(i), ctx) {
				return false
			}
		}
		return true
	case forAny:
		for i := range v.Len() {
			if c.test(v.At(i), ctx) {
				return true
			}
		}
		return false
	default:
		// An operator without a prefix never matches a key that can have several
		// values, even if the request has one.
		return !v.multi && c.test(v.one, ctx)
	}
}

// holdsAbsent reports whether the condition is true for a request without the key.
func (c *Condition) holdsAbsent() bool {
	switch {
	case c.op.family == familyNull:
		for _, null := range c.bools {
			if null {
				return true
			}
		}
		return false
	case c.ifExists, c.quantity == forAll:
		return true
	case c.quantity == forAny:
		return false
	default:
		return c.op.negated
	}
}

// unresolved returns the first variable of the values that the request has no value
// for.
func (c *Condition) unresolved(ctx Context) string {
	for i := range c.globs {
		if name := c.globs[i].unresolved(ctx); name != "" {
			return name
		}
	}
	for _, fields := range c.arns {
		for i := range fields {
			if name := fields[i].unresolved(ctx); name != "" {
				return name
			}
		}
	}
	return ""
}

// test reports whether one value of the request satisfies the operator. A value that
// is not of the operator's type equals nothing.
func (c *Condition) test(value string, ctx Context) bool {
	return c.matches(value, ctx) != c.op.negated
}

func (c *Condition) matches(value string, ctx Context) bool {
	switch c.op.family {
	case familyARN:
		fields, ok := splitARN(value)
		for _, arn := range c.arns {
			if len(arn) == 1 || ok && matchARN(arn, &fields, ctx) {
				return true
			}
		}
	case familyNumber:
		d, ok := parseDecimal(value)
		for i := range c.numbers {
			if ok && c.op.compare.holds(d.compare(c.numbers[i])) {
				return true
			}
		}
	case familyDate:
		t, ok := parseDate(value)
		for i := range c.dates {
			if ok && c.op.compare.holds(t.Compare(c.dates[i])) {
				return true
			}
		}
	case familyBool:
		b, ok := parseBool(value)
		for _, want := range c.bools {
			if ok && b == want {
				return true
			}
		}
	case familyIP:
		a, ok := parseAddress(value)
		for i := range c.networks {
			if ok && c.networks[i].contains(&a) {
				return true
			}
		}
	default:
		for i := range c.globs {
			if c.globs[i].match(value, ctx, c.op.family == familyFold) {
				return true
			}
		}
	}
	return false
}

// matchARN compares field by field: a wildcard does not cross a colon, except in the
// last field.
func matchARN(pattern []glob, fields *[arnFields]string, ctx Context) bool {
	for i := range pattern {
		if !pattern[i].match(fields[i], ctx, false) {
			return false
		}
	}
	return true
}

func quote(s string) string {
	const limit = 120
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return `"` + s + `"`
}
