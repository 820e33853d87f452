package oracletest

import (
	"fmt"
	"maps"
	"slices"
)

type getItem struct {
	table      string
	key        object
	projection []path
	consistent bool
	capacity   string
}

func (s *getItem) run(w *harness) error {
	var ws placeholders
	body := map[string]any{"TableName": s.table, "Key": s.key, "ConsistentRead": s.consistent}
	if s.projection != nil {
		body["ProjectionExpression"] = ws.projection(s.projection)
	}
	if s.capacity != "" {
		body["ReturnConsumedCapacity"] = s.capacity
	}
	ws.add(body)
	return w.expect("GetItem", body, s.predict(w))
}

func (s *getItem) predict(w *harness) result {
	if clashing(s.projection) {
		return invalid()
	}
	t := w.tables[s.table]
	if t == nil {
		return noTable()
	}
	if faults := append(t.fits(s.key), t.scalarFaults(s.projection)...); faults != nil {
		return invalid(faults...)
	}
	it := t.items[t.id(s.key)]
	cost := charge{table: readUnits(it.size(), s.consistent)}
	return result{reply: reply{
		Item:             shownOf(it, s.projection),
		ConsumedCapacity: cost.shown(s.capacity, s.table),
	}}
}

// shownOf returns the projected part of an item.
func shownOf(it object, projection []path) object {
	if it == nil || projection == nil {
		return it
	}
	return project(it, projection)
}

// batchGet reads items of some tables.
type batchGet struct {
	tables   map[string]batchKeys
	capacity string
}

type batchKeys struct {
	keys       []object
	projection []path
	consistent bool
}

func (s *batchGet) run(w *harness) error {
	items := make(map[string]any)
	for name, part := range s.tables {
		var ws placeholders
		body := map[string]any{"Keys": part.keys, "ConsistentRead": part.consistent}
		if part.projection != nil {
			body["ProjectionExpression"] = ws.projection(part.projection)
		}
		ws.add(body)
		items[name] = body
	}
	body := map[string]any{"RequestItems": items}
	if s.capacity != "" {
		body["ReturnConsumedCapacity"] = s.capacity
	}
	return w.expect("BatchGetItem", body, s.predict(w))
}

func (s *batchGet) predict(w *harness) result {
	o := result{reply: reply{Responses: make(map[string][]object), UnprocessedKeys: map[string]any{}}}
	var faults []string
	missing := false
	for _, name := range sortedKeys(s.tables) {
		part := s.tables[name]
		for i, k := range part.keys {
			if slices.ContainsFunc(part.keys[:i], func(other object) bool { return equal(k, other) }) {
				return invalid(duplicateKeys)
			}
		}
		t := w.tables[name]
		if t == nil {
			missing = true
			continue
		}
		faults = append(faults, t.scalarFaults(part.projection)...)
		items := []object{}
		var cost charge
		for _, k := range part.keys {
			faults = append(faults, t.fits(k)...)
			it := t.items[t.id(k)]
			cost.table += readUnits(it.size(), part.consistent)
			if it != nil {
				items = append(items, shownOf(it, part.projection))
			}
		}
		sortItems(items)
		o.reply.Responses[name] = items
		o.reply.ConsumedCapacity = append(o.reply.ConsumedCapacity, cost.shown(s.capacity, name)...)
	}
	if fault := eitherFault(missing, faults); fault != nil {
		return *fault
	}
	return o
}

// keyTest is a condition on one attribute of a key.
type keyTest struct {
	name   string
	op     string
	values []value
}

// pagedRead is a Query or a Scan, read page by page to the end.
type pagedRead struct {
	table, index string
	scan         bool
	keys         []keyTest // of a query
	reverse      bool      // of a query
	segments     int       // of a scan; 0 is no segments
	segment      int
	filter       *condition
	projection   []path
	sel          string // Select
	limit        int    // 0 is no limit
	consistent   bool
	capacity     string
}

// plain is the same read without filter, projection and limit.
func (s *pagedRead) plain() *pagedRead {
	return &pagedRead{
		table: s.table, index: s.index, scan: s.scan, keys: s.keys, reverse: s.reverse,
		segments: s.segments, segment: s.segment, consistent: s.consistent,
	}
}

func (s *pagedRead) operation() string {
	if s.scan {
		return "Scan"
	}
	return "Query"
}

