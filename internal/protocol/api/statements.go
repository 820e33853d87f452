package api

import "github.com/stator-db/stator/internal/data/item"

// ExecuteStatement runs one statement of PartiQL.
type ExecuteStatement struct {
	Statement                           string  `must:"present,minlen=1,maxlen=8192"`
	Parameters                          []Value `must:"minlen=1"`
	ConsistentRead                      bool
	NextToken                           *string `must:"minlen=1,maxlen=32768"`
	ReturnConsumedCapacity              *string `must:"oneof=INDEXES|TOTAL|NONE"`
	Limit                               *int32  `must:"min=1"`
	ReturnValuesOnConditionCheckFailure *string `must:"oneof=ALL_OLD|NONE"`
}

// ExecuteStatementReply answers an ExecuteStatement.
type ExecuteStatementReply struct {
	Items            []item.Item `reply:"always"`
	NextToken        string
	ConsumedCapacity *ConsumedCapacity
	LastEvaluatedKey item.Item
}

// BatchExecuteStatement runs up to 25 statements, each by itself.
type BatchExecuteStatement struct {
	Statements             []BatchStatementRequest `must:"present,minlen=1,maxlen=25"`
	ReturnConsumedCapacity *string                 `must:"oneof=INDEXES|TOTAL|NONE"`
}

// BatchStatementRequest is one statement of a batch.
type BatchStatementRequest struct {
	Statement                           *string `must:"present,minlen=1,maxlen=8192"`
	Parameters                          []Value `must:"minlen=1"`
	ConsistentRead                      *bool
	ReturnValuesOnConditionCheckFailure *string `must:"oneof=ALL_OLD|NONE"`
}

// BatchExecuteStatementReply answers a BatchExecuteStatement.
type BatchExecuteStatementReply struct {
	Responses        []BatchStatementResponse
	ConsumedCapacity []ConsumedCapacity
}

// BatchStatementResponse is the result of one statement of a batch.
type BatchStatementResponse struct {
	Error     *BatchStatementError
	TableName string
	Item      item.Item
}

// BatchStatementError is why a statement of a batch failed.
type BatchStatementError struct {
	Code    string
	Message string
}

// ExecuteTransaction runs up to a hundred statements, all or none.
type ExecuteTransaction struct {
	TransactStatements     []ParameterizedStatement `must:"present,minlen=1,maxlen=100"`
	ClientRequestToken     *string                  `must:"minlen=1,maxlen=36"`
	ReturnConsumedCapacity *string                  `must:"oneof=INDEXES|TOTAL|NONE"`
}

// ParameterizedStatement is one statement of a transaction.
type ParameterizedStatement struct {
	Statement                           *string `must:"present,minlen=1,maxlen=8192"`
	Parameters                          []Value `must:"minlen=1"`
	ReturnValuesOnConditionCheckFailure *string `must:"oneof=ALL_OLD|NONE"`
}

// ExecuteTransactionReply answers an ExecuteTransaction.
type ExecuteTransactionReply struct {
	Responses        []ItemResponse `reply:"always"`
	ConsumedCapacity []ConsumedCapacity
}
