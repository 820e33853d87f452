package ops

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

// Shapes returns the requests since the start, counted by shape.
func (s *Service) Shapes() workload.Report { return s.shapes.Report() }

// shapes counts requests by their shape.
type shapes struct {
	*workload.Recorder
	seen   glances
	others atomic.Int64 // requests that glances do not know
}

func newShapes(since time.Time) *shapes {
	s := &shapes{Recorder: workload.NewRecorder(since)}
	s.seen.seed = maphash.MakeSeed()
	return s
}

// sighting is a request as it was seen before it was carried out.
type sighting struct {
	glance  uint64
	tally   *workload.Counter // nil: its shape is new, or it has several
	weighed bool              // it tells its units only because we want to know
}

// measuredOf is one in how many requests is measured that do not ask for it.
const measuredOf = 32

var total = "TOTAL"

// sight looks at a request before it is carried out.
func (s *Service) sight(in any) (seen sighting) {
	glance, mode := s.shapes.seen.of(in)
	if mode == nil {
		return seen
	}
	var turn int64
	if glance != 0 {
		seen.glance, seen.tally = glance, s.shapes.seen.get(glance)
	}
	if seen.tally != nil {
		turn = seen.tally.Requests()
	} else {
		turn = s.shapes.others.Add(1) - 1
	}
	if turn%measuredOf == 0 && (*mode == nil || **mode == "NONE") {
		*mode, seen.weighed = &total, true
	}
	return seen
}

// count counts a request that was carried out.
func (s *Service) count(in, reply any, seen sighting) {
	switch reply := reply.(type) {
	case *api.GetItemReply:
		found := 0
		if reply.Item != nil {
			found = 1
		}
		s.countOne(in, seen, found, found, &reply.ConsumedCapacity)
	case *api.PutItemReply: // of updates and deletes too
		s.countOne(in, seen, 0, 0, &reply.ConsumedCapacity)
	case *api.PageReply:
		s.countOne(in, seen, reply.Count, reply.ScannedCount, &reply.ConsumedCapacity)
	case *api.ExecuteStatementReply:
		s.countOne(in, seen, len(reply.Items), len(reply.Items), &reply.ConsumedCapacity)
	case *api.BatchGetItemReply:
		for table, part := range in.(*api.BatchGetItem).RequestItems {
			n := len(reply.Responses[table])
			s.countPart(workload.Shape{Operation: "BatchGetItem", Table: table, Consistent: part.ConsistentRead}, n, reply.ConsumedCapacity)
		}
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.BatchWriteItemReply:
		for table, writes := range in.(*api.BatchWriteItem).RequestItems {
			s.countPart(workload.Shape{Operation: "BatchWriteItem", Table: table, Form: formOfWrites(writes)}, 0, reply.ConsumedCapacity)
		}
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.TransactGetItemsReply:
		s.countGets(in.(*api.TransactGetItems), reply)
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.TransactWriteItemsReply:
		s.countTransaction(in.(*api.TransactWriteItems), reply.ConsumedCapacity)
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.BatchExecuteStatementReply:
		s.countPart(workload.Shape{Operation: "BatchExecuteStatement"}, 0, reply.ConsumedCapacity)
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.ExecuteTransactionReply:
		s.countPart(workload.Shape{Operation: "ExecuteTransaction"}, 0, reply.ConsumedCapacity)
		unweigh(seen, &reply.ConsumedCapacity)
	}
}

// countOne counts a request of one shape.
func (s *Service) countOne(in any, seen sighting, returned, scanned int, units **api.ConsumedCapacity) {
	t := seen.tally
	if t == nil {
		shape, ok := s.shapeOf(in)
		if !ok {
			return
		}
		t = s.shapes.Counter(shape)
		if seen.glance != 0 {
			s.shapes.seen.put(seen.glance, t)
		}
	}
	t.Observe(returned, scanned)
	measure(t, *units)
	if seen.weighed {
		*units = nil
	}
}

// countPart counts what a request asks of one of its tables.
func (s *Service) countPart(shape workload.Shape, returned int, units []api.ConsumedCapacity) {
	t := s.shapes.Counter(shape)
	t.Observe(returned, returned)
	for i := range units {
		if shape.Table == "" || units[i].TableName == shape.Table {
			measure(t, &units[i])
		}
	}
}

func measure(t *workload.Counter, c *api.ConsumedCapacity) {
	if c != nil {
		t.AddUnits(c.CapacityUnits)
	}
}

func unweigh(seen sighting, units *[]api.ConsumedCapacity) {
	if seen.weighed {
		*units = nil
	}
}

