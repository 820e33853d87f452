package goals

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// The kinds of events on the topic.
const (
	Deposit        = "deposit"
	Reconciliation = "reconciliation"
)

// The outcomes of a reconciliation.
const (
	Confirmed = "CONFIRMED"
	Failed    = "FAILED"
)

// Event is an event of a customer's money. A deposit and a failed reconciliation have
// the balance after them, which includes all deposits that still await confirmation;
// a reconciliation names its deposit.
type Event struct {
	Type       string    `json:"type"`
	EventID    string    `json:"eventId"`
	PersonID   string    `json:"personId"`
	Product    string    `json:"product"`
	OccurredAt time.Time `json:"occurredAt"`

	Balance *Money `json:"balance,omitempty"` // of a deposit, and after a failed reconciliation

	Deposit *DepositRef `json:"deposit,omitempty"` // of a reconciliation
	Outcome string      `json:"outcome,omitempty"`

	// Offset is the event's position in its partition, which has all events of a person
	// in the order in which the bank sent them.
	Offset int64 `json:"-"`
}

// DepositRef identifies a deposit event.
type DepositRef struct {
	EventID    string    `json:"eventId"`
	OccurredAt time.Time `json:"occurredAt"`
}

// MaxEvent is the maximum size of an event, in bytes.
const MaxEvent = 64 << 10

// MaxAhead is how far an event's time may be ahead of our clock. An event further
// ahead would override all true events until that time.
const MaxAhead = 5 * time.Minute

// BadEvent is the error of an event that is invalid however often it is delivered.
type BadEvent struct{ Reason string }

func (b *BadEvent) Error() string { return b.Reason }

func bad(format string, args ...any) error { return &BadEvent{fmt.Sprintf(format, args...)} }

// ParseEvent parses an event and validates what does not need the rules.
func ParseEvent(b []byte, now time.Time) (Event, error) {
	var e Event
	if len(b) > MaxEvent {
		return e, bad("the event has %d bytes; the limit is %d", len(b), MaxEvent)
	}
	if err := json.Unmarshal(b, &e); err != nil {
		return e, bad("the event is not the expected JSON: %v", err)
	}
	person, err := ParsePerson(e.PersonID)
	if err != nil {
		return e, bad("personId: %v", err)
	}
	e.PersonID = person.String()
	if e.EventID, err = eventID(e.EventID); err != nil {
		return e, bad("eventId: %v", err)
	}
	if err := sensibleTime(e.OccurredAt, now); err != nil {
		return e, bad("occurredAt: %v", err)
	}
	switch e.Type {
	case Deposit:
		if e.Balance == nil {
			return e, bad("a deposit needs a balance")
		}
	case Reconciliation:
		if e.Outcome != Confirmed && e.Outcome != Failed {
			return e, bad("the outcome of a reconciliation is %.40q, but must be %s or %s", e.Outcome, Confirmed, Failed)
		}
		if e.Deposit == nil {
			return e, bad("a reconciliation must name its deposit")
		}
		if e.Outcome == Failed && e.Balance == nil {
			return e, bad("a failed reconciliation needs the balance after it, with the deposits that still await confirmation")
		}
		if e.Deposit.EventID, err = eventID(e.Deposit.EventID); err != nil {
			return e, bad("deposit.eventId: %v", err)
		}
		if err := sensibleTime(e.Deposit.OccurredAt, now); err != nil {
			return e, bad("deposit.occurredAt: %v", err)
		}
	default:
		return e, bad("the type is %.40q, but must be %s or %s", e.Type, Deposit, Reconciliation)
	}
	return e, nil
}

func eventID(s string) (string, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return "", fmt.Errorf("%.60q is not a UUID", s)
	}
	return id.String(), nil
}

func sensibleTime(t, now time.Time) error {
	switch {
	case t.Year() < 2000:
		return errors.New("it is missing or before the year 2000")
	case t.After(now.Add(MaxAhead)):
		return fmt.Errorf("%s is %s ahead of our clock", t.UTC().Format(time.RFC3339), t.Sub(now).Round(time.Second))
	}
	return nil
}

// Pending returns what an event writes to the near-real-time view, and whether it
// writes at all: a confirmed reconciliation does not, since the next batch includes
// its deposit, and neither does an event that would expire on arrival.
//
// A failed reconciliation writes the balance without its deposit, so that earlier and
// later deposits that are still pending stay visible.
func (e *Event) Pending(goalID string, now time.Time) (Pending, bool) {
	p := Pending{PersonID: e.PersonID, GoalID: goalID, EventID: e.EventID, Status: PendingConfirmation}
	if e.Type == Reconciliation && e.Outcome == Confirmed {
		return p, false
	}
	at := e.OccurredAt
	if e.Type == Reconciliation && at.Before(e.Deposit.OccurredAt) {
		at = e.Deposit.OccurredAt // the clocks of the bank's systems differ
	}
	p.CurrentBalance = *e.Balance
	p.UpdatedAt = Instant(at)
	p.Version = version(p.UpdatedAt, e)
	p.TTL = at.Add(Keep).Unix()
	return p, p.TTL > now.Unix()
}

// version orders all writes for one goal of one person: by time, and by position in the
// topic for events of the same time. Only a greater version is written, so neither the
// order of handling nor duplicates matter: the balance of the last event remains.
func version(at string, e *Event) string {
	return fmt.Sprintf("%s#%019d#%s", at, e.Offset, e.EventID)
}
