package ops

import (
	"context"

	"github.com/stator-db/stator/internal/protocol/api"
)

// maxTablesListed is the largest page of ListTables, and the default.
const maxTablesListed = 100

// listTables lists tables ordered by the bytes of their names.
// ExclusiveStartTableName need not be the name of a table.
func (s *Service) listTables(_ context.Context, in *api.ListTables) (*api.ListTablesReply, error) {
	limit := maxTablesListed
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	names, more := s.DB.Tables(orZero(in.ExclusiveStartTableName), limit)
	reply := &api.ListTablesReply{TableNames: names}
	if more {
		reply.LastEvaluatedTableName = names[len(names)-1]
	}
	return reply, nil
}
