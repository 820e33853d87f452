// Package api is the shape of every request and reply, with the constraints
// declared beside the members.
//
// A request's members carry the tag `must`, a list of constraints in the order
// in which DynamoDB reports them; package wire checks them:
//
//	present       the member is there
//	table         a table's name, or its ARN
//	table=3       the same, as the operations on tables word it
//	newtable      a table's name, when it is given
//	oneof=A|B     one of these words
//	min=1 max=9   a number within these limits
//	minlen=1      so many characters, elements or entries
//	maxlen=255
//	entrylen=25   a map whose entries have from one to so many elements
//	like=…        a regular expression
//	stop          when this member is at fault, those behind it are not told
//
// A member that does not travel under its Go name has the tag `name`.
// Members that matter in their absence are pointers. A reply leaves empty
// members out, unless they carry the option always.
package api

import (
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// Attributes is an item or a key as a customer sent it.
type Attributes struct {
	Item item.Item // nil when the member was absent

	// Fault is the first reason why some value in it is none. The shape was
	// right, so it is told at the gate of sense, not before.
	Fault *apierror.Error
}

// Value is one attribute value as a customer sent it.
type Value struct {
	Value item.Value
	Fault *apierror.Error
}

// Time is a moment, as seconds since 1970 with a fraction.
type Time struct{ time.Time }

// TimeOf is a moment as a member of a reply; none for the zero time.
func TimeOf(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t}
}
