package ops

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Shape is what requests have in common that ask the same of a table with other
// values. It holds names that the table's description has, and nothing that a
// customer stores. A batch or a transaction has a shape for each of its tables.
type Shape struct {
	Operation string `json:"operation"`
	Table     string `json:"table,omitempty"`
	Index     string `json:"index,omitempty"`

	// Form is the key condition of a query (PK = ? AND begins_with(SK, ?)), the
	// key attributes of indexes that an update changes (changes GSI1PK), or
	// what a batch or a transaction does (Put, Update).
	Form string `json:"form,omitempty"`

	Filter     bool `json:"filter,omitempty"`
	Condition  bool `json:"condition,omitempty"`
	Consistent bool `json:"consistent,omitempty"`
}

// ShapeCount is a shape with how often it was asked for.
type ShapeCount struct {
	Shape
	Requests int64 `json:"requests"` // those that were carried out
	Returned int64 `json:"returned"` // items
	Scanned  int64 `json:"scanned"`  // items that were looked at

	// Units is what all requests cost. It is worked out from those that were
	// measured: all that ask for it, and one in a few of the others.
	Units    float64 `json:"units"`
	Measured int64   `json:"measured"`
}

// Shapes is what was asked for.
type Shapes struct {
	Since  time.Time    `json:"since"`
	Shapes []ShapeCount `json:"shapes"`
	Other  ShapeCount   `json:"other"` // what came in more shapes than are kept
}

// Shapes is what was asked for since the start, the most frequent first.
func (s *Service) Shapes() Shapes {
	told := Shapes{Since: s.shapes.since, Shapes: []ShapeCount{}, Other: s.shapes.other.count(Shape{Operation: "other"})}
	for shape, t := range *s.shapes.known.Load() {
		told.Shapes = append(told.Shapes, t.count(shape))
	}
	slices.SortFunc(told.Shapes, func(a, b ShapeCount) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Table, b.Table),
			cmp.Compare(a.Index, b.Index), cmp.Compare(a.Form, b.Form))
	})
	return told
}

// maxShapes is how many shapes are told apart.
const maxShapes = 4096

// shapes counts requests by their shape. Readers of the map take no lock: a new
// shape is rare, and makes a new map.
type shapes struct {
	since time.Time
	known atomic.Pointer[map[Shape]*tally]
	other tally
	mutex sync.Mutex // of who adds a shape
	seen  glances

	others atomic.Int64 // requests that glances do not know
}

func newShapes(since time.Time) *shapes {
	s := &shapes{since: since}
	s.known.Store(new(map[Shape]*tally))
	s.seen.seed = maphash.MakeSeed()
	return s
}

// tally counts the requests of one shape.
type tally struct {
	requests, returned, measured atomic.Int64
	thrown                       atomic.Int64 // items that were looked at and not returned
	halves                       atomic.Int64 // of units, of those measured
}

func (t *tally) count(s Shape) ShapeCount {
	c := ShapeCount{Shape: s, Requests: t.requests.Load(), Returned: t.returned.Load(), Measured: t.measured.Load()}
	c.Scanned = c.Returned + t.thrown.Load()
	if c.Measured > 0 {
		c.Units = float64(t.halves.Load()) / 2 / float64(c.Measured) * float64(c.Requests)
	}
	return c
}

func (t *tally) add(returned, scanned int) {
	t.requests.Add(1)
	if returned > 0 {
		t.returned.Add(int64(returned))
	}
	if scanned > returned {
		t.thrown.Add(int64(scanned - returned))
	}
}

func (t *tally) measure(c *api.ConsumedCapacity) {
	if c != nil {
		t.measured.Add(1)
		t.halves.Add(int64(2 * c.CapacityUnits))
	}
}