func (s *pagedRead) body(start object) map[string]any {
	var ws placeholders
	body := map[string]any{"TableName": s.table, "ConsistentRead": s.consistent}
	optional := map[string]string{"IndexName": s.index, "Select": s.sel, "ReturnConsumedCapacity": s.capacity}
	for member, v := range optional {
		if v != "" {
			body[member] = v
		}
	}
	if !s.scan {
		body["KeyConditionExpression"] = s.keyCondition().write(&ws)
	}
	if s.reverse {
		body["ScanIndexForward"] = false
	}
	if s.segments > 0 {
		body["TotalSegments"], body["Segment"] = s.segments, s.segment
	}
	if s.filter != nil {
		body["FilterExpression"] = s.filter.write(&ws)
	}
	if s.projection != nil {
		body["ProjectionExpression"] = ws.projection(s.projection)
	}
	if s.limit > 0 {
		body["Limit"] = s.limit
	}
	if start != nil {
		body["ExclusiveStartKey"] = start
	}
	ws.add(body)
	return body
}

// keyCondition is the condition on the key as a test.
func (s *pagedRead) keyCondition() condition {
	all := condition{op: "AND"}
	for _, k := range s.keys {
		t := condition{op: k.op, operands: []operand{{path: path{k.name}}}}
		for _, v := range k.values {
			t.operands = append(t.operands, operand{value: v})
		}
		all.tests = append(all.tests, t)
	}
	if len(all.tests) == 1 {
		return all.tests[0]
	}
	return all
}

func (s *pagedRead) run(w *harness) error {
	if fault := s.fault(w); fault != nil {
		return w.expect(s.operation(), s.body(nil), *fault)
	}
	found, err := s.found(w)
	if err != nil {
		return err
	}
	var start object
	for {
		page := s.page(w.tables[s.table], found)
		if err := w.expect(s.operation(), s.body(start), result{reply: page}); err != nil {
			return err
		}
		if start = page.LastEvaluatedKey; start == nil {
			return nil
		}
		found = found[*page.ScannedCount:]
	}
}

// fault is the fault of the request, if it has one.
func (s *pagedRead) fault(w *harness) *result {
	o := noTable()
	t := w.tables[s.table]
	switch {
	case !s.scan && !s.keyCondition().makesSense(), s.filter != nil && !s.filter.makesSense(), clashing(s.projection):
		o = invalid()
	case t == nil:
	case s.index != "" && t.index(s.index) == nil:
		o = invalid("The table does not have the specified index: " + s.index)
	case !s.scan && !s.fits(t):
		o = invalid()
	default:
		faults := s.faults(t)
		if faults == nil {
			return nil
		}
		o = invalid(faults...)
	}
	return &o
}

// key returns the key that the read uses.
func (s *pagedRead) key(t *tableModel) key {
	if x := t.index(s.index); x != nil {
		return x.key
	}
	return t.key
}

// fits reports whether the conditions are on all attributes of the partition,
// and then on sort attributes from the first on.
func (s *pagedRead) fits(t *tableModel) bool {
	k := s.key(t)
	names := k.names()
	if len(s.keys) < len(k.hash) || len(s.keys) > len(names) {
		return false
	}
	for i, test := range s.keys {
		if test.name != names[i] || i < len(s.keys)-1 && test.op != "=" || i < len(k.hash) && test.op != "=" {
			return false
		}
	}
	return true
}

// faults returns the faults that depend on the table, any of which may be
// reported.
func (s *pagedRead) faults(t *tableModel) (faults []string) {
	x, k := t.index(s.index), s.key(t)
	if x != nil && x.global && s.consistent {
		faults = append(faults, "Consistent reads are not supported on global secondary indexes")
	}
	faults = append(faults, t.scalarFaults(slices.Concat(s.filter.paths(), s.projection))...)
	if s.filter != nil && !s.scan {
		for _, p := range s.filter.paths() {
			if k.has(p.name()) {
				faults = append(faults, "Filter Expression can only contain non-primary key attributes: Primary key attribute: "+p.name())
			}
		}
	}
	for i, test := range s.keys {
		for _, v := range test.values {
			if kindOf(v) != k.all()[i].kind {
				faults = append(faults, invalidValues+"Condition parameter type does not match schema type")
			}
			if content, ok := text(v); ok && content == "" && test.op != "begins_with" {
				faults = append(faults, "One or more parameter values are not valid. The AttributeValue for a key attribute "+
					"cannot contain an empty "+longKind(v)+" value. Key: "+test.name)
			}
		}
	}
	if x != nil && !s.scan {
		if names := t.missing(x, s.filter.paths()); names != "" {
			faults = append(faults, fmt.Sprintf(invalidValues+"Secondary index %s does not project one or more filter attributes: [%s]", x.name, names))
		}
	}
	if x == nil || !x.global {
		return faults
	}
	if s.sel == "ALL_ATTRIBUTES" && x.projection != "ALL" {
		faults = append(faults, fmt.Sprintf(invalidValues+"Select type ALL_ATTRIBUTES is not supported for global secondary index %s "+
			"because its projection type is not ALL", x.name))
	}
	if names := t.missing(x, s.projection); names != "" {
		faults = append(faults, fmt.Sprintf(invalidValues+"Global secondary index %s does not project [%s]", x.name, names))
	}
	return faults
}

