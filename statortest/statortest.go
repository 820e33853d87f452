// Package statortest starts a private database for a Go test.
//
//	func TestOrders(t *testing.T) {
//		client := statortest.Start(t)
//		…
//	}
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
	db, err := stator.Open(context.Background(), o)
	if err != nil {
		t.Fatalf("open a database: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the database: %v", err)
		}
	})
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String("http://stator.invalid"),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   db.Client(),
	})
}
