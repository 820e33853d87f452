package ops

import (
	"bytes"
	"context"
	"slices"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

const (
	maxBatchKeys  = 100
	maxBatchBytes = 16 << 20 // of the items returned
)

// batchGetItemChecks run in the order in which DynamoDB reports faults, which
// conformance/batch_get_item/order.txt verifies.
var batchGetItemChecks = []func(*api.BatchGetItem) error{
	checkBatchTables[api.BatchGetItem](func(in *api.BatchGetItem) []string { return sortedKeys(in.RequestItems) }),
	checkBatchKeyCount,
	func(in *api.BatchGetItem) error {
		var all parameters
		for _, name := range sortedKeys(in.RequestItems) {
			part := in.RequestItems[name]
			p := projectionParameters(part.ProjectionExpression, part.AttributesToGet, nil)
			all.legacy, all.expressions = either(all.legacy, p.legacy), either(all.expressions, p.expressions)
		}
		return all.check()
	},
}

func (s *Service) batchGetItem(ctx context.Context, in *api.BatchGetItem) (*api.BatchGetItemReply, usages, error) {
	if err := firstFault(in, batchGetItemChecks); err != nil {
		return nil, nil, err
	}
	requested, sent, err := tablesByName(in.RequestItems)
	if err != nil {
		return nil, nil, err
	}
	in.RequestItems = requested
	tables := sortedKeys(in.RequestItems)
	paths := make(map[string][]item.Path)
	for _, name := range tables {
		part := in.RequestItems[name]
		if err := checkBatchPart(&part); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range tables {
		part := in.RequestItems[name]
		if paths[name], err = s.batchPaths(&part); err != nil {
			return nil, nil, err
		}
	}
	reply := &api.BatchGetItemReply{
		Responses:       make(map[string][]item.Item),
		UnprocessedKeys: make(map[string]api.UnprocessedKeysPart),
	}
	used := make(usages, 0, len(tables))
	left := maxBatchBytes
	anyRead, throttled := false, error(nil)
	memory := buffer.TallyOf(ctx, batchKeys(in), maxBatchBytes+item.MaxSize)
	for _, name := range tables {
		part := in.RequestItems[name]
		get := db.Get{Table: name, Consistent: part.ConsistentRead, Fit: fitsPaths(paths[name]), Memory: &memory}
		keys := keysOf(part.Keys)
		get.Throttled = func(i int, err error) {
			throttled, keys[i] = err, nil
		}
		found, hits, err := s.getWithin(ctx, get, left, keys)
		if err != nil {
			return nil, nil, err
		}
		anyRead = anyRead || len(found) > 0
		cost := takeBatch(reply, sent.as(name), &part, keys, found, hits, paths[name], &left)
		n := len(reply.Responses[sent.as(name)])
		used = append(used, usage{returned: n, scanned: n, consumed: cost, cached: hits != nil && !slices.Contains(hits, false), asked: asked{
			operation: "BatchGetItem", table: name, consistent: part.ConsistentRead, gets: part.Keys, paths: paths[name],
			expressions: [3]*string{part.ProjectionExpression}, names: part.ExpressionAttributeNames, legacy: part.AttributesToGet != nil || part.Compiled != nil,
		}})
		if c := consumed(in.ReturnConsumedCapacity, sent.as(name), cost); c != nil {
			reply.ConsumedCapacity = append(reply.ConsumedCapacity, *c)
		}
	}
	if throttled != nil && !anyRead {
		return nil, nil, throttled
	}
	return reply, used, nil
}

// checkBatchPart checks the parameters and the values of one table's part.
func checkBatchPart(part *api.KeysAndAttributes) error {
	p := projectionParameters(part.ProjectionExpression, part.AttributesToGet, part.ExpressionAttributeNames)
	if err := p.check(); err != nil {
		return err
	}
	for _, key := range part.Keys {
		if err := faultOf(key); err != nil {
			return err
		}
	}
	return nil
}

// batchPaths binds the projection of one table's part, and finds keys that it
// has twice.
func (s *Service) batchPaths(part *api.KeysAndAttributes) ([]item.Path, error) {
	paths, err := s.onlyProjection(part.Compiled, part.ProjectionExpression, part.AttributesToGet, part.ExpressionAttributeNames)
	if err != nil {
		return nil, err
	}
	return paths, checkDuplicates(part.Keys)
}

// takeBatch adds the items of one table to the reply until it is full, and the
// remaining keys to UnprocessedKeys. Of keys, those that were throttled are nil; found
// has the items of the others. hits, which may be nil, marks those that cost nothing.
func takeBatch(reply *api.BatchGetItemReply, table string, part *api.KeysAndAttributes, keys, found []item.Item, hits []bool, paths []item.Path, left *int) capacity.Consumed {
	var cost capacity.Consumed
	items, rest := []item.Item{}, []item.Item(nil)
	for i, key := range keys {
		if key == nil {
			rest = append(rest, part.Keys[i].Item)
			continue
		}
		if len(found) == 0 {
			rest = append(rest, key)
			continue
		}
		it := found[0]
		size := it.Size()
		if *left -= size; *left < 0 {
			found = nil
			rest = append(rest, key)
			continue
		}
		found = found[1:]
		if hits == nil || !hits[i] {
			cost.Table += capacity.Read(size, part.ConsistentRead)
		}
		if it != nil {
			items = append(items, project(it, paths))
		}
	}
	if len(rest) > 0 {
		reply.UnprocessedKeys[table] = unprocessed(part, rest)
	}
	reply.Responses[table] = items
	return cost
}

func unprocessed(part *api.KeysAndAttributes, keys []item.Item) api.UnprocessedKeysPart {
	again := api.UnprocessedKeysPart{
		Keys:                     keys,
		AttributesToGet:          part.AttributesToGet,
		ProjectionExpression:     part.ProjectionExpression,
		ExpressionAttributeNames: part.ExpressionAttributeNames,
	}
	if part.ConsistentRead {
		again.ConsistentRead = &part.ConsistentRead
	}
	return again
}

func batchKeys(in *api.BatchGetItem) (n int) {
	for _, part := range in.RequestItems {
		n += len(part.Keys)
	}
	return n
}

func checkBatchKeyCount(in *api.BatchGetItem) error {
	most := ""
	for _, name := range sortedKeys(in.RequestItems) {
		if most == "" || len(in.RequestItems[name].Keys) > len(in.RequestItems[most].Keys) {
			most = name
		}
	}
	if batchKeys(in) > maxBatchKeys {
		return apierror.Validation("1 validation error detected: Value at 'RequestItems.%s.member.Keys' "+
			"failed to satisfy constraint: Member must have length less than or equal to 100", most)
	}
	return nil
}

// checkDuplicates returns a fault if a key occurs twice.
func checkDuplicates(keys []api.Attributes) error {
	sorted := make([][]byte, len(keys))
	for i := range keys {
		sorted[i] = keys[i].Item
	}
	if !distinct(sorted) {
		return errDuplicates()
	}
	return nil
}

func errDuplicates() error {
	return apierror.Validation("Provided list of item keys contains duplicates")
}

// distinct reports whether no two keys are equal. It sorts them.
func distinct(keys [][]byte) bool {
	slices.SortFunc(keys, bytes.Compare)
	for i := 1; i < len(keys); i++ {
		if bytes.Equal(keys[i-1], keys[i]) {
			return false
		}
	}
	return true
}

func keysOf(list []api.Attributes) []item.Item {
	keys := make([]item.Item, len(list))
	for i := range list {
		keys[i] = list[i].Item
	}
	return keys
}

// either merges two lists of the same parameters: a parameter is given if it is
// given in one of them.
func either(a, b []parameter) []parameter {
	if a == nil {
		return b
	}
	for i := range a {
		a[i].given = a[i].given || b[i].given
	}
	return a
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
