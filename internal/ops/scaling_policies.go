package ops

import (
	"context"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/protocol/api"
)

// targetTracking is the one kind of policy that DynamoDB supports.
const targetTracking = "TargetTrackingScaling"

// The limits of the utilization of a policy, in percent.
const (
	minUtilization = 20
	maxUtilization = 90
)

// putScalingPolicyChecks run after the resource is known to be one of DynamoDB.
var putScalingPolicyChecks = []func(*api.PutScalingPolicy) error{
	func(in *api.PutScalingPolicy) error {
		if in.PolicyType != nil && *in.PolicyType != targetTracking || in.StepScalingPolicyConfiguration != nil || in.PredictiveScalingPolicyConfiguration != nil {
			return apierror.Validation("DynamoDB supports policies of the type TargetTrackingScaling only")
		}
		return nil
	},
	func(in *api.PutScalingPolicy) error {
		if strings.ContainsFunc(*in.PolicyName, func(r rune) bool { return r < ' ' || r > '~' }) {
			return apierror.Validation(`1 validation error detected: Value '%s' at 'policyName' failed to satisfy constraint: Member must satisfy regular expression pattern: \p{Print}+`, *in.PolicyName)
		}
		return nil
	},
	func(in *api.PutScalingPolicy) error {
		c := in.TargetTrackingScalingPolicyConfiguration
		switch {
		case c == nil:
			return apierror.Validation("TargetTrackingScalingPolicyConfiguration is required for the policy type TargetTrackingScaling")
		case c.CustomizedMetricSpecification != nil:
			return apierror.Validation("CustomizedMetricSpecification is not supported: there are no metrics of other services")
		case c.PredefinedMetricSpecification == nil:
			return apierror.Validation("PredefinedMetricSpecification is required")
		case *c.PredefinedMetricSpecification.PredefinedMetricType != metricOf(*in.ScalableDimension):
			return apierror.Validation("The metric type %s is not valid for the scalable dimension %s", *c.PredefinedMetricSpecification.PredefinedMetricType, *in.ScalableDimension)
		case *c.TargetValue < minUtilization || *c.TargetValue > maxUtilization:
			return apierror.Validation("The target value must be between %d and %d", minUtilization, maxUtilization)
		case c.ScaleInCooldown != nil && *c.ScaleInCooldown < 0 || c.ScaleOutCooldown != nil && *c.ScaleOutCooldown < 0:
			return apierror.Validation("A cooldown cannot be negative")
		}
		return nil
	},
}

// metricOf returns the metric by which a dimension is scaled.
func metricOf(dimension string) string {
	if strings.HasSuffix(dimension, "WriteCapacityUnits") {
		return "DynamoDBWriteCapacityUtilization"
	}
	return "DynamoDBReadCapacityUtilization"
}

// putScalingPolicy sets the policy of a target, or changes it. Each dimension has
// one metric, and so at most one policy.
func (s *Service) putScalingPolicy(ctx context.Context, in *api.PutScalingPolicy) (*api.PutScalingPolicyReply, error) {
	id, err := scaled(&in.ScalableID)
	if err == nil {
		err = firstFault(in, putScalingPolicyChecks)
	}
	if err != nil {
		return nil, err
	}
	reply := new(api.PutScalingPolicyReply)
	err = s.scaling.Change(ctx, id, func(settings *autoscaling.Settings) error {
		switch {
		case settings.Target == nil:
			return notRegistered(id)
		case settings.Policy != nil && settings.Policy.Name != *in.PolicyName:
			return apierror.Validation("Only one TargetTrackingScaling policy for a given metric specification is allowed.")
		case settings.Policy == nil:
			settings.Policy = s.newPolicy(ctx, id, *in.PolicyName)
		}
		p, c := settings.Policy, in.TargetTrackingScalingPolicyConfiguration
		p.Metric, p.Label, p.Utilization = *c.PredefinedMetricSpecification.PredefinedMetricType, c.PredefinedMetricSpecification.ResourceLabel, *c.TargetValue
		p.OutCooldown, p.InCooldown, p.DisableScaleIn = c.ScaleOutCooldown, c.ScaleInCooldown, c.DisableScaleIn
		reply.PolicyARN, reply.Alarms = p.ARN, alarmsReply(p)
		return nil
	})
	return reply, err
}

