package ops

import (
	"context"
	"errors"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/change"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

// pastFault returns the fault of a request to the past, and other errors as they are.
func pastFault(err error) error {
	if e, ok := errors.AsType[*db.NotReadable](err); ok {
		if errors.Is(e, history.ErrNoRecovery) {
			return apierror.PastNotKept(e.Table)
		}
		return apierror.PastOutOfRange(e.At, e.Earliest, e.Latest)
	}
	if e, ok := errors.AsType[*history.Unread](err); ok {
		fault := apierror.PastNotRead("%s. Send the request again to continue", e.Error())
		fault.Detail = &api.PastNotRead{Progress: e.Progress}
		return fault
	}
	if errors.Is(err, history.ErrBusy) {
		fault := apierror.PastNotRead("Other requests are reading the past. Send the request again")
		fault.Detail = &api.PastNotRead{}
		return fault
	}
	return err
}

// second returns the second of a time.
func second(t *api.Time) time.Time { return t.Truncate(time.Second) }

func (s *Service) queryAt(in *api.QueryAt) (*reading, error) {
	r, err := s.query(&in.Query)
	if err == nil {
		r.plan.At = second(in.AsOf)
	}
	return r, err
}

func (s *Service) scanAt(in *api.ScanAt) (*reading, error) {
	r, err := s.scan(&in.Scan)
	if err == nil {
		r.plan.At = second(in.AsOf)
	}
	return r, err
}

func (s *Service) getItemAt(ctx context.Context, in *api.GetItemAt) (*api.GetItemReply, usage, error) {
	if err := firstFault(&in.GetItem, getItemChecks); err != nil {
		return nil, usage{}, err
	}
	paths, err := s.onlyProjection(in.Compiled, in.ProjectionExpression, in.AttributesToGet, in.ExpressionAttributeNames)
	if err != nil {
		return nil, usage{}, err
	}
	it, err := s.DB.GetOneAt(ctx, db.Get{Table: in.TableName, Consistent: in.ConsistentRead, Fit: fitsPaths(paths)}, in.Key.Item, second(in.AsOf))
	if err != nil {
		return nil, usage{}, err
	}
	units := capacity.Consumed{Table: capacity.Read(it.Size(), in.ConsistentRead)}
	reply := &api.GetItemReply{Item: project(it, paths), ConsumedCapacity: consumed(in.ReturnConsumedCapacity, in.TableName, units)}
	return reply, usage{asked: asked{table: in.TableName}, consumed: units, ofPast: true}, nil
}

// defaultHistory is how many changes a page of an item's history has by default.
const defaultHistory = 50

// historyBytes is the memory that a page of an item's history needs.
func historyBytes(*api.ItemHistory) int64 {
	return readBytes(defaultHistory, db.MaxPageBytes+item.MaxSize)
}

func (s *Service) itemHistory(ctx context.Context, in *api.ItemHistory) (*api.ItemHistoryReply, usage, error) {
	get := historyGet(in)
	if err := firstFault(get, getItemChecks); err != nil {
		return nil, usage{}, err
	}
	paths, err := s.onlyProjection(nil, in.ProjectionExpression, nil, in.ExpressionAttributeNames)
	if err != nil {
		return nil, usage{}, err
	}
	plan := db.ItemHistory{Table: in.TableName, Key: in.Key.Item, Fit: fitsPaths(paths), Limit: defaultHistory}
	if in.Limit != nil {
		plan.Limit = int(*in.Limit)
	}
	if in.NextToken != nil {
		at, ok := stream.ParseSequence(*in.NextToken)
		if !ok {
			return nil, usage{}, apierror.Validation("NextToken is not valid")
		}
		plan.Before = &history.Revision{Stamp: at.Stamp, N: at.N}
	}
	page, err := s.DB.ReadHistory(ctx, plan)
	if err != nil {
		return nil, usage{}, err
	}
	reply := &api.ItemHistoryReply{Changes: []api.ItemRevision{}, KeptFrom: api.TimeOf(page.KeptFrom), ReadTo: api.TimeOf(page.KeptFrom),
		LookedAt: page.Looked, ConsumedCapacity: consumed(in.ReturnConsumedCapacity, in.TableName, page.Consumed)}
	for i := range page.Found {
		r := &page.Found[i]
		reply.Changes = append(reply.Changes, api.ItemRevision{
			SequenceNumber: stream.Position{Stamp: r.Stamp, N: r.N}.Sequence(), At: api.TimeOf(r.At), EventName: r.Kind(),
			Actor: actorName(r.Actor), Principal: r.By, OldImage: project(r.Before, paths), NewImage: project(r.After, paths),
		})
	}
	if next := page.Next; next != nil {
		reply.NextToken, reply.ReadTo = stream.Position{Stamp: next.Stamp, N: next.N}.Sequence(), api.TimeOf(next.At)
	}
	return reply, usage{asked: asked{table: in.TableName}, consumed: page.Consumed, ofPast: true}, nil
}

// historyGet returns the GetItem that needs the same permissions, once for each change.
func historyGet(in *api.ItemHistory) *api.GetItem {
	return &api.GetItem{TableName: in.TableName, Key: in.Key, ReturnConsumedCapacity: in.ReturnConsumedCapacity,
		ProjectionExpression: in.ProjectionExpression, ExpressionAttributeNames: in.ExpressionAttributeNames}
}

func actorName(a change.Actor) string {
	if a == change.Expiry {
		return "time-to-live"
	}
	return "customer"
}
