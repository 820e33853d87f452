package queue

import (
	"testing"

	"github.com/stator-db/stator/apps/internal/hometest"
)

// Without an action on a resource of the policy a test fails.
func TestPolicyIsLeast(t *testing.T) {
	hometest.PolicyIsLeast(t, [][2]string{
		{"UpdateItem table/tasks", "TestFullLife"},
		{"BatchGetItem table/tasks", "TestListPages"},
		{"BatchWriteItem table/tasks", "TestFullLife"},
		{"DeleteItem table/tasks", "TestWorkersAreForgotten"},
		{"DescribeStream table/tasks/stream/*", "TestFullLife"},
		{"DescribeTable table/tasks", "TestFullLife"},
		{"GetItem table/tasks", "TestFullLife"},
		{"GetRecords table/tasks/stream/*", "TestFullLife"},
		{"GetShardIterator table/tasks/stream/*", "TestFullLife"},
		{"PutItem table/tasks", "TestFullLife"},
		{"Query table/tasks", "TestFullLife"},
		{"Query table/tasks/index/GSI1", "TestListPages"},
		{"Query table/tasks/index/GSI2", "TestTasksThatAreDueMuchLater"},
	})
}
