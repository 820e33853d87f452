package ops

import (
	"context"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/language/partiql"
)

// selection is a Select as a plan: lookups, one after the other.
type selection struct {
	*partiql.Select
	table      *schema.Table
	index      *schema.Index // nil: the table itself
	where      *expr.Condition
	consistent bool
	whole      bool // fetch the items for the entries of a local index
	reverse    bool
	lookups    []lookup
	steps      expr.Filter  // with the condition where
	memory     buffer.Tally // of the page
}

// lookup is one read of a selection: of an item, of a part of a partition, or,
// with neither set, of everything.
type lookup struct {
	item      item.Item // a key
	partition []item.Value
	bound     keyspace.Bound
}

// maxLookups is the limit on the partitions that IN conditions are expanded to.
// With more, the table is read instead.
const maxLookups = 10_000

// openSelect finds the table and the index, and plans the statement.
func (s *Service) openSelect(st *partiql.Select, consistent bool) (*selection, error) {
	t, err := s.DB.Table(st.Table)
	if err != nil {
		return nil, err
	}
	r := &selection{Select: st, table: t, where: expr.NewCondition(st.Where), consistent: consistent}
	r.steps.Of(r.where)
	if st.Index != "" {
		x, ok := t.Index(st.Index)
		if !ok {
			return nil, apierror.Validation("The table does not have the specified index")
		}
		if x.Global && consistent {
			return nil, apierror.Validation("Strongly consistent read is not supported on Global Secondary Indexes")
		}
		r.index = x
	}
	for _, check := range []func() error{r.fitIndex, r.fitFilter, r.fitOrder, r.plan} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *selection) key() schema.Key {
	if r.index != nil {
		return r.index.Key
	}
	return r.table.Key
}

// fitIndex checks that the index projects the columns. A local index fetches
// missing attributes from the table.
func (r *selection) fitIndex() error {
	if r.index == nil {
		return nil
	}
	var lacks []string
	for _, c := range r.Columns {
		if !r.table.Projects(r.index, c.Path[0].Name) {
			lacks = append(lacks, c.Path[0].Name)
		}
	}
	if lacks != nil && r.index.Global {
		return apierror.InvalidValues("Global secondary index %s does not project [%s]", r.index.Name, strings.Join(lacks, ", "))
	}
	r.whole = lacks != nil
	return nil
}

// fitFilter checks that an index that is queried by key projects the attributes
// in the clause. An index that is scanned finds nothing instead.
func (r *selection) fitFilter() error {
	if r.index == nil || !r.isKeyed() {
		return nil
	}
	var lacks []string
	for _, p := range r.where.Paths() {
		if name := p[0].Name; !r.table.Projects(r.index, name) && !slices.Contains(lacks, name) {
			lacks = append(lacks, name)
		}
	}
	if lacks != nil {
		return apierror.InvalidValues("Secondary index %s does not project one or more filter attributes: [%s]", r.index.Name, strings.Join(lacks, ", "))
	}
	return nil
}

// isKeyed reports whether the clause selects partitions.
func (r *selection) isKeyed() bool {
	for _, a := range r.key().Partition {
		if !slices.ContainsFunc(partiql.KeyTests(r.Where, a.Name), isChoice) {
			return false
		}
	}
	return true
}

// isChoice reports whether a condition lists all values that an attribute may
// have.
func isChoice(k expr.KeyTest) bool { return k.Op == expr.Equal || k.Op == expr.In }

// fitOrder checks that items can be read in the order of ORDER BY.
func (r *selection) fitOrder() error {
	if r.Order == nil {
		return nil
	}
	if r.Where.Op == 0 {
		return apierror.Validation("Must have WHERE clause in the statement when using ORDER BY clause.")
	}
	for _, o := range r.Order {
		if !r.key().Has(o.Name) {
			return apierror.Validation("Variable reference %s in ORDER BY clause must be part of the primary key", o.Name)
		}
	}
	for _, a := range r.key().Partition {
		if !needs(r.Where, a.Name) {
			return apierror.Validation("Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause.")
		}
	}
	return nil
}

// needs reports whether a condition uses an attribute in all of its
// alternatives.
func needs(t expr.Test, name string) bool {
	looks := func(t expr.Test) bool { return needs(t, name) }
	switch t.Op {
	case expr.And, expr.Not:
		return slices.ContainsFunc(t.Tests, looks)
	case expr.Or:
		return !slices.ContainsFunc(t.Tests, func(t expr.Test) bool { return !looks(t) })
	}
	return slices.ContainsFunc(t.Operands, func(o expr.Operand) bool { return len(o.Path) == 1 && o.Path[0].Name == name })
}

// descends reports whether ORDER BY asks for one of attrs in descending order.
func (r *selection) descends(attrs []schema.Attribute) bool {
	return slices.ContainsFunc(r.Order, func(o partiql.Order) bool {
		return o.Descending && slices.ContainsFunc(attrs, func(a schema.Attribute) bool { return a.Name == o.Name })
	})
}

