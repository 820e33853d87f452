package ops

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// transactionDigest returns the same digest for two transactions exactly when
// they ask for the same. It is on the hot path: the SDKs give every transaction
// a token.
func transactionDigest(items []api.TransactWriteItem) [sha256.Size]byte {
	return sha256.Sum256(appendTransaction(nil, items))
}

// appendTransaction appends bytes that are the same exactly when the
// transactions are.
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
				Compiled:                            c.Compiled,
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
	if c.Compiled != nil { // it follows an action without texts, which it cannot be mistaken for
		dst = c.Compiled.Update.AppendTo(append(dst, 'x'))
		dst = c.Compiled.Condition.AppendTo(dst)
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
