package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/virtualtime"
)

// scalingOf returns the targets and the policies of an endpoint, in order.
func scalingOf(t *testing.T, e *apply.Endpoint) (all []string) {
	t.Helper()
	var targets struct {
		ScalableTargets []struct {
			ResourceId, ScalableDimension string
			MinCapacity, MaxCapacity      int
		}
	}
	var policies struct {
		ScalingPolicies []struct {
			PolicyName, ResourceId, ScalableDimension string
			TargetTrackingScalingPolicyConfiguration  struct {
				TargetValue      float64
				ScaleOutCooldown int
			}
		}
	}
	for operation, into := range map[string]any{"DescribeScalableTargets": &targets, "DescribeScalingPolicies": &policies} {
		if err := apply.Send(e.Send).Ask(t.Context(), operation, map[string]any{"ServiceNamespace": "dynamodb"}, into); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range targets.ScalableTargets {
		text := fmt.Sprintf("%s %s %d-%d", s.ResourceId, strings.TrimPrefix(s.ScalableDimension, "dynamodb:"), s.MinCapacity, s.MaxCapacity)
		for _, p := range policies.ScalingPolicies {
			if c := p.TargetTrackingScalingPolicyConfiguration; p.ResourceId == s.ResourceId && p.ScalableDimension == s.ScalableDimension {
				text += fmt.Sprintf(" at %v %% by %s", c.TargetValue, p.PolicyName)
				if c.ScaleOutCooldown > 0 {
					text += fmt.Sprintf(" after %d s", c.ScaleOutCooldown)
				}
			}
		}
		all = append(all, text)
	}
	return all
}

// unitsOf returns the units of the table and of its index.
func unitsOf(t *testing.T, e *apply.Endpoint) string {
	t.Helper()
	type units struct{ ReadCapacityUnits, WriteCapacityUnits int }
	var d struct {
		Table struct {
			ProvisionedThroughput  units
			GlobalSecondaryIndexes []struct{ ProvisionedThroughput units }
		}
	}
	if err := apply.Send(e.Send).Ask(t.Context(), "DescribeTable", map[string]any{"TableName": "shop"}, &d); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(d.Table.ProvisionedThroughput)
	for _, x := range d.Table.GlobalSecondaryIndexes {
		text += fmt.Sprint(" ", x.ProvisionedThroughput)
	}
	return text
}

// The scaling that a model declares is registered, changed and removed. applied checks that a
// second run has nothing to do.
func TestApplyScaling(t *testing.T) {
	const fixed = "{" + key + ", indexes: {byDay: {partition: day}}, billing: provisioned, read: {units: 3}, write: {units: 4}}"
	const reads, writes = " by DynamoDBReadCapacityUtilization:table/shop", " by DynamoDBWriteCapacityUtilization:table/shop"
	for _, c := range []struct {
		name, before, after string
		changes             []string
		scaling             []string
		units               string
	}{
		{"a new table", "", "{" + key + ", indexes: {byDay: {partition: day, write: {units: 9}}}, billing: provisioned, read: {units: 6, min: 5, max: 10, target: 50}, write: {units: 4}}",
			[]string{"create the table with the key PK S HASH, SK S RANGE and the indexes byDay",
				"scale the reads between 5 and 10 units", "keep the reads at 50 % of the units", "scale the reads of the index byDay between 5 and 10 units", "keep the reads of the index byDay at 50 % of the units"},
			[]string{"table/shop table:ReadCapacityUnits 5-10 at 50 %" + reads, "table/shop/index/byDay index:ReadCapacityUnits 5-10 at 50 %" + reads + "/index/byDay"}, "{6 4} {6 9}"},
		{"a table with fixed units", fixed, "{" + key + ", indexes: {byDay: {partition: day, read: {units: 3}}}, billing: provisioned, read: {units: 3}, write: {min: 2, max: 8}}",
			[]string{"scale the writes between 2 and 8 units", "keep the writes at 70 % of the units", "scale the writes of the index byDay between 2 and 8 units", "keep the writes of the index byDay at 70 % of the units"},
			[]string{"table/shop table:WriteCapacityUnits 2-8 at 70 %" + writes, "table/shop/index/byDay index:WriteCapacityUnits 2-8 at 70 %" + writes + "/index/byDay"}, "{3 4} {3 4}"},
		{"other bounds, which apply to the units", "{" + key + ", billing: provisioned, read: {units: 40, min: 5, max: 100}, write: {units: 4}}", "{" + key + ", billing: provisioned, read: {units: 6, min: 5, max: 20}, write: {units: 4}}",
			[]string{"scale the reads between 5 and 20 units"}, []string{"table/shop table:ReadCapacityUnits 5-20 at 70 %" + reads}, "{20 4}"},
		{"another target", "{" + key + ", billing: provisioned, read: {min: 5, max: 100}, write: {units: 4}}", "{" + key + ", billing: provisioned, read: {min: 5, max: 100, target: 60}, write: {units: 4}}",
			[]string{"keep the reads at 60 % of the units"}, []string{"table/shop table:ReadCapacityUnits 5-100 at 60 %" + reads}, "{5 4}"},
		{"other fixed units next to those that scale", "{" + key + ", billing: provisioned, read: {units: 40, min: 5, max: 100}, write: {units: 4}}", "{" + key + ", billing: provisioned, read: {units: 6, min: 5, max: 100}, write: {units: 7}}",
			[]string{"provision 40 read and 7 write units"}, []string{"table/shop table:ReadCapacityUnits 5-100 at 70 %" + reads}, "{40 7}"},
		{"to fixed units", "{" + key + ", billing: provisioned, read: {units: 40, min: 5, max: 100}, write: {units: 4}}", "{" + key + ", billing: provisioned, read: {units: 6}, write: {units: 4}}",
			[]string{"no longer scale the reads between 5 and 100 units", "provision 6 read and 4 write units"}, nil, "{6 4}"},
		{"an index that scales is removed", "{" + key + ", indexes: {byDay: {partition: day, read: {min: 2, max: 8}}}, billing: provisioned, read: {units: 3}, write: {units: 4}}", "{" + key + ", billing: provisioned, read: {units: 3}, write: {units: 4}}",
			[]string{"no longer scale the reads of the index byDay between 2 and 8 units", "remove the index byDay"}, nil, "{3 4}"},
		{"from on-demand", "{" + key + "}", "{" + key + ", billing: provisioned, read: {units: 6, min: 5, max: 100}, write: {units: 4}}",
			[]string{"switch to provisioned billing with 6 read and 4 write units", "scale the reads between 5 and 100 units", "keep the reads at 70 % of the units"},
			[]string{"table/shop table:ReadCapacityUnits 5-100 at 70 %" + reads}, "{6 4}"},
		{"to on-demand, which keeps what is registered", "{" + key + ", billing: provisioned, read: {min: 5, max: 100}, write: {units: 4}}", "{" + key + "}",
			[]string{"switch to on-demand billing"}, []string{"table/shop table:ReadCapacityUnits 5-100 at 70 %" + reads}, "{0 0}"},
	} {
		inVirtualTime(t, c.name, func(t *testing.T) {
			e := server(t)
			if c.before != "" {
				applied(t, e, tableModel(t, c.before))
			}
			plan := applied(t, e, tableModel(t, c.after))
			if got := texts(plan); !slices.Equal(got, c.changes) {
				t.Errorf("the changes are %q, want %q", got, c.changes)
			}
			for _, change := range plan.Changes {
				if removes := change.Request.Operation == "DeregisterScalableTarget"; removes && change.Loses == "" {
					t.Errorf("%s loses nothing", change.Text)
				}
			}
			if got := scalingOf(t, e); !slices.Equal(got, c.scaling) {
				t.Errorf("the scaling is %q, want %q", got, c.scaling)
			}
			if got := unitsOf(t, e); got != c.units {
				t.Errorf("the units are %s, want %s", got, c.units)
			}
		})
	}
}

// What somebody else has set and the model does not say stays: the name of a policy, its
// cooldowns, and units that the scaling has changed.
func TestApplyKeepsWhatTheModelDoesNotSay(t *testing.T) { virtualtime.Test(t, testApplyKeeps) }

func testApplyKeeps(t *testing.T) {
	e := server(t)
	applied(t, e, tableModel(t, "{"+key+", billing: provisioned, read: {units: 7}, write: {units: 4}}"))
	for _, r := range [][2]string{
		{"RegisterScalableTarget", `{"MinCapacity":5,"MaxCapacity":50}`},
		{"PutScalingPolicy", `{"PolicyName":"by-terraform","PolicyType":"TargetTrackingScaling","TargetTrackingScalingPolicyConfiguration":{"TargetValue":50,"ScaleOutCooldown":60,"PredefinedMetricSpecification":{"PredefinedMetricType":"DynamoDBReadCapacityUtilization"}}}`},
	} {
		body := map[string]any{"ServiceNamespace": "dynamodb", "ResourceId": "table/shop", "ScalableDimension": "dynamodb:table:ReadCapacityUnits"}
		if err := json.Unmarshal([]byte(r[1]), &body); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Send(t.Context(), r[0], body); err != nil {
			t.Fatal(err)
		}
	}
	plan := applied(t, e, tableModel(t, "{"+key+", billing: provisioned, read: {units: 5, min: 5, max: 50, target: 65}, write: {units: 4}}"))
	if got := texts(plan); !slices.Equal(got, []string{"keep the reads at 65 % of the units"}) {
		t.Errorf("the changes are %q", got)
	}
	if got := scalingOf(t, e); !slices.Equal(got, []string{"table/shop table:ReadCapacityUnits 5-50 at 65 % by by-terraform after 60 s"}) {
		t.Errorf("the scaling is %q", got)
	}
	if got := unitsOf(t, e); got != "{7 4}" {
		t.Errorf("the units are %s", got)
	}
}

// What is left over from a deleted table of the same name is removed with the new one, and
// nothing is lost by it.
func TestApplyAfterATableWasDeleted(t *testing.T) { virtualtime.Test(t, testApplyAfterDelete) }

func testApplyAfterDelete(t *testing.T) {
	e := server(t)
	applied(t, e, tableModel(t, "{"+key+", billing: provisioned, read: {min: 5, max: 50}, write: {units: 4}}"))
	if _, err := e.Send(t.Context(), "DeleteTable", map[string]any{"TableName": "shop"}); err != nil {
		t.Fatal(err)
	}
	for exists := true; exists; {
		var err error
		if exists, err = apply.Exists(t.Context(), e.Send, "shop"); err != nil {
			t.Fatal(err)
		}
		if err := apply.Sleep(t.Context(), 1e9); err != nil {
			t.Fatal(err)
		}
	}
	plan := applied(t, e, tableModel(t, "{"+key+", billing: provisioned, read: {units: 3}, write: {units: 4}}"))
	if len(plan.Changes) != 2 || plan.Changes[1].Request.Operation != "DeregisterScalableTarget" || plan.Changes[1].Loses != "" {
		t.Errorf("the changes are %q", texts(plan))
	}
	if got := scalingOf(t, e); len(got) > 0 {
		t.Errorf("the scaling is %q", got)
	}
}

// An endpoint without Application Auto Scaling, and one that does not allow it, are no obstacle to
// a model that does not declare it.
func TestApplyWithoutScaling(t *testing.T) { virtualtime.Test(t, testApplyWithoutScaling) }

func testApplyWithoutScaling(t *testing.T) {
	e := server(t)
	fixed := tableModel(t, "{"+key+", billing: provisioned, read: {units: 3}, write: {units: 4}}")
	scaled := tableModel(t, "{"+key+", billing: provisioned, read: {min: 5, max: 10}, write: {units: 4}}")
	applied(t, e, fixed)
	denied := &apierror.Error{Code: "AccessDeniedException", Message: "not authorized"}
	for _, c := range []struct {
		name   string
		fault  error
		fixed  string // a note
		scaled string // a note, or an error
		fails  bool
	}{
		{"another server", apierror.UnknownOperation(), "", "the endpoint has no Application Auto Scaling", false},
		{"a client without a way", apply.ErrNoScaling, "", "the endpoint has no Application Auto Scaling", false},
		{"no permission", denied, "it is not known whether table shop scales", "not authorized", true},
		{"no network", errors.New("no route to host"), "it is not known whether table shop scales", "no route to host", true},
	} {
		send := func(ctx context.Context, operation string, body any) ([]byte, error) {
			if apply.IsScaling(operation) {
				return nil, c.fault
			}
			return e.Send(ctx, operation, body)
		}
		plan, err := apply.Make(t.Context(), send, fixed)
		if err != nil || len(plan.Changes) > 0 || !strings.Contains(strings.Join(plan.Notes, "; ")+";", c.fixed) || c.fixed == "" && len(plan.Notes) > 0 {
			t.Errorf("%s: the plan of fixed units is %q with the notes %q, %v", c.name, texts(plan), plan.Notes, err)
		}
		plan, err = apply.Make(t.Context(), send, scaled)
		switch {
		case c.fails:
			if err == nil || !strings.Contains(err.Error(), c.scaled) || !strings.Contains(err.Error(), "read the auto scaling of table shop") {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil || !slices.Equal(texts(plan), []string{"provision 5 read and 4 write units"}) || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], c.scaled):
			t.Errorf("%s: the plan is %q with the notes %q, %v", c.name, texts(plan), plan.Notes, err)
		}
	}
}

