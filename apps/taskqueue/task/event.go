package task

import (
	"fmt"
	"reflect"
	"time"
)

// EventType is the type of an event in the history of a task.
type EventType string

// The events.
const (
	Submitted         EventType = "SUBMITTED"
	Claimed           EventType = "PROCESSING" // a worker claimed it
	Done              EventType = "COMPLETED"
	FailedForGood     EventType = "FAILED"    // the worker failed and said that it must not be retried
	Retry             EventType = "RETRY"     // the worker failed; the task is retried later
	Released          EventType = "RELEASED"  // the worker gave it back unprocessed
	Expired           EventType = "EXPIRED"   // the worker sent no heartbeats
	Ready             EventType = "READY"     // a delayed task is due
	DeadLettered      EventType = "DEAD"      // its attempts are used up, or it waited too long
	CancelledByClient EventType = "CANCELLED" // by a client
	Requeued          EventType = "REQUEUED"  // restarted by an operator
	numberDigits                = 4           // width of an event's number in keys
)

// Event is one step in the history of a task.
type Event struct {
	Seq  int       `json:"seq"`
	Type EventType `json:"type"`
	At   time.Time `json:"at"`
	Detail
}

// Detail holds the data of an event besides its type.
type Detail struct {
	Worker string    `json:"worker,omitempty"`
	Slot   int       `json:"slot,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Result string    `json:"result,omitempty"`
	RunAt  time.Time `json:"runAt,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Keep   int64     `json:"keep,omitempty"` // the second at which a final task expires
	Born   *Born     `json:"born,omitempty"` // of SUBMITTED
}

// Born holds the properties of a task that never change.
type Born struct {
	Queue       string   `json:"queue"`
	Type        string   `json:"type"`
	Priority    int      `json:"priority"`
	PayloadHash string   `json:"payloadHash"`
	MaxAttempts int      `json:"maxAttempts"`
	Backoff     Duration `json:"backoff"`
	Key         string   `json:"key,omitempty"`
}

// MaxSeq is the maximum number of events of a task.
const MaxSeq = 9999

// Number formats an event's number for keys.
func Number(seq int) string { return fmt.Sprintf("%0*d", numberDigits, seq) }

// from lists the statuses in which an event is possible.
var from = map[EventType][]Status{
	Submitted:         {""},
	Claimed:           {Pending},
	Done:              {Processing},
	FailedForGood:     {Processing},
	Retry:             {Processing},
	Released:          {Processing},
	Expired:           {Processing},
	Ready:             {Delayed},
	DeadLettered:      {Pending, Processing},
	CancelledByClient: {Pending, Delayed, Processing},
	Requeued:          {Failed, Dead},
}

// Can reports whether an event is possible in a status.
func Can(e EventType, s Status) bool {
	for _, f := range from[e] {
		if f == s {
			return true
		}
	}
	return false
}

// After returns the task after its next event. It is the only place that defines
// what an event does: the table's item is updated by the difference between before
// and after, and a replay applies After from the first event on.
func (t Task) After(e Event) (Task, error) {
	switch {
	case e.Seq != t.Seq+1:
		return t, fmt.Errorf("event %d of task %s cannot follow event %d", e.Seq, t.ID, t.Seq)
	case e.Seq > MaxSeq:
		return t, fmt.Errorf("task %s has %d events, which is the limit", t.ID, MaxSeq)
	case !Can(e.Type, t.Status):
		return t, fmt.Errorf("task %s is %s, so %s cannot happen to it", t.ID, t.Status, e.Type)
	}
	t.Seq, t.Updated = e.Seq, e.At
	switch e.Type {
	case Submitted:
		if e.Born == nil {
			return t, fmt.Errorf("task %s has a SUBMITTED event without content", t.ID)
		}
		t.Queue, t.Type, t.Priority, t.PayloadHash = e.Born.Queue, e.Born.Type, e.Born.Priority, e.Born.PayloadHash
		t.MaxAttempts, t.Backoff, t.Key = e.Born.MaxAttempts, e.Born.Backoff, e.Born.Key
		t.Created, t.RunAt, t.Until = e.At, e.RunAt, e.Until
		t.Status = Pending
		if e.RunAt.After(e.At) {
			t.Status = Delayed
		}
	case Claimed:
		t.Status, t.Worker, t.Slot = Processing, e.Worker, e.Slot
		t.Attempts++
	case Done:
		t.Status, t.Slot, t.Result, t.Expires = Completed, 0, e.Result, e.Keep
	case FailedForGood:
		t.Status, t.Slot, t.Reason, t.Expires = Failed, 0, e.Reason, e.Keep
	case Retry:
		t.Status, t.Slot, t.Worker, t.Reason, t.RunAt = Delayed, 0, "", e.Reason, e.RunAt
	case Released:
		t.Status, t.Slot, t.Worker = Pending, 0, ""
		t.Attempts--
	case Expired:
		t.Status, t.Slot, t.Worker, t.Reason = Pending, 0, "", e.Reason
	case Ready:
		t.Status = Pending
	case DeadLettered:
		t.Status, t.Slot, t.Worker, t.Reason, t.Expires = Dead, 0, "", e.Reason, e.Keep
	case CancelledByClient:
		t.Status, t.Slot, t.Worker, t.Reason, t.Expires = Cancelled, 0, "", e.Reason, e.Keep
	case Requeued:
		t.Status, t.Worker, t.Attempts, t.Expires, t.Until = Pending, "", 0, 0, e.Until
	}
	return t, nil
}

// Replay returns the task that results from its events, without its payload.
func Replay(id string, events []Event) (Task, error) {
	t := Task{ID: id}
	for _, e := range events {
		var err error
		if t, err = t.After(e); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Matches returns nil if a task equals the replay of its events. Payloads are
// compared by hash.
func Matches(t Task, events []Event) error {
	made, err := Replay(t.ID, events)
	if err != nil {
		return err
	}
	if HashOf(t.Payload) != t.PayloadHash {
		return fmt.Errorf("the payload of task %s is not the one that was submitted", t.ID)
	}
	t.Payload = nil
	if !reflect.DeepEqual(made, t) {
		return fmt.Errorf("task %s is %+v, but its events give %+v", t.ID, t, made)
	}
	return nil
}
