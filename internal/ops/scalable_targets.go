package ops

import (
	"context"
	"crypto/rand"

	"encoding/hex"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/protocol/api"
)

// dynamoDB is the namespace of what is scaled here.
const dynamoDB = "dynamodb"

// namespaceServed checks that a request is about DynamoDB.
func namespaceServed(namespace *string) error {
	if *namespace != dynamoDB {
		return apierror.Validation("Only resources of the service namespace dynamodb are scaled here, not those of %s", *namespace)
	}
	return nil
}

// scaled returns what a request is about.
func scaled(in *api.ScalableID) (autoscaling.ID, error) {
	if err := namespaceServed(in.ServiceNamespace); err != nil {
		return autoscaling.ID{}, err
	}
	id := autoscaling.ID{Resource: *in.ResourceId, Dimension: *in.ScalableDimension}
	if _, _, _, ok := id.Parts(); !ok {
		return id, apierror.Validation("Unsupported service namespace, resource type or scalable dimension")
	}
	return id, nil
}

// listFits checks what a list is about; member is the one that names resources.
func listFits(f *api.ScalableFilter, member string, given bool) error {
	if err := namespaceServed(f.ServiceNamespace); err != nil {
		return err
	}
	if f.ScalableDimension != nil && !given {
		return apierror.Validation("%s is required with ScalableDimension", member)
	}
	return nil
}

// isListed reports whether a filter includes settings.
func isListed(f *api.ScalableFilter, resource *string, s *autoscaling.Settings) bool {
	return (f.ScalableDimension == nil || *f.ScalableDimension == s.Dimension) && (resource == nil || *resource == s.Resource)
}

// applyTimeout is how long the leader leaves new bounds to the request that sets them.
const applyTimeout = 5 * time.Second

// maxScalableTargets is how many targets there may be. A deleted table leaves its own.
const maxScalableTargets = 5_000

