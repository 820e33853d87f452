package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// Status is the state of a job.
type Status string

// The states of a job.
const (
	InProgress Status = "IN_PROGRESS"
	Completed  Status = "COMPLETED"
	Failed     Status = "FAILED"
)

// The formats of items in files.
const (
	JSON = "DYNAMODB_JSON"
	Ion  = "ION"
	CSV  = "CSV"
)

// The kinds of compression.
const (
	GZIP = "GZIP"
	ZSTD = "ZSTD"
	None = "NONE"
)

// Job is the record of an export or import. It is stored as JSON
// (docs/formats/export.md), so the field names must not change.
type Job struct {
	ID     string `json:"id"`
	Token  string `json:"token,omitempty"`  // of the request, which makes it idempotent
	Digest []byte `json:"digest,omitempty"` // of the request with that token

	Table     string `json:"table"`
	TableID   uint32 `json:"tableId,omitempty"`
	TableUUID string `json:"tableUuid,omitempty"`
	TableARN  string `json:"tableArn"`

	Bucket string `json:"bucket"`
	Prefix string `json:"prefix,omitempty"`
	Owner  string `json:"owner,omitempty"` // of the bucket; only returned to the customer
	Format string `json:"format"`

	Export *Export `json:"export,omitempty"` // exactly one of the two is set
	Import *Import `json:"import,omitempty"`

	Status  Status    `json:"status"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Code    string    `json:"code,omitempty"` // why it failed
	Message string    `json:"message,omitempty"`

	// Attempt is the number of the current attempt. Once there is a later one, an
	// attempt at an import, or at an export without Files, must not change anything.
	Attempt int `json:"attempt,omitempty"`

	// Files are the data files of an export. They are set from when all of them are
	// written until the export is complete.
	Files []DataFile `json:"files,omitempty"`

	Items     int64 `json:"items,omitempty"`     // exported, or imported
	Bytes     int64 `json:"bytes,omitempty"`     // of the exported items, or of the imported files, uncompressed
	Processed int64 `json:"processed,omitempty"` // items read
	Errors    int64 `json:"errors,omitempty"`    // of these, the items that were rejected
}

// DataFile describes a data file.
type DataFile struct {
	Items int64  `json:"items"`
	MD5   []byte `json:"md5"`
}

// sealed reports whether all data files of an export are written, so that the
// content of its manifests is final.
func (j *Job) sealed() bool { return len(j.Files) > 0 }

func (j *Job) kind() string {
	if j.Import != nil {
		return "import"
	}
	return "export"
}

// Export says which state or which changes of a table an export holds.
type Export struct {
	Time time.Time `json:"time,omitzero"` // as returned to the customer
	End  time.Time `json:"end,omitzero"`  // changes made at this time or later are excluded

	// An incremental export holds the items that were changed in this window.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	View string    `json:"view,omitempty"` // NEW_IMAGE or NEW_AND_OLD_IMAGES

	Encryption string `json:"encryption,omitempty"` // only returned to the customer
	Key        string `json:"key,omitempty"`
}

// Incremental reports whether the export holds the changes in a window.
func (e *Export) Incremental() bool { return !e.From.IsZero() }

// The views of an incremental export.
const (
	NewImage        = "NEW_IMAGE"
	NewAndOldImages = "NEW_AND_OLD_IMAGES"
)

// Import describes the files of an import.
type Import struct {
	Compression string          `json:"compression"`
	CSV         *CSVOptions     `json:"csv,omitempty"`
	Parameters  json.RawMessage `json:"parameters"` // TableCreationParameters; only returned to the customer
}

// CSVOptions describe the form of CSV files.
type CSVOptions struct {
	Delimiter string   `json:"delimiter,omitempty"` // defaults to a comma
	Header    []string `json:"header,omitempty"`    // defaults to the first line of each file
}

// formatJob is the version of the format of a job's record.
const formatJob = 1

func encodeJob(j *Job) []byte {
	b, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("job %s cannot be encoded as JSON: %v", j.ID, err))
	}
	return append([]byte{formatJob}, b...)
}

func decodeJob(record []byte) (*Job, error) {
	j := new(Job)
	if len(record) == 0 || record[0] != formatJob {
		return nil, fmt.Errorf("the record has an unknown format: %w", store.ErrCorrupt)
	}
	if err := json.Unmarshal(record[1:], j); err != nil {
		return nil, fmt.Errorf("decode the record: %w: %w", err, store.ErrCorrupt)
	}
	if (j.Export == nil) == (j.Import == nil) {
		return nil, fmt.Errorf("the record is not of exactly one export or import: %w", store.ErrCorrupt)
	}
	return j, nil
}

func decodeJobs(records map[string][]byte) (map[string]*Job, error) {
	jobs := make(map[string]*Job, len(records))
	for id, record := range records {
		j, err := decodeJob(record)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", id, err)
		}
		jobs[id] = j
	}
	return jobs, nil
}

// sameRequest reports whether two jobs have equal requests.
func (j *Job) sameRequest(other *Job) bool { return bytes.Equal(j.Digest, other.Digest) }
