package apply

import (
	"encoding/json"
	"fmt"

	"github.com/stator-db/stator/internal/model"
)

// Between returns the changes that the tables of one model need to match another.
func Between(before, after *model.Model) (*Plan, error) {
	plan := &Plan{Changes: []*Change{}}
	for _, t := range after.Tables {
		c := &comparer{plan: plan, table: t, scalable: true}
		old, ok := before.Table(t.Name)
		if !ok {
			c.create()
			continue
		}
		var err error
		if c.live, err = asLive(old); err != nil {
			return nil, err
		}
		if !t.OnDemand() {
			c.scaling = scalingOf(old)
		}
		c.compare()
	}
	return plan, nil
}

// asLive returns the description that an endpoint gives of a table of a model.
func asLive(t *model.Table) (*liveTable, error) {
	text, err := json.Marshal(Body(t))
	if err != nil {
		return nil, fmt.Errorf("describe table %s: %w", t.Name, err)
	}
	l := new(liveTable)
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("describe table %s: %w", t.Name, err)
	}
	if t.OnDemand() {
		l.BillingModeSummary.BillingMode = "PAY_PER_REQUEST"
	}
	l.ttl, l.recovery, l.supportsRecovery = t.TTL, t.Recovery, true
	return l, nil
}
