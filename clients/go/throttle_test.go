package clients

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/statortest"
)

// createThrottled creates a table with provisioned units, or with a maximum of on-demand
// units.
func createThrottled(t *testing.T, client *dynamodb.Client, name string, provisioned *types.ProvisionedThroughput, most *types.OnDemandThroughput) {
	t.Helper()
	in := &dynamodb.CreateTableInput{
		TableName:             &name,
		AttributeDefinitions:  []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:             []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		ProvisionedThroughput: provisioned,
		OnDemandThroughput:    most,
	}
	if most != nil {
		in.BillingMode = types.BillingModePayPerRequest
	}
	if _, err := client.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// once switches retries off.
func once(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }

// firstThrottled returns the error of the first write that is throttled.
func firstThrottled(t *testing.T, client *dynamodb.Client, table string) error {
	t.Helper()
	text := &types.AttributeValueMemberS{Value: strings.Repeat("x", 20_000)}
	for n := range 2000 {
		item := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint(n)}, "text": text}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}, once); err != nil {
			return err
		}
	}
	t.Fatal("nothing is throttled")
	return nil
}

func expectReason(t *testing.T, got []types.ThrottlingReason, reason, table string) {
	t.Helper()
	if len(got) != 1 || aws.ToString(got[0].Reason) != reason || !strings.HasSuffix(aws.ToString(got[0].Resource), ":table/"+table) {
		t.Errorf("the reasons are %+v, want %s of %s", got, reason, table)
	}
}

// The exceptions of a server that throttles have their types and reasons.
func TestThrottlingExceptions(t *testing.T) {
	client := statortest.StartWith(t, stator.Options{Throttle: true})
	createThrottled(t, client, "Provisioned", &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1), WriteCapacityUnits: aws.Int64(1)}, nil)
	var exceeded *types.ProvisionedThroughputExceededException
	if err := firstThrottled(t, client, "Provisioned"); !errors.As(err, &exceeded) {
		t.Fatalf("the error is %v", err)
	}
	expectReason(t, exceeded.ThrottlingReasons, "TableWriteProvisionedThroughputExceeded", "Provisioned")

	createThrottled(t, client, "OnDemand", nil, &types.OnDemandThroughput{MaxReadRequestUnits: aws.Int64(1), MaxWriteRequestUnits: aws.Int64(1)})
	var throttling *types.ThrottlingException
	if err := firstThrottled(t, client, "OnDemand"); !errors.As(err, &throttling) {
		t.Fatalf("the error is %v", err)
	}
	expectReason(t, throttling.ThrottlingReasons, "TableWriteMaxOnDemandThroughputExceeded", "OnDemand")
}

// With the retries of the client, a loop over unprocessed items ends with everything
// written.
func TestThrottledBatchesEnd(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).Unix())
	client := statortest.StartWith(t, stator.Options{Throttle: true, Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	retries := 0
	retrying := func(o *dynamodb.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = 20
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { // a second passes
				retries++
				now.Add(1)
				return 0, nil
			})
		})
	}
	createThrottled(t, client, "Batches", &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(100), WriteCapacityUnits: aws.Int64(10)}, nil)
	var puts []types.WriteRequest
	for n := range 25 {
		puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint(n)}}}})
	}
	partial := 0
	for todo := map[string][]types.WriteRequest{"Batches": puts}; len(todo) > 0; {
		out, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: todo}, retrying)
		if err != nil {
			t.Fatal(err)
		}
		if todo = out.UnprocessedItems; len(todo) > 0 {
			partial++
		}
	}
	if partial == 0 || retries == 0 {
		t.Errorf("%d batches were throttled in part, and %d as a whole", partial, retries)
	}
	out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("Batches"), Select: types.SelectCount, ConsistentRead: aws.Bool(true)})
	if err != nil || out.Count != 25 {
		t.Errorf("%+v, %v", out, err)
	}
}
