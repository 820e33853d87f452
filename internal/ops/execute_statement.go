package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/partiql"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) executeStatement(ctx context.Context, in *api.ExecuteStatement) (*api.ExecuteStatementReply, usage, error) {
	parsed, err := s.parseStatement(in.Statement)
	if err != nil {
		return nil, usage{}, err
	}
	st, err := bindStatement(parsed, in.Parameters)
	if err != nil {
		return nil, usage{}, err
	}
	switch st := st.(type) {
	case *partiql.Select:
		return s.selectPage(ctx, in, st)
	case *partiql.Exists:
		return nil, usage{}, errExistsOutside
	}
	plan, err := s.planWrite(st)
	if err != nil {
		return nil, usage{}, err
	}
	returned, err := reserveReturned(ctx, plan.returnedItems())
	if err != nil {
		return nil, usage{}, err
	}
	defer returned.end()
	done, err := s.DB.Write(ctx, plan.Write)
	if err != nil {
		return nil, usage{}, conditionFault(err, &api.Conditional{ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure})
	}
	buffer.Commit(ctx)
	reply := &api.ExecuteStatementReply{ConsumedCapacity: consumed(in.ReturnConsumedCapacity, plan.Table, done[0].Consumed)}
	shown, err := plan.returned(done[0])
	if shown != nil {
		reply.Items = []item.Item{shown}
	}
	return reply, usage{returned: len(reply.Items), scanned: len(reply.Items), consumed: done[0].Consumed, asked: plan.asked(&in.Statement)}, err
}

var errExistsOutside = apierror.Validation("EXISTS can only be used in ExecuteTransaction write requests.")

// selectPage reads a page of a SELECT. Its NextToken is valid for the same
// statement with the same parameters.
func (s *Service) selectPage(ctx context.Context, in *api.ExecuteStatement, st *partiql.Select) (*api.ExecuteStatementReply, usage, error) {
	r, err := s.openSelect(st, in.ConsistentRead)
	if err != nil {
		return nil, usage{}, err
	}
	var from selectionStart
	if in.NextToken != nil {
		if from, err = r.readToken(*in.NextToken, statementDigest(in)); err != nil {
			return nil, usage{}, err
		}
	}
	limit := 0
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	page, err := s.read(ctx, r, from, limit)
	if err != nil {
		return nil, usage{}, err
	}
	reply := &api.ExecuteStatementReply{
		Items:            page.items,
		ConsumedCapacity: consumed(in.ReturnConsumedCapacity, st.Table, page.consumed),
	}
	if page.next != nil {
		reply.NextToken = nextToken(statementDigest(in), *page.next)
		reply.LastEvaluatedKey = page.next.after
	}
	return reply, usage{returned: len(page.items), scanned: page.scanned, consumed: page.consumed, asked: r.asked(&in.Statement)}, nil
}
