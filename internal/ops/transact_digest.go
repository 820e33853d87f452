package ops

import (
	"encoding/binary"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// What a transaction asks for, as bytes that are the same exactly when the
// requests are. Every client gives each transaction a token of its own, so
// that all of them pass through here.

func appendTransaction(dst []byte, items []api.TransactWriteItem) []byte {
	for i := range items {
		switch in := &items[i]; {
		case in.Put != nil:
			dst = appendAction(dst, 'p', in.Put.TableName, in.Put.Item, nil, &in.Put.ActionCondition)
		case in.Delete != nil:
			dst = appendAction(dst, 'd', in.Delete.TableName, in.Delete.Key, nil, &in.Delete.ActionCondition)
		case in.Update != nil:
			dst = appendAction(dst, 'u', in.Update.TableName, in.Update.Key, in.Update.UpdateExpression, &in.Update.ActionCondition)
		case in.ConditionCheck != nil:
			c := in.ConditionCheck
			dst = appendAction(dst, 'c', c.TableName, c.Key, nil, &api.ActionCondition{
				ConditionExpression:                 c.ConditionExpression,
				ReturnValuesOnConditionCheckFailure: c.ReturnValuesOnConditionCheckFailure,
				Expressions:                         c.Expressions,
			})
		}
	}
	return dst
}

func appendAction(dst []byte, kind byte, table *string, key api.Attributes, update *string, c *api.ActionCondition) []byte {
	dst = append(dst, kind)
	dst = appendOptional(dst, table)
	dst = appendSized(dst, key.Item)
	for _, text := range []*string{update, c.ConditionExpression, c.ReturnValuesOnConditionCheckFailure} {
		dst = appendOptional(dst, text)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.ExpressionAttributeNames)))
	for _, ref := range sortedKeys(c.ExpressionAttributeNames) {
		dst = appendSized(appendSized(dst, ref), c.ExpressionAttributeNames[ref])
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.ExpressionAttributeValues)))
	for _, ref := range sortedKeys(c.ExpressionAttributeValues) {
		dst = appendSized(appendSized(dst, ref), c.ExpressionAttributeValues[ref].Value)
	}
	return dst
}

func appendOptional(dst []byte, text *string) []byte {
	if text == nil {
		return append(dst, 0)
	}
	return appendSized(append(dst, 1), *text)
}

func appendSized[T string | []byte | item.Item | item.Value](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
