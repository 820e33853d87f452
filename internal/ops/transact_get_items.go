package ops

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) transactGetItems(ctx context.Context, in *api.TransactGetItems) (*api.TransactGetItemsReply, error) {
	gets := make([]db.GetKey, len(in.TransactItems))
	paths := make([][]item.Path, len(in.TransactItems))
	for i, part := range in.TransactItems {
		get := part.Get
		var err error
		if paths[i], err = s.getAction(get); err != nil {
			return nil, err
		}
		gets[i] = db.GetKey{Table: *get.TableName, Key: get.Key.Item}
	}
	items, err := s.getAll(ctx, gets)
	if err != nil {
		return nil, err
	}
	reply := &api.TransactGetItemsReply{ConsumedCapacity: getAllCost(in.ReturnConsumedCapacity, gets, items)}
	for i, it := range items {
		shown := project(it, paths[i])
		if shown.Len() == 0 {
			shown = nil
		}
		reply.Responses = append(reply.Responses, api.ItemResponse{Item: shown})
	}
	return reply, nil
}

func (s *Service) getAction(get *api.Get) ([]item.Path, error) {
	p := projectionParameters(get.ProjectionExpression, nil, get.ExpressionAttributeNames)
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := faultOf(get.Key); err != nil {
		return nil, err
	}
	paths, err := s.onlyProjection(get.ProjectionExpression, nil, get.ExpressionAttributeNames)
	if err != nil {
		return nil, err
	}
	return paths, s.checkPaths(*get.TableName, paths)
}

// getAll reads items as they are at one moment, and words its faults.
func (s *Service) getAll(ctx context.Context, gets []db.GetKey) ([]item.Item, error) {
	items, err := s.DB.GetAll(ctx, gets...)
	var cancelled *db.Cancelled
	if errors.As(err, &cancelled) {
		return nil, cancellation(cancelled, func(int) bool { return false })
	}
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(gets))
	for _, g := range gets {
		target := g.Table + "\x00" + string(g.Key)
		if seen[target] {
			return nil, apierror.Validation("Transaction request cannot include multiple operations on one item")
		}
		seen[target] = true
	}
	return items, nil
}

// getAllCost words what a reading transaction has cost; an item that does not
// exist costs as much as a small one.
func getAllCost(mode *string, gets []db.GetKey, items []item.Item) []api.ConsumedCapacity {
	costs := make(map[string]capacity.Consumed)
	for i, g := range gets {
		sum := costs[g.Table]
		sum.Add(capacity.Consumed{Table: capacity.Read(items[i].Size(), true)}.Transactional())
		costs[g.Table] = sum
	}
	return perTable(mode, costs, readUnits)
}
