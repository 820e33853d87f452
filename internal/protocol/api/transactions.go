package api

import "github.com/stator-db/stator/internal/data/item"

// TransactWriteItems makes up to a hundred changes, all or none.
type TransactWriteItems struct {
	TransactItems               []TransactWriteItem `must:"present,minlen=1,maxlen=100"`
	ReturnConsumedCapacity      *string             `must:"oneof=INDEXES|TOTAL|NONE"`
	ReturnItemCollectionMetrics *string             `must:"oneof=SIZE|NONE"`
	ClientRequestToken          *string             `must:"minlen=1,maxlen=36"`
}

// TransactWriteItem is one action of a transaction: exactly one of these.
type TransactWriteItem struct {
	ConditionCheck *ConditionCheck
	Put            *Put
	Delete         *Delete
	Update         *Update
}

// ActionCondition is the condition of an action.
type ActionCondition struct {
	ConditionExpression                 *string
	ReturnValuesOnConditionCheckFailure *string `must:"oneof=ALL_OLD|NONE"`
	Expressions
	Compiled *Compiled `json:"-"`
}

// ConditionCheck checks a condition on an item without changing it.
type ConditionCheck struct {
	Key                                 Attributes `must:"present"`
	TableName                           *string    `must:"present,table"`
	ConditionExpression                 *string    `must:"present" or:"Condition"`
	ReturnValuesOnConditionCheckFailure *string    `must:"oneof=ALL_OLD|NONE"`
	Expressions
	Compiled *Compiled `json:"-"`
}

// Put replaces an item, or creates it.
type Put struct {
	Item      Attributes `must:"present"`
	TableName *string    `must:"present,table"`
	ActionCondition
}

// Delete removes an item.
type Delete struct {
	Key       Attributes `must:"present"`
	TableName *string    `must:"present,table"`
	ActionCondition
}

// Update changes an item, or creates it.
type Update struct {
	Key              Attributes `must:"present"`
	TableName        *string    `must:"present,table"`
	UpdateExpression *string    `must:"present" or:"Update"`
	ActionCondition
}

// TransactWriteItemsReply answers a TransactWriteItems.
type TransactWriteItemsReply struct {
	ConsumedCapacity      []ConsumedCapacity
	ItemCollectionMetrics map[string][]ItemCollectionMetrics
}

// TransactionCanceled is the detail of a cancelled transaction.
type TransactionCanceled struct {
	CancellationReasons []CancellationReason
}

// ThroughputExceeded is the detail of a request that exceeds provisioned throughput.
type ThroughputExceeded struct {
	ThrottlingReasons []ThrottlingReason
}

// Throttling is the detail of a request that exceeds the throughput of an on-demand
// table.
type Throttling struct {
	ThrottlingReasons []ThrottlingReason `name:"throttlingReasons"`
}

// ThrottlingReason is a limit that a request exceeds, and whose it is.
type ThrottlingReason struct {
	Reason   string `name:"reason"`
	Resource string `name:"resource"`
}

// CancellationReason is the part of one action in a cancellation.
type CancellationReason struct {
	Code    string
	Item    item.Item
	Message string
}

// TransactGetItems reads up to a hundred items as they are at one moment.
type TransactGetItems struct {
	TransactItems          []TransactGetItem `must:"present,minlen=1,maxlen=100"`
	ReturnConsumedCapacity *string           `must:"oneof=INDEXES|TOTAL|NONE"`
}

// TransactGetItem is one read of a transaction.
type TransactGetItem struct {
	Get *Get `must:"present"`
}

// Get reads an item.
type Get struct {
	Key                      Attributes `must:"present"`
	TableName                *string    `must:"present,table"`
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
	Compiled                 *Compiled `json:"-"`
}

// TransactGetItemsReply answers a TransactGetItems.
type TransactGetItemsReply struct {
	ConsumedCapacity []ConsumedCapacity
	Responses        []ItemResponse
}

// ItemResponse is one item of a transaction, if it exists.
type ItemResponse struct {
	Item item.Item
}
