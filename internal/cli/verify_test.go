package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
)

// Verifying the data between two runs of a server changes nothing: the second run
// finishes an import that the first has left unfinished.
func TestVerifyRunsNoBackgroundWork(t *testing.T) {
	bucket, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	var lines bytes.Buffer
	const items = 200_000
	for i := range items {
		fmt.Fprintf(&lines, `{"Item":{"id":{"S":"%d"}}}`+"\n", i)
	}
	if err := os.WriteFile(filepath.Join(bucket, "in.json"), lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := func(do func(*dynamodb.Client)) {
		t.Helper()
		db, err := stator.Open(t.Context(), stator.Options{Dir: data, Buckets: map[string]string{"files": bucket}})
		if err != nil {
			t.Fatal(err)
		}
		do(dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String("http://stator.invalid"), Region: "us-east-1",
			Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), HTTPClient: db.Client()}))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(client *dynamodb.Client, arn *string) {
		t.Helper()
		for {
			out, err := client.DescribeImport(t.Context(), &dynamodb.DescribeImportInput{ImportArn: arn})
			if err != nil {
				t.Fatal(err)
			}
			d := out.ImportTableDescription
			if d.ImportStatus == types.ImportStatusInProgress {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			if d.ImportStatus != types.ImportStatusCompleted || d.ImportedItemCount != items {
				t.Errorf("the import is %s with %d items: %s %s", d.ImportStatus, d.ImportedItemCount, aws.ToString(d.FailureCode), aws.ToString(d.FailureMessage))
			}
			return
		}
	}
	begin := func(client *dynamodb.Client, table string) *string {
		t.Helper()
		out, err := client.ImportTable(t.Context(), &dynamodb.ImportTableInput{
			S3BucketSource: &types.S3BucketSource{S3Bucket: aws.String("files"), S3KeyPrefix: aws.String("in")},
			InputFormat:    types.InputFormatDynamodbJson,
			TableCreationParameters: &types.TableCreationParameters{
				TableName: &table, BillingMode: types.BillingModePayPerRequest,
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
				KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return out.ImportTableDescription.ImportArn
	}
	var arn *string
	serve(func(client *dynamodb.Client) {
		wait(client, begin(client, "Carts")) // something to verify
		arn = begin(client, "Orders")
	})
	if code, out := run("verify", "--data", data); code != exitDone {
		t.Fatalf("verify exits with %d:\n%s", code, out)
	}
	serve(func(client *dynamodb.Client) { wait(client, arn) })
}

// Verify creates neither a folder nor a file where there is no data.
func TestVerifyCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"--data", filepath.Join(dir, "none")},
		{"--data", dir},
		{"--backups", filepath.Join(dir, "none")},
	} {
		if code, out := run(append([]string{"verify"}, args...)...); code != exitFailed {
			t.Errorf("verify %v exits with %d:\n%s", args, code, out)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("verify %v has created %v, %v", args, names, err)
		}
	}
	if names, err := filepath.Glob(dir + "-*"); err != nil || len(names) > 0 {
		t.Errorf("verify has created %v", names)
	}
	for _, args := range [][]string{{"--data", dir, "--endpoint", "http://127.0.0.1:1"}, {"--rate", "5"}, {"--endpoint", "http://127.0.0.1:1", "--rate", "0"}, {"--endpoint", "none"}} {
		if code, out := run(append([]string{"verify"}, args...)...); code != exitUsage {
			t.Errorf("verify %v exits with %d:\n%s", args, code, out)
		}
	}
}

// A running server verifies its data.
func TestVerifyEndpoint(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	web := httptest.NewServer(db.Handler())
	defer web.Close()
	client := dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String("http://stator.invalid"), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), HTTPClient: db.Client()})
	if _, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"),
			Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	code, out := run("verify", "--endpoint", web.URL, "--json")
	var v verification
	if err := json.Unmarshal([]byte(out), &v); code != exitDone || err != nil || len(v.Tables) != 2 || v.Tables[0].Table != "Orders" || v.Tables[0].Items != 20 {
		t.Errorf("verify exits with %d, %v:\n%s", code, err, out)
	}
	if code, out := run("verify", "--endpoint", web.URL, "--rate", "1000000"); code != exitDone || !strings.Contains(out, "Orders") || !strings.Contains(out, "(database)") {
		t.Errorf("verify exits with %d:\n%s", code, out)
	}
	web.Close()
	if code, out := run("verify", "--endpoint", web.URL); code != exitFailed {
		t.Errorf("without a server verify exits with %d:\n%s", code, out)
	}
}
