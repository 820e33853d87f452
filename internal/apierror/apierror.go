// Package apierror defines every error that a customer may see: its code, its
// HTTP status and DynamoDB's exact words.
//
// An Error is created where the rule is checked and returned unchanged. Our
// own failures (a disk, a bug) are ordinary Go errors, which package server
// turns into InternalServerError.
package apierror

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Error is one fault of a customer's request.
type Error struct {
	Code    string // the short name, such as "ValidationException"
	Status  int
	Message string

	// Request marks a fault in the text of the request itself (its syntax,
	// its parameters). Some operations prepend RequestPrefix to these.
	Request bool

	// Whole marks a fault of a whole transaction, which is not reported as
	// the reason of one of its actions.
	Whole bool

	// Bare marks a fault that has the same text wherever the value occurs: of a
	// number, of a set of numbers, and of equal members of a set.
	Bare bool

	// NoNamespace marks a fault of a service whose __type is the code alone.
	NoNamespace bool

	// Detail is a struct whose members are added to the reply, such as the
	// item of a failed condition.
	Detail any

	// Cause is an error that the fault is made of and that metrics need; nil for most.
	// The customer does not get it.
	Cause error
}

// RequestPrefix precedes a fault of the request itself in PutItem,
// UpdateItem, DeleteItem and Query, and a violated constraint in every
// operation.
const RequestPrefix = "1 validation error detected: "

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// ErrorCode returns the code, as errors of the AWS SDK do.
func (e *Error) ErrorCode() string { return e.Code }

// Enveloped returns the fault with RequestPrefix, if it is a fault of the
// request.
func (e *Error) Enveloped() *Error {
	if !e.Request {
		return e
	}
	enveloped := *e
	enveloped.Message = RequestPrefix + e.Message
	enveloped.Request = false
	return &enveloped
}

// Bare returns an error without the mark of a fault of the request, so that
// no operation adds RequestPrefix to it.
func Bare(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || !e.Request {
		return err
	}
	bare := *e
	bare.Request = false
	return &bare
}

// Type is the error's full name, the value of __type.
func (e *Error) Type() string {
	if e.NoNamespace {
		return e.Code
	}
	switch e.Code {
	case "ValidationException":
		return "com.amazon.coral.validate#" + e.Code
	case "SerializationException", "UnknownOperationException", "AccessDeniedException", "InternalFailure",
		"MissingAuthenticationTokenException", "IncompleteSignatureException",
		"InvalidSignatureException", "UnrecognizedClientException", "ExpiredTokenException":
		return "com.amazon.coral.service#" + e.Code
	case "ThrottlingException":
		return "com.amazon.coral.availability#" + e.Code
	case "ObjectNotFoundException", "InvalidNextTokenException", "TooManyTagsException":
		return e.Code // of Application Auto Scaling
	}
	return "com.amazonaws.dynamodb.v20120810#" + e.Code
}

// MessageMember is the name of the message's member: DynamoDB spells it in
// two ways.
func (e *Error) MessageMember() string {
	switch e.Code {
	case "SerializationException", "AccessDeniedException", "TransactionCanceledException",
		"ObjectNotFoundException", "InvalidNextTokenException", "TooManyTagsException":
		return "Message"
	}
	return "message"
}

func fault(code, format string, args ...any) *Error {
	message := format
	if len(args) > 0 {
		message = fmt.Sprintf(format, args...)
	}
	return &Error{Code: code, Status: http.StatusBadRequest, Message: message}
}

// Validation is a request that is invalid by itself, or does not fit the
// table or the stored item.
func Validation(format string, args ...any) *Error {
	return fault("ValidationException", format, args...)
}

// Request is a Validation whose cause is the text of the request alone.
func Request(format string, args ...any) *Error {
	e := Validation(format, args...)
	e.Request = true
	return e
}

// InvalidNumber is a Validation of a number.
func InvalidNumber(format string, args ...any) *Error {
	e := Validation(format, args...)
	e.Bare = true
	return e
}

// InvalidValues is a Validation in its most frequent form.
func InvalidValues(format string, args ...any) *Error {
	return Validation("One or more parameter values were invalid: "+format, args...)
}

// InvalidRequestValues is a Request in its most frequent form.
func InvalidRequestValues(format string, args ...any) *Error {
	return Request("One or more parameter values were invalid: "+format, args...)
}

// Serialization is a body that does not have the declared shape.
func Serialization(format string, args ...any) *Error {
	return fault("SerializationException", format, args...)
}

// UnknownOperation is a target that names no operation.
func UnknownOperation() *Error { return fault("UnknownOperationException", "") }

// InternalFailure is a request that makes the service fail, always and without
// a message: DynamoDB does not check it.
func InternalFailure() *Error {
	e := fault("InternalFailure", "")
	e.Status = http.StatusInternalServerError
	return e
}

// AccessDenied is a request that the caller may not make.
func AccessDenied(format string, args ...any) *Error {
	return fault("AccessDeniedException", format, args...)
}

// PolicyNotFound is the fault of a resource without a policy, or with another than the
// caller expects.
func PolicyNotFound(format string, args ...any) *Error {
	return fault("PolicyNotFoundException", "Resource-based policy not found for the provided ResourceArn: "+format, args...)
}

// RevisionMismatch is the error of a change that expects another revision than is stored.
func RevisionMismatch(format string, args ...any) *Error {
	return fault("RevisionMismatchException", format, args...)
}

// PolicyThrottled is the fault of changing a policy again too soon.
func PolicyThrottled(format string, args ...any) *Error {
	return fault("ThrottlingException", format, args...)
}

// NotFound is a table (or another resource) that does not exist.
func NotFound(format string, args ...any) *Error {
	return fault("ResourceNotFoundException", format, args...)
}

