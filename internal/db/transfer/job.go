package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/store"
)

// Status is how far a job is.
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

// Job is what is known of one export or import. It is stored as JSON
// (docs/formats/export.md), so its field names are for ever.
type Job struct {
	ID     string `json:"id"`
	Token  string `json:"token,omitempty"`  // the customer's, so that he may ask twice
	Digest []byte `json:"digest,omitempty"` // of what came with the token

	Table     string `json:"table"`
	TableID   uint32 `json:"tableId,omitempty"`
	TableUUID string `json:"tableUuid,omitempty"`
	TableARN  string `json:"tableArn"`

	Bucket string `json:"bucket"`
	Prefix string `json:"prefix,omitempty"`
	Owner  string `json:"owner,omitempty"` // of the bucket; only told again
	Format string `json:"format"`

	Export *Export `json:"export,omitempty"` // one of the two is there
	Import *Import `json:"import,omitempty"`

	Status  Status    `json:"status"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Code    string    `json:"code,omitempty"` // why it failed
	Message string    `json:"message,omitempty"`

	// Attempt is the number of the one that is under way. That of an import,
	// or an export without Files, has no right to change anything once there is
	// another.
	Attempt int `json:"attempt,omitempty"`

	// Files are the data files of an export when all of them are written, until
	// it is complete.
	Files []DataFile `json:"files,omitempty"`

	Items     int64 `json:"items,omitempty"`     // exported, or imported
	Bytes     int64 `json:"bytes,omitempty"`     // of the items exported, or of the files read, without compression
	Processed int64 `json:"processed,omitempty"` // items read
	Errors    int64 `json:"errors,omitempty"`    // of these, the ones that became none of the table
}

// DataFile is what is known of a data file.
type DataFile struct {
	Items int64  `json:"items"`
	MD5   []byte `json:"md5"`
}

// sealed tells whether the data files of an export are all written: what its
// manifests say is decided.
func (j *Job) sealed() bool { return len(j.Files) > 0 }

func (j *Job) kind() string {
	if j.Import != nil {
		return "an import"
	}
	return "an export"
}

// Export is what an export is of.
type Export struct {
	Time time.Time `json:"time,omitzero"` // as the customer is told it
	End  time.Time `json:"end,omitzero"`  // changes made then or later are left out

	// A window makes an export of what was changed in it.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	View string    `json:"view,omitempty"` // NEW_IMAGE or NEW_AND_OLD_IMAGES

	Encryption string `json:"encryption,omitempty"` // only told again
	Key        string `json:"key,omitempty"`
}

// Incremental tells whether the export is of a window.
func (e *Export) Incremental() bool { return !e.From.IsZero() }

// The views of an incremental export.
const (
	NewImage        = "NEW_IMAGE"
	NewAndOldImages = "NEW_AND_OLD_IMAGES"
)

// Import is how files become a table.
type Import struct {
	Compression string          `json:"compression"`
	CSV         *CSVOptions     `json:"csv,omitempty"`
	Parameters  json.RawMessage `json:"parameters"` // TableCreationParameters, only told again
}

// CSVOptions are how files in CSV are written.
type CSVOptions struct {
	Delimiter string   `json:"delimiter,omitempty"` // a comma unless set
	Header    []string `json:"header,omitempty"`    // if none, the first line of each file is it
}

// formatJob is the number of the format of a job's record.
const formatJob = 1

func encodeJob(j *Job) []byte {
	b, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("job %s cannot be written as JSON: %v", j.ID, err))
	}
	return append([]byte{formatJob}, b...)
}

func decodeJob(record []byte) (*Job, error) {
	j := new(Job)
	if len(record) == 0 || record[0] != formatJob {
		return nil, fmt.Errorf("its record has an unknown format: %w", store.ErrCorrupt)
	}
	if err := json.Unmarshal(record[1:], j); err != nil {
		return nil, fmt.Errorf("its record: %w: %w", err, store.ErrCorrupt)
	}
	if (j.Export == nil) == (j.Import == nil) {
		return nil, fmt.Errorf("its record is of no export and of no import: %w", store.ErrCorrupt)
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

// sameRequest tells whether two jobs were asked for in the same words.
func (j *Job) sameRequest(other *Job) bool { return bytes.Equal(j.Digest, other.Digest) }
