package policy

import (
	"slices"
	"strings"
)

// family is the type that an operator takes values for.
type family byte

const (
	familyString family = iota
	familyFold          // strings without case
	familyLike          // strings with wildcards
	familyNumber
	familyDate
	familyBool
	familyBinary
	familyIP
	familyARN
	familyNull
)

// orderTest is the order that an operator for numbers or dates asks for.
type orderTest byte

const (
	equal orderTest = iota
	less
	lessOrEqual
	greater
	greaterOrEqual
)

func (c orderTest) holds(order int) bool {
	switch c {
	case less:
		return order < 0
	case lessOrEqual:
		return order <= 0
	case greater:
		return order > 0
	case greaterOrEqual:
		return order >= 0
	default:
		return order == 0
	}
}

// operator is a condition operator without prefix and suffix.
type operator struct {
	family  family
	compare orderTest
	negated bool
}

var operators = map[string]operator{
	"StringEquals":              {family: familyString},
	"StringNotEquals":           {family: familyString, negated: true},
	"StringEqualsIgnoreCase":    {family: familyFold},
	"StringNotEqualsIgnoreCase": {family: familyFold, negated: true},
	"StringLike":                {family: familyLike},
	"StringNotLike":             {family: familyLike, negated: true},
	"NumericEquals":             {family: familyNumber},
	"NumericNotEquals":          {family: familyNumber, negated: true},
	"NumericLessThan":           {family: familyNumber, compare: less},
	"NumericLessThanEquals":     {family: familyNumber, compare: lessOrEqual},
	"NumericGreaterThan":        {family: familyNumber, compare: greater},
	"NumericGreaterThanEquals":  {family: familyNumber, compare: greaterOrEqual},
	"DateEquals":                {family: familyDate},
	"DateNotEquals":             {family: familyDate, negated: true},
	"DateLessThan":              {family: familyDate, compare: less},
	"DateLessThanEquals":        {family: familyDate, compare: lessOrEqual},
	"DateGreaterThan":           {family: familyDate, compare: greater},
	"DateGreaterThanEquals":     {family: familyDate, compare: greaterOrEqual},
	"Bool":                      {family: familyBool},
	"BinaryEquals":              {family: familyBinary},
	"IpAddress":                 {family: familyIP},
	"NotIpAddress":              {family: familyIP, negated: true},
	"ArnEquals":                 {family: familyARN},
	"ArnNotEquals":              {family: familyARN, negated: true},
	"ArnLike":                   {family: familyARN},
	"ArnNotLike":                {family: familyARN, negated: true},
	"Null":                      {family: familyNull},
}

// quantifier says how many of the values of a key must satisfy an operator.
type quantifier byte

const (
	single quantifier = iota // the key has one value
	forAll
	forAny
)

var quantifiers = map[string]quantifier{"ForAllValues": forAll, "ForAnyValue": forAny}

// parseOperator reads an operator with its prefix and suffix.
func parseOperator(name string) (o operator, q quantifier, ifExists, ok bool) {
	if prefix, rest, prefixed := strings.Cut(name, ":"); prefixed {
		if q, ok = quantifiers[prefix]; !ok {
			return o, q, false, false
		}
		name = rest
	}
	name, ifExists = strings.CutSuffix(name, "IfExists")
	o, ok = operators[name]
	if ok && o.family == familyNull && (ifExists || q != single) {
		ok = false
	}
	return o, q, ifExists, ok
}

// allOperators returns the operators with their prefixes and suffixes.
func allOperators() []string {
	var all []string
	for name, o := range operators {
		all = append(all, name)
		if o.family == familyNull {
			continue
		}
		all = append(all, name+"IfExists")
		for prefix := range quantifiers {
			all = append(all, prefix+":"+name, prefix+":"+name+"IfExists")
		}
	}
	slices.Sort(all)
	return all
}