// NoFork is a fork that does not exist, which why explains.
func NoFork(name, why string) *Error { return NotFound("%s%s", noFork(name), why) }

// IsNoFork reports whether an error is that of a request which needs a fork that does not exist,
// also if a server has sent it.
func IsNoFork(err error, name string) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == "ResourceNotFoundException" && strings.HasPrefix(e.Message, noFork(name))
}

func noFork(name string) string {
	return "Requested resource not found: Fork: " + name + " not found"
}

// NoTable is NotFound as the item operations word it.
func NoTable() *Error { return NotFound("Requested resource not found") }

// NoTableNamed is NotFound as the table operations word it.
func NoTableNamed(name string) *Error {
	return NotFound("Requested resource not found: Table: %s not found", name)
}

// NoTriggerNamed is NotFound for a trigger.
func NoTriggerNamed(name string) *Error {
	return NotFound("Requested resource not found: Trigger: %s not found", name)
}

// InUse is a resource whose state forbids the request.
func InUse(format string, args ...any) *Error {
	return fault("ResourceInUseException", format, args...)
}

// LimitExceeded is a request that would exceed a limit of the account.
func LimitExceeded(format string, args ...any) *Error {
	return fault("LimitExceededException", format, args...)
}

// ObjectNotFound is an object of Application Auto Scaling that does not exist.
func ObjectNotFound(format string, args ...any) *Error {
	return fault("ObjectNotFoundException", format, args...)
}

// InvalidNextToken is a token that no earlier page of a list had.
func InvalidNextToken() *Error {
	return fault("InvalidNextTokenException", "The NextToken is not valid.")
}

// TooManyTags is a scalable target that would have too many tags.
func TooManyTags(most int) *Error {
	return fault("TooManyTagsException", "A scalable target can have at most %d tags.", most)
}

// DAX is a fault of the control plane of DAX, by the name of its exception.
func DAX(code, format string, args ...any) *Error {
	e := fault(code, format, args...)
	e.NoNamespace = true
	return e
}

// ConditionFailed is a condition that does not hold. Detail, which may be
// nil, carries the item when the customer asked for it.
func ConditionFailed(detail any) *Error {
	e := fault("ConditionalCheckFailedException", "The conditional request failed")
	e.Detail = detail
	return e
}

// DuplicateItem is an insert of an item that exists.
func DuplicateItem() *Error {
	return fault("DuplicateItemException", "Duplicate primary key exists in table")
}

// Cancelled is a transaction that was cancelled; codes names the reasons.
func Cancelled(codes string, detail any) *Error {
	e := fault("TransactionCanceledException",
		"Transaction cancelled, please refer cancellation reasons for specific reasons [%s]", codes)
	e.Detail = detail
	return e
}

// TokenMismatch is a token that was used before with another request.
func TokenMismatch() *Error {
	return fault("IdempotentParameterMismatchException",
		"The provided client token is already in use with different parameters.")
}

// ExpiredIterator is an iterator of a stream that is too old to be used.
func ExpiredIterator() *Error {
	return fault("ExpiredIteratorException", "The provided iterator exceeds the maximum age allowed")
}

// TrimmedData is a position in a stream whose records are no longer kept.
func TrimmedData() *Error {
	return fault("TrimmedDataAccessException", "The data you are trying to access has been trimmed")
}

// KeyMismatch is a key that has other attributes or types than the table's.
func KeyMismatch() *Error {
	return Validation("The provided key element does not match the schema")
}

// EmptyKey is a key attribute without content; kind is "string" or "binary".
func EmptyKey(kind, name string) *Error {
	return whole(Validation("One or more parameter values are not valid. "+
		"The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", kind, name))
}

// EmptyIndexKey is a key attribute of an index without content, in a put or a query.
func EmptyIndexKey(kind, index, name string) *Error {
	return whole(Validation("One or more parameter values are not valid. A value specified for a secondary index key is not supported. "+
		"The AttributeValue for a key attribute cannot contain an empty %s value. IndexName: %s, IndexKey: %s", kind, index, name))
}

// EmptyIndexKeyUpdate is the same in an update.
func EmptyIndexKeyUpdate(kind string) *Error {
	return whole(Validation("One or more parameter values are not valid. The update expression attempted to update a secondary index key to a value that is not supported. "+
		"The AttributeValue for a key attribute cannot contain an empty %s value.", kind))
}

func whole(e *Error) *Error {
	e.Whole = true
	return e
}

// InternalError is a failure of the server. Clients retry after it.
func InternalError() *Error {
	e := fault("InternalServerError", "Internal server error")
	e.Status = http.StatusInternalServerError
	return e
}

// Conflict is a write that waited too long for other writes of the same item.
func Conflict() *Error {
	return fault("TransactionConflictException", "Transaction is ongoing for the item")
}

// CollectionTooLarge is a write that would make an item collection larger
// than a table with local indexes allows.
func CollectionTooLarge() *Error {
	return fault("ItemCollectionSizeLimitExceededException", "Collection size exceeded.")
}

// TransactionTooLarge is a transaction whose items have more than 4 MB in total.
func TransactionTooLarge() *Error {
	e := Validation("Collection size of items exceeded, which can also be caused by the aggregate size of the items in the transaction exceeding the 4MB limit")
	e.Whole = true
	return e
}

// ItemTooLarge is an item over 400 KB in a put.
func ItemTooLarge() *Error { return Validation("Item size has exceeded the maximum allowed size") }

// UpdateTooLarge is an item that an update would make larger than 400 KB.
func UpdateTooLarge() *Error {
	return Validation("Item size to update has exceeded the maximum allowed size")
}
