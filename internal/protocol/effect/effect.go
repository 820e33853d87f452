// Package effect tells what a request may change, from its operation and its body.
package effect

import (
	"slices"
	"strings"
)

// Effect is what a request may change.
type Effect int

const (
	// Other is the effect of operations that are in no other group: they manage the
	// server, its access keys or its policies, or are unknown.
	Other Effect = iota
	// Nothing is the effect of reads.
	Nothing
	// Items is the effect of writes.
	Items
	// Tables is the effect of operations that create, change or delete tables and backups.
	Tables
)

// readers are how the names of operations that change nothing begin.
var readers = []string{"BatchGet", "Describe", "Explain", "Get", "ItemHistory", "List", "Query", "Read", "Scan", "Search", "TransactGet"}

// statements are the operations of PartiQL, whose effect is that of their statements.
var statements = []string{"ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction"}

var writers = []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "UndoChanges"}

var changers = []string{"CreateTable", "UpdateTable", "DeleteTable", "UpdateTimeToLive", "UpdateContinuousBackups", "TagResource", "UntagResource",
	"CreateBackup", "DeleteBackup", "RestoreTableFromBackup", "RestoreTableToPointInTime", "UpdateContributorInsights",
	"RegisterScalableTarget", "DeregisterScalableTarget", "PutScalingPolicy", "DeleteScalingPolicy"}

// Of returns what a request may change. The name of the operation is that after the dot of
// X-Amz-Target. Names of operations that read begin with a word of readers; a statement of
// PartiQL reads if it is a SELECT.
func Of(operation string, body []byte) Effect {
	switch {
	case slices.Contains(statements, operation):
		if onlySelects(body) {
			return Nothing
		}
		return Items
	case slices.Contains(writers, operation):
		return Items
	case slices.Contains(changers, operation):
		return Tables
	}
	if strings.Contains(operation, ".") { // a server that looks behind the last dot would run something else
		return Other
	}
	for _, word := range readers {
		if strings.HasPrefix(operation, word) {
			return Nothing
		}
	}
	return Other
}
