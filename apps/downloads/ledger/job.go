// Package ledger keeps the two tables: a job for each file, a batch for each run.
//
// Every change of a status is an update with the status before it as its
// condition, so that of two writers one is told that it came too late. Nothing
// is scanned: each read has a key or an index.
package ledger

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The tables and their indexes.
const (
	JobsTable        = "data-download-jobs"
	BatchesTable     = "data-download-batches"
	StatusIndex      = "StatusIndex"
	BatchIndex       = "BatchIndex"
	PollingDateIndex = "PollingDateIndex"
)

// Status is where a job or a batch stands.
type Status string

// The statuses of jobs and batches.
const (
	Available   Status = "available"
	Downloading Status = "downloading"
	Initiated   Status = "initiated"
	Queued      Status = "queued"
	Timeout     Status = "timeout"
	Completed   Status = "completed" // of both
	Failed      Status = "failed"    // of both; of a job: the upstream or the way to it did not work
	Error       Status = "error"     // the job itself cannot be done: wrong key, bad record, too large
)

// JobStatuses are all statuses of a job, in the order of its life.
var JobStatuses = []Status{Available, Downloading, Completed, Failed, Error}

// Job is one file of one day.
type Job struct {
	FileID          string
	BatchID         string
	Status          Status
	Entity          string
	DownloadDate    string
	PresignedURL    string
	EncryptedAESKey string
	EncodedAESIV    string
	CreatedAt       string
	StatusUpdatedAt int64  // epoch ms; a claim's last sign of life, a message's last sending
	CompletedAt     string `dynamodbav:",omitempty"`
	ErrorMessage    string `dynamodbav:",omitempty"`
	TTL             int64  // epoch s

	Size   int64  // of the file, decrypted
	SHA256 []byte `dynamodbav:",omitempty"` // of the file, decrypted; empty if the upstream is to be asked anew
	Claim  string `dynamodbav:",omitempty"` // who has it, or had it last
	Tries  int    `dynamodbav:",omitempty"` // how often it was claimed; queued again, it starts at 1

	Broken error `dynamodbav:"-"` // why the record cannot be read
}

// Object is the name of the job's file in the bucket.
func (j *Job) Object() string { return j.DownloadDate + "/" + j.Entity }

// How long records are kept.
const (
	keepJobs    = 30 * 24 * time.Hour
	keepBatches = 90 * 24 * time.Hour
)

// KeepDays is how many days a batch is kept, and so how far back a day can be
// asked for.
const KeepDays = int(keepBatches / (24 * time.Hour))

// FileID is the id of an entity's file of a day.
func FileID(entity, date string) string { return entity + "-" + date }

var entityForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// CheckEntity tells what is wrong with the name of an entity. A name becomes a
// part of a key and of a path, so it has nothing that a path could understand.
func CheckEntity(name string) error {
	switch {
	case !entityForm.MatchString(name):
		return fmt.Errorf("the name %.120q is not 1 to 100 letters, digits, dots, dashes and underscores that begin with a letter or digit", name)
	case strings.Contains(name, "..") || strings.HasSuffix(name, ".") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".attrs"):
		return fmt.Errorf("the name %q has two dots together, or an end that files of the bucket's own have", name)
	}
	return nil
}

// CheckDate tells whether a text is a day.
func CheckDate(date string) error {
	if d, err := time.Parse(time.DateOnly, date); err != nil || d.Year() < 1970 {
		return fmt.Errorf("%.40q is no day: write it as 2026-02-28", date)
	}
	return nil
}

// What a caller can be told.
var (
	ErrUnknown = errors.New("there is no such record")
	ErrLost    = errors.New("the record is no longer in the status that this needs")
)

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// short bounds a reason, so that no upstream makes a record large.
func short(reason string, most int) string {
	if reason = strings.ToValidUTF8(reason, "?"); len(reason) <= most {
		return reason
	}
	return strings.ToValidUTF8(reason[:most-3], "") + "..."
}
