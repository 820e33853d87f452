// Package task defines tasks: their statuses, the events that lead from one to the
// next, and the validation of submissions. It has no I/O and no clock.
package task

import (
	"encoding/json"
	"time"
)

// Status is a state of a task.
type Status string

// The statuses. The last four are final: no event follows by itself.
const (
	Pending    Status = "PENDING"    // waits for a worker
	Delayed    Status = "DELAYED"    // waits until it is due
	Processing Status = "PROCESSING" // a worker has it
	Completed  Status = "COMPLETED"  // done
	Failed     Status = "FAILED"     // failed and must not be retried
	Dead       Status = "DEAD"       // its attempts are used up, or it waited too long
	Cancelled  Status = "CANCELLED"  // cancelled by a client
)

// Statuses lists all statuses.
var Statuses = []Status{Pending, Delayed, Processing, Completed, Failed, Dead, Cancelled}

// Final reports whether a status is final.
func (s Status) Final() bool {
	return s == Completed || s == Failed || s == Dead || s == Cancelled
}

// Known reports whether the status exists.
func (s Status) Known() bool {
	for _, k := range Statuses {
		if s == k {
			return true
		}
	}
	return false
}

// Task is the current state of a task. All but the payload follows from its events.
type Task struct {
	ID          string          `json:"id"`
	Queue       string          `json:"queue"`
	Type        string          `json:"type"`
	Status      Status          `json:"status"`
	Priority    int             `json:"priority"`
	Payload     json.RawMessage `json:"payload,omitempty"`
	PayloadHash string          `json:"payloadHash,omitempty"`
	Created     time.Time       `json:"createdAt"`
	Updated     time.Time       `json:"updatedAt,omitzero"`
	RunAt       time.Time       `json:"runAt,omitzero"` // earliest time
	Until       time.Time       `json:"until,omitzero"` // if it still waits then, it becomes dead
	Worker      string          `json:"worker,omitempty"`
	Slot        int             `json:"slot,omitempty"` // of a queue with a limit, from 1
	Attempts    int             `json:"attempts"`
	MaxAttempts int             `json:"maxAttempts,omitempty"`
	Backoff     Duration        `json:"backoff,omitempty"`
	Seq         int             `json:"seq"` // number of its last event
	Reason      string          `json:"reason,omitempty"`
	Result      string          `json:"result,omitempty"`
	Key         string          `json:"key,omitempty"`
	Expires     int64           `json:"expiresAt,omitempty"` // the second at which the item expires
	Last        Last            `json:"-"`                   // its last event; see LastEvent
}

// TimeFormat is the format of stored times: of fixed width, so that they sort.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Format formats a time for storage.
func Format(t time.Time) string { return t.UTC().Format(TimeFormat) }
