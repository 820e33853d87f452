package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// putItemChecks run in the order in which DynamoDB reports faults, which
// conformance/put_item/order.txt verifies. The condition is bound after them.
var putItemChecks = []func(*api.PutItem) error{
	func(in *api.PutItem) error { return faultOf(in.Item) },
	func(in *api.PutItem) error { p := conditionalParameters(&in.Conditional); return p.combine() },
	func(in *api.PutItem) error { return returnsOldOrNone(in.ReturnValues) },
	func(in *api.PutItem) error { return fitsSize(in.Item.Item) },
	func(in *api.PutItem) error { p := conditionalParameters(&in.Conditional); return p.checkPlaceholders() },
}

func (s *Service) putItem(ctx context.Context, in *api.PutItem) (*api.PutItemReply, usage, error) {
	if err := firstFault(in, putItemChecks); err != nil {
		return nil, usage{}, err
	}
	cond, err := s.onlyCondition(&in.Conditional)
	if err != nil {
		return nil, usage{}, err
	}
	done, err := s.write(ctx, db.Write{
		Table:  in.TableName,
		Key:    in.Item.Item,
		Fit:    fitting((*schema.Table).CheckItem, cond),
		If:     holds(cond),
		Effect: db.Replace(in.Item.Item),
	})
	if err != nil {
		return nil, usage{}, conditionFault(err, &in.Conditional)
	}
	reply := &api.PutItemReply{ConsumedCapacity: consumed(in.ReturnConsumedCapacity, in.TableName, done[0].Consumed)}
	if isSet(in.ReturnValues, "ALL_OLD") {
		reply.Attributes = done[0].Before
	}
	reply.ItemCollectionMetrics = collectionMetrics(in.ReturnItemCollectionMetrics, in.Item.Item, done[0])
	return reply, usage{consumed: done[0].Consumed, asked: asked{
		operation: "PutItem", table: in.TableName, schema: done[0].Table, item: in.Item.Item, condition: cond,
		expressions: [3]*string{in.ConditionExpression}, names: in.ExpressionAttributeNames, legacy: in.Expected != nil || in.Compiled != nil,
	}}, nil
}

// faultOf returns the fault of an item or a key in a request, if it has one.
func faultOf(a api.Attributes) error {
	if a.Fault != nil {
		return a.Fault
	}
	return nil
}

func returnsOldOrNone(returnValues *string) error {
	if returnValues != nil && *returnValues != "ALL_OLD" && *returnValues != "NONE" {
		return apierror.Request("ReturnValues can only be ALL_OLD or NONE")
	}
	return nil
}

// fitsSize rejects an item before its table is looked up. Package db enforces
// the limit for all writes.
func fitsSize(it item.Item) error {
	// A value is at most twice as large as its stored form; a list of nulls
	// comes close.
	if 2*len(it) > item.MaxSize && it.Size() > item.MaxSize {
		return apierror.ItemTooLarge()
	}
	return nil
}
