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
	if e == Expired && s == Pending { // the claim was stored, and a crash prevented the update of its task
		return true
	}
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
	t, err := t.apply(e)
	t.Last = Last{Type: e.Type}
	if e.Worker != t.Worker {
		t.Last.Worker = e.Worker
	}
	return t, err
}

// apply changes what the event is about.
func (t Task) apply(e Event) (Task, error) {
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

// Last is what a task stores of its last event besides its own attributes.
type Last struct {
	Type   EventType
	Worker string // if it is not the worker that has the task
}

// LastEvent returns the last event of a task: After(e).LastEvent() is e. So a task
// contains its last event, and the event's own item may be written later. It is the
// zero event for a task that was stored without Last.
func (t Task) LastEvent() Event {
	e := Event{Seq: t.Seq, Type: t.Last.Type, At: t.Updated}
	e.Worker = t.Last.Worker
	if e.Worker == "" {
		e.Worker = t.Worker
	}
	switch e.Type {
	case Submitted:
		e.RunAt, e.Until = t.RunAt, t.Until
		e.Born = &Born{Queue: t.Queue, Type: t.Type, Priority: t.Priority, PayloadHash: t.PayloadHash, MaxAttempts: t.MaxAttempts, Backoff: t.Backoff, Key: t.Key}
	case Claimed:
		e.Slot = t.Slot
	case Done:
		e.Result, e.Keep = t.Result, t.Expires
	case FailedForGood, DeadLettered, CancelledByClient:
		e.Reason, e.Keep = t.Reason, t.Expires
	case Retry:
		e.Reason, e.RunAt = t.Reason, t.RunAt
	case Expired:
		e.Reason = t.Reason
	case Requeued:
		e.Until = t.Until
	case Released, Ready:
	default:
		return Event{}
	}
	return e
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
	if len(events) == 0 {
		return fmt.Errorf("task %s has no events", t.ID)
	}
	if HashOf(t.Payload) != t.PayloadHash {
		return fmt.Errorf("the payload of task %s is not the one that was submitted", t.ID)
	}
	t.Payload = nil
	if t.Last == (Last{}) { // it was read over HTTP, or stored by an earlier version
		made.Last = Last{}
	} else if last := events[len(events)-1]; !reflect.DeepEqual(t.LastEvent(), last) {
		return fmt.Errorf("the last event of task %s is %+v, but the task contains %+v", t.ID, last, t.LastEvent())
	}
	if !reflect.DeepEqual(made, t) {
		return fmt.Errorf("task %s is %+v, but its events give %+v", t.ID, t, made)
	}
	return nil
}
