package statortest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/statortest"
)

const shop = `
model: 1
tables:
  shop: {key: {partition: PK, sort: SK}}
entities:
  customer: {table: shop, keys: {PK: "C#{customer}", SK: "PROFILE"}, attributes: {customer: S}}
  order: {table: shop, keys: {PK: "C#{customer}", SK: "O#{order}"}, attributes: {customer: S, order: S}}
patterns:
  - {name: get customer, get: customer, given: [customer], rate: 1/s}
  - {name: orders, query: order, given: [customer], matches: 4, rate: 1/s}
  - {name: put order, put: order, condition: attribute_not_exists(PK), rate: 1/s}
`

// recordingTest records the failures of a test.
type recordingTest struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recordingTest) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recordingTest) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// end runs the cleanups as the end of the test does, and returns the failures.
func (r *recordingTest) end() []string {
	for i := range r.cleanups {
		r.cleanups[len(r.cleanups)-1-i]()
	}
	return r.failures
}

func shopFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.model.yaml")
	if err := os.WriteFile(file, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func put(ctx context.Context, client *dynamodb.Client, table, sort string, condition *string) error {
	_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), ConditionExpression: condition,
		Item: map[string]types.AttributeValue{"PK": text("C#1"), "SK": text(sort), "id": text("1")}})
	return err
}

// A test passes whose requests are access patterns of the model.
func TestModelAcceptsItsPatterns(t *testing.T) {
	r := &recordingTest{TB: t}
	client := statortest.Model(r, shopFile(t))
	if err := put(t.Context(), client, "shop", "O#1", aws.String("attribute_not_exists(PK)")); err != nil {
		t.Fatal(err)
	}
	found, err := client.Query(t.Context(), &dynamodb.QueryInput{TableName: aws.String("shop"), KeyConditionExpression: aws.String("PK = :p AND begins_with(SK, :s)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":p": text("C#1"), ":s": text("O#")}})
	if err != nil || len(found.Items) != 1 {
		t.Errorf("the query returns %v, %v", found, err)
	}
	createTable(t, client)
	if err := put(t.Context(), client, "Orders", "x", nil); err != nil { // a table of the test's own
		t.Fatal(err)
	}
	if failures := r.end(); len(failures) > 0 {
		t.Errorf("the test fails: %q", failures)
	}
}

// A test fails on requests that are no access pattern, with the closest one named.
func TestModelRejectsOtherRequests(t *testing.T) {
	r := &recordingTest{TB: t}
	file := shopFile(t)
	client := statortest.Model(r, file)
	for range 3 {
		if err := put(t.Context(), client, "shop", "O#1", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("shop")}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		file + `: no access pattern matches PutItem of shop, with the key C# O# (3 times); the closest pattern is "put order"; the request differs from it: it has no condition (attribute_not_exists(PK))`,
		file + `: no access pattern matches Scan of shop (once)`,
	}
	if failures := r.end(); strings.Join(failures, "\n") != strings.Join(want, "\n") {
		t.Errorf("the failures are\n%s\nwant\n%s", strings.Join(failures, "\n"), strings.Join(want, "\n"))
	}
}
