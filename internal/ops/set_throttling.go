package ops

import (
	"context"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) setThrottling(ctx context.Context, in *api.SetThrottling) (*api.SetThrottlingReply, error) {
	set := schema.Throttling(*in.Throttling)
	if *in.Throttling == "default" {
		set = schema.ThrottlingDefault
	}
	if err := s.DB.SetThrottling(ctx, in.TableName, set); err != nil {
		return nil, err
	}
	return &api.SetThrottlingReply{TableName: in.TableName, Throttling: *in.Throttling}, nil
}