// found returns the items that the read finds, in the database's order. The
// order of a scan, and of entries with the same key, is not specified; the
// model learns it from a plain read, and checks everything else against it.
func (s *pagedRead) found(w *harness) ([]object, error) {
	t := w.tables[s.table]
	if s.segments == 0 {
		return s.plain().inOrder(w, s.matches(t))
	}
	// All segments together find every item, each once.
	left := s.matches(t)
	var mine []object
	for segment := range s.segments {
		one := s.plain()
		one.segment = segment
		items, err := one.all(w)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			i := slices.IndexFunc(left, func(other object) bool { return equal(it, other) })
			if i < 0 {
				return nil, &difference{"Scan", one.body(nil), "items that no other segment has", show(it)}
			}
			left = slices.Delete(left, i, i+1)
		}
		if segment == s.segment {
			mine = items
		}
	}
	if len(left) > 0 {
		return nil, &difference{"Scan", s.plain().body(nil), "in one of the segments " + show(left), "nothing of it"}
	}
	return mine, nil
}

// matches returns the items or entries that the read must find, in any order.
func (s *pagedRead) matches(t *tableModel) []object {
	condition := s.keyCondition()
	var matches []object
	for _, it := range t.content(t.index(s.index)) {
		if s.scan || condition.holds(it) {
			matches = append(matches, it)
		}
	}
	return matches
}

// inOrder reads everything, and compares it with the wanted items.
func (s *pagedRead) inOrder(w *harness, want []object) ([]object, error) {
	items, err := s.all(w)
	if err != nil {
		return nil, err
	}
	sorted := slices.Clone(items)
	sortItems(sorted)
	sortItems(want)
	if show(sorted) != show(want) {
		return nil, &difference{s.operation(), s.body(nil), show(want), show(sorted)}
	}
	if s.scan {
		return items, nil
	}
	t := w.tables[s.table]
	by := s.key(t).sort
	for i := range len(items) - 1 {
		a, b := items[i], items[i+1]
		if s.reverse {
			a, b = b, a
		}
		if orderBy(by, a, b) > 0 {
			return nil, &difference{s.operation(), s.body(nil), "items in the order of " + fmt.Sprint(by), show(items)}
		}
	}
	return items, nil
}

// orderBy compares two items by some of their attributes.
func orderBy(by []keyAttribute, a, b object) int {
	for _, attr := range by {
		if c := order(a[attr.name], b[attr.name]); c != 0 {
			return c
		}
	}
	return 0
}

// all reads all pages and returns their items.
func (s *pagedRead) all(w *harness) ([]object, error) {
	var items []object
	var start object
	for {
		got, err := w.ask(s.operation(), s.body(start))
		if err == nil && got.code != "" {
			err = fmt.Errorf("%s", got)
		}
		if err != nil {
			return nil, &difference{s.operation(), s.body(start), "a page", err.Error()}
		}
		items = append(items, got.reply.Items...)
		if start = got.reply.LastEvaluatedKey; start == nil {
			return items, nil
		}
	}
}

const maxPageBytes = 1 << 20

// page returns the next page of a read, given the remaining items.
func (s *pagedRead) page(t *tableModel, found []object) reply {
	x := t.index(s.index)
	whole := x != nil && !x.global && s.wantsMore(t, x)
	r := reply{Items: []object{}, Count: new(int), ScannedCount: new(int)}
	bytes := 0
	var cost charge
	for _, it := range found {
		*r.ScannedCount++
		bytes += it.size()
		last := it
		if whole {
			it = t.items[t.id(it)]
			cost.table += readUnits(it.size(), s.consistent)
		}
		if s.filter == nil || s.filter.holds(it) {
			*r.Count++
			r.Items = append(r.Items, shownOf(it, s.projection))
		}
		if *r.ScannedCount == s.limit || bytes >= maxPageBytes {
			if s.scan || x != nil || len(t.key.sort) > 0 { // otherwise there is no other item
				r.LastEvaluatedKey = last.only(slices.Concat(t.key.names(), s.key(t).names())...)
			}
			break
		}
	}
	if s.sel == "COUNT" {
		r.Items = nil
	}
	if x == nil {
		cost.table = readUnits(bytes, s.consistent)
	} else {
		cost.add(x, readUnits(bytes, s.consistent))
	}
	r.ConsumedCapacity = cost.shown(s.capacity, s.table)
	return r
}

// wantsMore reports whether a read requests attributes that an index does not
// project. A local index then fetches the items.
func (s *pagedRead) wantsMore(t *tableModel, x *index) bool {
	if s.sel == "ALL_ATTRIBUTES" && x.projection != "ALL" {
		return true
	}
	return slices.ContainsFunc(s.projection, func(p path) bool { return !t.projects(x, p.name()) })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
