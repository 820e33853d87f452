package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Day summarises the batches of a day.
type Day struct {
	Date     string   `json:"date"`
	Batches  int      `json:"batches"`
	Expected int      `json:"expected"`
	Received int      `json:"received"`
	Missing  []string `json:"missing,omitempty"`
	Verdict  Verdict  `json:"verdict"`
}

// Verdict says whether a day is complete.
type Verdict string

// The verdicts.
const (
	Whole   Verdict = "complete"
	Partial Verdict = "incomplete"
	Running Verdict = "running"  // a batch has not ended
	None    Verdict = "no batch" // the day has no batch
	Ahead   Verdict = "to come"  // the day is not over
)

// Audit reports for each day of a month whether all expected files were received. A
// file counts as received if any batch of its day completed it. It is one query of
// PollingDateIndex for each day.
func (t *Batches) Audit(ctx context.Context, month string, today string) ([]Day, error) {
	first, err := time.Parse("2006-01", month)
	if err != nil {
		return nil, fmt.Errorf("%.40q is not a month such as 2026-03", month)
	}
	var days []Day
	for d := first; d.Month() == first.Month(); d = d.AddDate(0, 0, 1) {
		date := d.Format(time.DateOnly)
		if date > today {
			days = append(days, Day{Date: date, Verdict: Ahead})
			continue
		}
		batches, err := t.OfDay(ctx, date, "")
		if err != nil {
			return nil, err
		}
		day := judge(date, batches)
		if day.Verdict == None && date == today {
			day.Verdict = Ahead
		}
		days = append(days, day)
	}
	return days, nil
}

// judge summarises the batches of a day.
func judge(date string, batches []*Batch) Day {
	day := Day{Date: date, Batches: len(batches), Verdict: Whole}
	if len(batches) == 0 {
		day.Verdict = None
		return day
	}
	received := make(map[string]bool)
	known := false // whether any batch has a list of files
	running := false
	for _, b := range batches {
		for _, id := range b.ExpectedFiles {
			if !received[id] {
				received[id] = false
			}
		}
		for _, id := range b.CompletedFiles {
			received[id] = true
		}
		known = known || len(b.ExpectedFiles) > 0 || b.Status == Completed
		running = running || !b.Over()
	}
	day.Expected = len(received)
	for id, there := range received {
		if there {
			day.Received++
		} else {
			day.Missing = append(day.Missing, id)
		}
	}
	slices.Sort(day.Missing)
	switch {
	case known && len(day.Missing) == 0:
	case running:
		day.Verdict = Running
	default:
		day.Verdict = Partial
	}
	return day
}
