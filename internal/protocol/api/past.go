package api

import "github.com/stator-db/stator/internal/data/item"

// GetItemAt is a GetItem of the item as it was at the end of a second. DynamoDB does not
// have it, nor the other operations of this file.
type GetItemAt struct {
	GetItem
	AsOf *Time `must:"present"`
}

// QueryAt is a Query of a table or an index as it was at the end of a second.
type QueryAt struct {
	Query
	AsOf *Time `must:"present"`
}

// ScanAt is a Scan of a table or an index as it was at the end of a second.
type ScanAt struct {
	Scan
	AsOf *Time `must:"present"`
}

// PastNotRead is part of the fault of a request to the past that has not read all changes
// since then. When it is repeated, it continues.
type PastNotRead struct {
	Progress float64 `reply:"always"` // from 0 to 1
}

// ItemHistory asks for the changes of an item, the newest first.
type ItemHistory struct {
	TableName                string     `must:"present,table"`
	Key                      Attributes `must:"present"`
	Limit                    *int32     `must:"min=1,max=100"`
	NextToken                *string    `must:"minlen=1,maxlen=100"`
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
	ReturnConsumedCapacity   *string `must:"oneof=INDEXES|TOTAL|NONE"`
}

// ItemHistoryReply answers an ItemHistory. It may have no changes, and a NextToken: a
// request looks at a limited number of changes, those of other items included.
type ItemHistoryReply struct {
	Changes          []ItemRevision
	ConsumedCapacity *ConsumedCapacity
	KeptFrom         *Time // changes before that time are not kept
	LookedAt         int   `reply:"always"` // changes, of all items
	NextToken        string
	ReadTo           *Time // the changes from then on were looked at
}

// ItemRevision is one change of an item.
type ItemRevision struct {
	SequenceNumber string // as in a stream
	At             *Time
	EventName      string // INSERT, MODIFY or REMOVE
	Actor          string // customer or time-to-live
	Principal      string // an ARN; empty if it is not known
	OldImage       item.Item
	NewImage       item.Item
}

// UndoChanges asks how a change of an item, or all changes of a window of time, can be
// undone, and with Confirm does it.
type UndoChanges struct {
	TableName string `must:"present,table"`

	Key            Attributes // one item; all of them without
	SequenceNumber *string    `must:"minlen=21,maxlen=21"` // one change of that item
	From           *Time      // the first second of the window
	To             *Time      // the last second

	Confirm                *string `must:"minlen=1,maxlen=100"` // the PlanId of the plan to execute
	ExclusiveStartKey      Attributes
	ReturnConsumedCapacity *string `must:"oneof=INDEXES|TOTAL|NONE"`
}

// UndoChangesReply answers an UndoChanges, with a plan that is executed as one
// transaction. If there is a LastEvaluatedKey, the items after it have plans of their own.
type UndoChangesReply struct {
	AlreadyUndone    int `reply:"always"` // items that are as they were before the window
	Conflicts        []UndoConflict
	ConsumedCapacity *ConsumedCapacity
	Executed         bool `reply:"always"`
	LastEvaluatedKey item.Item
	PlanId           string `reply:"always"`
	Writes           []UndoWrite
}

// UndoWrite is a write of a plan. It is executed if the item still is CurrentItem.
type UndoWrite struct {
	Key         item.Item
	Action      string    // Put or Delete
	ChangedAt   *Time     // the last change that is undone
	Item        item.Item // to put
	CurrentItem item.Item
	Expired     bool // the time to live of Item is over: it will be deleted again
}

// UndoConflict is an item that was changed again after the window. It stays as it is.
type UndoConflict struct {
	Key         item.Item
	ChangedAt   *Time
	OldImage    item.Item // before the window
	NewImage    item.Item // as the window has left it
	CurrentItem item.Item
}
