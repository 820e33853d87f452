// Package task says what a task is: its states, the events that lead from one to
// the next, and what a submission may hold. It knows no table and no clock.
package task

import (
	"encoding/json"
	"time"
)

// Status is a state of a task.
type Status string

// The states. The last four are final: nothing happens by itself any more.
const (
	Pending    Status = "PENDING"    // waits for a worker
	Delayed    Status = "DELAYED"    // waits for its time
	Processing Status = "PROCESSING" // a worker has it
	Completed  Status = "COMPLETED"  // done
	Failed     Status = "FAILED"     // the worker says that trying again is of no use
	Dead       Status = "DEAD"       // all attempts are used up, or it waited too long
	Cancelled  Status = "CANCELLED"  // somebody called it off
)

// Statuses are all states.
var Statuses = []Status{Pending, Delayed, Processing, Completed, Failed, Dead, Cancelled}

// Final tells whether a task in this state is over.
func (s Status) Final() bool {
	return s == Completed || s == Failed || s == Dead || s == Cancelled
}

// Known tells whether there is such a state.
func (s Status) Known() bool {
	for _, k := range Statuses {
		if s == k {
			return true
		}
	}
	return false
}

// Task is a task as it is now. All but the payload follows from its events.
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
	RunAt       time.Time       `json:"runAt,omitzero"` // not before this
	Until       time.Time       `json:"until,omitzero"` // if it still waits then, it is dead
	Worker      string          `json:"worker,omitempty"`
	Slot        int             `json:"slot,omitempty"` // of a queue with a limit, from 1
	Attempts    int             `json:"attempts"`
	MaxAttempts int             `json:"maxAttempts,omitempty"`
	Backoff     Duration        `json:"backoff,omitempty"`
	Seq         int             `json:"seq"` // of its last event
	Reason      string          `json:"reason,omitempty"`
	Result      string          `json:"result,omitempty"`
	Key         string          `json:"key,omitempty"`
	Expires     int64           `json:"expiresAt,omitempty"` // second at which the table forgets it
}

// TimeFormat is how times are stored: of one width, so that they sort.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Format writes a time as it is stored.
func Format(t time.Time) string { return t.UTC().Format(TimeFormat) }
