package ops

import (
	"context"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// deleteItemChecks run in the order in which DynamoDB reports faults, which
// conformance/delete_item/order.txt verifies.
var deleteItemChecks = []func(*api.DeleteItem) error{
	func(in *api.DeleteItem) error { p := conditionalParameters(&in.Conditional); return p.combine() },
	func(in *api.DeleteItem) error { return faultOf(in.Key) },
	func(in *api.DeleteItem) error { return returnsOldOrNone(in.ReturnValues) },
	func(in *api.DeleteItem) error {
		p := conditionalParameters(&in.Conditional)
		return p.checkPlaceholders()
	},
}

func (s *Service) deleteItem(ctx context.Context, in *api.DeleteItem) (*api.DeleteItemReply, usage, error) {
	if err := firstFault(in, deleteItemChecks); err != nil {
		return nil, usage{}, err
	}
	cond, err := s.onlyCondition(&in.Conditional)
	if err != nil {
		return nil, usage{}, err
	}
	done, err := s.write(ctx, db.Write{
		Table:   in.TableName,
		Key:     in.Key.Item,
		Fit:     fitting((*schema.Table).CheckKey, cond),
		If:      holds(cond),
		Effect:  db.Remove,
		Deletes: true,
	})
	if err != nil {
		return nil, usage{}, conditionFault(err, &in.Conditional)
	}
	reply := &api.DeleteItemReply{ConsumedCapacity: consumed(in.ReturnConsumedCapacity, in.TableName, done[0].Consumed)}
	if isSet(in.ReturnValues, "ALL_OLD") {
		reply.Attributes = done[0].Before
	}
	reply.ItemCollectionMetrics = collectionMetrics(in.ReturnItemCollectionMetrics, in.Key.Item, done[0])
	return reply, usage{consumed: done[0].Consumed, asked: asked{
		operation: "DeleteItem", table: in.TableName, schema: done[0].Table, key: in.Key.Item, condition: cond,
		expressions: [3]*string{in.ConditionExpression}, names: in.ExpressionAttributeNames, legacy: in.Expected != nil || in.Compiled != nil,
	}}, nil
}
