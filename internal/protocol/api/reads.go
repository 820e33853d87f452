package api

import "github.com/stator-db/stator/internal/data/item"

// Query reads items of one partition, in order of the sort key.
type Query struct {
	TableName              string `must:"present,table"`
	Limit                  *int32 // its constraint has a message of its own: package ops
	ScanIndexForward       *bool
	KeyConditions          map[string]Condition
	QueryFilter            map[string]Condition
	KeyConditionExpression *string
	Paged
}

// Scan reads all items of a table, or one segment of them.
type Scan struct {
	TableName     string `must:"present,table"`
	Limit         *int32 `must:"min=1"`
	TotalSegments *int32 `must:"min=1,max=1000000"`
	Segment       *int32 `must:"min=0,max=999999"`
	ScanFilter    map[string]Condition
	Paged
}

// Paged holds the parameters that Query and Scan share.
type Paged struct {
	IndexName              *string  `must:"like=[a-zA-Z0-9_.-]+,minlen=3,maxlen=255"`
	Select                 *string  `must:"oneof=SPECIFIC_ATTRIBUTES|COUNT|ALL_ATTRIBUTES|ALL_PROJECTED_ATTRIBUTES"`
	AttributesToGet        []string `must:"minlen=1"`
	ConsistentRead         bool
	ConditionalOperator    *string `must:"oneof=AND|OR"`
	ExclusiveStartKey      Attributes
	ReturnConsumedCapacity *string `must:"oneof=INDEXES|TOTAL|NONE"`
	ProjectionExpression   *string
	FilterExpression       *string
	Expressions
	Compiled *Compiled `json:"-"`
}

// PageReply answers a Query or a Scan.
type PageReply struct {
	ConsumedCapacity *ConsumedCapacity
	Count            int `reply:"always"`
	Items            []item.Item
	LastEvaluatedKey item.Item
	ScannedCount     int `reply:"always"`
}

// BatchGetItem reads up to a hundred items of several tables.
type BatchGetItem struct {
	RequestItems           map[string]KeysAndAttributes `must:"present,minlen=1"`
	ReturnConsumedCapacity *string                      `must:"oneof=INDEXES|TOTAL|NONE"`
}

// KeysAndAttributes is what a BatchGetItem reads of one table.
type KeysAndAttributes struct {
	Keys                     []Attributes `must:"present,minlen=1"`
	AttributesToGet          []string     `must:"minlen=1"`
	ConsistentRead           bool
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
	Compiled                 *Compiled `json:"-"`
}

// BatchGetItemReply answers a BatchGetItem.
type BatchGetItemReply struct {
	ConsumedCapacity []ConsumedCapacity
	Responses        map[string][]item.Item         `reply:"always"`
	UnprocessedKeys  map[string]UnprocessedKeysPart `reply:"always"`
}

// UnprocessedKeysPart holds the keys that a customer should request again.
type UnprocessedKeysPart struct {
	Keys                     []item.Item
	AttributesToGet          []string
	ConsistentRead           *bool
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
}

// BatchWriteItem puts and deletes up to 25 items of several tables.
type BatchWriteItem struct {
	RequestItems                map[string][]WriteRequest `must:"present,minlen=1,entrylen=25"`
	ReturnConsumedCapacity      *string                   `must:"oneof=INDEXES|TOTAL|NONE"`
	ReturnItemCollectionMetrics *string                   `must:"oneof=SIZE|NONE"`
}

// WriteRequest is one put or one delete of a batch.
type WriteRequest struct {
	DeleteRequest *DeleteRequest
	PutRequest    *PutRequest
}

// DeleteRequest removes one item.
type DeleteRequest struct {
	Key Attributes `must:"present"`
}

// PutRequest puts one item.
type PutRequest struct {
	Item Attributes `must:"present"`
}

// BatchWriteItemReply answers a BatchWriteItem.
type BatchWriteItemReply struct {
	ConsumedCapacity      []ConsumedCapacity
	ItemCollectionMetrics map[string][]ItemCollectionMetrics
	UnprocessedItems      map[string][]WriteRequest `reply:"always"`
}
