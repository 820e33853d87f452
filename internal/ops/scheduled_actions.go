package ops

import (
	"context"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/protocol/api"
)

// maxScheduledActions is how many scheduled actions a target may have.
const maxScheduledActions = 200

// putScheduledAction sets a scheduled action, or changes the members that are
// given; a start and an end that are not given are removed, as on AWS.
func (s *Service) putScheduledAction(ctx context.Context, in *api.PutScheduledAction) (*api.Empty, error) {
	id, err := scaled(&in.ScalableID)
	if err != nil {
		return nil, err
	}
	if err := actionNamed(*in.ScheduledActionName); err != nil {
		return nil, err
	}
	return new(api.Empty), s.scaling.Change(ctx, id, func(settings *autoscaling.Settings) error {
		if settings.Target == nil {
			return notRegistered(id)
		}
		i, found := slices.BinarySearchFunc(settings.Actions, *in.ScheduledActionName, func(a autoscaling.Action, name string) int { return strings.Compare(a.Name, name) })
		if !found {
			if len(settings.Actions) == maxScheduledActions {
				return apierror.LimitExceeded("A scalable target can have at most %d scheduled actions", maxScheduledActions)
			}
			name := *in.ScheduledActionName
			settings.Actions = slices.Insert(settings.Actions, i, autoscaling.Action{Name: name, Created: s.DB.Now(), ARN: s.scalingARN(ctx, "scheduledAction", id, "scheduledActionName", name)})
		}
		return s.setAction(&settings.Actions[i], in)
	})
}

// actionNamed checks the name of a scheduled action.
func actionNamed(name string) error {
	invalid := func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f || strings.ContainsRune(":/|", r) }
	if strings.ContainsFunc(name, invalid) || strings.TrimSpace(name) != name {
		return apierror.Validation("1 validation error detected: Value '%s' at 'scheduledActionName' failed to satisfy constraint: "+
			`Member must satisfy regular expression pattern: (?!((^[ ]+.*)|(.*([\u0000-\u001f]|[\u007f-\u009f]|[:/|])+.*)|(.*[ ]+$))).+`, name)
	}
	return nil
}

// setAction changes a scheduled action as a request says.
func (s *Service) setAction(a *autoscaling.Action, in *api.PutScheduledAction) error {
	setIfGiven(&a.Schedule, in.Schedule)
	setIfGiven(&a.Timezone, in.Timezone)
	if in.ScalableTargetAction != nil {
		a.Min, a.Max = int64Of(in.ScalableTargetAction.MinCapacity), int64Of(in.ScalableTargetAction.MaxCapacity)
	}
	a.Start, a.End = orZero(in.StartTime).Time, orZero(in.EndTime).Time
	a.Since = s.DB.Now()
	switch {
	case a.Schedule == "":
		return apierror.Validation("Schedule is required for a new scheduled action")
	case a.Min == nil && a.Max == nil:
		return apierror.Validation("ScalableTargetAction must have MinCapacity, MaxCapacity or both")
	case !a.Start.IsZero() && !a.End.IsZero() && !a.Start.Before(a.End):
		return apierror.Validation("StartTime must be before EndTime")
	}
	if _, err := autoscaling.ParseSchedule(a.Schedule, a.Timezone); err != nil {
		return apierror.Validation("Invalid schedule expression. Details: %s", err)
	}
	return boundsFit(a.Min, a.Max)
}

func int64Of(n *int32) *int64 {
	if n == nil {
		return nil
	}
	wide := int64(*n)
	return &wide
}

func int32Of(n *int64) *int32 {
	if n == nil {
		return nil
	}
	narrow := int32(*n)
	return &narrow
}

func (s *Service) deleteScheduledAction(ctx context.Context, in *api.DeleteScheduledAction) (*api.Empty, error) {
	id, err := scaled(&in.ScalableID)
	if err != nil {
		return nil, err
	}
	return new(api.Empty), s.scaling.Change(ctx, id, func(settings *autoscaling.Settings) error {
		before := len(settings.Actions)
		settings.Actions = slices.DeleteFunc(settings.Actions, func(a autoscaling.Action) bool { return a.Name == *in.ScheduledActionName })
		if len(settings.Actions) == before {
			return apierror.ObjectNotFound("No scheduled action found for %s, scheduled action name: %s", idText(id), *in.ScheduledActionName)
		}
		return nil
	})
}

func (s *Service) describeScheduledActions(ctx context.Context, in *api.DescribeScheduledActions) (*api.DescribeScheduledActionsReply, error) {
	if err := listFits(&in.ScalableFilter, "ResourceId", in.ResourceId != nil); err != nil {
		return nil, err
	}
	all, err := s.scaling.List(ctx)
	if err != nil {
		return nil, err
	}
	var list keyedList[api.ScheduledAction]
	for _, settings := range all {
		for _, a := range settings.Actions {
			if !isListed(&in.ScalableFilter, in.ResourceId, settings) || in.ScheduledActionNames != nil && !slices.Contains(in.ScheduledActionNames, a.Name) {
				continue
			}
			list.add(settings.Resource+"\x00"+settings.Dimension+"\x00"+a.Name, api.ScheduledAction{
				ScheduledActionName: a.Name, ScheduledActionARN: a.ARN, ServiceNamespace: dynamoDB, ResourceId: settings.Resource, ScalableDimension: settings.Dimension,
				Schedule: a.Schedule, Timezone: a.Timezone, StartTime: api.TimeOf(a.Start), EndTime: api.TimeOf(a.End), CreationTime: api.TimeOf(a.Created),
				ScalableTargetAction: &api.ScalableTargetAction{MinCapacity: int32Of(a.Min), MaxCapacity: int32Of(a.Max)},
			})
		}
	}
	page, next, err := list.page(in.MaxResults, in.NextToken, maxScalingListed)
	return &api.DescribeScheduledActionsReply{ScheduledActions: page, NextToken: next}, err
}
