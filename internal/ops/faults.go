package ops

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/inject"
	"github.com/stator-db/stator/internal/protocol/api"
)

// ErrNoAnswer is returned for a request whose connection is to be closed without an answer.
var ErrNoAnswer = errors.New("the connection is closed without an answer, by an injected fault")

// faultsOfRequest are the faults that are injected into one request.
type faultsOfRequest struct {
	*inject.Decision
	parts int // of a batch or transaction
	reads int // that were admitted

	changedRead bool // what was read is not what the table has
}

// doWithFaults executes a request with the faults that are injected into it. A request that is
// repeated for want of memory keeps them.
func (s *Service) doWithFaults(ctx context.Context, c *Caller, r Request, memory *buffer.Scratch) (output, error) {
	if !c.faultsDecided {
		c.faultsDecided = true
		if in, ok := s.faultRequest(r); ok {
			if d := s.faults.Decide(in); d != nil {
				c.faults = &faultsOfRequest{Decision: d, parts: in.Parts}
			}
		}
	}
	f := c.faults
	if f == nil {
		return r.do(s, ctx, r.in, memory)
	}
	if err := f.before(ctx, r.name); err != nil {
		return output{}, err
	}
	f.reads, c.bill.Faults = 0, f
	out, err := r.do(s, ctx, r.in, memory)
	c.bill.Faults = nil
	if rule, ok := f.Get(inject.LostAnswer); ok && err == nil {
		f.Note(inject.LostAnswer, "the request was executed; answered with "+rule.As)
		return output{}, errorAs(rule.As)
	}
	return out, err
}

