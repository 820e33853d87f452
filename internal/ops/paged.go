package ops

import (
	"context"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// reading is a Query or a Scan while it is planned and read.
type reading struct {
	operation string // Query or Scan
	in        *api.Paged
	bind      *expr.Bindings
	filter    *expr.Condition
	paths     []item.Path // nil: all attributes
	table     *schema.Table
	index     *schema.Index // nil: the table itself
	plan      db.Range
	page      wire.Page
	items     *pageItems // of a reply that is not encoded; nil if the page is
	steps     expr.Filter

	keyText *string        // KeyConditionExpression
	keys    *expr.KeyRange // that it asks for; nil for a scan
	legacy  bool           // it has legacy conditions
}

// checkPaged checks the parameters that Query and Scan share, together with
// those that only one of them has; a Scan has no key conditions.
func checkPaged(in *api.Paged, filter, keyExpression, keyConditions parameter) error {
	p := parameters{
		legacy: []parameter{
			{"AttributesToGet", in.AttributesToGet != nil},
			filter,
			{"ConditionalOperator", in.ConditionalOperator != nil},
			keyConditions,
		},
		expressions: []parameter{
			{"ProjectionExpression", in.ProjectionExpression != nil},
			{"FilterExpression", in.FilterExpression != nil},
			keyExpression,
		},
		names:  in.ExpressionAttributeNames,
		values: in.ExpressionAttributeValues,
	}
	return p.check()
}

// checkStartKey returns the fault of a value in ExclusiveStartKey.
func checkStartKey(in *api.Paged) error {
	if fault := in.ExclusiveStartKey.Fault; fault != nil {
		if fault.Bare || fault == item.ErrEmptyName || fault == item.ErrLongName {
			return fault
		}
		reworded := *in.ExclusiveStartKey.Fault
		reworded.Message = "The provided starting key is invalid: " + reworded.Message
		return &reworded
	}
	return nil
}

// checkSelect checks Select against the other parameters.
func checkSelect(in *api.Paged) error {
	switch {
	case isSet(in.Select, "SPECIFIC_ATTRIBUTES") && !hasProjection(in) && in.AttributesToGet == nil:
		return apierror.Request("Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES")
	case in.Select != nil && !isSet(in.Select, "SPECIFIC_ATTRIBUTES") && (hasProjection(in) || in.AttributesToGet != nil):
		parameter, target := "ProjectionExpression", *in.Select
		if !hasProjection(in) {
			parameter = "AttributesToGet"
		}
		if target == "COUNT" {
			target = "only the Count"
		}
		return apierror.Request("Cannot specify the %s when choosing to get %s", parameter, target)
	case isSet(in.Select, "ALL_PROJECTED_ATTRIBUTES") && in.IndexName == nil:
		return apierror.Request("ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName")
	}
	return nil
}

// hasProjection reports whether a request has a projection, as a text or compiled.
func hasProjection(in *api.Paged) bool {
	return in.ProjectionExpression != nil || in.Compiled != nil && in.Compiled.Projection != nil
}

// bindFilter binds the filter, an expression or legacy conditions.
func (s *Service) bindFilter(r *reading, legacy map[string]api.Condition) (err error) {
	if c := r.in.Compiled; c != nil {
		r.filter, err = compiledCondition(expr.FilterExpression, c.Filter)
		return err
	}
	if r.in.FilterExpression != nil {
		r.filter, err = s.condition(expr.FilterExpression, r.in.FilterExpression, r.bind)
		return err
	}
	r.filter, err = filterCondition(legacy, r.in.ConditionalOperator)
	return err
}

func (s *Service) bindProjection(r *reading) (err error) {
	r.paths, err = s.projection(r.in.Compiled, r.in.ProjectionExpression, r.in.AttributesToGet, r.bind)
	return err
}

// open sets the table and the index, and checks the parameters against them.
func (r *reading) open(t *schema.Table, plan *db.Range) error {
	r.table = t
	if r.in.IndexName != nil {
		x, ok := t.Index(*r.in.IndexName)
		if !ok || x.State == schema.Deleting {
			return apierror.Validation("The table does not have the specified index: %s", *r.in.IndexName)
		}
		if x.State == schema.Creating {
			return apierror.Validation("Cannot read from backfilling global secondary index: %s", x.Name)
		}
		r.index = x
		plan.Index = x.Name
		if x.Global && r.in.ConsistentRead {
			return apierror.Validation("Consistent reads are not supported on global secondary indexes")
		}
	}
	if r.filter != nil {
		if err := t.CheckPaths(r.filter.Paths()); err != nil {
			return err
		}
	}
	return t.CheckPaths(r.paths)
}

// key returns the key that items are read by.
func (r *reading) key() schema.Key {
	if r.index != nil {
		return r.index.Key
	}
	return r.table.Key
}

// fitStartKey checks ExclusiveStartKey. other is the message for a key with the
// wrong number of attributes.
func (r *reading) fitStartKey(plan *db.Range, other string) error {
	start := r.in.ExclusiveStartKey.Item
	if start == nil {
		return nil
	}
	want := map[string]bool{}
	for _, a := range append(r.table.Key.All(), r.key().All()...) {
		want[a.Name] = true
	}
	if start.Len() != len(want) {
		return apierror.Validation("%s", other)
	}
	if r.index != nil {
		for _, a := range r.index.Key.All() {
			v, ok := start.Get(a.Name)
			if !ok {
				return apierror.Validation("The provided starting key is invalid")
			}
			if v.Type() != a.Type {
				return apierror.KeyMismatch()
			}
		}
	}
	if err := r.table.CheckKey(r.table.Key.Of(start)); err != nil {
		fault := apierror.Validation("The provided starting key is invalid: The provided key element does not match the schema")
		return fault
	}
	plan.After = start
	return nil
}

// fitIndex checks that the index projects what the request asks for. A local
// index fetches missing attributes from the table.
func (r *reading) fitIndex(plan *db.Range) error {
	if r.index == nil || r.index.Projection.Kind == schema.ProjectAll {
		return nil
	}
	if isSet(r.in.Select, "ALL_ATTRIBUTES") {
		if r.index.Global {
			return apierror.InvalidValues("Select type ALL_ATTRIBUTES is not supported for global secondary index %s "+
				"because its projection type is not ALL", r.index.Name)
		}
		plan.Whole = true
	}
	missing := r.notProjected(r.paths)
	if len(missing) > 0 && r.index.Global {
		return apierror.InvalidValues("Global secondary index %s does not project [%s]", r.index.Name, strings.Join(missing, ", "))
	}
	plan.Whole = plan.Whole || len(missing) > 0
	return nil
}

// notProjected returns the attributes of paths that the index does not project.
func (r *reading) notProjected(paths []item.Path) (names []string) {
	for _, p := range paths {
		if !r.table.Projects(r.index, p[0].Name) && !slices.Contains(names, p[0].Name) {
			names = append(names, p[0].Name)
		}
	}
	return names
}

// readPage reads the page, encodes its items, and makes the rest of the reply.
func (s *Service) readPage(ctx context.Context, r *reading) (*api.PageReply, usage, error) {
	r.plan.Consistent = r.in.ConsistentRead
	if r.filter != nil || len(r.paths) > freePaths {
		r.steps.Of(r.filter)
		r.plan.Keep = r.keep
	}
	r.plan.CountOnly = isSet(r.in.Select, "COUNT")
	r.plan.Take = func(it item.Item) error { return r.add(project(it, r.paths)) }
	p, hit, err := s.readRange(ctx, r)
	if err != nil {
		return nil, usage{}, err
	}
	reply := &api.PageReply{
		Count:            p.Count,
		ScannedCount:     p.Scanned,
		LastEvaluatedKey: p.Last,
		ConsumedCapacity: consumed(r.in.ReturnConsumedCapacity, r.plan.Table, p.Consumed),
	}
	if !r.plan.CountOnly {
		reply.Items = []item.Item{} // replaced by the items of the page
		if r.items != nil {
			reply.Items = append(reply.Items, r.items.list...)
		}
	}
	return reply, usage{returned: p.Count, scanned: p.Scanned, consumed: p.Consumed, cached: hit, ofPast: !r.plan.At.IsZero(), asked: r.asked()}, nil
}

// add adds an item to the page, as the request shows it.
func (r *reading) add(shown item.Item) error {
	if r.items != nil && r.items.add(shown) || r.items == nil && r.page.Add(shown) {
		return nil
	}
	return buffer.ErrNoRoom
}

// pageItems holds the items of a page.
type pageItems struct {
	memory buffer.Tally // for the items, and for the bytes that they become
	list   []item.Item
}

// maxPageItems is about how many small items a page has.
const maxPageItems = 1000

// add adds a copy of an item. It reports false if there is no memory for it.
func (p *pageItems) add(it item.Item) bool {
	if !p.memory.Add(1, len(it)+encodedBytes(it)) {
		return false
	}
	p.list = append(p.list, slices.Clone(it))
	return true
}

// asked returns what the request asks for.
func (r *reading) asked() asked {
	a := asked{
		operation: r.operation, table: r.plan.Table, consistent: r.in.ConsistentRead, keys: r.keys, filter: r.filter, paths: r.paths,
		expressions: [3]*string{r.keyText, r.in.FilterExpression, r.in.ProjectionExpression}, names: r.in.ExpressionAttributeNames,
		legacy: r.legacy || r.in.AttributesToGet != nil || r.in.Compiled != nil,
	}
	if r.in.IndexName != nil {
		a.index = *r.in.IndexName
	}
	return a
}

// freePaths is the number of projected paths that cost no steps of the page.
const freePaths = 16

// keep applies the filter, and counts the steps of the projection.
func (r *reading) keep(it item.Item) (kept, last bool) {
	if len(r.paths) > freePaths {
		r.steps.Add(len(r.paths))
	}
	return r.steps.Keep(it)
}