// A target that the service would reject is a fault of the plan.
func TestApplyRejectsTargets(t *testing.T) { virtualtime.Test(t, testApplyRejectsTargets) }

func testApplyRejectsTargets(t *testing.T) {
	for target, want := range map[int]int{19: 1, 20: 0, 90: 0, 91: 1} {
		plan, err := apply.Make(t.Context(), server(t).Send, tableModel(t, fmt.Sprintf("{%s, billing: provisioned, read: {min: 5, max: 10, target: %d}, write: {units: 4}}", key, target)))
		if err != nil || len(plan.Faults) != want {
			t.Errorf("a target of %d %% has the faults %q, %v", target, faults(plan), err)
		}
	}
}

// All pages of targets and policies are read.
func TestPagesOfScaling(t *testing.T) { virtualtime.Test(t, testPagesOfScaling) }

func testPagesOfScaling(t *testing.T) {
	e := server(t)
	m := tableModel(t, "{"+key+", indexes: {byDay: {partition: day}, byOrder: {partition: order}}, billing: provisioned, read: {min: 1, max: 10}, write: {min: 1, max: 10}}")
	applied(t, e, m)
	pages := 0
	plan, err := apply.Make(t.Context(), func(ctx context.Context, operation string, body any) ([]byte, error) {
		if apply.IsScaling(operation) {
			body.(map[string]any)["MaxResults"] = 1
			pages++
		}
		return e.Send(ctx, operation, body)
	}, m)
	if err != nil || len(plan.Changes) > 0 || pages != 12 {
		t.Errorf("with %d pages the changes are %q, %v", pages, texts(plan), err)
	}
}

// Two models differ in their scaling as an endpoint and a model do.
func TestBetweenModelsThatScale(t *testing.T) {
	before := tableModel(t, "{"+key+", billing: provisioned, read: {min: 5, max: 10}, write: {units: 4}}")
	after := tableModel(t, "{"+key+", billing: provisioned, read: {units: 5}, write: {min: 2, max: 9}}")
	plan, err := apply.Between(before, after)
	want := []string{"no longer scale the reads between 5 and 10 units", "scale the writes between 2 and 9 units", "keep the writes at 70 % of the units"}
	if err != nil || !slices.Equal(texts(plan), want) {
		t.Errorf("the changes are %q, %v", texts(plan), err)
	}
	if plan, err = apply.Between(before, before); err != nil || len(plan.Changes) > 0 {
		t.Errorf("the same model has the changes %q, %v", texts(plan), err)
	}
}
