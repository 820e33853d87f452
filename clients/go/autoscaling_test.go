package clients

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling"
	"github.com/aws/aws-sdk-go-v2/service/applicationautoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
)

// The client of Application Auto Scaling configures a table on the same port.
func TestAutoScaling(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(db.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	credentials := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "any", SecretAccessKey: "any"}, nil
	})
	tables := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials})
	scaling := applicationautoscaling.New(applicationautoscaling.Options{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials})
	name := "Orders"
	if _, err := tables.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:             &name,
		AttributeDefinitions:  []dynamotypes.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: dynamotypes.ScalarAttributeTypeS}},
		KeySchema:             []dynamotypes.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: dynamotypes.KeyTypeHash}},
		ProvisionedThroughput: &dynamotypes.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(5)},
	}); err != nil {
		t.Fatal(err)
	}

	resource := aws.String("table/Orders")
	dimensions := []types.ScalableDimension{types.ScalableDimensionDynamoDBTableReadCapacityUnits, types.ScalableDimensionDynamoDBTableWriteCapacityUnits}
	metrics := []types.MetricType{types.MetricTypeDynamoDBReadCapacityUtilization, types.MetricTypeDynamoDBWriteCapacityUtilization}
	var target *applicationautoscaling.RegisterScalableTargetOutput
	for i, dimension := range dimensions {
		if target, err = scaling.RegisterScalableTarget(t.Context(), &applicationautoscaling.RegisterScalableTargetInput{
			ServiceNamespace: types.ServiceNamespaceDynamodb, ResourceId: resource, ScalableDimension: dimension,
			MinCapacity: aws.Int32(10), MaxCapacity: aws.Int32(100), Tags: map[string]string{"team": "blue"},
		}); err != nil {
			t.Fatal(err)
		}
		policy, err := scaling.PutScalingPolicy(t.Context(), &applicationautoscaling.PutScalingPolicyInput{
			PolicyName: aws.String("follow"), PolicyType: types.PolicyTypeTargetTrackingScaling,
			ServiceNamespace: types.ServiceNamespaceDynamodb, ResourceId: resource, ScalableDimension: dimension,
			TargetTrackingScalingPolicyConfiguration: &types.TargetTrackingScalingPolicyConfiguration{
				TargetValue: aws.Float64(72.5), PredefinedMetricSpecification: &types.PredefinedMetricSpecification{PredefinedMetricType: metrics[i]},
			},
		})
		if err != nil || len(policy.Alarms) != 4 {
			t.Fatalf("the policy is %+v, %v", policy, err)
		}
	}
	described, err := tables.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil || *described.Table.ProvisionedThroughput.ReadCapacityUnits != 10 || *described.Table.ProvisionedThroughput.WriteCapacityUnits != 10 {
		t.Errorf("the units are %+v, %v, want the minimum", described.Table.ProvisionedThroughput, err)
	}

	count := 0
	policies := applicationautoscaling.NewDescribeScalingPoliciesPaginator(scaling, &applicationautoscaling.DescribeScalingPoliciesInput{
		ServiceNamespace: types.ServiceNamespaceDynamodb, MaxResults: aws.Int32(1),
	})
	for policies.HasMorePages() {
		page, err := policies.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page.ScalingPolicies {
			if count++; *p.TargetTrackingScalingPolicyConfiguration.TargetValue != 72.5 {
				t.Errorf("the policy is %+v", p)
			}
		}
	}
	if count != 2 {
		t.Errorf("there are %d policies, want 2", count)
	}

	start := time.Date(2090, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := scaling.PutScheduledAction(t.Context(), &applicationautoscaling.PutScheduledActionInput{
		ScheduledActionName: aws.String("mornings"), Schedule: aws.String("cron(30 6 ? * MON-FRI *)"), Timezone: aws.String("Europe/Vienna"), StartTime: &start,
		ServiceNamespace: types.ServiceNamespaceDynamodb, ResourceId: resource, ScalableDimension: dimensions[0],
		ScalableTargetAction: &types.ScalableTargetAction{MinCapacity: aws.Int32(20)},
	}); err != nil {
		t.Fatal(err)
	}
	actions, err := scaling.DescribeScheduledActions(t.Context(), &applicationautoscaling.DescribeScheduledActionsInput{ServiceNamespace: types.ServiceNamespaceDynamodb})
	if err != nil || len(actions.ScheduledActions) != 1 || !actions.ScheduledActions[0].StartTime.Equal(start) {
		t.Errorf("the scheduled actions are %+v, %v", actions, err)
	}
	activities, err := scaling.DescribeScalingActivities(t.Context(), &applicationautoscaling.DescribeScalingActivitiesInput{ServiceNamespace: types.ServiceNamespaceDynamodb})
	if err != nil || len(activities.ScalingActivities) != 2 || activities.ScalingActivities[0].StatusCode != types.ScalingActivityStatusCodeSuccessful {
		t.Errorf("the activities are %+v, %v", activities, err)
	}
	tags, err := scaling.ListTagsForResource(t.Context(), &applicationautoscaling.ListTagsForResourceInput{ResourceARN: target.ScalableTargetARN})
	if err != nil || tags.Tags["team"] != "blue" {
		t.Errorf("the tags are %+v, %v", tags, err)
	}

	for _, dimension := range dimensions {
		remove := &applicationautoscaling.DeregisterScalableTargetInput{ServiceNamespace: types.ServiceNamespaceDynamodb, ResourceId: resource, ScalableDimension: dimension}
		if _, err := scaling.DeregisterScalableTarget(t.Context(), remove); err != nil {
			t.Error(err)
		}
		_, err := scaling.DeregisterScalableTarget(t.Context(), remove)
		if missing, ok := errors.AsType[*types.ObjectNotFoundException](err); !ok || !strings.HasPrefix(missing.ErrorMessage(), "No scalable target found") {
			t.Errorf("a target that is not registered: %v", err)
		}
	}
	_, err = scaling.DescribeScalableTargets(t.Context(), &applicationautoscaling.DescribeScalableTargetsInput{ServiceNamespace: types.ServiceNamespaceEcs})
	if invalid, ok := errors.AsType[*types.ValidationException](err); !ok || !strings.Contains(invalid.ErrorMessage(), "dynamodb") {
		t.Errorf("another namespace: %v", err)
	}
}
