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
	paths, err := s.onlyProjection(in.ProjectionExpression, in.AttributesToGet, in.ExpressionAttributeNames)
	if err != nil {
		return nil, err
	}
	if err := s.checkPaths(in.TableName, paths); err != nil {
		return nil, err
	}
	it, err := s.DB.GetOne(ctx, in.TableName, in.ConsistentRead, in.Key.Item)
	if err != nil {
		return nil, err
	}
	reply := &api.GetItemReply{Item: project(it, paths)}
	if in.ReturnConsumedCapacity != nil {
		cost := capacity.Consumed{Table: capacity.Read(it.Size(), in.ConsistentRead)}
		reply.ConsumedCapacity = consumed(in.ReturnConsumedCapacity, in.TableName, cost)
	}
	return reply, nil
}

// projectionParameters are the parameters of a read by key.
func projectionParameters(projection *string, attributes []string, names map[string]string) parameters {
	return parameters{
		older:       []parameter{{"AttributesToGet", attributes != nil}},
		expressions: []parameter{{"ProjectionExpression", projection != nil}},
		names:       names,
	}
}
