package ops

import (
	"context"

	"github.com/stator-db/stator/internal/protocol/api"
)

// maxTablesListed is how many names a page has unless fewer are asked for.
const maxTablesListed = 100

// listTables tells names in order of their bytes. The name to start after
// need not be that of a table.
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
