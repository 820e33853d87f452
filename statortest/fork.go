package statortest

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
)

// Fork forks a database for a test and returns a client for the fork. It begins with all that
// base has, in milliseconds whatever the size of that. What the test writes is seen in no other
// fork and not in base, and is dropped when the test ends; tests with forks of their own may run
// in parallel.
//
// A test of a program that runs as a process of its own makes a fork of a server instead, with stator
// fork create or the operation Stator.CreateFork, and gives the program the endpoint URL of the fork:
// that of the server with the path /fork/NAME. See docs/forks.md.
//
// A program's tests often share one base, which TestMain opens, fills by a Client, and closes
// after all tests.
func Fork(t testing.TB, base *stator.DB) *dynamodb.Client {
	t.Helper()
	return Client(ForkDB(t, base))
}

// ForkDB is Fork for a test that needs the database itself, such as to fork it again.
func ForkDB(t testing.TB, base *stator.DB) *stator.DB {
	t.Helper()
	fork, err := base.Fork(context.Background())
	if err != nil {
		t.Fatalf("fork the database: %v", err)
	}
	t.Cleanup(func() {
		if err := fork.Close(); err != nil {
			t.Errorf("close the fork: %v", err)
		}
	})
	remember(t, fork)
	return fork
}
