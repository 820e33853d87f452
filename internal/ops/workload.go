package ops

import (
	"context"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/workload"
)

// Shapes returns the requests since the start or the last reset, counted by shape.
func (s *Service) Shapes() workload.Report { return s.workload.Report() }

// ResetShapes returns the same, and starts to count again.
func (s *Service) ResetShapes() workload.Report { return s.workload.Reset(s.DB.Now()) }

// usage is what a request asked of one of its tables, and what it did there.
type usage struct {
	asked
	returned, scanned int // items
	consumed          capacity.Consumed

	// unmeasured is set by a GetItem that computed no units: measuring the item
	// takes a quarter of the request's time. Its units are sampled from got.
	unmeasured bool
	got        item.Item

	cached bool // the database was not read
	ofPast bool // the request is not part of the workload
}

// count adds a usage to the counts of a shape.
func (u *usage) count(c *workload.Counter) {
	switch sampled := c.Observe(u.returned, u.scanned); {
	case !u.unmeasured:
		c.AddUnits(u.consumed.Total())
	case sampled:
		c.AddUnits(capacity.Read(u.got.Size(), u.consistent))
	}
}

// capacity returns what the request consumed, with its parts.
func (u *usage) capacity() *api.ConsumedCapacity {
	c := u.consumed
	if u.unmeasured {
		c = capacity.Consumed{Table: capacity.Read(u.got.Size(), u.consistent)}
	}
	parts := "INDEXES"
	return consumed(&parts, u.table, c)
}

// usages is what a request did in each of its tables, ordered by their names.
type usages []usage

// of returns the usage of a table, and adds it if it is missing.
func (u *usages) of(table string) *usage {
	i, ok := slices.BinarySearchFunc(*u, table, func(u usage, table string) int { return strings.Compare(u.table, table) })
	if !ok {
		*u = slices.Insert(*u, i, usage{asked: asked{table: table}})
	}
	return &(*u)[i]
}

// as sets the operation of a request in all of its tables.
func (u usages) as(operation string, statement bool) usages {
	for i := range u {
		u[i].operation, u[i].statement = operation, statement
	}
	return u
}

// asked is what a request asks of one table. Its shape is derived from that.
type asked struct {
	operation, table, index string
	schema                  *schema.Table // as the request found it; nil if it is not at hand
	consistent, statement   bool

	// expressions are the texts that the members below were parsed from, and names
	// their placeholders. With legacy parameters there is no text, so the shape is
	// computed for each request.
	expressions [3]*string
	names       map[string]string
	legacy      bool

	key     item.Item      // of an item
	item    item.Item      // that is put, with its key
	keys    *expr.KeyRange // of a query
	gets    []api.Attributes
	actions []askedAction

	condition, filter *expr.Condition
	paths             []item.Path // the projection
	update            *expr.Update

	// where is the clause of a statement: a condition, or with selects a filter,
	// and in both cases also the key.
	where   expr.Test
	selects bool
}

// askedAction is one action of a batch or a transaction.
type askedAction struct {
	kind        workload.Writes
	key         item.Item // or an item with it
	conditional bool
}

// addAction adds one of at most n actions.
func (a *asked) addAction(n int, action askedAction) {
	if a.actions == nil {
		a.actions = make([]askedAction, 0, n)
	}
	a.actions = append(a.actions, action)
}

// record measures a request that succeeded, and counts it by its shape, unless its
// caller asked not to.
func (s *Service) record(ctx context.Context, used *usage) {
	if caller := carriedBy(ctx); caller != nil {
		if !used.cached { // DynamoDB knows nothing of what a cache answers
			s.measure(caller, used)
		}
		if caller.Used != nil {
			caller.Used(used.capacity())
		}
		if caller.Uncounted {
			return
		}
	}
	if used.ofPast {
		return
	}
	if c := s.counter(&used.asked); c != nil {
		used.count(c)
	}
}

// counter returns the counter for the shape of a successful request; nil if the
// table has changed since and the shape can no longer be computed.
func (s *Service) counter(a *asked) *workload.Counter {
	shape := workload.Shape{Operation: a.operation, Table: a.table, Index: a.index, Consistent: a.consistent, Statement: a.statement,
		Filter: a.filter != nil, Condition: a.condition != nil}
	f, cacheable := s.fingerprint(&shape, a)
	if cacheable {
		if c := s.workload.Cached(f); c != nil {
			return c
		}
	}
	t := s.schemaOf(a)
	if t == nil {
		return nil
	}
	kept := *a // so that a itself is not allocated when the fingerprint is cached
	shaping{s.workload, t, &kept}.complete(&shape)
	c := s.workload.Counter(shape)
	if cacheable {
		s.workload.Cache(f, c)
	}
	return c
}