// targetFits checks that there may be a target, or another one.
func (s *Service) targetFits(ctx context.Context, id autoscaling.ID) error {
	all, err := s.scaling.List(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, settings := range all {
		if settings.Target == nil {
			continue
		}
		if settings.ID == id {
			return nil
		}
		n++
	}
	if n >= maxScalableTargets {
		return apierror.LimitExceeded("There can be at most %d scalable targets", maxScalableTargets)
	}
	return nil
}

// registerScalableTarget registers a target or changes the members that are given.
// Units outside of the bounds are changed at once.
func (s *Service) registerScalableTarget(ctx context.Context, in *api.RegisterScalableTarget) (*api.RegisterScalableTargetReply, error) {
	id, err := scaled(&in.ScalableID)
	if err != nil {
		return nil, err
	}
	if err := s.resourceExists(id); err != nil {
		return nil, err
	}
	if err := scalableTagsFit(in.Tags); err != nil {
		return nil, err
	}
	if err := s.targetFits(ctx, id); err != nil {
		return nil, err
	}
	reply := new(api.RegisterScalableTargetReply)
	err = s.scaling.Change(ctx, id, func(settings *autoscaling.Settings) error {
		t := settings.Target
		if t == nil {
			if in.MinCapacity == nil || in.MaxCapacity == nil {
				return apierror.Validation("MinCapacity and MaxCapacity are required to register a scalable target")
			}
			region := callerOf(ctx).Region
			t = &autoscaling.Target{
				ARN:     "arn:aws:application-autoscaling:" + region + ":" + s.account + ":scalable-target/" + newTargetID(),
				Role:    "arn:aws:iam::" + s.account + ":role/aws-service-role/dynamodb.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_DynamoDBTable",
				Created: s.DB.Now(), Region: region, Tags: in.Tags,
			}
			settings.Target = t
		}
		if in.MinCapacity != nil {
			t.Min = int64(*in.MinCapacity)
		}
		if in.MaxCapacity != nil {
			t.Max = int64(*in.MaxCapacity)
		}
		t.Unapplied, t.ClaimedUntil, t.RetryAt = true, s.DB.Now().Add(applyTimeout), time.Time{} // also bounds that are not given
		if state := in.SuspendedState; state != nil {
			setIfGiven(&t.InSuspended, state.DynamicScalingInSuspended)
			setIfGiven(&t.OutSuspended, state.DynamicScalingOutSuspended)
			setIfGiven(&t.ScheduledSuspended, state.ScheduledScalingSuspended)
		}
		reply.ScalableTargetARN = t.ARN
		return boundsFit(&t.Min, &t.Max)
	})
	if err != nil {
		return nil, err
	}
	return reply, s.scaling.ApplyBounds(ctx, id)
}

func setIfGiven[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}

// newTargetID returns a random id of a scalable target.
func newTargetID() string {
	var b [18]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// boundsFit checks the bounds of units that are given.
func boundsFit(lowest, highest *int64) error {
	switch {
	case lowest != nil && *lowest < 1 || highest != nil && *highest < 1:
		return apierror.Validation("The capacity of a table or an index cannot be less than 1")
	case lowest != nil && highest != nil && *lowest > *highest:
		return apierror.Validation("Minimum capacity cannot be greater than maximum capacity")
	}
	return nil
}

// resourceExists checks that a table or a global index exists.
func (s *Service) resourceExists(id autoscaling.ID) error {
	table, index, _, _ := id.Parts()
	d, err := s.DB.Describe(table)
	if err != nil {
		return apierror.Validation("DynamoDB table does not exist: table/%s", table)
	}
	if x, ok := d.Index(index); index != "" && (!ok || !x.Global) {
		return apierror.Validation("DynamoDB index does not exist: %s", id.Resource)
	}
	return nil
}

// deregisterScalableTarget removes a target with its policy and scheduled actions.
// Its activities can still be read.
func (s *Service) deregisterScalableTarget(ctx context.Context, in *api.DeregisterScalableTarget) (*api.Empty, error) {
	id, err := scaled(&in.ScalableID)
	if err != nil {
		return nil, err
	}
	return new(api.Empty), s.scaling.Change(ctx, id, func(settings *autoscaling.Settings) error {
		if settings.Target == nil {
			return apierror.ObjectNotFound("No scalable target found for %s", idText(id))
		}
		settings.Target, settings.Policy, settings.Actions = nil, nil, nil
		return nil
	})
}

// idText is an id as messages show it.
func idText(id autoscaling.ID) string {
	return "service namespace: " + dynamoDB + ", resource ID: " + id.Resource + ", scalable dimension: " + id.Dimension
}

// notRegistered is the fault of a request that needs a target.
func notRegistered(id autoscaling.ID) error {
	return apierror.ObjectNotFound("No scalable target registered for %s", idText(id))
}

func (s *Service) describeScalableTargets(ctx context.Context, in *api.DescribeScalableTargets) (*api.DescribeScalableTargetsReply, error) {
	if err := listFits(&in.ScalableFilter, "ResourceIds", in.ResourceIds != nil); err != nil {
		return nil, err
	}
	all, err := s.scaling.List(ctx)
	if err != nil {
		return nil, err
	}
	var list keyedList[api.ScalableTarget]
	for _, settings := range all {
		t := settings.Target
		if t == nil || !isListed(&in.ScalableFilter, nil, settings) || in.ResourceIds != nil && !slices.Contains(in.ResourceIds, settings.Resource) {
			continue
		}
		list.add(settings.Resource+"\x00"+settings.Dimension, api.ScalableTarget{
			ServiceNamespace: dynamoDB, ResourceId: settings.Resource, ScalableDimension: settings.Dimension,
			MinCapacity: int32(t.Min), MaxCapacity: int32(t.Max), RoleARN: t.Role, CreationTime: api.TimeOf(t.Created), ScalableTargetARN: t.ARN,
			SuspendedState: &api.SuspendedState{
				DynamicScalingInSuspended: &t.InSuspended, DynamicScalingOutSuspended: &t.OutSuspended, ScheduledScalingSuspended: &t.ScheduledSuspended,
			},
		})
	}
	page, next, err := list.page(in.MaxResults, in.NextToken, maxScalingListed)
	return &api.DescribeScalableTargetsReply{ScalableTargets: page, NextToken: next}, err
}

// The largest pages of lists of auto scaling, which are also the defaults.
const (
	maxScalingListed  = 50
	maxPoliciesListed = 10
)
