// Package inject decides which faults are injected into which requests, from a plan and a
// seed.
//
// It decides only: packages ops and db do to a request what was decided. A fault is
// something that DynamoDB itself may do to a client; docs/faults.md has the reason for
// each kind.
package inject

import (
	"slices"
	"strings"
)

// Fault is a kind of fault.
type Fault string

// The kinds of faults.
const (
	Latency           Fault = "latency"            // the answer is late
	Throttle          Fault = "throttle"           // a limit of throughput is exceeded
	InternalError     Fault = "internal-error"     // nothing is done
	LostAnswer        Fault = "lost-answer"        // it is done, but the client does not learn that
	Conflict          Fault = "conflict"           // with a transaction
	Unprocessed       Fault = "unprocessed"        // a part of a batch is left out
	StaleRead         Fault = "stale-read"         // an eventually consistent read of a table
	IndexLag          Fault = "index-lag"          // a read of a global index
	ShortPage         Fault = "short-page"         // a page ends early
	LateRecords       Fault = "late-records"       // records of a stream are not returned yet
	ExpiredIterator   Fault = "expired-iterator"   // the reader of a stream has to begin again
	SplitShard        Fault = "split-shard"        // under its reader
	DuplicateDelivery Fault = "duplicate-delivery" // a trigger gets a batch twice
)

// faultKind is what a fault may be injected into, and by which members its rules differ.
type faultKind struct {
	operations []string
	// onRequest operations get the fault only from rules that name them.
	onRequest []string
	// rejects is set if the client has to send the request again.
	rejects bool

	delay, lag, as bool
	exclusive      string // of the faults with the same word, a request gets one
}

var (
	reads      = []string{"GetItem", "BatchGetItem", "Query", "Scan", "ExecuteStatement"}
	writes     = []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"}
	statements = []string{"BatchExecuteStatement", "ExecuteTransaction"}
	transacts  = []string{"TransactGetItems", "TransactWriteItems"}
	items      = slices.Concat(reads, writes, transacts, statements)
	streams    = []string{"GetRecords", "GetShardIterator", "DescribeStream"}
	tables     = []string{"CreateTable", "UpdateTable", "DeleteTable", "DescribeTable", "ListTables", "DescribeTimeToLive", "UpdateTimeToLive", "ListStreams"}
)

// trigger stands for the operation of delivering records to a trigger.
const trigger = "Deliver"

var kinds = map[Fault]faultKind{
	Latency:           {operations: slices.Concat(items, streams), onRequest: tables, delay: true},
	Throttle:          {operations: slices.Concat(reads, writes, transacts, []string{"ExecuteTransaction"}), onRequest: tables, rejects: true, as: true, exclusive: "reject"},
	InternalError:     {operations: slices.Concat(items, streams), onRequest: tables, rejects: true, as: true, exclusive: "reject"},
	LostAnswer:        {operations: items, onRequest: slices.Concat(tables, streams), rejects: true, as: true, exclusive: "reject"},
	Conflict:          {operations: slices.Concat([]string{"PutItem", "UpdateItem", "DeleteItem"}, transacts, []string{"ExecuteTransaction"}), rejects: true, exclusive: "reject"},
	Unprocessed:       {operations: []string{"BatchGetItem", "BatchWriteItem"}, exclusive: "reject"},
	StaleRead:         {operations: reads, lag: true},
	IndexLag:          {operations: []string{"Query", "Scan", "ExecuteStatement"}, lag: true},
	ShortPage:         {operations: []string{"Query", "Scan"}, exclusive: "page"},
	LateRecords:       {operations: []string{"GetRecords"}, exclusive: "page"},
	ExpiredIterator:   {operations: []string{"GetRecords"}, rejects: true, exclusive: "reject"},
	SplitShard:        {operations: []string{"GetRecords"}, exclusive: "shard"},
	DuplicateDelivery: {operations: []string{trigger}, exclusive: "deliver"},
}

// Faults are the kinds of faults, in alphabetical order.
func Faults() []Fault {
	all := make([]Fault, 0, len(kinds))
	for f := range kinds {
		all = append(all, f)
	}
	slices.Sort(all)
	return all
}

// takes reports whether an operation can have the fault, from a rule that names it or not.
func (k *faultKind) takes(operation string, named bool) bool {
	return slices.Contains(k.operations, operation) || named && slices.Contains(k.onRequest, operation)
}

// The values of a rule's As, and what they are for.
const (
	AsInternalError    = "internal-error"
	AsConnectionClosed = "connection-closed"

	AsTable     = "table"     // the throughput of the table is exceeded
	AsPartition = "partition" // that of a partition
	AsMaximum   = "maximum"   // the maximum of an on-demand table
	AsAccount   = "account"   // the quota of the account, for an on-demand table
)

// as are the values that a rule's As may have; the first is the default.
var as = map[Fault][]string{
	Throttle:      {AsTable, AsPartition, AsMaximum, AsAccount},
	InternalError: {AsInternalError, AsConnectionClosed},
	LostAnswer:    {AsInternalError, AsConnectionClosed},
}

// matches reports whether a name matches a pattern, in which * stands for any text.
func matches(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	for ok {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
		rest = after
	}
	return false
}