// shapeOf is the shape of a request that has one and was carried out.
func (s *Service) shapeOf(in any) (shape workload.Shape, ok bool) {
	switch in := in.(type) {
	case *api.GetItem:
		return workload.Shape{Operation: "GetItem", Table: in.TableName, Consistent: in.ConsistentRead}, true
	case *api.PutItem:
		return workload.Shape{Operation: "PutItem", Table: in.TableName, Condition: isConditional(&in.Conditional)}, true
	case *api.DeleteItem:
		return workload.Shape{Operation: "DeleteItem", Table: in.TableName, Condition: isConditional(&in.Conditional)}, true
	case *api.UpdateItem:
		form, ok := s.updateForm(in)
		return workload.Shape{Operation: "UpdateItem", Table: in.TableName, Form: form, Condition: isConditional(&in.Conditional)}, ok
	case *api.Query:
		form, ok := s.queryForm(in)
		return workload.Shape{Operation: "Query", Table: in.TableName, Index: orNone(in.IndexName), Form: form,
			Filter: in.FilterExpression != nil || in.QueryFilter != nil, Consistent: in.ConsistentRead}, ok
	case *api.Scan:
		return workload.Shape{Operation: "Scan", Table: in.TableName, Index: orNone(in.IndexName),
			Filter: in.FilterExpression != nil || in.ScanFilter != nil, Consistent: in.ConsistentRead}, true
	case *api.ExecuteStatement: // its text has values in it
		return workload.Shape{Operation: "ExecuteStatement", Consistent: in.ConsistentRead}, true
	}
	return shape, false
}

func isConditional(c *api.Conditional) bool { return c.ConditionExpression != nil || c.Expected != nil }

func orNone(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// queryForm is the key condition of a query without its values.
func (s *Service) queryForm(in *api.Query) (form string, ok bool) {
	t, err := s.DB.Table(in.TableName)
	if err != nil {
		return "", false // it is gone since
	}
	keys := t.Key
	if in.IndexName != nil {
		x, ok := t.Index(*in.IndexName)
		if !ok {
			return "", false
		}
		keys = x.Key
	}
	condition, err := s.keyCondition(in, bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues))
	if err != nil {
		return "", false
	}
	r, err := condition.Keys(keys.Partition, keys.Sort)
	if err != nil {
		return "", false
	}
	return workload.KeyForm(keys.Partition, r.Sort), true
}

// updateForm is which keys of indexes an update changes.
func (s *Service) updateForm(in *api.UpdateItem) (form string, ok bool) {
	t, err := s.DB.Table(in.TableName)
	if err != nil {
		return "", false
	}
	u, err := s.update(in, bindings(in.ExpressionAttributeNames, in.ExpressionAttributeValues))
	if err != nil {
		return "", false
	}
	return workload.UpdateForm(t, u.Paths()), true
}

func formOfWrites(writes []api.WriteRequest) string {
	var set workload.Writes
	for i := range writes {
		if writes[i].PutRequest != nil {
			set |= workload.Put
		} else {
			set |= workload.Delete
		}
	}
	return set.Form()
}

// part is what a transaction does in one table.
type part struct {
	table    string
	kinds    workload.Writes
	returned int
}

func partOf(parts []part, table string) (_ []part, i int) {
	for i := range parts {
		if parts[i].table == table {
			return parts, i
		}
	}
	return append(parts, part{table: table}), len(parts)
}

func (s *Service) countTransaction(in *api.TransactWriteItems, units []api.ConsumedCapacity) {
	var room [4]part
	parts := room[:0]
	for i := range in.TransactItems {
		table, kind := "", workload.Writes(0)
		switch w := &in.TransactItems[i]; {
		case w.Put != nil:
			table, kind = *w.Put.TableName, workload.Put
		case w.Update != nil:
			table, kind = *w.Update.TableName, workload.Update
		case w.Delete != nil:
			table, kind = *w.Delete.TableName, workload.Delete
		case w.ConditionCheck != nil:
			table, kind = *w.ConditionCheck.TableName, workload.ConditionCheck
		}
		var at int
		parts, at = partOf(parts, table)
		parts[at].kinds |= kind
	}
	for _, p := range parts {
		s.countPart(workload.Shape{Operation: "TransactWriteItems", Table: p.table, Form: p.kinds.Form()}, 0, units)
	}
}

