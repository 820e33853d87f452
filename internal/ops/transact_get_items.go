package ops

import (
	"context"
	"errors"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

func (s *Service) transactGetItems(ctx context.Context, in *api.TransactGetItems) (*api.TransactGetItemsReply, usages, error) {
	gets := make([]db.GetKey, len(in.TransactItems))
	paths := make([][]item.Path, len(in.TransactItems))
	for i, part := range in.TransactItems {
		get := part.Get
		var err error
		if paths[i], err = s.getAction(get); err != nil {
			return nil, nil, err
		}
		gets[i] = db.GetKey{Table: *get.TableName, Key: get.Key.Item}
	}
	items, err := s.getSnapshot(ctx, gets)
	if err != nil {
		return nil, nil, err
	}
	used := snapshotUsage(gets, items)
	reply := &api.TransactGetItemsReply{ConsumedCapacity: perTable(in.ReturnConsumedCapacity, used, readUnits)}
	for i, it := range items {
		shown := project(it, paths[i])
		if shown.Len() == 0 {
			shown = nil
		} else {
			u := used.of(gets[i].Table)
			u.returned, u.scanned = u.returned+1, u.scanned+1
		}
		reply.Responses = append(reply.Responses, api.ItemResponse{Item: shown})
	}
	return reply, used.as("TransactGetItems", false), nil
}

func (s *Service) getAction(get *api.Get) ([]item.Path, error) {
	p := projectionParameters(get.ProjectionExpression, nil, get.ExpressionAttributeNames)
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := faultOf(get.Key); err != nil {
		return nil, err
	}
	paths, err := s.onlyProjection(get.Compiled, get.ProjectionExpression, nil, get.ExpressionAttributeNames)
	if err != nil {
		return nil, err
	}
	// The fault of a projection is reported before the faults of later actions.
	// A missing table is reported by the read.
	if fits := fitsPaths(paths); fits != nil {
		if t, err := s.DB.Table(*get.TableName); err == nil {
			return paths, fits(t)
		}
	}
	return paths, nil
}

// getSnapshot reads items from one snapshot. The items of a transaction have at
// most 4 MB in total, whatever is projected of them.
func (s *Service) getSnapshot(ctx context.Context, gets []db.GetKey) ([]item.Item, error) {
	items, err := s.DB.GetSnapshot(ctx, db.MaxTransactionBytes, func() error { return checkDistinct(gets) }, gets...)
	var cancelled *db.Cancelled
	if errors.As(err, &cancelled) {
		return nil, cancellation(cancelled, func(int) bool { return false })
	}
	if err != nil {
		return nil, err
	}
	size := 0
	for _, it := range items {
		size += it.Size()
	}
	if size > db.MaxTransactionBytes {
		return nil, apierror.TransactionTooLarge()
	}
	return items, nil
}

// checkDistinct checks that no two reads are for the same item.
func checkDistinct(gets []db.GetKey) error {
	seen := make(map[string]bool, len(gets))
	for _, g := range gets {
		target := g.Table + "\x00" + string(g.Key)
		if seen[target] {
			return apierror.Validation("Transaction request cannot include multiple operations on one item")
		}
		seen[target] = true
	}
	return nil
}

// snapshotUsage returns what a reading transaction consumed by table. A missing
// item costs as much as a small one.
func snapshotUsage(gets []db.GetKey, items []item.Item) (used usages) {
	for i, g := range gets {
		u := used.of(g.Table)
		u.consumed.Add(capacity.Consumed{Table: capacity.Read(items[i].Size(), true)}.Transactional())
		u.addAction(len(gets), askedAction{kind: workload.Get, key: g.Key})
	}
	return used
}
