package goals

import (
	"time"

	"github.com/google/uuid"
)

// Accomplished is a goal that a customer reached in an earlier month.
type Accomplished struct {
	Month       string `dynamodbav:"month" json:"month"` // such as 2026-04
	GoalID      string `dynamodbav:"goalId" json:"goalId"`
	SavedAmount Money  `dynamodbav:"savedAmount" json:"savedAmount"`
	SpecialRate Rate   `dynamodbav:"specialRate" json:"specialRate"`
}

// MaxAccomplished is how many accomplished goals an item has, the newest: it must fit in
// one read unit. AccomplishedCount counts all.
const MaxAccomplished = 12

// MonthLayout is the format of months.
const MonthLayout = "2006-01"

// Reward is the order to invest what a customer has saved for a goal at its special
// rate, because the goal was reached. Amount is what is invested in all for the goal
// and month, so an order that is delivered twice changes nothing; a later one has more.
type Reward struct {
	RewardID    string    `json:"rewardId"`
	PersonID    string    `json:"personId"`
	GoalID      string    `json:"goalId"`
	Month       string    `json:"month"`
	Amount      Money     `json:"amount"`
	Before      Money     `json:"before"` // the amount of the last order for the goal and month
	SpecialRate Rate      `json:"specialRate"`
	ReachedAt   time.Time `json:"reachedAt"` // asOf of the run that found it
}

// rewardSpace is the namespace of reward ids.
var rewardSpace = uuid.MustParse("6f1d5a0e-3c0b-4d55-9a43-0b6f0c0d8e21")

// Identify sets the id, which is the same for the same order.
func (r *Reward) Identify() {
	r.RewardID = uuid.NewSHA1(rewardSpace, []byte(r.PersonID+"#"+r.GoalID+"#"+r.Month+"#"+r.Amount.String())).String()
}
