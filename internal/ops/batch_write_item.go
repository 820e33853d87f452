package ops

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

const maxBatchWrites = 25

// batchWriteItemChecks run in the order in which DynamoDB reports faults, which
// conformance/batch_write_item/order.txt verifies.
var batchWriteItemChecks = []func(*api.BatchWriteItem) error{
	checkBatchTables[api.BatchWriteItem](func(in *api.BatchWriteItem) []string { return sortedKeys(in.RequestItems) }),
	checkBatchWriteCount,
	func(in *api.BatchWriteItem) error {
		for _, name := range sortedKeys(in.RequestItems) {
			for i := range in.RequestItems[name] {
				if err := checkWriteRequest(&in.RequestItems[name][i]); err != nil {
					return err
				}
			}
		}
		return nil
	},
}

// batchWriteItem makes all writes in one update, unless they are large. That is a
// stronger guarantee than DynamoDB gives, and faster. Writes are left unprocessed only
// if they are throttled, or do not fit into one update and the store rejects a later
// one.
func (s *Service) batchWriteItem(ctx context.Context, in *api.BatchWriteItem) (*api.BatchWriteItemReply, usages, error) {
	if err := firstFault(in, batchWriteItemChecks); err != nil {
		return nil, nil, err
	}
	requested, sent, err := tablesByName(in.RequestItems)
	if err != nil {
		return nil, nil, err
	}
	in.RequestItems = requested
	tables := sortedKeys(in.RequestItems)
	writes, err := s.batchWrites(in, tables)
	if err != nil {
		return nil, nil, err
	}
	done, err := s.writeBatch(ctx, writes)
	if err != nil {
		return nil, nil, err
	}
	reply := &api.BatchWriteItemReply{}
	used := make(usages, 0, len(tables))
	for _, name := range tables {
		requests := in.RequestItems[name]
		var cost capacity.Consumed
		var found *schema.Table
		var rest []api.WriteRequest
		for i, w := range writes[:len(requests)] {
			if done[i].Table == nil {
				rest = append(rest, requests[i])
				continue
			}
			found = done[i].Table
			cost.Add(done[i].Consumed)
			m := collectionMetrics(in.ReturnItemCollectionMetrics, w.Key, done[i])
			reply.ItemCollectionMetrics = addMetrics(reply.ItemCollectionMetrics, sent.as(name), m)
		}
		writes, done = writes[len(requests):], done[len(requests):]
		if len(rest) > 0 {
			reply.UnprocessedItems = addUnprocessed(reply.UnprocessedItems, sent.as(name), rest)
		}
		used = append(used, usage{consumed: cost, asked: asked{operation: "BatchWriteItem", table: name, schema: found, actions: batchActions(requests)}})
		if c := consumed(in.ReturnConsumedCapacity, sent.as(name), cost); c != nil {
			reply.ConsumedCapacity = append(reply.ConsumedCapacity, *c)
		}
	}
	return reply, used, nil
}

// batchActions returns the writes that a batch makes in one table.
func batchActions(requests []api.WriteRequest) []askedAction {
	actions := make([]askedAction, len(requests))
	for i := range requests {
		if put := requests[i].PutRequest; put != nil {
			actions[i] = askedAction{kind: workload.Put, key: put.Item.Item}
		} else {
			actions[i] = askedAction{kind: workload.Delete, key: requests[i].DeleteRequest.Key.Item}
		}
	}
	return actions
}

func addUnprocessed(all map[string][]api.WriteRequest, table string, requests []api.WriteRequest) map[string][]api.WriteRequest {
	if all == nil {
		all = make(map[string][]api.WriteRequest)
	}
	all[table] = requests
	return all
}

// batchWrites plans the writes of all tables, in the order of tables. No two of them may name the same item.
func (s *Service) batchWrites(in *api.BatchWriteItem, tables []string) ([]db.Write, error) {
	writes := make([]db.Write, 0, maxBatchWrites)
	row := make([]byte, 0, 64*maxBatchWrites) // holds all keys
	for _, name := range tables {
		t, err := s.DB.Table(name)
		if err != nil {
			return nil, err
		}
		requests := in.RequestItems[name]
		keys := make([][]byte, len(requests))
		for i := range requests {
			w := batchWrite(name, &requests[i])
			if err := w.Fit(t, w.Key); err != nil {
				if !distinct(keys[:i]) {
					return nil, errDuplicates() // of earlier requests, which are reported first
				}
				return nil, err
			}
			from := len(row)
			row = keyspace.Item(row, t, w.Key)
			keys[i] = row[from:]
			writes = append(writes, w)
		}
		if !distinct(keys) {
			return nil, errDuplicates()
		}
	}
	return writes, nil
}

