package ops

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/db/autoscaling"
)

// newScalingTest is a tableTest with auto scaling and the tables t0 to t4.
func newScalingTest(t *testing.T) *tableTest {
	t.Helper()
	tt := newTableTest(t, 0)
	tt.s.scaling = autoscaling.Open(t.Context(), tt.s.DB, autoscaling.Options{})
	t.Cleanup(tt.s.scaling.Close)
	for i := range 5 {
		tt.make(members(fmt.Sprintf(`"TableName":"t0%d"`, i), define(attrA), keyed(hashA), fiveUnits))
	}
	return tt
}

const readsOfT00 = `"ServiceNamespace":"dynamodb","ResourceId":"table/t00","ScalableDimension":"dynamodb:table:ReadCapacityUnits"`

// A list is complete and without duplicates, whatever the size of its pages.
func TestScalingPages(t *testing.T) {
	tt := newScalingTest(t)
	for i := range 5 {
		for _, kind := range []string{"Read", "Write"} {
			tt.ask("AnyScaleFrontendService.RegisterScalableTarget", fmt.Sprintf(`{"ServiceNamespace":"dynamodb","ResourceId":"table/t0%d","ScalableDimension":"dynamodb:table:%sCapacityUnits","MinCapacity":7,"MaxCapacity":9}`, i, kind))
		}
	}
	for _, c := range []struct{ operation, list, member string }{
		{"DescribeScalableTargets", "ScalableTargets", "ScalableTargetARN"},
		{"DescribeScalingActivities", "ScalingActivities", "ActivityId"},
	} {
		for _, size := range []int{1, 3, 9, 10, 11, 1000} {
			var got []string
			for token := ""; ; {
				var reply map[string]json.RawMessage
				if err := json.Unmarshal([]byte(tt.ask("AnyScaleFrontendService."+c.operation, fmt.Sprintf(`{"ServiceNamespace":"dynamodb","MaxResults":%d%s}`, size, token))), &reply); err != nil {
					t.Fatal(err)
				}
				var page []map[string]any
				if err := json.Unmarshal(reply[c.list], &page); err != nil || len(page) > size {
					t.Fatalf("a page of %d: %d, %v", size, len(page), err)
				}
				for _, entry := range page {
					got = append(got, entry[c.member].(string))
				}
				if reply["NextToken"] == nil {
					break
				}
				token = `,"NextToken":` + string(reply["NextToken"])
			}
			slices.Sort(got)
			if n := len(got); n != 10 || len(slices.Compact(got)) != n {
				t.Errorf("%s in pages of %d: %d entries, want 10 different ones", c.operation, size, n)
			}
		}
	}
}

// A page has ten policies at most, and fifty of everything else.
func TestLargestScalingPages(t *testing.T) {
	tt := newScalingTest(t)
	for i := range 6 {
		if i >= 5 {
			tt.make(members(fmt.Sprintf(`"TableName":"t0%d"`, i), define(attrA), keyed(hashA), fiveUnits))
		}
		for _, kind := range []string{"Read", "Write"} {
			of := fmt.Sprintf(`"ServiceNamespace":"dynamodb","ResourceId":"table/t0%d","ScalableDimension":"dynamodb:table:%sCapacityUnits"`, i, kind)
			tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+of+`,"MinCapacity":5,"MaxCapacity":9}`)
			tt.ask("AnyScaleFrontendService.PutScalingPolicy", `{`+of+`,"PolicyName":"p","TargetTrackingScalingPolicyConfiguration":{"TargetValue":70,"PredefinedMetricSpecification":{"PredefinedMetricType":"DynamoDB`+kind+`CapacityUtilization"}}}`)
		}
	}
	for operation, want := range map[string]int{"DescribeScalingPolicies": 10, "DescribeScalableTargets": 12} {
		for _, size := range []string{"", `,"MaxResults":50`} {
			got := tt.ask("AnyScaleFrontendService."+operation, `{"ServiceNamespace":"dynamodb"`+size+`}`)
			if n := strings.Count(got, `"ResourceId":`); n != want || strings.Contains(got, "NextToken") != (want < 12) {
				t.Errorf("%s%s: a page of %d, want %d: %s", operation, size, n, want, got)
			}
		}
	}
}

func TestTagsOfScalableTargets(t *testing.T) {
	tt := newScalingTest(t)
	var made struct{ ScalableTargetARN string }
	if err := json.Unmarshal([]byte(tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+`,"MinCapacity":1,"MaxCapacity":9,"Tags":{"a":"1"}}`)), &made); err != nil {
		t.Fatal(err)
	}
	arn := `"ResourceARN":"` + made.ScalableTargetARN + `"`
	tt.want("AnyScaleFrontendService.ListTagsForResource", `{`+arn+`}`, `{"Tags":{"a":"1"}}`)
	tt.want("AnyScaleFrontendService.TagResource", `{`+arn+`,"Tags":{"a":"2","b":""}}`, `{}`)
	tt.want("AnyScaleFrontendService.ListTagsForResource", `{`+arn+`}`, `{"Tags":{"a":"2","b":""}}`)
	tt.want("AnyScaleFrontendService.UntagResource", `{`+arn+`,"TagKeys":["a","c"]}`, `{}`)
	tt.want("AnyScaleFrontendService.ListTagsForResource", `{`+arn+`}`, `{"Tags":{"b":""}}`)
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf(`"k%d":""`, i))
	}
	tt.want("AnyScaleFrontendService.TagResource", `{`+arn+`,"Tags":{`+strings.Join(many, ",")+`}}`, "TooManyTagsException: A scalable target can have at most 50 tags.")
	tt.want("AnyScaleFrontendService.TagResource", `{`+arn+`,"Tags":{"":"x"}}`, "ValidationException: A tag has a key of 1 to 128 characters and a value of at most 256")
	tt.ask("AnyScaleFrontendService.DeregisterScalableTarget", `{`+readsOfT00+`}`)
	tt.want("AnyScaleFrontendService.ListTagsForResource", `{`+arn+`}`, "ResourceNotFoundException: No scalable target found for the ARN "+made.ScalableTargetARN)
}

