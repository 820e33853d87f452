package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
)

// Scenario is one run of a pattern on a server: the items stored before it, the
// requests, and their predicted replies. The prediction holds if the partitions
// that the run reads contain nothing else.
type Scenario struct {
	Before []Stored
	Calls  []Call
}

// Stored is an item in its table.
type Stored struct {
	Table  string
	Entity string
	Item   item.Item
}

// Call is one request with the reply that is predicted.
type Call struct {
	Request
	Follow  bool // read all pages; Want is their sum
	Targets []Target
	Want    Want

	// Accesses are what the request consumes, and where: one for each item, or one for
	// each page of a query or a scan.
	Accesses []Access
}

// Target is an item that a request names, or the partition that a query reads.
// A scan has no target.
type Target struct {
	Table  string
	Index  string // the index that a query reads; "" for the table itself
	Writes bool

	// Item is the whole item of a put, the key of an update with the attributes
	// that it sets, the partition key of a query, and else the item's key.
	Item item.Item
}

// Want is the predicted reply to a request.
type Want struct {
	Count   int    // items returned by reads
	Scanned int    // items examined by queries and scans
	Pages   int    // pages, when they are followed
	Index   string // index used by queries and scans; "" for the table itself
	Read    []TableUnits
	Write   []TableUnits
}

// TableUnits is the cost of a request on one table and its indexes.
type TableUnits struct {
	Table string
	capacity.Consumed
}

// Units returns the sum of the units that a scenario reads and writes.
func (s *Scenario) Units() (read, write []TableUnits) {
	for _, c := range s.Calls {
		for _, u := range c.Want.Read {
			charge(&read, u.Table, u.Consumed)
		}
		for _, u := range c.Want.Write {
			charge(&write, u.Table, u.Consumed)
		}
	}
	return read, write
}

func charge(list *[]TableUnits, table string, c capacity.Consumed) {
	for i := range *list {
		if (*list)[i].Table == table {
			(*list)[i].Add(c)
			return
		}
	}
	c.Indexes = slices.Clone(c.Indexes) // the sum must not modify its operands
	*list = append(*list, TableUnits{table, c})
}

// maxScenarioBytes is the most that a scenario may store.
const maxScenarioBytes = 256 << 20

// Scenario returns the run-th run of a plan. Two runs have no item in common.
func (m *Model) Scenario(plan *Plan, g Generator, run int) (*Scenario, error) {
	return m.ScenarioIn(plan, g, run, 0)
}

// ScenarioIn returns a run whose items are in the state-th state before the write, from 0
// to plan.States.
func (m *Model) ScenarioIn(plan *Plan, g Generator, run, state int) (*Scenario, error) {
	d, err := m.buildScenario(plan, g, run, state)
	if err != nil {
		return nil, err
	}
	return d.scenario, nil
}

// buildScenario builds a run of a plan.
func (m *Model) buildScenario(plan *Plan, g Generator, run, state int) (*scenarioBuilder, error) {
	if !plan.Served() {
		return nil, fmt.Errorf("%q cannot be executed: %w", plan.Pattern.Name, plan.Faults[0])
	}
	d := &scenarioBuilder{m: m, plan: plan, gen: g, state: state, scenario: new(Scenario), stored: make(map[string]bool)}
	if err := d.measure(); err != nil {
		return nil, err
	}
	d.base = run * d.stride
	return d, d.build()
}

func (d *scenarioBuilder) build() error {
	switch d.plan.Operation {
	case "Query", "Scan":
		return d.buildQuery(d.plan.Steps[0])
	case "GetItem", "TransactGetItems", "BatchGetItem":
		return d.buildGets()
	}
	return d.buildWrites()
}

// scenarioBuilder builds a scenario.
type scenarioBuilder struct {
	m        *Model
	plan     *Plan
	gen      Generator
	scenario *Scenario
	stored   map[string]bool // keys of the items that exist before the run

	loads    []partitionLoad // the load on each partition
	accesses []Access        // of the next call
	state    int             // which of the states before a write the items are in

	spreadings map[*Step]spreading
	bare       bool // the calls of gets and writes have only their accesses

	base   int // the first ordinal of this run
	next   int // the number of ordinals in use
	stride int // the number of ordinals that a run may use
}

