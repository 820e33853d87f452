// Package goals is shared by the two pipelines and the API of the saving goals: it
// defines customers and pending balances, how they are stored, and how they are
// merged.
package goals

import (
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
)

// Model is the application's model: its tables and access patterns.
//
//go:embed goals.model.yaml
var Model []byte

// The two tables. Only the batch pipeline writes the first; the stream pipeline and
// the app's choice write the second.
const (
	BatchTable = "CustomerBatch"
	NRTTable   = "CustomerNRT"
)

// Keep is how long a pending balance is kept, counted from its event.
const Keep = 5 * 24 * time.Hour

// KeepChoice is how long the choice of a goal is kept. The batch takes it over from the
// gold files; the choice of a customer who left expires, so that the batch need not
// delete it.
const KeepChoice = 400 * 24 * time.Hour

// Status is the status of a goal.
type Status string

// The statuses of a goal.
const (
	NotStarted          Status = "NOT_STARTED"
	InProgress          Status = "IN_PROGRESS"
	Completed           Status = "COMPLETED"
	PendingConfirmation Status = "PENDING_CONFIRMATION"
)

// Customer is one item of the batch view.
type Customer struct {
	PersonID    string      `dynamodbav:"personId"`
	Name        string      `dynamodbav:"name"`
	Preferences Preferences `dynamodbav:"preferences"`
	Goals       []Goal      `dynamodbav:"goals"`
	ChosenGoal  string      `dynamodbav:"chosenGoal"`
	ChosenAt    string      `dynamodbav:"chosenAt"`
	LastUpdated string      `dynamodbav:"lastUpdated"`

	// Accomplished are the newest goals of earlier months that were reached, of which
	// there are AccomplishedCount.
	Accomplished      []Accomplished `dynamodbav:"accomplished"`
	AccomplishedCount int            `dynamodbav:"accomplishedCount"`
}

// Preferences are a customer's preferences.
type Preferences struct {
	Notifications bool   `dynamodbav:"notifications" json:"notifications"`
	Language      string `dynamodbav:"language" json:"language"`
}

// Goal is one investment type of a customer, as the batch computed it.
type Goal struct {
	GoalID       string `dynamodbav:"goalId"`
	Title        string `dynamodbav:"title"`
	TargetAmount Money  `dynamodbav:"targetAmount"`
	SavedAmount  Money  `dynamodbav:"savedAmount"`
	Status       Status `dynamodbav:"status"`
	SpecialRate  Rate   `dynamodbav:"specialRate"`
}

// Progress returns the status of a goal from its amounts.
func Progress(saved, target Money) Status {
	switch {
	case saved >= target:
		return Completed
	case saved > 0:
		return InProgress
	}
	return NotStarted
}

// Item returns the customer as it is stored. A run makes a million items, so this does
// not use reflection.
func (c *Customer) Item() map[string]types.AttributeValue {
	list := make([]types.AttributeValue, len(c.Goals))
	for i, g := range c.Goals {
		list[i] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"goalId":       text(g.GoalID),
			"title":        text(g.Title),
			"targetAmount": &types.AttributeValueMemberN{Value: g.TargetAmount.String()},
			"savedAmount":  &types.AttributeValueMemberN{Value: g.SavedAmount.String()},
			"status":       text(string(g.Status)),
			"specialRate":  &types.AttributeValueMemberN{Value: g.SpecialRate.String()},
		}}
	}
	it := map[string]types.AttributeValue{
		"personId": text(c.PersonID),
		"name":     text(c.Name),
		"preferences": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
			"notifications": &types.AttributeValueMemberBOOL{Value: c.Preferences.Notifications},
			"language":      text(c.Preferences.Language),
		}},
		"goals":       &types.AttributeValueMemberL{Value: list},
		"lastUpdated": text(c.LastUpdated),
	}
	if len(c.Accomplished) > 0 {
		past := make([]types.AttributeValue, len(c.Accomplished))
		for i, a := range c.Accomplished {
			past[i] = &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
				"month":       text(a.Month),
				"goalId":      text(a.GoalID),
				"savedAmount": &types.AttributeValueMemberN{Value: a.SavedAmount.String()},
				"specialRate": &types.AttributeValueMemberN{Value: a.SpecialRate.String()},
			}}
		}
		it["accomplished"] = &types.AttributeValueMemberL{Value: past}
		it["accomplishedCount"] = &types.AttributeValueMemberN{Value: strconv.Itoa(c.AccomplishedCount)}
	}
	if c.ChosenGoal != "" {
		it["chosenGoal"], it["chosenAt"] = text(c.ChosenGoal), text(c.ChosenAt)
	}
	return it
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// instant is the format of stored times: of fixed width, so that text sorts as the
// times do.
const instant = "2006-01-02T15:04:05.000000Z"

// Instant formats a time for storage, to the microsecond.
func Instant(t time.Time) string { return t.UTC().Format(instant) }

// ParsePerson parses a person's id, which is a UUID, and returns the canonical form
// that is used in keys.
func ParsePerson(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return id, fmt.Errorf("%.60q is not a person's id: it must be a UUID such as 8f14e45f-ceea-467f-ab1c-2d9b5f0a6c11", s)
	}
	return id, nil
}
