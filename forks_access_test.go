package stator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Forks have the keys, the policies and the audit log of their server, and making one needs a
// permission of its own.
func TestAccessOfForks(t *testing.T) {
	r := startAccessRig(t)
	defer r.db.Close()
	defer r.server.Close()
	want := func(key, target, body, text string) {
		t.Helper()
		if _, got := r.send(key, "POST", "/", target, body); !strings.Contains(got, text) {
			t.Errorf("%s by %s at fork %q: %s, want %s", target, key, r.fork, got, text)
		}
	}
	const table = `{"TableName":"Mine","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`
	want("ROOTKEY", "DynamoDB_20120810.CreateTable", table, "Mine")
	want("ALICEKEY", "Stator.CreateFork", `{"ForkName":"one"}`, "AccessDeniedException")
	want("ROOTKEY", "Stator.CreateFork", `{"ForkName":"one"}`, `"ForkName":"one"`)
	r.fork = "one"
	want("ALICEKEY", "DynamoDB_20120810.PutItem", `{"TableName":"Mine","Item":{"id":{"S":"1"}}}`, "{}")
	want("ALICEKEY", "DynamoDB_20120810.Scan", `{"TableName":"Mine"}`, "AccessDeniedException")
	want("BOBKEY", "DynamoDB_20120810.Scan", `{"TableName":"Mine"}`, "UnrecognizedClientException")
	want("ALICEKEY", "Stator.Rewind", `{"SnapshotName":"s"}`, "AccessDeniedException")
	want("ROOTKEY", "DynamoDB_20120810.Scan", `{"TableName":"Mine"}`, `"Count":1`)
	r.fork = ""
	for _, path := range []string{"/fork/one", "/fork/one/"} {
		if _, got := r.send("ROOTKEY", "POST", path, "DynamoDB_20120810.Scan", `{"TableName":"Mine"}`); !strings.Contains(got, `"Count":1`) {
			t.Errorf("at %s: %s", path, got)
		}
		client := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(r.server.URL + path), Credentials: credentials.NewStaticCredentialsProvider("ROOTKEY", "planted-secret-of-root", "")})
		if found, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("Mine")}); err != nil || found.Count != 1 {
			t.Errorf("the SDK at %s: %v, %v", path, found, err)
		}
	}
	want("ROOTKEY", "DynamoDB_20120810.Scan", `{"TableName":"Mine"}`, `"Count":0`)
	written, err := os.ReadFile(filepath.Join(r.folder, "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`"eventName":"CreateFork"`, `"forkName":"one"`, `"eventName":"PutItem"`, `"additionalEventData":{"fork":"one"}`} {
		if !strings.Contains(string(written), text) {
			t.Errorf("the audit log does not have %s", text)
		}
	}
}

// No request begins between the decision to drop a fork and the drop.
func TestDropDecides(t *testing.T) {
	db, err := Open(t.Context(), Options{Forks: &ForkOptions{}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.forks.main.Create(t.Context(), "one", ""); err != nil {
		t.Fatal(err)
	}
	fork := db.forks.forks["one"]
	locked := func() bool {
		free := fork.mu.TryLock()
		if free {
			fork.mu.Unlock()
		}
		return !free
	}
	if why := db.forks.dropIf(fork, func() string { return "" }); why != "" || fork.dropped {
		t.Errorf("dropped for no reason: %s", why)
	}
	why := db.forks.dropIf(fork, func() string {
		if !locked() {
			t.Error("requests can begin")
		}
		return "unused"
	})
	if why != "unused" || !fork.dropped {
		t.Errorf("dropped: %v, %s", fork.dropped, why)
	}
}
