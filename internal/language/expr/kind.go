// Package expr is the expression language: text becomes tokens, tokens become
// nodes, nodes become functions over items.
//
// There are two stages. Parsing needs the text alone, and its outcome can be
// kept (Cache). Binding puts the names and values of one request in and makes
// every check that needs no item. What comes out never changes and may be used
// by many at once. Package partiql and the older request forms make the same
// bound nodes (Test, Action) without text.
package expr

import "github.com/stator-db/stator/internal/apierror"

// Kind is one of the five parameters that hold an expression, or a statement
// of PartiQL.
type Kind byte

// The kinds of expression.
const (
	ConditionExpression Kind = iota + 1
	FilterExpression
	KeyConditionExpression
	UpdateExpression
	ProjectionExpression
	Statement
)

var kindNames = [...]string{
	ConditionExpression:    "ConditionExpression",
	FilterExpression:       "FilterExpression",
	KeyConditionExpression: "KeyConditionExpression",
	UpdateExpression:       "UpdateExpression",
	ProjectionExpression:   "ProjectionExpression",
	Statement:              "Statement",
}

// String is the name of the request's parameter.
func (k Kind) String() string { return kindNames[k] }

// invalid is a fault of an expression's text or of what was bound to it. That
// of a statement does not tell where it stands.
func (k Kind) invalid(format string, args ...any) error {
	if k == Statement {
		return apierror.Request(format, args...)
	}
	return apierror.Request("Invalid "+k.String()+": "+format, args...)
}

// empty is the fault of a text without a token. Unlike the other faults of a
// text it never stands in an envelope.
func (k Kind) empty() error {
	return apierror.Validation("Invalid %s: The expression can not be empty;", k)
}

// MaxSize is the largest size of an expression's text in bytes.
const MaxSize = 4096

// tooLarge is the fault of a text over MaxSize. DynamoDB tells the size for
// conditions and filters only (TestTextsHaveLimits names what was seen).
func (k Kind) tooLarge(size int) error {
	const told = "Expression size has exceeded the maximum allowed size;"
	if k == ConditionExpression || k == FilterExpression {
		return k.invalid(told+" expression size: %d", size)
	}
	return k.invalid(told)
}
