package dax

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// A reply begins with an empty array: no error. Most have a map of members after it, or null
// for none of them.
const (
	memberItem              = 0
	memberConsumedCapacity  = 1
	memberAttributes        = 2
	memberCollectionMetrics = 3
	memberItems             = 7
	memberCount             = 8
	memberLastEvaluatedKey  = 9
	memberScannedCount      = 10
)

// AppendReply appends the answer of a request: *api.GetItemReply and so on. It appends nothing
// if there is an error, which comes from the Catalog. An Authorization has no answer.
func (r Request) AppendReply(dst []byte, c Catalog, reply any) ([]byte, error) {
	w := replyWriters.Get().(*replyWriter)
	w.request, w.dst, w.attributes.catalog = r, cbor.AppendArray(dst, 0), c
	err := w.reply(reply)
	if err == nil {
		dst = w.dst
	}
	w.end() // not after a panic
	return dst, err
}

// replyWriters keeps the memory of the names of attributes.
var replyWriters = sync.Pool{New: func() any { return new(replyWriter) }}

// keptNames is how many names a replyWriter has memory for between two replies.
const keptNames = 256

func (w *replyWriter) end() {
	names := w.attributes.names[:0]
	if cap(names) > keptNames {
		names = nil
	}
	clear(names[:cap(names)]) // frees the items that they are part of
	*w = replyWriter{attributes: attributeWriter{names: names}}
	replyWriters.Put(w)
}

// replyWriter appends one reply.
type replyWriter struct {
	request    Request
	dst        []byte
	attributes attributeWriter
}

func (w *replyWriter) reply(reply any) error {
	switch in := w.request.In.(type) {
	case *DefineKeySchema:
		return w.keySchema(in)
	case *DefineAttributeList:
		return w.attributeNames(in)
	case *DefineAttributeListID:
		return w.attributeListID(in)
	case *Endpoints:
		w.endpoints(reply.(*EndpointsReply))
		return nil
	case *api.GetItem:
		return w.getItem(in, reply.(*api.GetItemReply))
	case *api.PutItem:
		return w.write(in.TableName, false, reply.(*api.PutItemReply))
	case *api.DeleteItem:
		return w.write(in.TableName, false, reply.(*api.DeleteItemReply))
	case *api.UpdateItem:
		v := in.ReturnValues
		return w.write(in.TableName, v != nil && (*v == "UPDATED_OLD" || *v == "UPDATED_NEW"), reply.(*api.UpdateItemReply))
	case *api.Query:
		return w.page(in.TableName, &in.Paged, reply.(*api.PageReply))
	case *api.Scan:
		return w.page(in.TableName, &in.Paged, reply.(*api.PageReply))
	case *api.BatchGetItem:
		return w.batchGet(reply.(*api.BatchGetItemReply))
	case *api.BatchWriteItem:
		return w.batchWrite(reply.(*api.BatchWriteItemReply))
	case *api.TransactGetItems:
		return w.transactGet(in, reply.(*api.TransactGetItemsReply))
	case *api.TransactWriteItems:
		return w.transactWrite(reply.(*api.TransactWriteItemsReply))
	}
	panic(fmt.Sprintf("%s has no reply", w.request.Operation))
}

func (w *replyWriter) int(v int64)                          { w.dst = cbor.AppendInt(w.dst, v) }
func (w *replyWriter) text(s string)                        { w.dst = cbor.AppendText(w.dst, s) }
func (w *replyWriter) array(n int)                          { w.dst = cbor.AppendArray(w.dst, n) }
func (w *replyWriter) mapOf(n int)                          { w.dst = cbor.AppendMap(w.dst, n) }
func (w *replyWriter) null()                                { w.dst = cbor.AppendNull(w.dst) }
func (w *replyWriter) key(table string) (schema.Key, error) { return w.attributes.catalog.Key(table) }

func (w *replyWriter) keySchema(in *DefineKeySchema) error {
	key, err := w.key(in.Table)
	if err != nil {
		return err
	}
	w.mapOf(len(key.Partition) + len(key.Sort))
	for _, a := range key.All() {
		w.text(a.Name)
		w.text(a.Type.String())
	}
	return nil
}

