package api

import (
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// Compiled holds the expressions of a request that arrived compiled, as DAX
// clients send them, with their names and values bound. It is nil if the
// request has texts. A member that the request does not use is nil.
type Compiled struct {
	Condition    *expr.Condition
	Update       *expr.Update
	KeyCondition *expr.KeyCondition
	Filter       *expr.Condition
	Projection   []item.Path
}

// Expressions are the parameters that all expressions of a request share.
type Expressions struct {
	ExpressionAttributeNames  map[string]string
	ExpressionAttributeValues map[string]Value
}

// Conditional holds the parameters that every conditional write may have.
type Conditional struct {
	ConditionExpression                 *string
	Expected                            map[string]ExpectedAttributeValue
	ConditionalOperator                 *string `must:"oneof=AND|OR"`
	ReturnValuesOnConditionCheckFailure *string `must:"oneof=ALL_OLD|NONE"`
	Expressions
	Compiled *Compiled `json:"-"`
}

// ExpectedAttributeValue is one condition of the legacy parameter Expected.
type ExpectedAttributeValue struct {
	Value              *Value
	Exists             *bool
	ComparisonOperator *string `must:"oneof=IN|NULL|BETWEEN|LT|NOT_CONTAINS|EQ|GT|NOT_NULL|NE|LE|BEGINS_WITH|GE|CONTAINS"`
	AttributeValueList []Value
}

// Condition is one condition of the legacy filters and key conditions.
type Condition struct {
	ComparisonOperator *string `must:"present,oneof=IN|NULL|BETWEEN|LT|NOT_CONTAINS|EQ|GT|NOT_NULL|NE|LE|BEGINS_WITH|GE|CONTAINS"`
	AttributeValueList []Value
}

// AttributeValueUpdate is one action of the legacy parameter
// AttributeUpdates.
type AttributeValueUpdate struct {
	Action *string `must:"oneof=ADD|DELETE|PUT"`
	Value  *Value
}

// ConditionFailure is the detail of a failed condition.
type ConditionFailure struct {
	Item item.Item
}

// ConsumedCapacity is what a request has cost on one table.
type ConsumedCapacity struct {
	TableName              string
	CapacityUnits          float64 `reply:"always"`
	ReadCapacityUnits      *float64
	WriteCapacityUnits     *float64
	Table                  *Capacity
	LocalSecondaryIndexes  map[string]Capacity
	GlobalSecondaryIndexes map[string]Capacity
}

// Capacity is what a request has cost on a table or an index.
type Capacity struct {
	CapacityUnits      float64 `reply:"always"`
	ReadCapacityUnits  *float64
	WriteCapacityUnits *float64
}

// ItemCollectionMetrics is how large the written item's collection is.
type ItemCollectionMetrics struct {
	ItemCollectionKey   item.Item
	SizeEstimateRangeGB []float64
}
