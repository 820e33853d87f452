package documents

import (
	"testing"

	"github.com/stator-db/stator/apps/internal/hometest"
)

// Without an action on a resource of the policy a test fails.
func TestPolicyIsLeast(t *testing.T) {
	hometest.PolicyIsLeast(t, [][2]string{
		{"ConditionCheckItem table/documents", "TestReviewAndRetry"},
		{"BatchGetItem table/documents", "TestDeletion"},
		{"BatchWriteItem table/documents", "TestDeletion"},
		{"DeleteItem table/documents", "TestDeletion"},
		{"DescribeTable table/documents", "TestReviewAndRetry"},
		{"GetItem table/documents", "TestReviewAndRetry"},
		{"PutItem table/documents", "TestReviewAndRetry"},
		{"Query table/documents", "TestReviewAndRetry"},
		{"Query table/documents/index/GSI1", "TestDeletion"},
		{"Query table/documents/index/GSI2", "TestReviewAndRetry"},
		{"Query table/documents/index/GSI3", "TestReviewAndRetry"},
		{"UpdateItem table/documents", "TestReviewAndRetry"},
	})
}