// of is the tally of a shape, made if need be.
func (s *shapes) of(shape Shape) *tally {
	if t := (*s.known.Load())[shape]; t != nil {
		return t
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	known := *s.known.Load()
	if t := known[shape]; t != nil {
		return t
	}
	if len(known) >= maxShapes {
		return &s.other
	}
	// The request's strings may share memory with its body.
	for _, text := range []*string{&shape.Operation, &shape.Table, &shape.Index, &shape.Form} {
		*text = strings.Clone(*text)
	}
	more := maps.Clone(known)
	if more == nil {
		more = make(map[Shape]*tally)
	}
	t := new(tally)
	more[shape] = t
	s.known.Store(&more)
	return t
}

// sighting is a request as it was seen before it was carried out.
type sighting struct {
	glance  uint64
	tally   *tally // nil: its shape is new, or it has several
	weighed bool   // it tells its units only because we want to know
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
		turn = seen.tally.requests.Load()
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
			s.countPart(Shape{Operation: "BatchGetItem", Table: table, Consistent: part.ConsistentRead}, n, reply.ConsumedCapacity)
		}
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.BatchWriteItemReply:
		for table, writes := range in.(*api.BatchWriteItem).RequestItems {
			s.countPart(Shape{Operation: "BatchWriteItem", Table: table, Form: formOfWrites(writes)}, 0, reply.ConsumedCapacity)
		}
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.TransactGetItemsReply:
		s.countGets(in.(*api.TransactGetItems), reply)
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.TransactWriteItemsReply:
		s.countTransaction(in.(*api.TransactWriteItems), reply.ConsumedCapacity)
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.BatchExecuteStatementReply:
		s.countPart(Shape{Operation: "BatchExecuteStatement"}, 0, reply.ConsumedCapacity)
		unweigh(seen, &reply.ConsumedCapacity)
	case *api.ExecuteTransactionReply:
		s.countPart(Shape{Operation: "ExecuteTransaction"}, 0, reply.ConsumedCapacity)
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
		t = s.shapes.of(shape)
		if seen.glance != 0 {
			s.shapes.seen.put(seen.glance, t)
		}
	}
	t.add(returned, scanned)
	t.measure(*units)
	if seen.weighed {
		*units = nil
	}
}

// countPart counts what a request asks of one of its tables.
func (s *Service) countPart(shape Shape, returned int, units []api.ConsumedCapacity) {
	t := s.shapes.of(shape)
	t.add(returned, returned)
	for i := range units {
		if shape.Table == "" || units[i].TableName == shape.Table {
			t.measure(&units[i])
		}
	}
}

func unweigh(seen sighting, units *[]api.ConsumedCapacity) {
	if seen.weighed {
		*units = nil
	}
}

