package downloads_test

import (
	"testing"

	"github.com/stator-db/stator/apps/internal/hometest"
)

// Without an action on a resource of the policy a test fails.
func TestPolicyIsLeast(t *testing.T) {
	hometest.PolicyIsLeast(t, [][2]string{
		{"UpdateItem table/data-download-jobs", "TestTen"},
		{"DescribeTable table/data-download-batches", "TestTen"},
		{"DescribeTable table/data-download-jobs", "TestTen"},
		{"GetItem table/data-download-batches", "TestTen"},
		{"GetItem table/data-download-jobs", "TestTen"},
		{"PutItem table/data-download-batches", "TestTen"},
		{"PutItem table/data-download-jobs", "TestTen"},
		{"Query table/data-download-batches/index/PollingDateIndex", "TestSite"},
		{"Query table/data-download-jobs/index/BatchIndex", "TestSite"},
		{"Query table/data-download-jobs/index/StatusIndex", "TestSite"},
		{"UpdateItem table/data-download-batches", "TestTen"},
	})
}
