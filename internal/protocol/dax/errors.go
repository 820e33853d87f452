package dax

import (
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// An error is answered by three values: an array of numbers, which classify it, the message,
// and an array of the request's id, the name of the error, the HTTP status and, for a cancelled
// transaction, the reasons.

// The first number tells the client whether to try again.
const (
	codeRetry  = 1 // a failure of the server
	codeCaller = 4 // a fault of the caller
)

// dynamoCodes are the last numbers of the errors of DynamoDB: 4, 37, 38, 39 precede them.
// 49, LimitExceededException, is missing: clients repeat requests that are answered with it,
// but a write whose reply has no attribute list has been executed.
var dynamoCodes = map[string]int64{
	"ProvisionedThroughputExceededException":   40,
	"ResourceNotFoundException":                41,
	"ConditionalCheckFailedException":          43,
	"ResourceInUseException":                   45,
	"ValidationException":                      46,
	"InternalServerError":                      47,
	"ItemCollectionSizeLimitExceededException": 48,
	"ThrottlingException":                      50,
	"TransactionConflictException":             57,
	"TransactionCanceledException":             58,
	"TransactionInProgressException":           59,
	"IdempotentParameterMismatchException":     60,
	"RequestLimitExceeded":                     61,
}

// authCodes are the last numbers of errors of authentication and authorization: 4, 23, 31
// precede them. At 33 the client authenticates again.
var authCodes = map[string]int64{
	"InvalidSignatureException":           32,
	"IncompleteSignatureException":        32,
	"UnrecognizedClientException":         32,
	"MissingAuthenticationTokenException": 33,
	"ExpiredTokenException":               33,
	"AccessDeniedException":               34,
}

// AppendError appends the answer of a request that failed before it was decoded.
func AppendError(dst []byte, requestID string, err *apierror.Error) []byte {
	return Request{}.AppendError(dst, nil, requestID, err)
}

// AppendError appends the answer of a request that failed.
func (r Request) AppendError(dst []byte, c Catalog, requestID string, err *apierror.Error) []byte {
	dst = appendCodes(dst, err)
	dst = cbor.AppendText(dst, err.Message)
	cancelled, isCancelled := err.Detail.(*api.TransactionCanceled)
	dst = cbor.AppendArray(dst, 3+count(isCancelled))
	dst = cbor.AppendText(dst, requestID)
	dst = cbor.AppendText(dst, err.Code)
	dst = cbor.AppendInt(dst, int64(err.Status))
	if !isCancelled {
		return dst
	}
	attributes := attributeWriter{catalog: c}
	dst = cbor.AppendArray(dst, 3*len(cancelled.CancellationReasons))
	for i, reason := range cancelled.CancellationReasons {
		dst = appendText(dst, reason.Code)
		dst = appendText(dst, reason.Message)
		dst = r.appendReasonItem(dst, &attributes, i, reason.Item)
	}
	return dst
}

func appendCodes(dst []byte, err *apierror.Error) []byte {
	first := int64(codeCaller)
	if err.Status >= 500 {
		first = codeRetry
	}
	if code, ok := authCodes[err.Code]; ok {
		return appendInts(dst, first, 23, 31, code)
	}
	if code, ok := dynamoCodes[err.Code]; ok {
		return appendInts(dst, first, 37, 38, 39, code)
	}
	if err.Code == "UnknownOperationException" {
		return appendInts(dst, first, 37, 38, 44)
	}
	return appendInts(dst, first, 37, 38, 39)
}

func appendInts(dst []byte, ints ...int64) []byte {
	dst = cbor.AppendArray(dst, len(ints))
	for _, n := range ints {
		dst = cbor.AppendInt(dst, n)
	}
	return dst
}

// appendText appends a text, or null for none.
func appendText(dst []byte, text string) []byte {
	if text == "" {
		return cbor.AppendNull(dst)
	}
	return cbor.AppendText(dst, text)
}

// appendReasonItem appends the item of the i-th action of a transaction, without its key; null
// if there is none, or if the Catalog has no list for it: the error is worth more than the
// item.
func (r Request) appendReasonItem(dst []byte, w *attributeWriter, i int, it item.Item) []byte {
	in, ok := r.In.(*api.TransactWriteItems)
	if it == nil || !ok || i >= len(in.TransactItems) {
		return cbor.AppendNull(dst)
	}
	key, err := w.catalog.Key(tableOf(&in.TransactItems[i]))
	if err != nil {
		return cbor.AppendNull(dst)
	}
	out, err := w.append(dst, it, key)
	if err != nil {
		return cbor.AppendNull(dst)
	}
	return out
}

// tableOf returns the table of an action.
func tableOf(action *api.TransactWriteItem) string {
	switch {
	case action.Put != nil:
		return *action.Put.TableName
	case action.Delete != nil:
		return *action.Delete.TableName
	case action.Update != nil:
		return *action.Update.TableName
	}
	return *action.ConditionCheck.TableName
}
