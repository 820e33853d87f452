package api

import "github.com/stator-db/stator/internal/data/item"

// GetItem reads one item.
type GetItem struct {
	TableName                string     `must:"present,table"`
	Key                      Attributes `must:"present"`
	AttributesToGet          []string   `must:"minlen=1"`
	ConsistentRead           bool
	ReturnConsumedCapacity   *string `must:"oneof=INDEXES|TOTAL|NONE"`
	ProjectionExpression     *string
	ExpressionAttributeNames map[string]string
	Compiled                 *Compiled `json:"-"`
}

// GetItemReply answers a GetItem.
type GetItemReply struct {
	ConsumedCapacity *ConsumedCapacity
	Item             item.Item
}

// PutItem replaces one item, or creates it.
type PutItem struct {
	TableName                   string     `must:"present,table,stop"`
	Item                        Attributes `must:"present"`
	ReturnConsumedCapacity      *string    `must:"oneof=INDEXES|TOTAL|NONE"`
	ReturnValues                *string    `must:"oneof=ALL_NEW|UPDATED_OLD|ALL_OLD|NONE|UPDATED_NEW"`
	ReturnItemCollectionMetrics *string    `must:"oneof=SIZE|NONE"`
	Conditional
}

// PutItemReply answers a PutItem.
type PutItemReply struct {
	Attributes            item.Item
	ConsumedCapacity      *ConsumedCapacity
	ItemCollectionMetrics *ItemCollectionMetrics
}

// UpdateItem changes one item, or creates it.
type UpdateItem struct {
	TableName                   string     `must:"present,table,stop"`
	Key                         Attributes `must:"present"`
	ReturnValues                *string    `must:"oneof=ALL_NEW|UPDATED_OLD|ALL_OLD|NONE|UPDATED_NEW"`
	ReturnConsumedCapacity      *string    `must:"oneof=INDEXES|TOTAL|NONE"`
	ReturnItemCollectionMetrics *string    `must:"oneof=SIZE|NONE"`
	UpdateExpression            *string
	AttributeUpdates            map[string]AttributeValueUpdate
	Conditional
}

// UpdateItemReply answers an UpdateItem.
type UpdateItemReply = PutItemReply

// DeleteItem removes one item.
type DeleteItem struct {
	TableName                   string     `must:"present,table"`
	Key                         Attributes `must:"present"`
	ReturnConsumedCapacity      *string    `must:"oneof=INDEXES|TOTAL|NONE"`
	ReturnValues                *string    `must:"oneof=ALL_NEW|UPDATED_OLD|ALL_OLD|NONE|UPDATED_NEW"`
	ReturnItemCollectionMetrics *string    `must:"oneof=SIZE|NONE"`
	Conditional
}

// DeleteItemReply answers a DeleteItem.
type DeleteItemReply = PutItemReply