// newPolicy returns a policy with the names of its alarms.
func (s *Service) newPolicy(ctx context.Context, id autoscaling.ID, name string) *autoscaling.Policy {
	region := callerOf(ctx).Region
	p := &autoscaling.Policy{Name: name, Created: s.DB.Now(), ARN: s.scalingARN(ctx, "scalingPolicy", id, "policyName", name)}
	for _, kind := range autoscaling.AlarmKinds {
		alarm := "TargetTracking-" + id.Resource + "-" + kind + "-" + db.NewUUID()
		p.Alarms = append(p.Alarms, autoscaling.Alarm{Name: alarm, ARN: "arn:aws:cloudwatch:" + region + ":" + s.account + ":alarm:" + alarm})
	}
	return p
}

// scalingARN returns the ARN of a new policy or scheduled action.
func (s *Service) scalingARN(ctx context.Context, kind string, id autoscaling.ID, member, name string) string {
	return "arn:aws:autoscaling:" + callerOf(ctx).Region + ":" + s.account + ":" + kind + ":" + db.NewUUID() +
		":resource/" + dynamoDB + "/" + id.Resource + ":" + member + "/" + name
}

func alarmsReply(p *autoscaling.Policy) (alarms []api.ScalingAlarm) {
	for _, a := range p.Alarms {
		alarms = append(alarms, api.ScalingAlarm{AlarmName: a.Name, AlarmARN: a.ARN})
	}
	return alarms
}

func (s *Service) deleteScalingPolicy(ctx context.Context, in *api.DeleteScalingPolicy) (*api.Empty, error) {
	id, err := scaled(&in.ScalableID)
	if err != nil {
		return nil, err
	}
	return new(api.Empty), s.scaling.Change(ctx, id, func(settings *autoscaling.Settings) error {
		if settings.Policy == nil || settings.Policy.Name != *in.PolicyName {
			return apierror.ObjectNotFound("No scaling policy found for %s, policy name: %s", idText(id), *in.PolicyName)
		}
		settings.Policy = nil
		return nil
	})
}

func (s *Service) describeScalingPolicies(ctx context.Context, in *api.DescribeScalingPolicies) (*api.DescribeScalingPoliciesReply, error) {
	if err := listFits(&in.ScalableFilter, "ResourceId", in.ResourceId != nil); err != nil {
		return nil, err
	}
	all, err := s.scaling.List(ctx)
	if err != nil {
		return nil, err
	}
	var list keyedList[api.ScalingPolicy]
	for _, settings := range all {
		p := settings.Policy
		if p == nil || !isListed(&in.ScalableFilter, in.ResourceId, settings) || in.PolicyNames != nil && !slices.Contains(in.PolicyNames, p.Name) {
			continue
		}
		list.add(settings.Resource+"\x00"+settings.Dimension, api.ScalingPolicy{
			PolicyARN: p.ARN, PolicyName: p.Name, ServiceNamespace: dynamoDB, ResourceId: settings.Resource, ScalableDimension: settings.Dimension,
			PolicyType: targetTracking, Alarms: alarmsReply(p), CreationTime: api.TimeOf(p.Created),
			TargetTrackingScalingPolicyConfiguration: &api.TargetTracking{
				TargetValue: &p.Utilization, PredefinedMetricSpecification: &api.PredefinedMetric{PredefinedMetricType: &p.Metric, ResourceLabel: p.Label},
				ScaleOutCooldown: p.OutCooldown, ScaleInCooldown: p.InCooldown, DisableScaleIn: p.DisableScaleIn,
			},
		})
	}
	page, next, err := list.page(in.MaxResults, in.NextToken, maxPoliciesListed)
	return &api.DescribeScalingPoliciesReply{ScalingPolicies: page, NextToken: next}, err
}
