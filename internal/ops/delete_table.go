package ops

import (
	"context"

	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) deleteTable(ctx context.Context, in *api.DeleteTable) (*api.TableReply, error) {
	if err := tableNamed(in.TableName); err != nil {
		return nil, err
	}
	left, err := s.DB.DeleteTable(ctx, in.TableName)
	if err != nil {
		return nil, err
	}
	s.workload.TableDeleted()
	return &api.TableReply{TableDescription: s.description(ctx, left)}, nil
}