// fingerprint hashes all that the shape of a request depends on.
func (s *Service) fingerprint(shape *workload.Shape, a *asked) (f workload.Fingerprint, ok bool) {
	w := s.workload
	f = w.Fingerprint(shape)
	for _, text := range a.expressions {
		if text != nil {
			f = w.WithExpression(f, *text, a.names)
		} else {
			f++
		}
	}
	ok = !a.legacy
	switch {
	case !ok:
	case a.key != nil: // nothing but the key, in the order of the names
		for _, v := range a.key.Names() {
			f = w.WithPrefix(f, v)
		}
	case a.keys != nil:
		for _, v := range a.keys.Partition {
			f = w.WithPrefix(f, v)
		}
		for i := range a.keys.Sort {
			f = w.WithPrefix(f, a.keys.Sort[i].Values[0])
		}
	case a.item != nil || a.gets != nil || a.actions != nil:
		t := s.schemaOf(a)
		if t == nil {
			return 0, false
		}
		return s.keyFingerprint(f, t, a)
	}
	return f, ok
}

// schemaOf returns the table of a request; nil if it does not exist any more.
func (s *Service) schemaOf(a *asked) *schema.Table {
	if a.schema != nil {
		return a.schema
	}
	t, err := s.DB.Table(a.table)
	if err != nil {
		return nil
	}
	return t
}

// keyFingerprint adds the keys of items, which need not be all that the items contain.
func (s *Service) keyFingerprint(f workload.Fingerprint, t *schema.Table, a *asked) (_ workload.Fingerprint, ok bool) {
	if a.item != nil {
		return s.itemFingerprint(f, t, a.item), true
	}
	var set workload.ActionSet
	for i := range a.gets {
		set.Add(s.itemFingerprint(1, t, a.gets[i].Item))
	}
	for i := range a.actions {
		action := &a.actions[i]
		kind := 2 + workload.Fingerprint(action.kind)<<8
		if action.conditional {
			kind += 1 << 16
		}
		set.Add(s.itemFingerprint(kind, t, action.key))
	}
	sum, ok := set.Sum()
	return f + sum, ok
}

func (s *Service) itemFingerprint(f workload.Fingerprint, t *schema.Table, it item.Item) workload.Fingerprint {
	for i := range t.Key.Partition {
		v, _ := it.Get(t.Key.Partition[i].Name)
		f = s.workload.WithPrefix(f, v)
	}
	for i := range t.Key.Sort {
		v, _ := it.Get(t.Key.Sort[i].Name)
		f = s.workload.WithPrefix(f, v)
	}
	return f
}

// shaping computes the shape of a request whose fingerprint is not cached.
type shaping struct {
	workload *workload.Recorder
	table    *schema.Table
	*asked
}

func (s shaping) name(attribute string) string { return s.workload.Name(s.table, attribute) }

// complete sets the members of a shape that depend on the expressions and the keys.
func (s shaping) complete(shape *workload.Shape) {
	if s.statement {
		s.split()
		shape.Filter, shape.Condition = s.filter != nil, s.condition != nil
	}
	key := s.table.Key
	if x, ok := s.table.Index(s.index); ok {
		key = x.Key
	}
	switch {
	case s.keys != nil:
		shape.Form = workload.KeyForm(key.Partition, s.keys.Sort)
		shape.Partition = s.prefixes(key.Partition, func(i int) item.Value { return s.keys.Partition[i] })
		shape.Sort = s.prefixes(key.Sort[:len(s.keys.Sort)], func(i int) item.Value { return s.keys.Sort[i].Values[0] })
	case s.key != nil:
		shape.Partition, shape.Sort = s.prefixesOf(s.key)
	case s.item != nil:
		shape.Partition, shape.Sort = s.prefixesOf(s.item)
	}
	if s.update != nil {
		shape.Form = workload.UpdateForm(s.table, s.update.Paths())
		shape.Changes = workload.Names(s.update.Paths(), s.name)
	}
	if s.filter != nil {
		shape.FilterText = workload.ConditionText(s.filter, s.name)
	}
	if s.condition != nil {
		shape.ConditionText = workload.ConditionText(s.condition, s.name)
	}
	shape.Projection = workload.Names(s.paths, s.name)
	s.setActions(shape)
}

func (s shaping) setActions(shape *workload.Shape) {
	if s.gets == nil && s.actions == nil {
		return
	}
	var all []workload.Action
	var kinds workload.Writes
	add := func(kind workload.Writes, key item.Item, conditional bool) {
		kinds |= kind
		action := workload.Action{Verb: "Get", Conditional: conditional}
		if kind != workload.Get {
			action.Verb = kind.Form()
		}
		action.Partition, action.Sort = s.prefixesOf(key)
		all = append(all, action)
	}
	for i := range s.gets {
		add(workload.Get, s.gets[i].Item, false)
	}
	for _, a := range s.actions {
		add(a.kind, a.key, a.conditional)
	}
	shape.Form, shape.Actions = kinds.Form(), workload.Actions(all)
}

// prefixesOf returns the prefixes of the table's key in an item.
func (s shaping) prefixesOf(it item.Item) (partition, sort string) {
	of := func(attrs []schema.Attribute) string {
		return s.prefixes(attrs, func(i int) item.Value { v, _ := it.Get(attrs[i].Name); return v })
	}
	return of(s.table.Key.Partition), of(s.table.Key.Sort)
}

func (s shaping) prefixes(attrs []schema.Attribute, value func(i int) item.Value) string {
	all := make([]string, len(attrs))
	for i, a := range attrs {
		all[i] = s.workload.Prefix(s.table, a.Name, value(i))
	}
	joined := strings.Join(all, ",")
	if strings.Trim(joined, ",") == "" {
		return ""
	}
	return joined
}