func (w *replyWriter) attributeNames(in *DefineAttributeList) error {
	names, err := namesOf(w.attributes.catalog, in.ID)
	if err != nil {
		return err
	}
	w.array(len(names))
	for _, n := range names {
		w.text(n)
	}
	return nil
}

func (w *replyWriter) attributeListID(in *DefineAttributeListID) (err error) {
	for i, name := range in.Names {
		w.attributes.name(i, []byte(name))
	}
	if err := w.attributes.list(len(in.Names)); err != nil {
		return err
	}
	w.int(w.attributes.id)
	return nil
}

// The roles of a node.
const (
	roleLeader  = 1
	roleReplica = 2
)

func (w *replyWriter) endpoints(reply *EndpointsReply) {
	w.array(len(reply.Nodes))
	for _, n := range reply.Nodes {
		role := int64(roleReplica)
		if n.Leader {
			role = roleLeader
		}
		w.mapOf(7)
		w.int(0)
		w.int(n.ID)
		w.int(1)
		w.text(n.Hostname)
		w.int(2)
		w.dst = cbor.AppendBytes(w.dst, n.Address)
		w.int(3)
		w.int(int64(n.Port))
		w.int(4)
		w.int(role)
		w.int(5)
		w.text(n.Zone)
		w.int(6)
		w.int(n.LeaderSession)
	}
}

func (w *replyWriter) getItem(in *api.GetItem, reply *api.GetItemReply) error {
	if reply.Item == nil && reply.ConsumedCapacity == nil {
		w.null()
		return nil
	}
	w.mapOf(count(reply.Item != nil, reply.ConsumedCapacity != nil))
	w.consumed(reply.ConsumedCapacity)
	if reply.Item == nil {
		return nil
	}
	w.int(memberItem)
	return w.item(in.TableName, reply.Item, w.request.shown)
}

// count returns how many are true.
func count(present ...bool) (n int) {
	for _, p := range present {
		if p {
			n++
		}
	}
	return n
}

// item appends an item whose key the client knows: its projection, or its other attributes.
func (w *replyWriter) item(table string, it item.Item, shown *projectionTree) error {
	if shown != nil {
		w.dst = shown.append(w.dst, it)
		return nil
	}
	key, err := w.key(table)
	if err != nil {
		return err
	}
	return w.others(it, key)
}

// others appends the attributes of an item that are not part of its key.
func (w *replyWriter) others(it item.Item, key schema.Key) (err error) {
	dst, err := w.attributes.append(w.dst, it, key)
	if err == nil {
		w.dst = dst
	}
	return err
}

// write appends the reply of PutItem, DeleteItem and UpdateItem; changed if its attributes are
// only those which an update has changed.
func (w *replyWriter) write(table string, changed bool, reply *api.PutItemReply) error {
	members := count(reply.Attributes != nil, reply.ConsumedCapacity != nil, reply.ItemCollectionMetrics != nil)
	if members == 0 {
		w.null()
		return nil
	}
	w.mapOf(members)
	w.consumed(reply.ConsumedCapacity)
	if m := reply.ItemCollectionMetrics; m != nil {
		w.int(memberCollectionMetrics)
		w.collectionMetrics(m)
	}
	if reply.Attributes == nil {
		return nil
	}
	w.int(memberAttributes)
	if !changed {
		return w.item(table, reply.Attributes, nil)
	}
	dst, err := w.attributes.appendOrdinals(w.dst, reply.Attributes)
	if err == nil {
		w.dst = dst
	}
	return err
}

func (w *replyWriter) page(table string, in *api.Paged, reply *api.PageReply) error {
	key, err := w.key(table)
	if err != nil {
		return err
	}
	w.mapOf(2 + count(reply.Items != nil, reply.LastEvaluatedKey != nil, reply.ConsumedCapacity != nil))
	if reply.Items != nil {
		w.int(memberItems)
		w.array(len(reply.Items))
		for _, it := range reply.Items {
			if w.request.shown != nil {
				w.dst = w.request.shown.append(w.dst, it)
				continue
			}
			w.array(2)
			w.dst = appendKey(w.dst, it, key)
			if err := w.others(it, key); err != nil {
				return err
			}
		}
	}
	w.int(memberCount)
	w.int(int64(reply.Count))
	w.int(memberScannedCount)
	w.int(int64(reply.ScannedCount))
	if last := reply.LastEvaluatedKey; last != nil {
		w.int(memberLastEvaluatedKey)
		if in.IndexName != nil {
			w.dst = appendNamedKey(w.dst, last)
		} else {
			w.dst = appendKey(w.dst, last, key)
		}
	}
	w.consumed(reply.ConsumedCapacity)
	return nil
}

