// Package ops makes a plan of each request and words its outcome: one file
// per operation, one table of them all.
//
// An operation checks what makes sense of the request alone, in an order that
// DynamoDB's customers can see. What fits the table and what the stored item
// allows is decided by package db, which alone reads and writes.
package ops

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/db/transfer"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// Service answers requests from a database.
type Service struct {
	DB        *db.DB
	Backups   *backup.Store
	Transfers *transfer.Store
	Account   string // twelve digits; the owner of everything, in ARNs

	parsed *expr.Cache
	shapes *shapes
}

// New makes a service on a database.
func New(d *db.DB) *Service {
	return &Service{DB: d, Account: "000000000000", parsed: expr.NewCache(4096), shapes: newShapes(d.Now())}
}

// operations are all operations, by the name in X-Amz-Target.
var operations = map[string]run{
	"BatchExecuteStatement":     operation((*Service).batchExecuteStatement),
	"BatchGetItem":              operation((*Service).batchGetItem),
	"BatchWriteItem":            operation((*Service).batchWriteItem),
	"CreateBackup":              operation((*Service).createBackup),
	"CreateTable":               operation((*Service).createTable),
	"DeleteBackup":              operation((*Service).deleteBackup),
	"DeleteItem":                enveloped(operation((*Service).deleteItem)),
	"DeleteTable":               operation((*Service).deleteTable),
	"DescribeBackup":            operation((*Service).describeBackup),
	"DescribeContinuousBackups": operation((*Service).describeContinuousBackups),
	"DescribeEndpoints":         operation((*Service).describeEndpoints),
	"DescribeExport":            operation((*Service).describeExport),
	"DescribeImport":            operation((*Service).describeImport),
	"DescribeLimits":            operation((*Service).describeLimits),
	"DescribeTable":             operation((*Service).describeTable),
	"DescribeTimeToLive":        operation((*Service).describeTimeToLive),
	"ExecuteStatement":          operation((*Service).executeStatement),
	"ExecuteTransaction":        operation((*Service).executeTransaction),
	"ExportTableToPointInTime":  operation((*Service).exportTableToPointInTime),
	"GetItem":                   operation((*Service).getItem),
	"ImportTable":               operation((*Service).importTable),
	"ListBackups":               operation((*Service).listBackups),
	"ListExports":               operation((*Service).listExports),
	"ListImports":               operation((*Service).listImports),
	"ListTables":                operation((*Service).listTables),
	"ListTagsOfResource":        operation((*Service).listTagsOfResource),
	"PutItem":                   enveloped(operation((*Service).putItem)),
	"Query":                     enveloped(paged((*Service).query)),
	"RestoreTableFromBackup":    operation((*Service).restoreTableFromBackup),
	"RestoreTableToPointInTime": operation((*Service).restoreTableToPointInTime),
	"Scan":                      paged((*Service).scan),
	"TagResource":               operation((*Service).tagResource),
	"TransactGetItems":          operation((*Service).transactGetItems),
	"TransactWriteItems":        operation((*Service).transactWriteItems),
	"UntagResource":             operation((*Service).untagResource),
	"UpdateContinuousBackups":   operation((*Service).updateContinuousBackups),
	"UpdateItem":                enveloped(operation((*Service).updateItem)),
	"UpdateTable":               operation((*Service).updateTable),
	"UpdateTimeToLive":          operation((*Service).updateTimeToLive),
}

// streamOperations are the operations of the second service, of streams.
var streamOperations = map[string]run{
	"DescribeStream":   operation((*Service).describeStream),
	"GetRecords":       operation((*Service).getRecords),
	"GetShardIterator": operation((*Service).getShardIterator),
	"ListStreams":      operation((*Service).listStreams),
}

// Known tells whether there is an operation of that name.
func Known(name string) bool { return operations[name] != nil || streamOperations[name] != nil }

// Find is the name of the operation that an X-Amz-Target asks for.
func Find(target string) (name string, ok bool) {
	service, name, _ := strings.Cut(target, ".")
	switch service {
	case "DynamoDB_20120810":
		return name, operations[name] != nil
	case "DynamoDBStreams_20120810":
		return name, streamOperations[name] != nil
	}
	return "", false
}

// Do carries out a request and writes its reply to the memory. An
// *apierror.Error is the customer's fault; any other error is a failure of
// ours.
func (s *Service) Do(ctx context.Context, name string, body []byte, memory *buffer.Memory) (reply []byte, err error) {
	do, ok := operations[name]
	if !ok {
		do, ok = streamOperations[name]
	}
	if !ok {
		return nil, apierror.UnknownOperation()
	}
	return do(s, ctx, body, memory)
}

// run carries out one operation on the body of a request.
type run func(s *Service, ctx context.Context, body []byte, memory *buffer.Memory) (reply []byte, err error)

func operation[In, Reply any](do func(*Service, context.Context, *In) (*Reply, error)) run {
	return func(s *Service, ctx context.Context, body []byte, memory *buffer.Memory) ([]byte, error) {
		in := new(In)
		if err := wire.Decode(body, in); err != nil {
			return nil, err
		}
		seen := s.sight(in)
		reply, err := do(s, ctx, in)
		if err != nil {
			return nil, err
		}
		s.count(in, reply, seen)
		text := wire.AppendReply(memory.Empty(), reply)
		memory.Keep(text)
		return text, nil
	}
}

// paged is an operation that answers with a page of items, which are written
// to the reply while they are read.
func paged[In any](plan func(*Service, *In) (*reading, error)) run {
	return func(s *Service, ctx context.Context, body []byte, memory *buffer.Memory) ([]byte, error) {
		in := new(In)
		if err := wire.Decode(body, in); err != nil {
			return nil, err
		}
		seen := s.sight(in)
		r, err := plan(s, in)
		if err != nil {
			return nil, err
		}
		page := wire.NewPage(memory)
		reply, err := s.page(ctx, r, &page)
		if err != nil {
			return nil, err
		}
		s.count(in, reply, seen)
		return page.Reply(reply), nil
	}
}

// enveloped is for the operations that put a prefix before faults of the
// request itself.
func enveloped(do run) run {
	return func(s *Service, ctx context.Context, body []byte, memory *buffer.Memory) ([]byte, error) {
		reply, err := do(s, ctx, body, memory)
		if err == nil {
			return reply, nil
		}
		var fault *apierror.Error
		if errors.As(err, &fault) {
			return nil, fault.Enveloped()
		}
		return nil, err
	}
}

// firstFault goes through checks in order.
func firstFault[In any](in *In, checks []func(*In) error) error {
	for _, check := range checks {
		if err := check(in); err != nil {
			return err
		}
	}
	return nil
}

// pattern is a regular expression that is compiled when it is first used. One
// with a name of up to 255 letters in it takes half a millisecond.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Caller is who sends a request.
type Caller struct {
	Region string // as in the credential scope
	Host   string // under which it knows us
}

type callerKey struct{}

// WithCaller notes the caller of a request in its context.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

func callerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	c.Region = cmp.Or(c.Region, "us-east-1")
	return c
}

// tableARN names a table for the caller.
func (s *Service) tableARN(ctx context.Context, table string) string {
	return "arn:aws:dynamodb:" + callerOf(ctx).Region + ":" + s.Account + ":table/" + table
}

// isSet tells whether an optional member has this value.
func isSet(member *string, value string) bool { return member != nil && *member == value }
