package schema

import "testing"

// The message has the units of all tables, which transcripts cannot compare: others run
// at the same time.
func TestWithinAccount(t *testing.T) {
	before := &Table{Throughput: Throughput{Read: 20, Write: 20}}
	table := &Table{Throughput: Throughput{Read: 40_000, Write: 20}}
	reserved := Throughput{Read: 40_060, Write: 61}
	want := "LimitExceededException: This request would have caused the ReadCapacityUnits limit to be exceeded for the account in us-east-1. " +
		"Current ReadCapacityUnits reserved by the account: 40060. Limit: 80000. Requested: 39980. " +
		"Refer to the Amazon DynamoDB Developer Guide for current limits and how to request higher limits."
	if err := table.WithinAccount(before, reserved, "us-east-1"); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	reserved.Read = 40_020
	if err := table.WithinAccount(before, reserved, "us-east-1"); err != nil {
		t.Errorf("as many as are allowed: %v", err)
	}
}
