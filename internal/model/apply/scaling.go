package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
)

// scalableID names what Application Auto Scaling scales.
type scalableID struct{ resource, dimension string }

// liveScaling is the scalable target of an id, with its policy.
type liveScaling struct {
	MinCapacity, MaxCapacity int64
	policy                   *livePolicy // nil if there is none
}

// livePolicy is a target tracking policy.
type livePolicy struct {
	PolicyName                               string
	ScalableDimension                        string
	TargetTrackingScalingPolicyConfiguration struct {
		TargetValue                   float64
		PredefinedMetricSpecification struct{ PredefinedMetricType string }
		ScaleOutCooldown              *int64
		ScaleInCooldown               *int64
		DisableScaleIn                *bool
	}
}

// The operations of Application Auto Scaling that this package uses. No operation of the API
// of tables has the same name.
var scalingOperations = []string{"RegisterScalableTarget", "DeregisterScalableTarget", "PutScalingPolicy", "DescribeScalableTargets", "DescribeScalingPolicies"}

// IsScaling reports whether an operation is one of Application Auto Scaling.
func IsScaling(operation string) bool { return slices.Contains(scalingOperations, operation) }

// undeclaredTimeout is how long Application Auto Scaling may take to answer when the model
// does not use it: the network may not have a way to it.
const undeclaredTimeout = 10 * time.Second

// readScaling reads how a table that exists and its indexes are scaled. A table that is on
// demand in the model is not compared: what is registered for it has no effect.
func (c *comparer) readScaling(ctx context.Context, send Send) error {
	if c.table.OnDemand() {
		return nil
	}
	declared := len(c.table.ScaledCapacities()) > 0
	if !declared {
		limited, cancel := context.WithTimeout(ctx, undeclaredTimeout)
		defer cancel()
		ctx = limited
	}
	scaling, err := describeScaling(ctx, send, c.scalableResources())
	switch {
	case err == nil:
		c.scaling, c.scalable = scaling, true
	case declared && !lacksScaling(err):
		return fmt.Errorf("read the auto scaling of table %s: %w", c.table.Name, err)
	case declared:
		c.note("table %s scales its units, but the endpoint has no Application Auto Scaling; they stay as they are", c.table.Name)
	case !lacksScaling(err):
		c.note("it is not known whether table %s scales its units, which the model does not declare: %v", c.table.Name, err)
	}
	return nil
}

// ScalingChanges returns the changes that make the auto scaling of the tables of an endpoint match a
// model. Tables that do not exist, or are on demand in the model, are not compared.
func ScalingChanges(ctx context.Context, send Send, m *model.Model) ([]*Change, error) {
	plan := new(Plan)
	for _, t := range m.Tables {
		if t.OnDemand() {
			continue
		}
		l, err := describe(ctx, send, t.Name)
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue
		}
		c := &comparer{plan: plan, table: t, live: l}
		if err := c.readScaling(ctx, send); err != nil {
			return nil, err
		}
		c.unscale()
		c.scale()
	}
	return plan.Changes, nil
}