// measure computes how many ordinals a run needs, and fails if the run is too
// large.
func (d *scenarioBuilder) measure() error {
	items, bytes := 0, 0
	for _, s := range d.plan.Steps {
		matches, reads := s.itemsOfRun()
		n := min(max(matches, reads, s.Action.Times), maxScenarioBytes) // so that the sum does not overflow
		for _, w := range s.Action.With {
			count, _ := parseCount(w.Value.text)
			n += int(count)
		}
		items += n + 4
		bytes += n * d.gen.Item(s.Entity, 0).Size()
	}
	if bytes > maxScenarioBytes {
		try := "set page"
		if d.plan.Pattern.Page > 0 {
			try = "use a key or an index instead of the filter"
		}
		return &Fault{Code: "expectation", Pattern: d.plan.Pattern.Name, Position: d.plan.Pattern.Position, Try: try,
			Message: fmt.Sprintf("it reads or writes %s in one run", Bytes(bytes))}
	}
	d.stride = 4 * items
	return nil
}

// itemsOfRun returns how many items match a query and how many its key condition
// matches, as far as a run can notice: with a page and without a filter, few more
// than the page has, and with a filter some pages in the same proportion. Shards do
// not divide items evenly.
func (s *Step) itemsOfRun() (matches, reads int) {
	a := s.Action
	matches = max(1, a.Matches)
	if a.verb == Query && a.Page > 0 && len(s.selective()) == 0 {
		most := a.Page + 1
		if s.Shards > 1 {
			most = 8 * a.Page * s.Shards
		}
		matches = min(matches, most)
		return matches, matches
	}
	reads = max(matches, a.Reads)
	if most := 8 * a.Page * max(1, s.Shards); a.verb == Query && a.Page > 0 && reads > most {
		matches = max(1, int(float64(matches)*float64(most)/float64(reads)))
		reads = most
	}
	return matches, reads
}

// freshOffset is the distance between the ordinals of old and new values.
func (d *scenarioBuilder) freshOffset() int { return d.stride / 2 }

// sample starts an item of a step. The attributes that the action is given are
// the same for all items of the run.
func (d *scenarioBuilder) sample(s *Step, e *Entity, ordinal int, fixed []*Setting) *sample {
	x := &sample{gen: d.gen, entity: e, ordinal: d.base + ordinal, shared: make(map[string]int), fixed: make(map[string]item.Value), spreading: d.spreadingOf(s)}
	given := slices.Clone(s.Action.Given)
	for _, name := range given {
		if f, ok := s.Entity.byName[name]; ok && f.template != nil {
			given = append(given, s.Entity.leaves(name)...)
		}
	}
	for _, name := range given {
		x.shared[name] = d.base
	}
	for _, name := range s.Action.Each {
		if d.givenByAnother(s, name) {
			x.shared[name] = x.ordinal + 1 // the other step has the value of d.base
		}
	}
	for _, w := range fixed {
		if f, ok := e.byName[w.Name]; ok {
			if v, err := w.Value.value(f.Type); err == nil && !w.Value.templated() {
				x.fixed[w.Name] = v
			}
		}
	}
	return x
}

// spreadingOf returns the attributes of a step that are spread, if the generator
// spreads any.
func (d *scenarioBuilder) spreadingOf(s *Step) spreading {
	if !d.gen.Spread {
		return nil
	}
	of, ok := d.spreadings[s]
	if !ok {
		if d.spreadings == nil {
			d.spreadings = make(map[*Step]spreading)
		}
		of = d.plan.spreadAttributes(s)
		d.spreadings[s] = of
	}
	return of
}

// templated reports whether a literal contains names.
func (l Literal) templated() bool {
	return l.kind == literalString && strings.Contains(l.text, "{")
}

// givenByAnother reports whether another step of the plan is about an item of the same entity, with one
// value of an attribute for all of its items.
func (d *scenarioBuilder) givenByAnother(s *Step, attribute string) bool {
	return d.plan != nil && slices.ContainsFunc(d.plan.Steps, func(other *Step) bool {
		return other != s && other.Entity == s.Entity && slices.Contains(other.Action.Given, attribute)
	})
}