// shapeOf is the shape of a request that has one and was carried out.
func (s *Service) shapeOf(in any) (shape Shape, ok bool) {
	switch in := in.(type) {
	case *api.GetItem:
		return Shape{Operation: "GetItem", Table: in.TableName, Consistent: in.ConsistentRead}, true
	case *api.PutItem:
		return Shape{Operation: "PutItem", Table: in.TableName, Condition: isConditional(&in.Conditional)}, true
	case *api.DeleteItem:
		return Shape{Operation: "DeleteItem", Table: in.TableName, Condition: isConditional(&in.Conditional)}, true
	case *api.UpdateItem:
		form, ok := s.updateForm(in)
		return Shape{Operation: "UpdateItem", Table: in.TableName, Form: form, Condition: isConditional(&in.Conditional)}, ok
	case *api.Query:
		form, ok := s.queryForm(in)
		return Shape{Operation: "Query", Table: in.TableName, Index: orNone(in.IndexName), Form: form,
			Filter: in.FilterExpression != nil || in.QueryFilter != nil, Consistent: in.ConsistentRead}, ok
	case *api.Scan:
		return Shape{Operation: "Scan", Table: in.TableName, Index: orNone(in.IndexName),
			Filter: in.FilterExpression != nil || in.ScanFilter != nil, Consistent: in.ConsistentRead}, true
	case *api.ExecuteStatement: // its text has values in it
		return Shape{Operation: "ExecuteStatement", Consistent: in.ConsistentRead}, true
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
	return KeyForm(keys.Partition, r.Sort), true
}

// KeyForm is the form of a query: its partition key, and what it asks of its
// sort key.
func KeyForm(partition []schema.Attribute, sort []expr.KeyTest) string {
	var tests []string
	for _, a := range partition {
		tests = append(tests, a.Name+" = ?")
	}
	for _, t := range sort {
		switch t.Op {
		case expr.Between:
			tests = append(tests, t.Name+" BETWEEN ? AND ?")
		case expr.BeginsWith:
			tests = append(tests, "begins_with("+t.Name+", ?)")
		default:
			tests = append(tests, t.Name+" "+t.Op.String()+" ?")
		}
	}
	return strings.Join(tests, " AND ")
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
	return UpdateForm(t, u.Paths()), true
}

// UpdateForm is the form of an update: which keys of indexes it changes. Other
// names could be made of what a customer stores, and are left out.
func UpdateForm(t *schema.Table, paths []item.Path) string {
	var names []string
	for _, p := range paths {
		if name := p[0].Name; t.Uses(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return ""
	}
	slices.Sort(names)
	return "changes " + strings.Join(names, ", ")
}

// The kinds of write in a batch or a transaction.
const (
	partPut = 1 << iota
	partUpdate
	partDelete
	partCheck
)

// partForms are the forms of all sets of kinds.
var partForms = func() (forms [16]string) {
	for set := range forms {
		var names []string
		for i, name := range []string{"Put", "Update", "Delete", "ConditionCheck"} {
			if set&(1<<i) != 0 {
				names = append(names, name)
			}
		}
		forms[set] = strings.Join(names, ", ")
	}
	return forms
}()

// PartForm is the form of the writes that a batch or a transaction makes in one
// table.
func PartForm(put, update, remove, check bool) string {
	set := 0
	for i, has := range []bool{put, update, remove, check} {
		if has {
			set |= 1 << i
		}
	}
	return partForms[set]
}

func formOfWrites(writes []api.WriteRequest) string {
	set := 0
	for i := range writes {
		if writes[i].PutRequest != nil {
			set |= partPut
		} else {
			set |= partDelete
		}
	}
	return partForms[set]
}

// part is what a transaction does in one table.
type part struct {
	table    string
	kinds    int
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
		table, kind := "", 0
		switch w := &in.TransactItems[i]; {
		case w.Put != nil:
			table, kind = *w.Put.TableName, partPut
		case w.Update != nil:
			table, kind = *w.Update.TableName, partUpdate
		case w.Delete != nil:
			table, kind = *w.Delete.TableName, partDelete
		case w.ConditionCheck != nil:
			table, kind = *w.ConditionCheck.TableName, partCheck
		}
		var at int
		parts, at = partOf(parts, table)
		parts[at].kinds |= kind
	}
	for _, p := range parts {
		s.countPart(Shape{Operation: "TransactWriteItems", Table: p.table, Form: partForms[p.kinds]}, 0, units)
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
		s.countPart(Shape{Operation: "TransactGetItems", Table: p.table}, p.returned, reply.ConsumedCapacity)
	}
}

// glances remembers the tallies of requests by a hash of what their shape
// depends on, so that the text of an expression need not be understood again. A
// part that is full begins anew; who reads takes no lock.
type glances struct {
	seed  maphash.Seed
	mutex sync.Mutex // of who adds one
	parts [64]atomic.Pointer[map[uint64]*tally]
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

func (g *glances) part(glance uint64) *atomic.Pointer[map[uint64]*tally] {
	return &g.parts[glance>>32%uint64(len(g.parts))]
}

func (g *glances) get(glance uint64) *tally {
	if part := g.part(glance).Load(); part != nil {
		return (*part)[glance]
	}
	return nil
}

func (g *glances) put(glance uint64, t *tally) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	at := g.part(glance)
	more := make(map[uint64]*tally)
	if part := at.Load(); part != nil && len(*part) < maxGlances {
		maps.Copy(more, *part)
	}
	more[glance] = t
	at.Store(&more)
}
