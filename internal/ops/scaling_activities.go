package ops

import (
	"context"
	"fmt"
	"math"

	"github.com/stator-db/stator/internal/protocol/api"
)

// describeScalingActivities lists what auto scaling did, the newest first. It does
// not know of activities that changed nothing.
func (s *Service) describeScalingActivities(ctx context.Context, in *api.DescribeScalingActivities) (*api.DescribeScalingActivitiesReply, error) {
	if err := listFits(&in.ScalableFilter, "ResourceId", in.ResourceId != nil); err != nil {
		return nil, err
	}
	all, err := s.scaling.List(ctx)
	if err != nil {
		return nil, err
	}
	var list keyedList[api.ScalingActivity]
	for _, settings := range all {
		if !isListed(&in.ScalableFilter, in.ResourceId, settings) {
			continue
		}
		for i, a := range settings.Activities {
			// Of activities of one moment the later one is the newer.
			key := fmt.Sprintf("%019d %09d %s", math.MaxInt64-a.Started.UnixNano(), math.MaxInt32-i, a.ID)
			list.add(key, api.ScalingActivity{
				ActivityId: a.ID, ServiceNamespace: dynamoDB, ResourceId: settings.Resource, ScalableDimension: settings.Dimension,
				Description: a.Description, Cause: a.Cause, StartTime: api.TimeOf(a.Started), EndTime: api.TimeOf(a.Ended), StatusCode: a.Status, StatusMessage: a.Message,
			})
		}
	}
	page, next, err := list.page(in.MaxResults, in.NextToken, maxScalingListed)
	return &api.DescribeScalingActivitiesReply{ScalingActivities: page, NextToken: next}, err
}
