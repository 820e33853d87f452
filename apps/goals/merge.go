package goals

import "time"

// Pending is an item of the near-real-time view: the balance of one goal after the
// newest event.
type Pending struct {
	PersonID       string `dynamodbav:"personId"`
	GoalID         string `dynamodbav:"goalId"`
	CurrentBalance Money  `dynamodbav:"currentBalance"`
	Status         Status `dynamodbav:"status"`
	EventID        string `dynamodbav:"eventId"`
	UpdatedAt      string `dynamodbav:"updatedAt"`
	Version        string `dynamodbav:"version"`
	TTL            int64  `dynamodbav:"ttl"`
}

// Choice is the goal that a customer chose in the app.
type Choice struct {
	GoalID   string
	ChosenAt string
}

// View is the reply to the app: a customer's current goals.
type View struct {
	PersonID    string      `json:"personId"`
	Name        string      `json:"name"`
	Preferences Preferences `json:"preferences"`
	Goals       []Shown     `json:"goals"`
	Currency    string      `json:"currency"`
	LastUpdated string      `json:"lastUpdated"`

	// Accomplished are the newest goals of earlier months that were reached.
	Accomplished      []Accomplished `json:"accomplished"`
	AccomplishedCount int            `json:"accomplishedCount"`

	// StreamDownSince is set while recent deposits may be missing, because Kafka does
	// not respond.
	StreamDownSince string `json:"streamDownSince,omitempty"`
}

// Shown is a goal in a view.
type Shown struct {
	GoalID       string `json:"goalId"`
	Title        string `json:"title"`
	TargetAmount Money  `json:"targetAmount"`
	SavedAmount  Money  `json:"savedAmount"`
	Status       Status `json:"status"`
	SpecialRate  Rate   `json:"specialRate"`
	Chosen       bool   `json:"chosen"`

	// ConfirmedAmount is the amount of the batch, if SavedAmount is pending.
	ConfirmedAmount *Money `json:"confirmedAmount,omitempty"`

	// Invested is what is invested at the special rate, once the goal is reached.
	Invested *Money `json:"invested,omitempty"`
}

// Merge merges a customer's batch item, pending balances and choice into one view. A
// balance counts while it is newer than the batch; balances that the batch includes
// and expired ones are ignored. A balance that equals the batch's amount is left by a
// failed reconciliation, after which no deposit is pending. Goals are monthly: before the
// first batch of a month, nothing of a balance of that month is confirmed.
func Merge(c Customer, pending []Pending, choice Choice, now time.Time) View {
	if c.ChosenAt > choice.ChosenAt {
		choice = Choice{GoalID: c.ChosenGoal, ChosenAt: c.ChosenAt}
	}
	fresh := make(map[string]Pending, len(pending))
	for _, p := range pending {
		// Expired items are deleted some time after they expire.
		if p.Status == PendingConfirmation && p.UpdatedAt > c.LastUpdated && p.TTL > now.Unix() {
			fresh[p.GoalID] = p
		}
	}
	v := View{PersonID: c.PersonID, Name: c.Name, Preferences: c.Preferences, LastUpdated: c.LastUpdated, Goals: make([]Shown, len(c.Goals)), Accomplished: c.Accomplished, AccomplishedCount: c.AccomplishedCount}
	if v.Accomplished == nil {
		v.Accomplished = []Accomplished{}
	}
	for i, g := range c.Goals {
		v.Goals[i] = Shown{
			GoalID: g.GoalID, Title: g.Title, TargetAmount: g.TargetAmount, SavedAmount: g.SavedAmount,
			Status: g.Status, SpecialRate: g.SpecialRate, Chosen: g.GoalID == choice.GoalID,
		}
		if g.Status == Completed {
			invested := g.SavedAmount
			v.Goals[i].Invested = &invested
		}
		p, ok := fresh[g.GoalID]
		confirmed := g.SavedAmount
		if ok && month(p.UpdatedAt) > month(c.LastUpdated) {
			confirmed = 0 // the batch has last month's amount, and nothing of this month
		}
		if ok && p.CurrentBalance != confirmed {
			v.Goals[i].SavedAmount, v.Goals[i].Status, v.Goals[i].ConfirmedAmount = p.CurrentBalance, PendingConfirmation, &confirmed
		}
	}
	return v
}

// month returns the month of a stored time.
func month(at string) string { return at[:min(len(at), len(MonthLayout))] }
