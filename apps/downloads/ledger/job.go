// Package ledger stores the two tables: a job for each file, a batch for each run.
//
// Every change of a status is an update with the previous status as its condition,
// so that one of two concurrent writers gets an error. Nothing is scanned: each read
// uses a key or an index.
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

// Status is the status of a job or a batch.
type Status string

// The statuses of jobs and batches.
const (
	Available   Status = "available"
	Downloading Status = "downloading"
	Initiated   Status = "initiated"
	Queued      Status = "queued"
	Timeout     Status = "timeout"
	Completed   Status = "completed" // of both
	Failed      Status = "failed"    // of both; of a job: the upstream or the network failed
	Error       Status = "error"     // the job cannot be executed: wrong key, invalid record, too large
)

// JobStatuses are all statuses of a job, in their order.
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
	StatusUpdatedAt int64  // epoch ms; when the job got its status
	CompletedAt     string `dynamodbav:",omitempty"`
	ErrorMessage    string `dynamodbav:",omitempty"`
	TTL             int64  // epoch s

	Size   int64  // of the file, decrypted
	SHA256 []byte `dynamodbav:",omitempty"` // of the file, decrypted; empty if the upstream must be asked again
	Claim  string `dynamodbav:",omitempty"` // the last claim
	Tries  int    `dynamodbav:",omitempty"` // number of claims; starts at 1 after a requeue
	Events string `dynamodbav:",omitempty"` // what went wrong during the last claim, in a few words

	SentAt      int64 `dynamodbav:",omitempty"` // epoch ms; when its message was last sent
	HeartbeatAt int64 `dynamodbav:",omitempty"` // epoch ms; the last heartbeat of a claim
	Received    int64 `dynamodbav:",omitempty"` // bytes at the last heartbeat

	Broken error `dynamodbav:"-"` // why the record is invalid
}

// Object returns the name of the job's file in the bucket.
func (j *Job) Object() string { return j.DownloadDate + "/" + j.Entity }

// How long records are kept.
const (
	keepJobs    = 30 * 24 * time.Hour
	keepBatches = 90 * 24 * time.Hour
)

// KeepDays is how many days a batch is kept, and so how far back a day can be
// triggered.
const KeepDays = int(keepBatches / (24 * time.Hour))

// FileID returns the id of an entity's file of a day.
func FileID(entity, date string) string { return entity + "-" + date }

var entityForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)

// CheckEntity validates the name of an entity. A name becomes a part of a key and of
// a path, so it must not contain path syntax.
func CheckEntity(name string) error {
	switch {
	case !entityForm.MatchString(name):
		return fmt.Errorf("the name %.120q is not 1 to 100 letters, digits, dots, dashes and underscores that begin with a letter or digit", name)
	case strings.Contains(name, "..") || strings.HasSuffix(name, ".") || strings.HasSuffix(name, ".tmp") || strings.HasSuffix(name, ".attrs"):
		return fmt.Errorf("the name %q has two consecutive dots, or a suffix that is reserved for the bucket's own files", name)
	}
	return nil
}

// CheckDate validates a day.
func CheckDate(date string) error {
	if d, err := time.Parse(time.DateOnly, date); err != nil || d.Year() < 1970 {
		return fmt.Errorf("%.40q is not a day such as 2026-02-28", date)
	}
	return nil
}

// Errors of the ledger.
var (
	ErrUnknown = errors.New("the record does not exist")
	ErrLost    = errors.New("the record no longer has the required status")
)

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// short limits a reason, so that an upstream cannot make a record large.
func short(reason string, most int) string {
	if reason = strings.ToValidUTF8(reason, "?"); len(reason) <= most {
		return reason
	}
	return strings.ToValidUTF8(reason[:most-3], "") + "..."
}
