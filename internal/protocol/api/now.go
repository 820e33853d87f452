package api

import "github.com/stator-db/stator/internal/data/item"

// ListTriggers asks for the triggers of a server and how far they are. DynamoDB does not have it,
// nor the other operations of this file.
type ListTriggers struct {
	Limit     *int32  `must:"min=1,max=100"`
	NextToken *string `must:"minlen=1,maxlen=64"`
}

// ListTriggersReply answers a ListTriggers. NextToken is the name of the last trigger of the page.
type ListTriggersReply struct {
	NextToken string
	Triggers  []TriggerDescription `reply:"always"`
}

// TriggerDescription is a trigger and how far it is.
type TriggerDescription struct {
	TriggerName string
	TableName   string
	Endpoint    string // without its path, which may be secret
	State       string // ACTIVE, RETRYING, NO_STREAM, or NOT_LEADER if another server delivers
	BatchSize   int    `reply:"always"`
	Filters     []string
	Parallelism int `reply:"always"`

	DeadLetterFile     string
	DeadLetters        *int64 // in the file of this server; nil without a file
	DeadLettersCounted *bool  // false if there are more than DeadLetters
	MaximumRecordAge   *int64 // seconds
	MaximumRetries     *int32

	Parts []TriggerPart `reply:"always"`
}

// TriggerPart is the position of a trigger in a part of a table's changes, by the hash of their
// partition keys. What it has delivered is known to the server that delivers.
type TriggerPart struct {
	Part           int    `reply:"always"`
	SequenceNumber string // of the first change that is not done

	RecordsBehind       int  `reply:"always"` // changes that are not done, whether or not the filters match them
	RecordsBehindIsMore bool // there may be more than RecordsBehind
	OldestRecordAt      *Time

	RecordsDelivered  int64 `reply:"always"` // since the start
	RecordsGivenUp    int64 `reply:"always"` // since the start
	LastDeliveryAt    *Time
	ConsecutiveErrors int `reply:"always"` // of the batch that is being retried
	LastError         string
	LastErrorAt       *Time
}

// ListDeadLetters asks for the records that a trigger has given up, the oldest first.
type ListDeadLetters struct {
	TriggerName *string `must:"present,minlen=1,maxlen=64"`
	Limit       *int32  `must:"min=1,max=100"`
	NextToken   *string `must:"minlen=1,maxlen=64"`
}

// ListDeadLettersReply answers a ListDeadLetters. It may have no dead letters, and a NextToken: a
// request reads a limited part of the file.
type ListDeadLettersReply struct {
	DeadLetters []DeadLetter `reply:"always"`
	NextToken   string
}

// DeadLetter is a record that a trigger has given up.
type DeadLetter struct {
	DeadLetterId string
	GivenUpAt    *Time
	Condition    string // RetryAttemptsExhausted or RecordAgeExceeded
	Attempts     int    `reply:"always"`
	Error        string
	Record       string // JSON, as it was posted
}

// ReplayDeadLetters posts dead letters to the endpoint again. Those that it accepts are removed.
type ReplayDeadLetters struct {
	TriggerName   *string  `must:"present,minlen=1,maxlen=64"`
	DeadLetterIds []string `must:"minlen=1,maxlen=100"`
	All           *bool
	NextToken     *string `must:"minlen=1,maxlen=64"` // of the reply to an earlier request for all
}

// ReplayDeadLettersReply answers a ReplayDeadLetters. A request ends after some seconds, or when
// the endpoint rejects one record after the other. If it was for all, NextToken continues with the
// others.
type ReplayDeadLettersReply struct {
	Failed    []FailedReplay `reply:"always"` // the first 100
	NextToken string
	NotFound  []string // of DeadLetterIds: they were replayed before, or never existed
	NotTried  []string // of DeadLetterIds: the request ended before them
	Rejected  int      `reply:"always"` // how many were not accepted
	Replayed  int      `reply:"always"`
}

// FailedReplay is a dead letter that the endpoint did not accept.
type FailedReplay struct {
	DeadLetterId string
	Error        string
}

// DescribeExpiry asks which items of a table have expired and are not removed yet, and which
// expire next.
type DescribeExpiry struct {
	TableName string `must:"present,table"`
	Limit     *int32 `must:"min=1,max=100"`
}

// DescribeExpiryReply answers a DescribeExpiry.
type DescribeExpiryReply struct {
	TableName        string
	TimeToLiveStatus string // ENABLED, ENABLING while older items are being added, or DISABLED
	AttributeName    string

	Due       int  `reply:"always"` // items whose time has passed and that are not removed yet
	DueIsMore bool // there are more than Due

	DueItems  []ExpiringItem `reply:"always"` // the first of them
	NextItems []ExpiringItem `reply:"always"` // those that expire next

	// FarValue is a time of expiry thousands of years from now, as of a time in milliseconds.
	FarValue *int64

	SweepsHere    bool    `reply:"always"` // this server removes expired items
	SweepInterval float64 `reply:"always"` // seconds between two sweeps
	LastSweepAt   *Time   // on this server, since its start
	SweepError    string  // of the last sweep
}

// ExpiringItem is the key of an item and when it expires.
type ExpiringItem struct {
	Key       item.Item
	ExpiresAt *Time
}

// ListJobs asks for the work in the background that is not complete and that DynamoDB does not
// show, or not with its progress.
type ListJobs struct {
	Limit     *int32  `must:"min=1,max=100"`
	NextToken *string `must:"minlen=1,maxlen=1024"`
}

// ListJobsReply answers a ListJobs.
type ListJobsReply struct {
	Jobs             []Job `reply:"always"`
	NextToken        string
	ScheduledBackups *ScheduledBackups // nil if none are scheduled
	Scrub            *ScrubDescription // nil if this server does not verify in the background
}

// Job is background work on a table.
type Job struct {
	JobType   string // CREATE_INDEX, DELETE_INDEX, ADD_EXPIRIES or RESTORE_TABLE
	Status    string // WAITING while nothing is done, or RUNNING
	TableName string
	IndexName string

	SourceTableName string // of a restore
	BackupId        string
	RestoreTime     *Time

	Progress      *float64 // from 0 to 1
	Items         *int64   // that are done, approximately
	ExpectedItems *int64
	StartedAt     *Time
}

// ScheduledBackups is what the schedule of backups has done.
type ScheduledBackups struct {
	Interval    float64 `reply:"always"` // seconds
	Kept        int     `reply:"always"` // complete sets that exist
	LastAt      *Time
	LastBytes   *int64
	LastItems   *int64
	LastTables  *int64
	NextAt      *Time
	FailedAt    *Time // if the last attempt failed
	FailedError string
}

// ScrubDescription is the verification in the background.
type ScrubDescription struct {
	Progress     float64 `reply:"always"` // of the current pass, from 0 to 1
	Passes       int64   `reply:"always"` // complete ones, since the start of the server
	Keys         int64   `reply:"always"` // verified since the start
	Findings     int64   `reply:"always"` // inconsistencies that were found since the start
	LastPassAt   *Time
	LastPassTook *float64 // seconds
}