// store adds an item that exists before the run.
func (d *scenarioBuilder) store(s *Step, e *Entity, it item.Item) error {
	t := e.table
	key := t.Name + "\x00" + string(keyspace.Item(nil, t.schema, it))
	if d.stored[key] {
		return d.sameKey(s, e)
	}
	d.stored[key] = true
	d.scenario.Before = append(d.scenario.Before, Stored{t.Name, e.Name, it})
	return nil
}

// sameKey is the fault of a run whose items have the same key.
func (d *scenarioBuilder) sameKey(s *Step, e *Entity) error {
	p := d.plan.Pattern
	try := "fix matches, given, or the key"
	if p.Transact != nil || p.Batch != nil {
		try = "list the attributes that differ in each, or fix the key"
	}
	return &Fault{Code: "expectation", Pattern: p.Name, Position: s.Action.Position, Try: try,
		Message: "it expects several items, but they have the same key: " + whySameKey(s, e)}
}

// whySameKey is why the items of a run cannot all have different keys.
func whySameKey(s *Step, e *Entity) string {
	var few []string
	for _, leaf := range e.keyLeaves() {
		if slices.Contains(s.Action.Given, leaf) {
			continue
		}
		if n := e.byName[leaf].mostValues(); n > 0 {
			few = append(few, fmt.Sprintf("%s has only %d values", leaf, n))
		}
	}
	if few == nil {
		return "the attributes that distinguish them are given"
	}
	return strings.Join(few, ", ")
}

// mostValues is how many different values a field can have; 0 if they are enough
// for any run.
func (f *Field) mostValues() int {
	a := f.Attribute
	switch {
	case len(a.Values) > 0:
		return len(a.Values)
	case a.Shards > 0:
		return a.Shards
	case a.Format != "":
		return formats[a.Format].most
	case f.Type == item.S && a.Size > 0 && a.Size < 4:
		return []int{1, 36, 36 * 36, 36 * 36 * 36}[a.Size]
	}
	return 0
}

// addCall adds a request.
func (d *scenarioBuilder) addCall(c Call) {
	c.Accesses, d.accesses = d.accesses, nil
	d.scenario.Calls = append(d.scenario.Calls, c)
}

// buildGets builds reads by key.
func (d *scenarioBuilder) buildGets() error {
	var steps []*Step
	var renderers []renderer
	var targets []Target
	var want Want
	for _, s := range d.plan.Steps {
		for range max(1, s.Action.Times) {
			x := d.sample(s, s.Entity, d.next, s.Action.Where)
			d.next++
			it := x.item()
			if err := d.store(s, s.Entity, it); err != nil {
				return err
			}
			steps = append(steps, s)
			renderers = append(renderers, &requestRenderer{sample: x})
			want.Count++
			cost := readCost(d.plan.Operation, it, s.Action.Consistent)
			charge(&want.Read, s.Table.Name, cost)
			d.addReadLoad(s, x, cost.Table)
			d.accesses = append(d.accesses, Access{Place: placeOf(s.Entity, nil, it, cost.Table)})
			targets = append(targets, Target{Table: s.Table.Name, Item: s.Table.schema.Key.Of(it)})
		}
	}
	d.addItems(steps, renderers, nil, targets, want)
	return nil
}

// addItems adds a request for some items.
func (d *scenarioBuilder) addItems(steps []*Step, renderers []renderer, edits [][]edit, targets []Target, want Want) {
	c := Call{Targets: targets, Want: want}
	if !d.bare {
		c.Request = compose(d.plan, steps, renderers, edits)
	}
	d.addCall(c)
}

// readCost is the cost of reading one item by its key.
func readCost(operation string, it item.Item, consistent bool) capacity.Consumed {
	if operation == "TransactGetItems" {
		return capacity.Consumed{Table: capacity.Read(it.Size(), true)}.Transactional()
	}
	return capacity.Consumed{Table: capacity.Read(it.Size(), consistent)}
}