// batchGet appends the reply of BatchGetItem: an array of two maps, the items and the
// unprocessed keys of each table; then the consumed capacity, outside of the array.
func (w *replyWriter) batchGet(reply *api.BatchGetItemReply) error {
	w.array(2)
	w.mapOf(len(reply.Responses))
	for _, table := range slices.Sorted(maps.Keys(reply.Responses)) {
		w.text(table)
		if err := w.batchItems(table, reply.Responses[table]); err != nil {
			return err
		}
	}
	w.mapOf(len(reply.UnprocessedKeys))
	for _, table := range slices.Sorted(maps.Keys(reply.UnprocessedKeys)) {
		key, err := w.key(table)
		if err != nil {
			return err
		}
		keys := reply.UnprocessedKeys[table].Keys
		w.text(table)
		w.array(len(keys))
		for _, k := range keys {
			w.dst = appendKey(w.dst, k, key)
		}
	}
	w.consumedArray(reply.ConsumedCapacity)
	return nil
}

// batchItems appends the items of one table: their projections, or of each the key and the
// other attributes.
func (w *replyWriter) batchItems(table string, items []item.Item) error {
	if shown := w.request.byTable[table]; shown != nil {
		w.array(len(items))
		for _, it := range items {
			w.dst = shown.append(w.dst, it)
		}
		return nil
	}
	key, err := w.key(table)
	if err != nil {
		return err
	}
	w.array(2 * len(items))
	for _, it := range items {
		w.dst = appendKey(w.dst, it, key)
		if err := w.others(it, key); err != nil {
			return err
		}
	}
	return nil
}

// batchWrite appends the reply of BatchWriteItem: three values, the unprocessed items, the
// consumed capacity and the metrics of the item collections.
func (w *replyWriter) batchWrite(reply *api.BatchWriteItemReply) error {
	w.mapOf(len(reply.UnprocessedItems))
	for _, table := range slices.Sorted(maps.Keys(reply.UnprocessedItems)) {
		key, err := w.key(table)
		if err != nil {
			return err
		}
		writes := reply.UnprocessedItems[table]
		w.text(table)
		w.array(2 * len(writes))
		for _, write := range writes {
			if put := write.PutRequest; put != nil {
				w.dst = appendKey(w.dst, put.Item.Item, key)
				if err := w.others(put.Item.Item, key); err != nil {
					return err
				}
				continue
			}
			w.dst = appendKey(w.dst, write.DeleteRequest.Key.Item, key)
			w.null()
		}
	}
	w.consumedArray(reply.ConsumedCapacity)
	w.metricsByTable(reply.ItemCollectionMetrics)
	return nil
}

// transactGet appends the reply of TransactGetItems: an array of the items, null for one that
// does not exist, and of the consumed capacity.
func (w *replyWriter) transactGet(in *api.TransactGetItems, reply *api.TransactGetItemsReply) error {
	w.array(2)
	w.array(len(reply.Responses))
	for i, r := range reply.Responses {
		if r.Item == nil {
			w.null()
			continue
		}
		if err := w.item(*in.TransactItems[i].Get.TableName, r.Item, w.request.byItem[i]); err != nil {
			return err
		}
	}
	w.consumedDetails(reply.ConsumedCapacity)
	return nil
}

// transactWrite appends the reply of TransactWriteItems: an array of an empty array, which
// clients skip, of the consumed capacity and of the metrics of the item collections.
func (w *replyWriter) transactWrite(reply *api.TransactWriteItemsReply) error {
	w.array(3)
	w.array(0)
	w.consumedDetails(reply.ConsumedCapacity)
	w.metricsByTable(reply.ItemCollectionMetrics)
	return nil
}