func batchWrite(table string, req *api.WriteRequest) db.Write {
	if req.PutRequest != nil {
		it := req.PutRequest.Item.Item
		return db.Write{Table: table, Key: it, Fit: (*schema.Table).CheckBatchItem, Effect: db.Replace(it)}
	}
	return db.Write{Table: table, Key: req.DeleteRequest.Key.Item, Fit: (*schema.Table).CheckKey, Effect: db.Remove, Deletes: true}
}

func checkBatchWriteCount(in *api.BatchWriteItem) error {
	total := 0
	for _, requests := range in.RequestItems {
		total += len(requests)
	}
	if total > maxBatchWrites {
		return apierror.Validation("Too many items requested for the BatchWriteItem call")
	}
	return nil
}

func checkWriteRequest(req *api.WriteRequest) error {
	if (req.PutRequest == nil) == (req.DeleteRequest == nil) {
		return apierror.Validation("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")
	}
	if req.DeleteRequest != nil {
		return faultOf(req.DeleteRequest.Key)
	}
	if err := faultOf(req.PutRequest.Item); err != nil {
		return err
	}
	return fitsSize(req.PutRequest.Item.Item)
}

// addMetrics lists each collection once, with its size after the last write.
func addMetrics(all map[string][]api.ItemCollectionMetrics, table string, m *api.ItemCollectionMetrics) map[string][]api.ItemCollectionMetrics {
	if m == nil {
		return all
	}
	for i, known := range all[table] {
		if known.ItemCollectionKey.Equal(m.ItemCollectionKey) {
			all[table][i] = *m
			return all
		}
	}
	if all == nil {
		all = make(map[string][]api.ItemCollectionMetrics)
	}
	all[table] = append(all[table], *m)
	return all
}

// tableARN is the ARN of a table.
var tableARN = pattern(`^arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([a-zA-Z0-9_.-]{3,255})$`)

// sentTables maps the names of tables that a batch names by their ARNs to the ARNs.
type sentTables map[string]string

// as returns a table as the request named it, as replies do.
func (s sentTables) as(name string) string {
	if arn, ok := s[name]; ok {
		return arn
	}
	return name
}

// tablesByName replaces the ARNs that are keys of a batch by the names of their
// tables.
func tablesByName[Part any](requested map[string]Part) (byName map[string]Part, sent sentTables, err error) {
	isARN := func(name string) bool { return strings.HasPrefix(name, "arn:") }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(requested)), isARN) {
		return requested, nil, nil
	}
	byName, sent = make(map[string]Part), make(sentTables)
	for _, key := range sortedKeys(requested) {
		name := key
		if isARN(key) {
			name = tableARN().FindStringSubmatch(key)[1]
			sent[name] = key
		}
		if _, twice := byName[name]; twice {
			return nil, nil, apierror.InvalidValues("RequestItems has table %s by its name and by its ARN", name)
		}
		byName[name] = requested[key]
	}
	return byName, sent, nil
}

// isBatchTable reports whether a name is a valid table name or ARN in a batch.
func isBatchTable(name string) bool {
	if strings.HasPrefix(name, "arn:") {
		return tableARN().MatchString(name)
	}
	other := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '.' || r == '-')
	}
	return name != "" && len(name) <= 255 && !strings.ContainsFunc(name, other)
}

// checkBatchTables checks the table names that are keys of a map, which package
// wire does not check.
func checkBatchTables[In any](tables func(*In) []string) func(*In) error {
	return func(in *In) error {
		for _, name := range tables(in) {
			if !isBatchTable(name) {
				return apierror.Validation("1 validation error detected: Value '%s' at 'requestItems' failed to satisfy constraint: "+
					"Map keys must satisfy constraint: [Member must have length less than or equal to 255, "+
					"Member must have length greater than or equal to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]", name)
			}
		}
		return nil
	}
}
