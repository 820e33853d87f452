package goals_test

import (
	"testing"

	"github.com/stator-db/stator/apps/internal/hometest"
)

// Without an action on a resource of the policy a test fails.
func TestPolicyIsLeast(t *testing.T) {
	hometest.PolicyIsLeast(t, [][2]string{
		{"PutItem table/CustomerNRT", "TestFiveDays"},
		{"BatchWriteItem table/CustomerBatch", "TestUnits"},
		{"DescribeTable table/CustomerBatch", "TestFiveDays"},
		{"DescribeTable table/CustomerNRT", "TestFiveDays"},
		{"GetItem table/CustomerBatch", "TestFiveDays"},
		{"Query table/CustomerNRT", "TestFiveDays"},
	})
}
