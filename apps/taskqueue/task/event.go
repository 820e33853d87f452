package task

import (
	"fmt"
	"reflect"
	"time"
)

// EventType is what happened to a task.
type EventType string

// The events.
const (
	Submitted    EventType = "SUBMITTED"
	Taken        EventType = "PROCESSING" // a worker claimed it
	Done         EventType = "COMPLETED"
	GaveUp       EventType = "FAILED"    // the worker says: never again
	Retry        EventType = "RETRY"     // the worker failed; tried again later
	Released     EventType = "RELEASED"  // the worker gave it back untouched
	Expired      EventType = "EXPIRED"   // the worker was not heard of
	Ready        EventType = "READY"     // its time has come
	Buried       EventType = "DEAD"      // no attempt is left, or it waited too long
	CalledOff    EventType = "CANCELLED" // by a client
	Requeued     EventType = "REQUEUED"  // by hand, to begin anew
	numberDigits           = 4           // of an event, as it is padded in keys
)

// Event is one step in the history of a task.
type Event struct {
	Seq  int       `json:"seq"`
	Type EventType `json:"type"`
	At   time.Time `json:"at"`
	Detail
}

// Detail is what an event tells beside its type.
type Detail struct {
	Worker string    `json:"worker,omitempty"`
	Slot   int       `json:"slot,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Result string    `json:"result,omitempty"`
	RunAt  time.Time `json:"runAt,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Keep   int64     `json:"keep,omitempty"` // the second at which a final task is forgotten
	Born   *Born     `json:"born,omitempty"` // of SUBMITTED
}

// Born is what never changes in a task.
type Born struct {
	Queue       string   `json:"queue"`
	Type        string   `json:"type"`
	Priority    int      `json:"priority"`
	PayloadHash string   `json:"payloadHash"`
	MaxAttempts int      `json:"maxAttempts"`
	Backoff     Duration `json:"backoff"`
	Key         string   `json:"key,omitempty"`
}

// MaxSeq is how many events a task can have.
const MaxSeq = 9999

// Number is an event's number as it stands in keys.
func Number(seq int) string { return fmt.Sprintf("%0*d", numberDigits, seq) }

// from are the states in which an event can happen.
var from = map[EventType][]Status{
	Submitted: {""},
	Taken:     {Pending},
	Done:      {Processing},
	GaveUp:    {Processing},
	Retry:     {Processing},
	Released:  {Processing},
	Expired:   {Processing},
	Ready:     {Delayed},
	Buried:    {Pending, Processing},
	CalledOff: {Pending, Delayed, Processing},
	Requeued:  {Failed, Dead},
}

// Can tells whether an event can happen in a state.
func Can(e EventType, s Status) bool {
	for _, f := range from[e] {
		if f == s {
			return true
		}
	}
	return false
}

// After is the task after its next event. It is the one place that says what an
// event does: the table's item is changed by what differs between before and
// after, and replaying is nothing but this, from the first event on.
func (t Task) After(e Event) (Task, error) {
	switch {
	case e.Seq != t.Seq+1:
		return t, fmt.Errorf("event %d of task %s cannot follow event %d", e.Seq, t.ID, t.Seq)
	case e.Seq > MaxSeq:
		return t, fmt.Errorf("task %s has had %d events, the most there can be", t.ID, MaxSeq)
	case !Can(e.Type, t.Status):
		return t, fmt.Errorf("task %s is %s, so %s cannot happen to it", t.ID, t.Status, e.Type)
	}
	t.Seq, t.Updated = e.Seq, e.At
	switch e.Type {
	case Submitted:
		if e.Born == nil {
			return t, fmt.Errorf("task %s was submitted without saying what", t.ID)
		}
		t.Queue, t.Type, t.Priority, t.PayloadHash = e.Born.Queue, e.Born.Type, e.Born.Priority, e.Born.PayloadHash
		t.MaxAttempts, t.Backoff, t.Key = e.Born.MaxAttempts, e.Born.Backoff, e.Born.Key
		t.Created, t.RunAt, t.Until = e.At, e.RunAt, e.Until
		t.Status = Pending
		if e.RunAt.After(e.At) {
			t.Status = Delayed
		}
	case Taken:
		t.Status, t.Worker, t.Slot = Processing, e.Worker, e.Slot
		t.Attempts++
	case Done:
		t.Status, t.Slot, t.Result, t.Expires = Completed, 0, e.Result, e.Keep
	case GaveUp:
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
	case Buried:
		t.Status, t.Slot, t.Worker, t.Reason, t.Expires = Dead, 0, "", e.Reason, e.Keep
	case CalledOff:
		t.Status, t.Slot, t.Worker, t.Reason, t.Expires = Cancelled, 0, "", e.Reason, e.Keep
	case Requeued:
		t.Status, t.Worker, t.Attempts, t.Expires, t.Until = Pending, "", 0, 0, e.Until
	}
	return t, nil
}

// Replay is the task that its events make, without its payload.
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

// Matches is nil if a task is what its events make. The payload is compared by
// its hash.
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
		return fmt.Errorf("task %s is %+v, but its events make %+v", t.ID, t, made)
	}
	return nil
}