// scalableResources returns the names of the table and of its indexes, also of those that the model
// does not have.
func (c *comparer) scalableResources() []string {
	all := []string{model.ScalableResource(c.table.Name, "")}
	for _, x := range c.table.Indexes {
		if !x.Local {
			all = append(all, model.ScalableResource(c.table.Name, x.Name))
		}
	}
	if c.live != nil {
		for _, x := range c.live.GlobalSecondaryIndexes {
			if name := model.ScalableResource(c.table.Name, x.IndexName); !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// describeScaling reads the scalable targets of resources, with their policies.
func describeScaling(ctx context.Context, send Send, resources []string) (map[scalableID]*liveScaling, error) {
	all := make(map[scalableID]*liveScaling)
	var scaled []string
	var targets struct {
		ScalableTargets []struct {
			ResourceId, ScalableDimension string
			liveScaling
		}
		NextToken string
	}
	body := map[string]any{"ServiceNamespace": "dynamodb", "ResourceIds": resources}
	for more := true; more; more = targets.NextToken != "" {
		if targets.NextToken != "" {
			body["NextToken"] = targets.NextToken
		}
		targets.ScalableTargets, targets.NextToken = nil, ""
		if err := send.Ask(ctx, "DescribeScalableTargets", body, &targets); err != nil {
			return nil, err
		}
		for _, t := range targets.ScalableTargets {
			all[scalableID{t.ResourceId, t.ScalableDimension}] = &t.liveScaling
			if !slices.Contains(scaled, t.ResourceId) {
				scaled = append(scaled, t.ResourceId)
			}
		}
	}
	for _, resource := range scaled {
		if err := describePolicies(ctx, send, resource, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// describePolicies reads the policies of a resource that keep the utilization of its units.
func describePolicies(ctx context.Context, send Send, resource string, of map[scalableID]*liveScaling) error {
	var reply struct {
		ScalingPolicies []*livePolicy
		NextToken       string
	}
	body := map[string]any{"ServiceNamespace": "dynamodb", "ResourceId": resource}
	for more := true; more; more = reply.NextToken != "" {
		if reply.NextToken != "" {
			body["NextToken"] = reply.NextToken
		}
		reply.ScalingPolicies, reply.NextToken = nil, ""
		if err := send.Ask(ctx, "DescribeScalingPolicies", body, &reply); err != nil {
			return err
		}
		for _, p := range reply.ScalingPolicies {
			metric := p.TargetTrackingScalingPolicyConfiguration.PredefinedMetricSpecification.PredefinedMetricType
			if s := of[scalableID{resource, p.ScalableDimension}]; s != nil && metric != "" {
				s.policy = p
			}
		}
	}
	return nil
}

// lacksScaling reports whether an endpoint does not have Application Auto Scaling.
func lacksScaling(err error) bool {
	if errors.Is(err, ErrNoScaling) || isFault(err, "UnknownOperationException") || isFault(err, "InvalidAction") {
		return true
	}
	reply, ok := errors.AsType[*unknownReply](err)
	return ok && (reply.status == http.StatusNotFound || reply.status == http.StatusBadRequest || reply.status == http.StatusNotImplemented)
}

// ErrNoScaling is returned by a Send that has no way to Application Auto Scaling.
var ErrNoScaling = errors.New("there is no way to Application Auto Scaling")

// unscale removes the scaling that the model does not declare, also of indexes that it does
// not have: before units are changed, which it would change again.
func (c *comparer) unscale() {
	if !c.scalable {
		return
	}
	declared := make(map[scalableID]bool)
	for _, s := range c.table.ScaledCapacities() {
		declared[scalableID{s.Resource(), s.Dimension()}] = true
	}
	var ids []scalableID
	for id := range c.scaling {
		if !declared[id] {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b scalableID) int {
		return strings.Compare(a.resource+" "+a.dimension, b.resource+" "+b.dimension)
	})
	for _, id := range ids {
		live, loses := c.scaling[id], "the units no longer follow the load; its policy and scheduled actions are removed too"
		if c.live == nil {
			loses = "" // it is left over from a table that was deleted
		}
		c.scalingChange(loses, "DeregisterScalableTarget", id, nil, "no longer scale the %s between %d and %d units", scaledText(id), live.MinCapacity, live.MaxCapacity)
	}
}

// The targets that DynamoDB accepts, in percent.
const (
	lowestTarget  = 20
	highestTarget = 90
)

// scale adds the scaling that the model declares.
func (c *comparer) scale() {
	for _, s := range c.table.ScaledCapacities() {
		id := scalableID{s.Resource(), s.Dimension()}
		if target := s.Utilization(); target < lowestTarget || target > highestTarget {
			c.fault(fmt.Sprintf("choose a target from %d to %d", lowestTarget, highestTarget), "the target of the %s is %d %%, which auto scaling does not accept", scaledText(id), target)
			continue
		}
		if !c.scalable {
			continue
		}
		live := c.scaling[id]
		if live == nil || live.MinCapacity != int64(s.Fewest()) || live.MaxCapacity != int64(s.Max) {
			c.scalingChange("", "RegisterScalableTarget", id, map[string]any{"MinCapacity": s.Fewest(), "MaxCapacity": s.Max},
				"scale the %s between %d and %d units", scaledText(id), s.Fewest(), s.Max)
		}
		if live == nil || live.policy == nil || !live.policy.matches(s) {
			c.putPolicy(id, s, live)
		}
	}
}

func (p *livePolicy) matches(s model.ScaledCapacity) bool {
	is := &p.TargetTrackingScalingPolicyConfiguration
	return is.TargetValue == float64(s.Utilization()) && is.PredefinedMetricSpecification.PredefinedMetricType == s.Metric()
}

// putPolicy adds the policy of a target. One that exists keeps its name and what the model
// does not say: each metric can have one policy only.
func (c *comparer) putPolicy(id scalableID, s model.ScaledCapacity, live *liveScaling) {
	name := s.Metric() + ":" + id.resource
	configuration := map[string]any{"TargetValue": s.Utilization(), "PredefinedMetricSpecification": map[string]any{"PredefinedMetricType": s.Metric()}}
	if live != nil && live.policy != nil {
		name = live.policy.PolicyName
		is := &live.policy.TargetTrackingScalingPolicyConfiguration
		if is.ScaleOutCooldown != nil {
			configuration["ScaleOutCooldown"] = *is.ScaleOutCooldown
		}
		if is.ScaleInCooldown != nil {
			configuration["ScaleInCooldown"] = *is.ScaleInCooldown
		}
		if is.DisableScaleIn != nil {
			configuration["DisableScaleIn"] = *is.DisableScaleIn
		}
	}
	c.scalingChange("", "PutScalingPolicy", id, map[string]any{
		"PolicyName": name, "PolicyType": "TargetTrackingScaling", "TargetTrackingScalingPolicyConfiguration": configuration,
	}, "keep the %s at %d %% of the units", scaledText(id), s.Utilization())
}

// scaledText describes what is scaled.
func scaledText(id scalableID) string {
	what := "reads"
	if strings.HasSuffix(id.dimension, "WriteCapacityUnits") {
		what = "writes"
	}
	if _, index, ok := strings.Cut(id.resource, "/index/"); ok {
		return what + " of the index " + index
	}
	return what
}

// scalingChange adds a change of how a table or an index is scaled.
func (c *comparer) scalingChange(loses, operation string, id scalableID, body map[string]any, format string, args ...any) {
	if body == nil {
		body = make(map[string]any)
	}
	body["ServiceNamespace"], body["ResourceId"], body["ScalableDimension"] = "dynamodb", id.resource, id.dimension
	c.plan.Changes = append(c.plan.Changes, &Change{
		Table: c.table.Name, Kind: Scaling, Text: fmt.Sprintf(format, args...), Loses: loses,
		Request: model.Request{Operation: operation, Body: body},
	})
}

// unitsOf returns the units that a table or an index gets: those of the model, or, of units
// that scale, those that it has.
func (c *comparer) unitsOf(is liveUnits, wanted schema.Throughput, read, write *model.Capacity) schema.Throughput {
	choose := func(is, wanted int64, of *model.Capacity) int64 {
		switch {
		case of.Max == 0 || is == 0:
			return wanted
		case c.scalable:
			return is // RegisterScalableTarget applies the bounds
		}
		return min(max(is, int64(of.Fewest())), int64(of.Max))
	}
	return schema.Throughput{Read: choose(is.ReadCapacityUnits, wanted.Read, read), Write: choose(is.WriteCapacityUnits, wanted.Write, write)}
}

// scalingOf returns how an endpoint scales a table of a model.
func scalingOf(t *model.Table) map[scalableID]*liveScaling {
	all := make(map[scalableID]*liveScaling)
	for _, s := range t.ScaledCapacities() {
		p := &livePolicy{PolicyName: s.Metric() + ":" + s.Resource(), ScalableDimension: s.Dimension()}
		p.TargetTrackingScalingPolicyConfiguration.TargetValue = float64(s.Utilization())
		p.TargetTrackingScalingPolicyConfiguration.PredefinedMetricSpecification.PredefinedMetricType = s.Metric()
		all[scalableID{s.Resource(), s.Dimension()}] = &liveScaling{MinCapacity: int64(s.Fewest()), MaxCapacity: int64(s.Max), policy: p}
	}
	return all
}
