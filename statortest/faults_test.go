package statortest

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
)

// A client of Faults meets the faults of the plan.
func TestFaults(t *testing.T) {
	client := Faults(t, stator.FaultPlan{Rules: []stator.FaultRule{{Fault: "stale-read", Operations: []string{"GetItem"}}}})
	ctx, table := t.Context(), aws.String("Orders")
	if _, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}}); err != nil {
		t.Fatal(err)
	}
	key := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}
	if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: table, Item: key}); err != nil {
		t.Fatal(err)
	}
	for _, consistent := range []bool{false, true} {
		out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: table, Key: key, ConsistentRead: &consistent})
		if err != nil || (out.Item != nil) != consistent {
			t.Errorf("with ConsistentRead %v the item is %v, and error %v", consistent, out.Item, err)
		}
	}
}
