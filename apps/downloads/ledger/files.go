package ledger

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// refusedPrefix begins the ids of listed files that were not accepted. No entity has
// such a name.
const refusedPrefix = "refused."

// RefusedID returns the id under which a listed file that was not accepted is expected.
func RefusedID(sum, date string) string { return FileID(refusedPrefix+sum, date) }

// Refused reports whether an id is that of a listed file that was not accepted.
func Refused(id string) bool { return strings.HasPrefix(id, refusedPrefix) }

// File is a file that a batch expects.
type File struct {
	FileID string
	Status Status // how it ended for the batch, or what it is now
	Reason string
	Job    *Job // nil if it was refused or its record has expired
}

// OfDay reads the jobs of all batches of a day, by file: a query of BatchIndex for each.
// A batch may expect files whose jobs belong to another batch of the day.
func (t *Jobs) OfDay(ctx context.Context, batches []*Batch) (map[string]*Job, error) {
	jobs := make(map[string]*Job)
	for _, b := range batches {
		for j, err := range t.OfBatch(ctx, b.BatchID, "") {
			if err != nil {
				return nil, err
			}
			jobs[j.FileID] = j
		}
	}
	return jobs, nil
}

// Files returns the files of the batch, with the jobs of its day: those it expects, or
// while it is being queued those that it has written.
func (b *Batch) Files(jobs map[string]*Job) []File {
	ids := b.ExpectedFiles
	if b.Status == Initiated {
		ids = nil
		for id, j := range jobs {
			if j.BatchID == b.BatchID {
				ids = append(ids, id)
			}
		}
	}
	ended := make(map[string]Status, len(b.CompletedFiles)+len(b.FailedFiles))
	for _, id := range b.CompletedFiles {
		ended[id] = Completed
	}
	for _, id := range b.FailedFiles {
		ended[id] = Failed
	}
	files := make([]File, 0, len(ids))
	for _, id := range ids {
		files = append(files, b.file(id, jobs[id], ended[id]))
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.FileID, b.FileID) })
	return files
}

// file describes a file by its job and by how it ended for the batch, "" if it did not.
func (b *Batch) file(id string, j *Job, ended Status) File {
	f := File{FileID: id, Job: j, Status: ended}
	switch {
	case j == nil && Refused(id):
		f.Status, f.Reason = Failed, "the upstream's entry was not accepted; the batch has the reason"
	case j == nil && ended == "":
		f.Status, f.Reason = Failed, "its record was deleted or has expired"
	case j == nil:
	case ended == Completed || ended == "":
		f.Reason = j.ErrorMessage
		if ended == "" {
			f.Status = j.Status
		}
	case j.Status == Failed || j.Status == Error:
		f.Status, f.Reason = j.Status, j.ErrorMessage
	default:
		f.Reason = "it failed, and is " + string(j.Status) + " now"
		if j.BatchID != b.BatchID {
			f.Reason += " by " + j.BatchID
		}
	}
	return f
}

// Tally counts files by status.
func Tally(files []File) map[Status]int {
	counts := make(map[Status]int)
	for _, f := range files {
		counts[f.Status]++
	}
	return counts
}