// checkKey returns the first fault of the values that keys are compared with.
func (r *selection) checkKey(tests map[string][]expr.KeyTest, fits valueCheck) error {
	for _, a := range r.key().All() {
		for _, k := range tests[a.Name] {
			for _, v := range k.Values {
				if err := fits(a, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// plan computes the lookups.
func (r *selection) plan() error {
	if !r.isKeyed() {
		r.lookups = []lookup{{}}
		return nil
	}
	tests := make(map[string][]expr.KeyTest)
	for _, a := range r.key().All() {
		tests[a.Name] = partiql.KeyTests(r.Where, a.Name)
	}
	for _, fits := range []valueCheck{hasKeyType, isNotEmpty} {
		if err := r.checkKey(tests, fits); err != nil {
			return err
		}
	}
	partitions := [][]item.Value{nil}
	for _, a := range r.key().Partition {
		var all bool
		if partitions, all = product(partitions, choices(tests[a.Name])); !all {
			r.lookups = []lookup{{}}
			return nil
		}
	}
	r.reverse = r.descends(r.key().Sort)
	if r.descends(r.key().Partition) {
		slices.Reverse(partitions)
	}
	bound, whole := r.sorts(tests)
	for _, p := range partitions {
		l := lookup{partition: p, bound: bound}
		if whole && r.index == nil {
			l.item = r.itemKey(slices.Concat(p, bound.Equals))
		}
		r.lookups = append(r.lookups, l)
	}
	return nil
}

// sorts returns the bound of the sort keys that the clause selects, and whether it
// is one key. A condition that is not a key condition, such as IN, does not narrow
// what is read (conformance/execute_statement/ranges.txt).
func (r *selection) sorts(tests map[string][]expr.KeyTest) (bound keyspace.Bound, whole bool) {
	var equals []item.Value
	for _, a := range r.key().Sort {
		i := slices.IndexFunc(tests[a.Name], isEqual)
		if i < 0 {
			bound = boundOf(tests[a.Name])
			bound.Equals = equals
			return bound, false
		}
		equals = append(equals, tests[a.Name][i].Values[0])
	}
	return keyspace.Bound{Equals: equals}, true
}

func isEqual(k expr.KeyTest) bool { return k.Op == expr.Equal }

// choices returns the values that a key attribute may have, sorted; none if any
// value is possible.
func choices(tests []expr.KeyTest) []item.Value {
	i := slices.IndexFunc(tests, isEqual)
	if i < 0 {
		i = slices.IndexFunc(tests, isChoice)
	}
	if i < 0 {
		return nil
	}
	values := slices.Clone(tests[i].Values)
	slices.SortFunc(values, item.Compare)
	return slices.CompactFunc(values, item.Equal)
}

// product appends each of values to each row; not ok if there are no values, or
// too many rows.
func product(rows [][]item.Value, values []item.Value) (longer [][]item.Value, ok bool) {
	if len(values) == 0 || len(rows)*len(values) > maxLookups {
		return rows, false
	}
	for _, row := range rows {
		for _, v := range values {
			longer = append(longer, append(slices.Clip(row), v))
		}
	}
	return longer, true
}

// boundOf narrows a partition as far as one range can; the clause filters the
// rest.
func boundOf(tests []expr.KeyTest) keyspace.Bound {
	var low, high rangeEnd
	for _, k := range tests {
		switch k.Op {
		case expr.BeginsWith:
			return keyspace.Bound{Op: keyspace.BeginsWith, Values: k.Values}
		case expr.Greater, expr.GreaterOrEqual:
			low = low.narrow(rangeEnd{k.Values[0], k.Op == expr.Greater}, 1)
		case expr.Less, expr.LessOrEqual:
			high = high.narrow(rangeEnd{k.Values[0], k.Op == expr.Less}, -1)
		case expr.Between:
			low = low.narrow(rangeEnd{value: k.Values[0]}, 1)
			high = high.narrow(rangeEnd{value: k.Values[1]}, -1)
		}
	}
	switch {
	case low.value == nil && high.value == nil:
		return keyspace.Bound{}
	case high.value == nil && low.open:
		return keyspace.Bound{Op: keyspace.Greater, Values: []item.Value{low.value}}
	case high.value == nil:
		return keyspace.Bound{Op: keyspace.GreaterOrEqual, Values: []item.Value{low.value}}
	case low.value == nil && high.open:
		return keyspace.Bound{Op: keyspace.Less, Values: []item.Value{high.value}}
	case low.value == nil:
		return keyspace.Bound{Op: keyspace.LessOrEqual, Values: []item.Value{high.value}}
	}
	return keyspace.Bound{Op: keyspace.Between, Values: []item.Value{low.value, high.value}, OpenLow: low.open, OpenHigh: high.open}
}

// rangeEnd is one end of a range; its value is nil if there is none.
type rangeEnd struct {
	value item.Value
	open  bool // excludes the value
}

// narrow returns the narrower of two ends. direction is 1 for low ends and -1 for
// high ones.
func (e rangeEnd) narrow(by rangeEnd, direction int) rangeEnd {
	if e.value == nil {
		return by
	}
	switch item.Compare(by.value, e.value) * direction {
	case 0:
		e.open = e.open || by.open
	case 1:
		return by
	}
	return e
}

func (r *selection) itemKey(values []item.Value) item.Item {
	attrs := make(map[string]item.Value)
	for i, a := range r.table.Key.All() {
		attrs[a.Name] = values[i]
	}
	return item.Make(attrs)
}

// selectionStart is where a page begins: in one of the lookups, after an item.
type selectionStart struct {
	lookup int
	after  item.Item // nil: at the beginning
}

// statementPage is a page of a selection.
type statementPage struct {
	items    []item.Item
	scanned  int // items read
	consumed capacity.Consumed
	next     *selectionStart // nil: this is the last page
}

// read reads one page of a selection.
func (s *Service) read(ctx context.Context, r *selection, from selectionStart, limit int) (*statementPage, error) {
	page := &statementPage{items: []item.Item{}}
	r.memory = buffer.TallyOf(ctx, maxRecords, db.MaxPageBytes+item.MaxSize)
	for i := from.lookup; i < len(r.lookups); i++ {
		left := 0
		if limit > 0 {
			left = limit - page.scanned
		}
		got, err := s.lookUp(ctx, r, r.lookups[i], from.after, left)
		if isThrottled(err) && i > from.lookup {
			page.next = &selectionStart{lookup: i} // what was read is returned
			return page, nil
		}
		if err != nil {
			return nil, err
		}
		from.after = nil
		for _, it := range got.Items {
			page.items = append(page.items, r.shown(it))
		}
		page.consumed.Add(got.Consumed)
		page.scanned += got.Scanned
		switch {
		case got.Last != nil:
			page.next = &selectionStart{i, got.Last}
			return page, nil
		case i+1 < len(r.lookups) && (r.steps.Spent() || page.consumed.Total() >= capacity.Read(db.MaxPageBytes, r.consistent)):
			page.next = &selectionStart{lookup: i + 1}
			return page, nil
		}
	}
	return page, nil
}

// lookUp executes one lookup.
func (s *Service) lookUp(ctx context.Context, r *selection, l lookup, after item.Item, limit int) (db.Page, error) {
	if l.item != nil {
		return s.lookUpItem(ctx, r, l.item, after, limit)
	}
	hasRoom := true
	page, err := s.DB.Range(ctx, db.Range{
		Table: r.Table, Index: r.Index,
		Partition: l.partition, Bound: l.bound, Reverse: r.reverse,
		After: after, Limit: limit, Consistent: r.consistent,
		Whole: r.whole,
		Keep: func(it item.Item) (kept, last bool) {
			kept, last = r.keep(it)
			hasRoom = !kept || r.memory.Add(1, len(it))
			return kept, last || !hasRoom
		},
		Fit: func(t *schema.Table, _ *db.Range) error { return r.isPlannedFor(t) },
	})
	if err == nil && !hasRoom {
		err = buffer.ErrNoRoom
	}
	return page, err
}

// keep applies the clause, to the attributes that the index projects.
func (r *selection) keep(it item.Item) (kept, last bool) {
	if r.whole {
		it = r.table.Entry(r.index, it)
	}
	return r.steps.Keep(it)
}

// isPlannedFor returns a fault if the table was deleted and created again since
// the selection was planned.
func (r *selection) isPlannedFor(t *schema.Table) error {
	if t.ID != r.table.ID {
		return apierror.NoTable()
	}
	return nil
}

// lookUpItem reads one item. The page may end after it; then the next page
// begins after it and finds nothing in this lookup.
func (s *Service) lookUpItem(ctx context.Context, r *selection, key, after item.Item, limit int) (db.Page, error) {
	var page db.Page
	var it item.Item
	if after == nil {
		var err error
		if it, err = s.DB.GetOne(ctx, db.Get{Table: r.Table, Consistent: r.consistent, Fit: r.isPlannedFor, Memory: &r.memory}, key); err != nil {
			return page, err
		}
	}
	page.Consumed.Table = capacity.Read(it.Size(), r.consistent)
	if it == nil {
		return page, nil
	}
	page.Scanned = 1
	if limit == 1 {
		page.Last = key
	}
	if kept, _ := r.steps.Keep(it); kept {
		page.Items = []item.Item{it}
	}
	return page, nil
}

// shown returns the columns of an item.
func (r *selection) shown(it item.Item) item.Item { return shownColumns(it, r.Columns) }

func shownColumns(it item.Item, columns []partiql.Column) item.Item {
	if it == nil || columns == nil {
		return it
	}
	var b item.Builder
	for _, c := range columns {
		if v, ok := it.At(c.Path); ok {
			b.Add([]byte(c.Name), v)
		}
	}
	return b.Item()
}
