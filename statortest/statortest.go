// Package statortest starts a private database for a Go test.
//
//	func TestOrders(t *testing.T) {
//		client := statortest.Start(t)
//		…
//	}
//
// With a model file (docs/model.md), the tables are those of the model, and the test
// fails on requests that are none of its access patterns:
//
//	client := statortest.Model(t, "shop.model.yaml")
//
// The database is in memory and is closed when the test ends. It opens no
// network port: the client calls the handler directly.
package statortest

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
)

// Start opens a database for a test and returns a client for it.
func Start(t testing.TB) *dynamodb.Client {
	t.Helper()
	return StartWith(t, stator.Options{})
}

// StartWith is Start with options, for a test that needs a folder, a clock or
// delays.
func StartWith(t testing.TB, o stator.Options) *dynamodb.Client {
	t.Helper()
	_, client := open(t, o)
	return client
}

// What clients use; the database accepts any.
const (
	endpoint = "http://stator.invalid"
	region   = "us-east-1"
)

var identity = credentials.NewStaticCredentialsProvider("test", "test", "")

// open opens a database that is closed when the test ends, and makes a client for it.
func open(t testing.TB, o stator.Options) (*testDatabase, *dynamodb.Client) {
	t.Helper()
	db, err := stator.Open(context.Background(), o)
	if err != nil {
		t.Fatalf("open a database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return remember(t, db), Client(db)
}

// Client returns a client for a database that a test, or TestMain, has opened itself.
func Client(db *stator.DB) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       region,
		Credentials:  identity,
		HTTPClient:   db.Client(),
	})
}