// A table that is deleted leaves its targets, and its name can be used again.
func TestDeletedTablesKeepTheirTargets(t *testing.T) {
	tt := newScalingTest(t)
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+`,"MinCapacity":1,"MaxCapacity":9}`)
	tt.ask("DeleteTable", `{"TableName":"t00"}`)
	if got := tt.ask("AnyScaleFrontendService.DescribeScalableTargets", `{"ServiceNamespace":"dynamodb"}`); !strings.Contains(got, `"ResourceId":"table/t00"`) {
		t.Errorf("after the table was deleted: %s", got)
	}
	tt.want("AnyScaleFrontendService.DeregisterScalableTarget", `{`+readsOfT00+`}`, `{}`)
}

// A target that is registered again has its bounds applied, also if the request does not
// have any.
func TestRegisteringAgainAppliesTheBounds(t *testing.T) {
	tt := newScalingTest(t)
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+`,"MinCapacity":1,"MaxCapacity":9}`)
	tt.ask("UpdateTable", `{"TableName":"t00","ProvisionedThroughput":{"ReadCapacityUnits":20,"WriteCapacityUnits":5}}`)
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+`,"SuspendedState":{"DynamicScalingInSuspended":true}}`)
	if got := tt.ask("DescribeTable", `{"TableName":"t00"}`); !strings.Contains(got, `"ReadCapacityUnits":9`) {
		t.Errorf("the table is %s, want 9 read units", got)
	}
	got := tt.ask("AnyScaleFrontendService.DescribeScalingActivities", `{"ServiceNamespace":"dynamodb"}`)
	if !strings.Contains(got, `"Cause":"maximum capacity was set to 9"`) {
		t.Errorf("the activities are %s", got)
	}
}

// A target cannot exceed what a table may have.
func TestScalingKeepsToTheLimitsOfATable(t *testing.T) {
	tt := newScalingTest(t)
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+`,"MinCapacity":40001,"MaxCapacity":50000}`)
	got := tt.ask("AnyScaleFrontendService.DescribeScalingActivities", `{"ServiceNamespace":"dynamodb"}`)
	want := `"StatusCode":"Failed","StatusMessage":"Failed to set read capacity units to 40001. Reason: Failed updating table: The requested ReadCapacityUnits, 40001, is above the per table maximum for the account in us-east-1.`
	if !strings.Contains(got, want) {
		t.Errorf("the activities are %s, want %s", got, want)
	}
}

// There are as many targets as on AWS. Those of deleted tables count too.
func TestScalableTargetsAreLimited(t *testing.T) {
	tt := newScalingTest(t)
	for i := range maxScalableTargets - 1 {
		err := tt.s.scaling.Change(t.Context(), autoscaling.ID{Resource: fmt.Sprint("table/deleted", i), Dimension: autoscaling.TableRead}, func(s *autoscaling.Settings) error {
			s.Target = &autoscaling.Target{ARN: fmt.Sprint(i), Min: 1, Max: 9}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const bounds = `,"MinCapacity":1,"MaxCapacity":9}`
	writes := strings.Replace(readsOfT00, "Read", "Write", 1)
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+bounds)
	tt.want("AnyScaleFrontendService.RegisterScalableTarget", `{`+writes+bounds, "LimitExceededException: There can be at most 5000 scalable targets")
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+bounds) // it exists
	tt.ask("AnyScaleFrontendService.DeregisterScalableTarget", `{`+readsOfT00+`}`)
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+writes+bounds)
}

func TestScheduledActionsAreLimited(t *testing.T) {
	tt := newScalingTest(t)
	tt.ask("AnyScaleFrontendService.RegisterScalableTarget", `{`+readsOfT00+`,"MinCapacity":1,"MaxCapacity":9}`)
	put := func(i int) string {
		return fmt.Sprintf(`{%s,"ScheduledActionName":"a%d","Schedule":"at(2090-01-01T00:00:00)","ScalableTargetAction":{"MinCapacity":1}}`, readsOfT00, i)
	}
	for i := range maxScheduledActions {
		tt.want("AnyScaleFrontendService.PutScheduledAction", put(i), `{}`)
	}
	tt.want("AnyScaleFrontendService.PutScheduledAction", put(0), `{}`) // it exists
	tt.want("AnyScaleFrontendService.PutScheduledAction", put(maxScheduledActions), "LimitExceededException: A scalable target can have at most 200 scheduled actions")
}
