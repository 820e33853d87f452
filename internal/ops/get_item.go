package ops

import (
	"context"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// getItemChecks run in the order in which DynamoDB reports faults, which
// conformance/get_item/order.txt verifies.
var getItemChecks = []func(*api.GetItem) error{
	func(in *api.GetItem) error {
		p := projectionParameters(in.ProjectionExpression, in.AttributesToGet, in.ExpressionAttributeNames)
		return p.check()
	},
	func(in *api.GetItem) error { return faultOf(in.Key) },
}

func (s *Service) getItem(ctx context.Context, in *api.GetItem) (*api.GetItemReply, usage, error) {
	if err := firstFault(in, getItemChecks); err != nil {
		return nil, usage{}, err
	}
	paths, err := s.onlyProjection(in.Compiled, in.ProjectionExpression, in.AttributesToGet, in.ExpressionAttributeNames)
	if err != nil {
		return nil, usage{}, err
	}
	it, hit, err := s.getOne(ctx, db.Get{Table: in.TableName, Consistent: in.ConsistentRead, Fit: fitsPaths(paths)}, in.Key.Item)
	if err != nil {
		return nil, usage{}, err
	}
	reply := &api.GetItemReply{Item: project(it, paths)}
	used := usage{unmeasured: true, got: it, asked: asked{
		operation: "GetItem", table: in.TableName, consistent: in.ConsistentRead, key: in.Key.Item, paths: paths,
		expressions: [3]*string{in.ProjectionExpression}, names: in.ExpressionAttributeNames, legacy: in.AttributesToGet != nil || in.Compiled != nil,
	}}
	if reply.Item != nil {
		used.returned, used.scanned = 1, 1
	}
	if hit {
		used.unmeasured, used.cached = false, true
		reply.ConsumedCapacity = consumed(in.ReturnConsumedCapacity, in.TableName, used.consumed)
	} else if mode := in.ReturnConsumedCapacity; mode != nil && *mode != "NONE" {
		used.unmeasured, used.consumed = false, capacity.Consumed{Table: capacity.Read(it.Size(), in.ConsistentRead)}
		reply.ConsumedCapacity = consumed(in.ReturnConsumedCapacity, in.TableName, used.consumed)
	}
	return reply, used, nil
}

// projectionParameters are the parameters of a read by key.
func projectionParameters(projection *string, attributes []string, names map[string]string) parameters {
	return parameters{
		legacy:      []parameter{{"AttributesToGet", attributes != nil}},
		expressions: []parameter{{"ProjectionExpression", projection != nil}},
		names:       names,
	}
}
