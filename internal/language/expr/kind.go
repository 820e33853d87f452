// Package expr implements the expression language: text becomes tokens,
// tokens become nodes, nodes become functions over items.
//
// There are two stages. Parsing needs the text alone, and its result can be
// cached (Cache). Binding replaces placeholders by the names and values of
// one request and makes every check that needs no item. The result is
// immutable and safe for concurrent use. Package partiql and the legacy
// parameters make the same bound nodes (Test, Action) without text.
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

// invalid is a fault of an expression's text or of its bindings. The message
// of a statement does not name the parameter.
func (k Kind) invalid(format string, args ...any) error {
	if k == Statement {
		return apierror.Request(format, args...)
	}
	return apierror.Request("Invalid "+k.String()+": "+format, args...)
}

// empty is the fault of a text of no bytes. In a filter, a key condition or a
// projection it never gets RequestPrefix, unlike the other faults of a text.
// That it does in an update was recorded in August 2026; we assume the same of
// the condition of a write.
func (k Kind) empty() error {
	const message = "The expression can not be empty;"
	if k == UpdateExpression || k == ConditionExpression {
		return k.invalid(message)
	}
	return apierror.Validation("Invalid %s: %s", k, message)
}

// MaxSize is the largest size of an expression's text in bytes.
const MaxSize = 4096

// tooLarge is the fault of a text over MaxSize. DynamoDB reports the size for
// conditions and filters only (TestTextsHaveLimits lists the observed
// messages).
func (k Kind) tooLarge(size int) error {
	const message = "Expression size has exceeded the maximum allowed size;"
	if k == ConditionExpression || k == FilterExpression {
		return k.invalid(message+" expression size: %d", size)
	}
	return k.invalid(message)
}
