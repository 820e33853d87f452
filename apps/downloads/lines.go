package downloads

import (
	"context"
	"time"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// FileLine is what the API, the page and the command line show of a file. The URL and the
// key give access to it, and are not shown.
type FileLine struct {
	FileID    string        `json:"file"`
	BatchID   string        `json:"batch,omitempty"`
	Status    ledger.Status `json:"status"`
	Since     *time.Time    `json:"since,omitempty"`     // when it got the status
	Heartbeat *time.Time    `json:"heartbeat,omitempty"` // of its downloader
	Received  int64         `json:"received,omitempty"`  // bytes at the last heartbeat
	Size      int64         `json:"size,omitempty"`
	Tries     int           `json:"tries,omitempty"`
	Claim     string        `json:"claim,omitempty"`
	Completed string        `json:"completed,omitempty"`
	Events    string        `json:"events,omitempty"`
	Reason    string        `json:"reason,omitempty"`
}

// LineOf returns the line of a job.
func LineOf(j *ledger.Job) FileLine {
	l := FileLine{FileID: j.FileID, BatchID: j.BatchID, Status: j.Status, Since: moment(j.StatusUpdatedAt), Heartbeat: moment(j.HeartbeatAt),
		Received: j.Received, Size: j.Size, Tries: j.Tries, Claim: j.Claim, Completed: j.CompletedAt, Events: j.Events, Reason: j.ErrorMessage}
	if j.Status == ledger.Completed {
		l.Received = j.Size
	}
	return l
}

func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// linesOf returns the lines of a batch's files, with their status for the batch.
func linesOf(b *ledger.Batch, files []ledger.File) []FileLine {
	lines := make([]FileLine, 0, len(files))
	for _, f := range files {
		l := FileLine{FileID: f.FileID, BatchID: b.BatchID}
		if f.Job != nil {
			l = LineOf(f.Job)
		}
		l.Status, l.Reason = f.Status, f.Reason
		lines = append(lines, l)
	}
	return lines
}

// BatchLine is what the API, the page and the command line show of a batch.
type BatchLine struct {
	BatchID   string                `json:"batch"`
	Date      string                `json:"date"`
	Status    ledger.Status         `json:"status"`
	Started   string                `json:"started"`
	Updated   string                `json:"updated"`
	Reopened  string                `json:"reopened,omitempty"`
	Expected  int                   `json:"expected"` // of a batch that is being queued: files so far
	Completed int                   `json:"completed"`
	Failed    int                   `json:"failed"`
	Open      int                   `json:"open"`
	Counts    map[ledger.Status]int `json:"counts"` // files by status
	Reason    string                `json:"reason,omitempty"`
	Files     []FileLine            `json:"files,omitempty"`
}

// Count returns how many files have a status.
func (l BatchLine) Count(s string) int { return l.Counts[ledger.Status(s)] }

// Day reads the batches of a day, earliest first: all, or those with a status. The files
// of a batch that has ended are known from its record; those of one that runs, and all
// if files is set, are read by BatchIndex.
func Day(ctx context.Context, jobs *ledger.Jobs, batches *ledger.Batches, date string, of ledger.Status, files bool) ([]BatchLine, error) {
	found, err := batches.OfDay(ctx, date, of)
	if err != nil {
		return nil, err
	}
	all := found
	running := false
	for _, b := range found {
		running = running || !b.Over()
	}
	var byID map[string]*ledger.Job
	if files || running {
		if of != "" { // the jobs may belong to another batch of the day
			if all, err = batches.OfDay(ctx, date, ""); err != nil {
				return nil, err
			}
		}
		if byID, err = jobs.OfDay(ctx, all); err != nil {
			return nil, err
		}
	}
	lines := make([]BatchLine, 0, len(found))
	for _, b := range found {
		lines = append(lines, batchLine(b, byID, files))
	}
	return lines, nil
}

func batchLine(b *ledger.Batch, jobs map[string]*ledger.Job, files bool) BatchLine {
	l := BatchLine{BatchID: b.BatchID, Date: b.PollingDate, Status: b.Status, Started: b.StartTime, Updated: b.UpdatedAt, Reopened: b.ReopenedAt,
		Expected: len(b.ExpectedFiles), Completed: len(b.CompletedFiles), Failed: len(b.FailedFiles), Open: len(b.Outstanding()), Reason: b.ErrorMessage}
	l.Counts = map[ledger.Status]int{ledger.Completed: l.Completed, ledger.Failed: l.Failed}
	if !b.Over() || files {
		found := b.Files(jobs)
		l.Counts = ledger.Tally(found)
		if !b.Over() {
			l.Expected = len(found)
			l.Completed, l.Failed = l.Counts[ledger.Completed], l.Counts[ledger.Failed]+l.Counts[ledger.Error]
			l.Open = l.Expected - l.Completed - l.Failed
		}
		if files {
			l.Files = linesOf(b, found)
		}
	}
	return l
}
