// Package api declares the shape of every request and reply, and the
// constraints of their members.
//
// A request's members carry the tag `must`, a list of constraints in the order
// in which DynamoDB reports them; package wire checks them:
//
//	present       the member is required
//	table         a table's name, or its ARN
//	table=3       the same, as the operations on tables word it
//	newtable      the name of a new table, if present
//	oneof=A|B     one of these words
//	namespace     a service that Application Auto Scaling knows
//	dimension     a dimension that it knows
//	min=1 max=9   a number within these limits
//	minlen=1      at least this many characters, elements or entries
//	maxlen=255
//	entrylen=25   a map whose entries have from one to this many elements
//	eachlen=255   a list of strings of one to this many characters each
//	like=…        a regular expression
//	stop          if this member is at fault, later members are not checked
//
// A member whose name on the wire differs from its Go name has the tag
// `name`. A member with the tag `json:"-"` is no part of the JSON. Members
// whose absence matters are pointers. A reply omits empty members, except
// those with the tag `reply:"always"`. The tag `or` of a required expression is
// the member of Compiled that may replace it.
package api

import (
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// Attributes is an item or a key as a customer sent it.
type Attributes struct {
	Item item.Item // nil when the member was absent

	// Fault is the first reason why a value in it is invalid. Its JSON types
	// were right, so it is reported at the gate of sense, not before.
	Fault *apierror.Error
}

// Value is one attribute value as a customer sent it.
type Value struct {
	Value item.Value
	Fault *apierror.Error
}

// Time is a moment, as seconds since 1970 with a fraction.
type Time struct{ time.Time }

// TimeOf returns a moment as a member of a reply; nil for the zero time.
func TimeOf(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t}
}
