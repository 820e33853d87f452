package oracletest

import (
	"slices"
	"strings"
)

// step is one step of a run. It does not depend on earlier steps, so that
// some of them can be removed.
type step interface {
	// run makes the step on the database and on the model, and returns the
	// first difference.
	run(w *harness) error
}

// conditional is the common part of single writes.
type conditional struct {
	table     string
	condition *condition
	returns   string // ReturnValues
	onFailure bool   // ReturnValuesOnConditionCheckFailure
	capacity  string // ReturnConsumedCapacity
	metrics   bool   // ReturnItemCollectionMetrics
}

func (c *conditional) body(w *placeholders) map[string]any {
	body := map[string]any{"TableName": c.table}
	if c.condition != nil {
		body["ConditionExpression"] = c.condition.write(w)
	}
	if c.returns != "" {
		body["ReturnValues"] = c.returns
	}
	if c.onFailure {
		body["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
	}
	if c.capacity != "" {
		body["ReturnConsumedCapacity"] = c.capacity
	}
	if c.metrics {
		body["ReturnItemCollectionMetrics"] = "SIZE"
	}
	return body
}

// failed is the result if the condition does not hold.
func (c *conditional) failed(before object) *result {
	if c.condition == nil || c.condition.holds(before) {
		return nil
	}
	o := &result{code: "ConditionalCheckFailedException", messages: []string{"The conditional request failed"}}
	if c.onFailure {
		o.item = before
	}
	return o
}

// written is the reply to a write.
func (c *conditional) written(t *tableModel, k object, cost charge) reply {
	r := reply{ConsumedCapacity: cost.shown(c.capacity, c.table)}
	if c.metrics && t.hasLocal() {
		r.ItemCollectionMetrics = &collection{k.only(t.key.hash[0].name), []float64{0, 1}}
	}
	return r
}

const (
	maxItemBytes = 400 * 1024
	itemTooLarge = "Item size has exceeded the maximum allowed size"
)

type putItem struct {
	conditional
	item object
}

func (s *putItem) run(w *harness) error {
	var ws placeholders
	body := s.body(&ws)
	body["Item"] = s.item
	ws.add(body)
	return w.expect("PutItem", body, s.predict(w))
}

func (s *putItem) predict(w *harness) result {
	if s.condition != nil && !s.condition.makesSense() {
		return invalid()
	}
	if s.item.size() > maxItemBytes {
		return invalid(itemTooLarge)
	}
	t := w.tables[s.table]
	if t == nil {
		return noTable()
	}
	if faults := append(t.admits(s.item, false), t.scalarFaults(s.condition.paths())...); faults != nil {
		return invalid(faults...)
	}
	id := t.id(s.item)
	before := t.items[id]
	if failed := s.failed(before); failed != nil {
		return *failed
	}
	if t.sizeWithLocal(s.item) > maxItemBytes {
		return invalid(itemTooLarge)
	}
	r := s.written(t, s.item, t.write(id, s.item))
	if s.returns == "ALL_OLD" {
		r.Attributes = before
	}
	return result{reply: r}
}

type deleteItem struct {
	conditional
	key object
}

func (s *deleteItem) run(w *harness) error {
	var ws placeholders
	body := s.body(&ws)
	body["Key"] = s.key
	ws.add(body)
	return w.expect("DeleteItem", body, s.predict(w))
}

func (s *deleteItem) predict(w *harness) result {
	if s.condition != nil && !s.condition.makesSense() {
		return invalid()
	}
	t := w.tables[s.table]
	if t == nil {
		return noTable()
	}
	if faults := append(t.fits(s.key), t.scalarFaults(s.condition.paths())...); faults != nil {
		return invalid(faults...)
	}
	id := t.id(s.key)
	before := t.items[id]
	if failed := s.failed(before); failed != nil {
		return *failed
	}
	r := s.written(t, s.key, t.write(id, nil))
	if s.returns == "ALL_OLD" {
		r.Attributes = before
	}
	return result{reply: r}
}

type updateItem struct {
	conditional
	key    object
	update update // may be empty
}

func (s *updateItem) run(w *harness) error {
	var ws placeholders
	body := s.body(&ws)
	body["Key"] = s.key
	if len(s.update) > 0 {
		body["UpdateExpression"] = s.update.write(&ws)
	}
	ws.add(body)
	return w.expect("UpdateItem", body, s.predict(w))
}

func (s *updateItem) predict(w *harness) result {
	if s.condition != nil && !s.condition.makesSense() || !s.update.makesSense() {
		return invalid()
	}
	t := w.tables[s.table]
	if t == nil {
		return noTable()
	}
	if faults := t.fits(s.key); faults != nil {
		return invalid(faults...)
	}
	faults := t.scalarFaults(s.condition.paths())
	var intoIndex []string // reported after the condition
	for _, fault := range t.scalarFaults(slices.Concat(s.update.paths(), s.update.reads())) {
		if strings.Contains(fault, ": IndexKey: ") {
			intoIndex = append(intoIndex, fault)
		} else {
			faults = append(faults, fault)
		}
	}
	for _, p := range s.update.paths() {
		if t.key.has(p.name()) {
			faults = append(faults, invalidValues+"Cannot update attribute "+p.name()+". This attribute is part of the key")
		}
	}
	if faults != nil {
		return invalid(faults...)
	}
	id := t.id(s.key)
	before := t.items[id]
	if failed := s.failed(before); failed != nil {
		return *failed
	}
	if intoIndex != nil {
		return invalid(intoIndex...)
	}
	return s.change(t, id, before)
}

// change applies the update to an item whose condition holds.
func (s *updateItem) change(t *tableModel, id string, before object) result {
	if before == nil && s.update.onlyClears() {
		return result{reply: s.written(t, s.key, t.write(id, nil))} // its paths may lead anywhere
	}
	base := before
	if base == nil {
		base = s.key
	}
	after, shown, faults := s.update.apply(base)
	if slices.Contains(faults, numberFault) {
		return invalid()
	}
	if faults != nil {
		return invalid(faults...)
	}
	if depth(after) > 32 {
		return invalid("Nesting Levels have exceeded supported limits")
	}
	size := after.size()
	if max(t.sizeWithLocal(after), size-s.key.size()+s.update.bytes()) > maxItemBytes {
		return invalid("Item size to update has exceeded the maximum allowed size")
	}
	if faults := t.indexFaults(after, true); faults != nil {
		return invalid(faults...)
	}
	r := s.written(t, s.key, t.write(id, after))
	switch s.returns {
	case "ALL_OLD":
		r.Attributes = before
	case "ALL_NEW":
		r.Attributes = after
	case "UPDATED_OLD":
		r.Attributes = project(before, s.update.paths())
	case "UPDATED_NEW":
		r.Attributes = shown
	}
	if len(r.Attributes) == 0 {
		r.Attributes = nil
	}
	return result{reply: r}
}

// batchWrite puts and deletes items of some tables.
type batchWrite struct {
	tables   map[string][]batchRequest
	capacity string
}

// batchRequest puts an item, or deletes the item with a key.
type batchRequest struct{ item, key object }

func (s *batchWrite) run(w *harness) error {
	items := make(map[string]any)
	for name, requests := range s.tables {
		var list []any
		for _, r := range requests {
			if r.item != nil {
				list = append(list, map[string]any{"PutRequest": map[string]any{"Item": r.item}})
			} else {
				list = append(list, map[string]any{"DeleteRequest": map[string]any{"Key": r.key}})
			}
		}
		items[name] = list
	}
	body := map[string]any{"RequestItems": items}
	if s.capacity != "" {
		body["ReturnConsumedCapacity"] = s.capacity
	}
	return w.expect("BatchWriteItem", body, s.predict(w))
}

func (s *batchWrite) predict(w *harness) result {
	if fault := s.fault(w); fault != nil {
		return *fault
	}
	o := result{reply: reply{UnprocessedItems: map[string]any{}}}
	for _, name := range sortedKeys(s.tables) {
		t := w.tables[name]
		var cost charge
		for _, r := range s.tables[name] {
			if r.item != nil {
				cost.addAll(t, t.write(t.id(r.item), r.item))
			} else {
				cost.addAll(t, t.write(t.id(r.key), nil))
			}
		}
		o.reply.ConsumedCapacity = append(o.reply.ConsumedCapacity, cost.shown(s.capacity, name)...)
	}
	return o
}

// fault is the fault of the batch, if it has one. Any of several may be
// reported.
func (s *batchWrite) fault(w *harness) *result {
	var faults []string
	missing := false
	for name, requests := range s.tables {
		t := w.tables[name]
		if t == nil {
			missing = true
			if slices.ContainsFunc(requests, func(r batchRequest) bool { return r.item.size() > maxItemBytes }) {
				faults = append(faults, itemTooLarge)
			}
			continue
		}
		seen := make(map[string]bool)
		for _, r := range requests {
			key := r.key
			if r.item != nil {
				if t.sizeWithLocal(r.item) > maxItemBytes {
					faults = append(faults, itemTooLarge)
				}
				key = r.item
				faults = append(faults, t.admits(r.item, true)...)
			} else {
				faults = append(faults, t.fits(r.key)...)
			}
			if seen[t.id(key)] {
				faults = append(faults, duplicateKeys)
			}
			seen[t.id(key)] = true
		}
	}
	return eitherFault(missing, faults)
}

// eitherFault is the fault of a batch that may name a missing table and have
// other faults; nil if it has none.
func eitherFault(missing bool, faults []string) *result {
	o := invalid(faults...)
	switch {
	case missing && faults == nil:
		o = noTable()
	case missing:
		o.or = new(noTable())
	case faults == nil:
		return nil
	}
	return &o
}

const duplicateKeys = "Provided list of item keys contains duplicates"