// before does what faults do to a request before it is executed.
func (f *faultsOfRequest) before(ctx context.Context, operation string) error {
	if rule, ok := f.Get(inject.Latency); ok {
		f.Note(inject.Latency, rule.Delay.String())
		wait := time.NewTimer(rule.Delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if rule, ok := f.Get(inject.InternalError); ok {
		f.Note(inject.InternalError, "nothing was executed; answered with "+rule.As)
		return errorAs(rule.As)
	}
	if _, ok := f.Get(inject.Throttle); ok && !slices.Contains(throttledByTable, operation) {
		f.Note(inject.Throttle, "")
		return apierror.Throttled()
	}
	return nil
}

// throttledByTable are the operations whose throughput is that of their tables. Others are
// throttled by a rate of requests.
var throttledByTable = []string{
	"GetItem", "BatchGetItem", "Query", "Scan", "ExecuteStatement", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem",
	"TransactGetItems", "TransactWriteItems", "ExecuteTransaction",
}

func errorAs(as string) error {
	if as == inject.AsConnectionClosed {
		return ErrNoAnswer
	}
	return apierror.InternalError()
}

// RejectRead returns the fault of a read.
func (f *faultsOfRequest) RejectRead(t *schema.Table, x *schema.Index) error {
	n := f.reads
	f.reads++
	return f.reject(t, x, throttle.Read, n, f.parts)
}

// RejectWrite returns the fault of the i-th of n writes.
func (f *faultsOfRequest) RejectWrite(t *schema.Table, i, n int) error {
	return f.reject(t, nil, throttle.Write, i, n)
}

// reject returns the fault of the i-th of n parts of a request.
func (f *faultsOfRequest) reject(t *schema.Table, x *schema.Index, kind throttle.Kind, i, n int) error {
	if rule, ok := f.Get(inject.Throttle); ok && (!f.Transacts() || i == f.Pick(inject.Throttle, f.parts)) {
		e := exceeded(t, x, kind, rule.As)
		f.Note(inject.Throttle, e.Reason())
		return e
	}
	if _, ok := f.Get(inject.Conflict); ok && i == f.Pick(inject.Conflict, f.parts) {
		f.Note(inject.Conflict, "")
		return apierror.Conflict()
	}
	// The rest of a batch is executed by itself, and has fewer parts.
	if _, ok := f.Get(inject.Unprocessed); ok && n == f.parts {
		first, left := f.Pick(inject.Unprocessed, n), 1+f.Pick(inject.Unprocessed, n*(n-1))/n
		if (i-first+n)%n < left {
			f.Note(inject.Unprocessed, fmt.Sprintf("%d of %d", left, n))
			return exceeded(t, x, kind, inject.AsTable)
		}
	}
	return nil
}

// exceeded returns the limit that a throttled request exceeds.
func exceeded(t *schema.Table, x *schema.Index, kind throttle.Kind, as string) *db.Throttled {
	e := &db.Throttled{Table: t.Name, Kind: kind, Limit: throttle.Provisioned, OnDemand: t.OnDemand}
	if x != nil && x.Global {
		e.Index = x.Name
	}
	switch {
	case as == inject.AsPartition:
		e.Limit, e.Partition = throttle.KeyRange, true
	case !t.OnDemand: // has neither a maximum nor a quota of the account
	case as == inject.AsMaximum:
		e.Limit = throttle.OnDemandMax
	case as == inject.AsAccount:
		e.Limit = throttle.Account
	default:
		e.Limit = throttle.KeyRange
	}
	return e
}

// Lag returns how old what a read returns is.
func (f *faultsOfRequest) Lag(x *schema.Index) time.Duration {
	rule, _ := f.Get(lagOf(x))
	return rule.Lag
}

// Lagged records that a read has returned what is old.
func (f *faultsOfRequest) Lagged(x *schema.Index, lag time.Duration) {
	f.changedRead = true
	f.Note(lagOf(x), "as of "+lag.String()+" ago")
}

func lagOf(x *schema.Index) inject.Fault {
	if x != nil && x.Global {
		return inject.IndexLag
	}
	return inject.StaleRead
}

// maxShortPage is how many items a page has at most that ends early.
const maxShortPage = 3

// PageItems returns after how many items a page ends early.
func (f *faultsOfRequest) PageItems() int {
	if _, ok := f.Get(inject.ShortPage); !ok {
		return 0
	}
	return 1 + f.Pick(inject.ShortPage, maxShortPage)
}

// PageEnded records that a page has ended early.
func (f *faultsOfRequest) PageEnded(items int) {
	f.changedRead = true
	f.Note(inject.ShortPage, fmt.Sprintf("after %d read", items))
}

// faultsOf returns the faults of the request that a context carries.
func faultsOf(ctx context.Context) *faultsOfRequest {
	if c := carriedBy(ctx); c != nil {
		return c.faults
	}
	return nil
}

// beforeRecords does what faults do to a request for records.
func (s *Service) beforeRecords(ctx context.Context, f *faultsOfRequest, src db.Stream, it stream.Iterator) error {
	if _, ok := f.Get(inject.ExpiredIterator); ok {
		f.Note(inject.ExpiredIterator, "")
		return apierror.ExpiredIterator()
	}
	if _, ok := f.Get(inject.SplitShard); ok {
		spans := src.Spans()
		if it.Shard.Span >= len(spans) {
			return nil
		}
		span := spans[it.Shard.Span]
		split, err := s.DB.SplitShard(ctx, src.Table, span.First+(span.Last-span.First)/2+1)
		if err != nil {
			return err
		}
		if split {
			f.Note(inject.SplitShard, "")
		}
	}
	return nil
}

// holdBack removes records from the end of a page, which later requests return.
func (f *faultsOfRequest) holdBack(page *stream.Page) {
	n := len(page.Changes)
	if _, ok := f.Get(inject.LateRecords); !ok || n == 0 {
		return
	}
	left := f.Pick(inject.LateRecords, n)
	first := &page.Changes[left]
	page.Next.At, page.Next.Oldest, page.Ended = stream.Position{Stamp: first.Stamp, N: first.N}, false, false
	page.Changes = page.Changes[:left]
	f.Note(inject.LateRecords, fmt.Sprintf("%d of %d", n-left, n))
}

// DeliversTwice reports whether a trigger is to deliver a batch of records of a table again, as Lambda may.
func (s *Service) DeliversTwice(name, table string, records int) bool {
	if s.faults == nil {
		return false
	}
	d := s.faults.Decide(inject.Request{Operation: "Deliver", Tables: []string{table}, Parameters: []byte(name)})
	if _, ok := d.Get(inject.DuplicateDelivery); !ok {
		return false
	}
	d.Note(inject.DuplicateDelivery, fmt.Sprintf("%d records to %s", records, name))
	return true
}

// faultRequest returns what rules look at in a request; not ok for one that gets no faults.
func (s *Service) faultRequest(r Request) (in inject.Request, ok bool) {
	if ownOperations[r.name] != nil || strings.HasPrefix(r.name, autoScalingPrefix) || strings.HasPrefix(r.name, daxPrefix) {
		return in, false
	}
	in.Operation, in.Tables = r.name, s.Tables(r, maxStatements)
	one := func(table string, key api.Attributes) { in.Keys = append(in.Keys, s.keyTexts(table, key.Item)) }
	switch q := r.in.(type) {
	case *api.GetItem:
		in.Consistent = q.ConsistentRead
		one(q.TableName, q.Key)
	case *api.PutItem:
		one(q.TableName, q.Item)
	case *api.UpdateItem:
		one(q.TableName, q.Key)
	case *api.DeleteItem:
		one(q.TableName, q.Key)
	case *api.BatchGetItem:
		for _, name := range sortedKeys(q.RequestItems) {
			for _, key := range q.RequestItems[name].Keys {
				one(name, key)
			}
		}
		in.Parts = len(in.Keys)
	case *api.BatchWriteItem:
		for _, name := range sortedKeys(q.RequestItems) {
			for _, w := range q.RequestItems[name] {
				switch {
				case w.PutRequest != nil:
					one(name, w.PutRequest.Item)
				case w.DeleteRequest != nil:
					one(name, w.DeleteRequest.Key)
				}
			}
		}
		in.Parts = len(in.Keys)
	case *api.TransactGetItems:
		in.Transacts, in.Parts = true, len(q.TransactItems)
		for _, a := range q.TransactItems {
			if a.Get != nil {
				one(or(a.Get.TableName, ""), a.Get.Key)
			}
		}
	case *api.TransactWriteItems:
		in.Transacts, in.Parts = true, len(q.TransactItems)
		for _, a := range q.TransactItems {
			switch {
			case a.ConditionCheck != nil:
				one(or(a.ConditionCheck.TableName, ""), a.ConditionCheck.Key)
			case a.Put != nil:
				one(or(a.Put.TableName, ""), a.Put.Item)
			case a.Delete != nil:
				one(or(a.Delete.TableName, ""), a.Delete.Key)
			case a.Update != nil:
				one(or(a.Update.TableName, ""), a.Update.Key)
			}
		}
	case *api.Query:
		s.pagedRequest(&in, q.TableName, or(q.KeyConditionExpression, ""), q.KeyConditions, &q.Paged)
	case *api.Scan:
		s.pagedRequest(&in, q.TableName, "", nil, &q.Paged)
	case *api.ExecuteStatement:
		in.Consistent, in.Parameters = q.ConsistentRead, statementParameters(nil, q.Statement, q.Parameters)
	case *api.BatchExecuteStatement:
		in.Parts = len(q.Statements)
		for _, st := range q.Statements {
			in.Parameters = statementParameters(in.Parameters, or(st.Statement, ""), st.Parameters)
		}
	case *api.ExecuteTransaction:
		in.Transacts, in.Parts = true, len(q.TransactStatements)
		for _, st := range q.TransactStatements {
			in.Parameters = statementParameters(in.Parameters, or(st.Statement, ""), st.Parameters)
		}
	case *api.GetRecords:
		if arn, _, err := splitIterator(or(q.ShardIterator, "")); err == nil {
			in.Tables = streamTable(arn)
		}
	case *api.GetShardIterator:
		in.Tables = streamTable(or(q.StreamArn, ""))
	case *api.DescribeStream:
		in.Tables = streamTable(or(q.StreamArn, ""))
	}
	return in, true
}

// streamTable returns the table of a stream.
func streamTable(arn string) []string {
	table, _, err := splitStreamARN(arn)
	if err != nil {
		return nil
	}
	return []string{table}
}

// keyTexts returns the attributes of the key of an item as texts. Of a table that does not
// exist, the request is rejected.
func (s *Service) keyTexts(table string, it item.Item) map[string]string {
	t, err := s.DB.Table(table)
	if err != nil || it == nil {
		return nil
	}
	texts := make(map[string]string)
	for _, a := range t.Key.All() {
		if v, ok := it.Get(a.Name); ok {
			texts[a.Name] = valueText(v)
		}
	}
	return texts
}

// valueText returns a value of a key as its text in DynamoDB's JSON.
func valueText(v item.Value) string {
	switch v.Type() {
	case item.S:
		return string(v.Bytes())
	case item.N:
		return string(v.AppendNumberText(nil))
	case item.B:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	}
	return ""
}

// pagedRequest sets what rules look at in a query or scan.
func (s *Service) pagedRequest(in *inject.Request, table, key string, conditions map[string]api.Condition, p *api.Paged) {
	in.Index, in.Consistent, in.Parameters = or(p.IndexName, ""), p.ConsistentRead, pagedParameters(key, conditions, p)
	if t, err := s.DB.Table(table); err == nil && in.Index != "" {
		x, ok := t.Index(in.Index)
		in.Global = ok && x.Global
	}
}

// pagedParameters returns what tells queries and scans apart, as bytes.
func pagedParameters(key string, conditions map[string]api.Condition, p *api.Paged) []byte {
	b := fmt.Appendf(nil, "%q %q %q %v ", key, or(p.FilterExpression, ""), or(p.ProjectionExpression, ""), p.ConsistentRead)
	for _, name := range sortedKeys(p.ExpressionAttributeValues) {
		b = fmt.Appendf(b, "%q=%x ", name, []byte(p.ExpressionAttributeValues[name].Value))
	}
	for _, name := range sortedKeys(conditions) {
		b = fmt.Appendf(b, "%q ", name)
		for _, v := range conditions[name].AttributeValueList {
			b = fmt.Appendf(b, "%x ", []byte(v.Value))
		}
	}
	return fmt.Appendf(b, "%x", []byte(p.ExclusiveStartKey.Item))
}

// statementParameters appends what tells statements apart.
func statementParameters(b []byte, text string, parameters []api.Value) []byte {
	b = fmt.Appendf(b, "%q ", text)
	for _, v := range parameters {
		b = fmt.Appendf(b, "%x ", []byte(v.Value))
	}
	return b
}
