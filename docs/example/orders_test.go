package example

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/statortest"
)

func TestOrders(t *testing.T) {
	client := statortest.Start(t)
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String("Orders"),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	order := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: order}); err != nil {
		t.Fatal(err)
	}
	got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("Orders"), Key: order})
	if err != nil || len(got.Item) != 1 {
		t.Errorf("the order is %v, %v", got.Item, err)
	}
}