func (s *Service) countGets(in *api.TransactGetItems, reply *api.TransactGetItemsReply) {
	var room [4]part
	parts := room[:0]
	for i := range in.TransactItems {
		var at int
		parts, at = partOf(parts, *in.TransactItems[i].Get.TableName)
		if reply.Responses[i].Item != nil {
			parts[at].returned++
		}
	}
	for _, p := range parts {
		s.countPart(workload.Shape{Operation: "TransactGetItems", Table: p.table}, p.returned, reply.ConsumedCapacity)
	}
}

// glances remembers the tallies of requests by a hash of what their shape
// depends on, so that the text of an expression need not be understood again. A
// part that is full begins anew; who reads takes no lock.
type glances struct {
	seed  maphash.Seed
	mutex sync.Mutex // of who adds one
	parts [64]atomic.Pointer[map[uint64]*workload.Counter]
}

// maxGlances is how many tallies each part remembers.
const maxGlances = 128

// of is the glance of a request, 0 if it has none, and where the request says
// whether it wants to know its units; nil if it is none that is counted.
func (g *glances) of(in any) (glance uint64, mode **string) {
	switch in := in.(type) {
	case *api.GetItem:
		return g.mix(1, in.TableName, in.ConsistentRead, false), &in.ReturnConsumedCapacity
	case *api.PutItem:
		return g.mix(2, in.TableName, isConditional(&in.Conditional), false), &in.ReturnConsumedCapacity
	case *api.DeleteItem:
		return g.mix(3, in.TableName, isConditional(&in.Conditional), false), &in.ReturnConsumedCapacity
	case *api.UpdateItem:
		if in.UpdateExpression == nil {
			return 0, &in.ReturnConsumedCapacity
		}
		h := g.mix(4, in.TableName, isConditional(&in.Conditional), false)
		return g.text(h, *in.UpdateExpression, in.ExpressionAttributeNames), &in.ReturnConsumedCapacity
	case *api.Query:
		if in.KeyConditionExpression == nil {
			return 0, &in.ReturnConsumedCapacity
		}
		h := g.mix(5, in.TableName, in.FilterExpression != nil || in.QueryFilter != nil, in.ConsistentRead)
		if in.IndexName != nil {
			h = g.mix(h, *in.IndexName, true, false)
		}
		return g.text(h, *in.KeyConditionExpression, in.ExpressionAttributeNames), &in.ReturnConsumedCapacity
	case *api.Scan:
		return g.mix(g.mix(6, in.TableName, in.FilterExpression != nil || in.ScanFilter != nil, in.ConsistentRead), orNone(in.IndexName), false, false),
			&in.ReturnConsumedCapacity
	case *api.BatchGetItem:
		return 0, &in.ReturnConsumedCapacity
	case *api.BatchWriteItem:
		return 0, &in.ReturnConsumedCapacity
	case *api.TransactGetItems:
		return 0, &in.ReturnConsumedCapacity
	case *api.TransactWriteItems:
		return 0, &in.ReturnConsumedCapacity
	case *api.ExecuteStatement:
		return 0, &in.ReturnConsumedCapacity
	case *api.BatchExecuteStatement:
		return 0, &in.ReturnConsumedCapacity
	case *api.ExecuteTransaction:
		return 0, &in.ReturnConsumedCapacity
	}
	return 0, nil
}

// mix takes a text and two answers into a hash.
func (g *glances) mix(h uint64, text string, a, b bool) uint64 {
	if a {
		h += 1 << 16
	}
	if b {
		h += 1 << 17
	}
	h = (h ^ maphash.String(g.seed, text)) * 0x9e3779b97f4a7c15
	return h ^ h>>32 | 1
}

// text takes an expression into a hash, with the names that its placeholders
// stand for.
func (g *glances) text(h uint64, text string, names map[string]string) uint64 {
	h = g.mix(h, text, false, false)
	for len(names) > 0 {
		i := strings.IndexByte(text, '#')
		if i < 0 {
			break
		}
		end := i + 1
		for end < len(text) && isName(text[end]) {
			end++
		}
		h = g.mix(h, names[text[i:end]], false, true)
		text = text[end:]
	}
	return h
}

func isName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

func (g *glances) part(glance uint64) *atomic.Pointer[map[uint64]*workload.Counter] {
	return &g.parts[glance>>32%uint64(len(g.parts))]
}

func (g *glances) get(glance uint64) *workload.Counter {
	if part := g.part(glance).Load(); part != nil {
		return (*part)[glance]
	}
	return nil
}

func (g *glances) put(glance uint64, t *workload.Counter) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	at := g.part(glance)
	more := make(map[uint64]*workload.Counter)
	if part := at.Load(); part != nil && len(*part) < maxGlances {
		maps.Copy(more, *part)
	}
	more[glance] = t
	at.Store(&more)
}
