package policy

import (
	"errors"
	"fmt"
	"strings"
)

// FaultCode is what is wrong with a document.
type FaultCode string

// The codes of faults.
const (
	FaultJSON           FaultCode = "json"            // not JSON
	FaultSize           FaultCode = "size"            // larger than the limit
	FaultSyntax         FaultCode = "syntax"          // JSON, but not of the form of a policy
	FaultMissing        FaultCode = "missing"         // a member is missing
	FaultEmptyStatement FaultCode = "empty-statement" // no statement
	FaultSid            FaultCode = "sid"             // two statements with the same Sid
	FaultAction         FaultCode = "action"          // actions that a resource policy cannot have
	FaultPrincipal      FaultCode = "principal"       // not a principal
	FaultResource       FaultCode = "resource"        // a resource that is not one of DynamoDB's
	FaultUnbounded      FaultCode = "unbounded"       // a resource policy that allows everyone
)

// Fault is one thing that is wrong with a document.
type Fault struct {
	Position
	Code    FaultCode `json:"code"`
	Message string    `json:"message"`

	service string // the service's text, if it is not the one of the code
}

func (f *Fault) Error() string { return fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Message) }

// SyntaxError is the error of a document that cannot be used. It has at least one
// fault, in the order of the text.
type SyntaxError struct{ Faults []*Fault }

func (e *SyntaxError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// ServiceText returns the words in which the service refuses a resource policy with
// this error, without the `One or more parameter values were invalid: ` in front. It
// is empty if err is not an error of this package.
func ServiceText(err error) string {
	var syntax *SyntaxError
	if !errors.As(err, &syntax) {
		return ""
	}
	// The service reads the whole document as JSON before it looks at its members,
	// and reports one fault.
	f := syntax.Faults[0]
	const invalid = "Invalid policy document: "
	switch f.Code {
	case FaultSize:
		return fmt.Sprintf("Maximum policy size of %d bytes exceeded", MaxResourceBytes)
	case FaultPrincipal:
		return "Invalid principal in policy document."
	case FaultUnbounded:
		return "Resource-based policy grants unbounded access in one or more elements. Please revise the policy to ensure least-privilege form of access"
	case FaultJSON:
		return invalid + "This policy contains invalid Json"
	case FaultEmptyStatement:
		return invalid + "Could not parse the policy: Statement is empty!"
	case FaultSid:
		return invalid + "The Statement Ids in the policy are not unique"
	case FaultMissing, FaultAction, FaultResource:
		if f.service != "" {
			return invalid + f.service
		}
	}
	return invalid + fmt.Sprintf("Syntax error at position (%d,%d)", f.Line, f.Column)
}
