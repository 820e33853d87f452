package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) updateTimeToLive(ctx context.Context, in *api.UpdateTimeToLive) (*api.UpdateTimeToLiveReply, error) {
	spec := in.TimeToLiveSpecification
	attribute := *spec.AttributeName
	d, err := s.DB.Describe(in.TableName)
	if err != nil {
		return nil, err
	}
	if !*spec.Enabled {
		// To disable it, the request must name the attribute in use.
		if now := d.TimeToLive.Attribute; now != "" && now != attribute {
			return nil, apierror.Validation("TimeToLive is active on a different AttributeName: current AttributeName is %s", now)
		}
		attribute = ""
	}
	if err := s.DB.SetTimeToLive(ctx, in.TableName, attribute); err != nil {
		return nil, err
	}
	return &api.UpdateTimeToLiveReply{TimeToLiveSpecification: spec}, nil
}

func (s *Service) describeTimeToLive(_ context.Context, in *api.DescribeTimeToLive) (*api.DescribeTimeToLiveReply, error) {
	d, err := s.DB.Describe(in.TableName)
	if err != nil {
		return nil, err
	}
	desc := &api.TimeToLiveDescription{AttributeName: d.TimeToLive.Attribute, TimeToLiveStatus: "DISABLED"}
	if d.TimeToLive.Attribute != "" {
		desc.TimeToLiveStatus = "ENABLED"
	}
	return &api.DescribeTimeToLiveReply{TimeToLiveDescription: desc}, nil
}
