package ops

import (
	"context"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/protocol/api"
)

// getItemChecks stand in the order in which DynamoDB reports the faults.
// conformance/get_item/order.txt holds them to it.
var getItemChecks = []func(*api.GetItem) error{
	func(in *api.GetItem) error {
		p := projectionParameters(in.ProjectionExpression, in.AttributesToGet, in.ExpressionAttributeNames)
		return p.check()
	},
	func(in *api.GetItem) error { return faultOf(in.Key) },
}

func (s *Service) getItem(ctx context.Context, in *api.GetItem) (*api.GetItemReply, error) {
	if err := firstFault(in, getItemChecks); err != nil {
		return nil, err
	}
	b := bindings(in.ExpressionAttributeNames, nil)
	paths, err := s.projection(in.ProjectionExpression, in.AttributesToGet, b)
	if err != nil {
		return nil, err
	}
	if err := b.Unused(); err != nil {
		return nil, err
	}
	if err := s.checkPaths(in.TableName, paths); err != nil {
		return nil, err
	}
	items, err := s.DB.Get(ctx, in.TableName, in.ConsistentRead, in.Key.Item)
	if err != nil {
		return nil, err
	}
	cost := capacity.Consumed{Table: capacity.Read(items[0].Size(), in.ConsistentRead)}
	return &api.GetItemReply{
		Item:             project(items[0], paths),
		ConsumedCapacity: consumed(in.ReturnConsumedCapacity, in.TableName, cost),
	}, nil
}

// projectionParameters are the parameters of a read by key.
func projectionParameters(projection *string, attributes []string, names map[string]string) parameters {
	return parameters{
		older:       []parameter{{"AttributesToGet", attributes != nil}},
		expressions: []parameter{{"ProjectionExpression", projection != nil}},
		names:       names,
	}
}
