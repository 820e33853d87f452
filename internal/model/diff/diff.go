// Package diff compares two models: their cost, heat and faults, and the
// changes that stored data needs.
package diff

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/stator-db/stator/internal/model"
)

// Report is the difference of two models.
type Report struct {
	Cost       *model.Difference `json:"cost"`
	Heat       []*HeatChange     `json:"heat"`       // changed partitions, the hottest first
	NewFaults  []*model.Fault    `json:"newFaults"`  // faults of the second model only
	GoneFaults []*model.Fault    `json:"goneFaults"` // faults of the first model only
	Migration  []*Step           `json:"migration"`  // empty if stored data stays as it is
}

// HeatChange is the load of the busiest partition of a form, before and after.
type HeatChange struct {
	Table  string  `json:"table"`
	Index  string  `json:"index,omitempty"`
	Key    string  `json:"key"`
	Before float64 `json:"before"` // share of the limit of a partition; 1 is the limit
	After  float64 `json:"after"`
}

// Where names the table, or the index.
func (h *HeatChange) Where() string {
	if h.Index == "" {
		return h.Table
	}
	return h.Table + "." + h.Index
}

// Compare compares two models.
func Compare(before, after *model.Model, prices *model.Prices) (*Report, error) {
	a, b := before.Check(prices), after.Check(prices)
	r := &Report{Cost: model.Compare(a.Cost, b.Cost), Heat: compareHeat(a.Heat, b.Heat)}
	r.NewFaults, r.GoneFaults = missingFaults(b.Faults, a.Faults), missingFaults(a.Faults, b.Faults)
	var err error
	r.Migration, err = migration(before, after)
	return r, err
}

// compareHeat returns the partitions whose load differs by a thousandth of
// their limit or more.
func compareHeat(before, after []*model.Partition) []*HeatChange {
	found := make(map[[3]string]*HeatChange)
	at := func(p *model.Partition) *HeatChange {
		id := [3]string{p.Table, p.Index, p.Key}
		if found[id] == nil {
			found[id] = &HeatChange{Table: p.Table, Index: p.Index, Key: p.Key}
		}
		return found[id]
	}
	for _, p := range before {
		at(p).Before = p.Share
	}
	for _, p := range after {
		at(p).After = p.Share
	}
	changes := []*HeatChange{}
	for _, h := range found {
		if d := h.After - h.Before; d >= 0.001 || d <= -0.001 {
			changes = append(changes, h)
		}
	}
	slices.SortFunc(changes, func(x, y *HeatChange) int {
		return cmp.Or(cmp.Compare(max(y.Before, y.After), max(x.Before, x.After)), cmp.Compare(x.Where(), y.Where()), cmp.Compare(x.Key, y.Key))
	})
	return changes
}

var figures = regexp.MustCompile(`[0-9][0-9,.]*`)

// faultID identifies a fault in both models. The figures of its message may
// differ.
func faultID(f *model.Fault) string {
	return fmt.Sprintf("%s\x00%s\x00%s", f.Code, f.Pattern, figures.ReplaceAllString(f.Message, "0"))
}

// missingFaults returns the faults of one list that the other does not have. A
// fault that is there twice needs two counterparts.
func missingFaults(faults, others []*model.Fault) []*model.Fault {
	has := make(map[string]int)
	for _, f := range others {
		has[faultID(f)]++
	}
	missing := []*model.Fault{}
	for _, f := range faults {
		if id := faultID(f); has[id] > 0 {
			has[id]--
		} else {
			missing = append(missing, f)
		}
	}
	return missing
}
