package statortest_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/statortest"
)

func createTable(t *testing.T, client *dynamodb.Client) {
	t.Helper()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String("Orders"),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTestsDoNotSeeEachOther(t *testing.T) {
	one, other := statortest.Start(t), statortest.Start(t)
	createTable(t, one)
	tables, err := other.ListTables(t.Context(), nil)
	if err != nil || len(tables.TableNames) != 0 {
		t.Errorf("the other database has tables %v, %v", tables.TableNames, err)
	}
}

func TestOptionsReachTheDatabase(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	client := statortest.StartWith(t, stator.Options{Now: func() time.Time { return now }, TableDelay: time.Hour})
	createTable(t, client)
	described, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("Orders")})
	if err != nil {
		t.Fatal(err)
	}
	if got := described.Table; got.TableStatus != types.TableStatusCreating || !got.CreationDateTime.Equal(now) {
		t.Errorf("the table is %s, created %v", got.TableStatus, got.CreationDateTime)
	}
}
