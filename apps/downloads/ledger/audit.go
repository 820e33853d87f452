package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Day summarises the batches of a day.
type Day struct {
	Date     string     `json:"date"`
	Batches  int        `json:"batches"`
	Expected int        `json:"expected"`
	Received int        `json:"received"`
	Missing  []string   `json:"missing,omitempty"`
	Verdict  Verdict    `json:"verdict"`
	Files    []Received `json:"files,omitempty"`
}

// Received is one expected file of a day.
type Received struct {
	FileID   string `json:"file"`
	Received bool   `json:"received"`
	BatchID  string `json:"batch"` // the batch that received it, or else the last that expected it
	Late     bool   `json:"late,omitempty"`
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
// file counts as received if any batch of its day completed it, or if it was completed
// after its batch ended. It is one query of PollingDateIndex for each day, and for the
// days with missing files one of BatchIndex for each batch.
func (t *Batches) Audit(ctx context.Context, jobs *Jobs, month string, today string) ([]Day, error) {
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
		day := judge(date, batches, nil)
		if len(day.Missing) > 0 {
			late, err := jobs.OfDay(ctx, batches)
			if err != nil {
				return nil, err
			}
			day = judge(date, batches, late)
		}
		if day.Verdict == None && date == today {
			day.Verdict = Ahead
		}
		days = append(days, day)
	}
	return days, nil
}

// judge summarises the batches of a day, with its jobs if they were read.
func judge(date string, batches []*Batch, jobs map[string]*Job) Day {
	day := Day{Date: date, Batches: len(batches), Verdict: Whole}
	if len(batches) == 0 {
		day.Verdict = None
		return day
	}
	files := make(map[string]Received)
	known := false // whether any batch has a list of files
	running := false
	listed := lastList(batches)
	for _, b := range batches {
		for _, id := range b.ExpectedFiles {
			if Refused(id) && !slices.Contains(listed, id) {
				continue // the upstream has corrected its list since
			}
			if !files[id].Received {
				j := jobs[id]
				late := j != nil && j.Status == Completed
				files[id] = Received{FileID: id, BatchID: b.BatchID, Received: late, Late: late && b.Over()}
			}
		}
		for _, id := range b.CompletedFiles {
			files[id] = Received{FileID: id, BatchID: b.BatchID, Received: true}
		}
		known = known || len(b.ExpectedFiles) > 0 || b.Status == Completed
		running = running || !b.Over()
	}
	day.Expected = len(files)
	for id, f := range files {
		day.Files = append(day.Files, f)
		if f.Received {
			day.Received++
		} else {
			day.Missing = append(day.Missing, id)
		}
	}
	slices.Sort(day.Missing)
	slices.SortFunc(day.Files, func(a, b Received) int { return cmp.Compare(a.FileID, b.FileID) })
	switch {
	case known && len(day.Missing) == 0 && (!running || jobs == nil):
	case running:
		day.Verdict = Running
	default:
		day.Verdict = Partial
	}
	return day
}

// lastList returns the files of the last batch of a day that got a list of them.
func lastList(batches []*Batch) []string {
	for _, b := range slices.Backward(batches) {
		if len(b.ExpectedFiles) > 0 || b.Status == Completed {
			return b.ExpectedFiles
		}
	}
	return nil
}
