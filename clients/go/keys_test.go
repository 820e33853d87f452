package clients

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/stator-db/stator"
)

// The SDK works with a server that verifies signatures, with a right key only.
func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("keys:\n  - access_key: AKIATEST\n    secret: right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	access, err := stator.OpenAccess(stator.AccessOptions{Keys: file})
	if err != nil {
		t.Fatal(err)
	}
	db, err := stator.Open(t.Context(), stator.Options{Access: access})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	server := httptest.NewServer(db.Handler())
	defer server.Close()
	client := func(key, secret string) *dynamodb.Client {
		return dynamodb.New(dynamodb.Options{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider(key, secret, "")})
	}
	right := client("AKIATEST", "right")
	if _, err := right.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "ሴ", strings.Repeat("a", 100_000)} {
		item := map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}, "text": &types.AttributeValueMemberS{Value: text}}
		if _, err := right.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: item}); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct{ key, secret, code string }{
		{"AKIATEST", "wrong", "InvalidSignatureException"}, {"AKIANOBODY", "right", "UnrecognizedClientException"},
	} {
		_, err := client(c.key, c.secret).ListTables(t.Context(), &dynamodb.ListTablesInput{})
		var fault smithy.APIError
		if !errors.As(err, &fault) || fault.ErrorCode() != c.code {
			t.Errorf("with %s and %s: %v", c.key, c.secret, err)
		}
	}
}
