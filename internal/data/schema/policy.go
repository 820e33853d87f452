package schema

import (
	"strconv"
	"time"
)

// PolicyPending is how long the change of a policy is in progress.
const PolicyPending = 2 * time.Second

// ResourcePolicy says who may use a table or a stream.
type ResourcePolicy struct {
	Document string    `json:"document,omitempty"` // in its canonical form; empty after it was deleted
	Changed  time.Time `json:"changed"`
}

// Revision returns the id of the policy's last change: its time in milliseconds.
func (p ResourcePolicy) Revision() string { return strconv.FormatInt(p.Changed.UnixMilli(), 10) }

// PolicyIsPending reports whether a policy of the table has just been changed.
func (t *Table) PolicyIsPending(now time.Time) bool {
	for _, p := range t.Policies {
		if passed := now.Sub(p.Changed); 0 <= passed && passed < PolicyPending && p.Changed.Sub(t.Created).Abs() >= PolicyPending {
			return true
		}
	}
	return false
}
