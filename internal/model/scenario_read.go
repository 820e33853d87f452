package model

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/language/expr"
)

// MaxPageBytes is the size at which a page of a query ends. It equals the
// server's; a test of package cli compares them.
const MaxPageBytes = 1 << 20

// ordinalRange is the items that match a query. Their ordinals are first+1 to
// first+count, which leaves one ordinal on each side for the bounds of a range.
type ordinalRange struct {
	first, count int
}

// buildQuery builds a query or a scan.
func (d *scenarioBuilder) buildQuery(s *Step) error {
	a := s.Action
	matches, reads := s.itemsOfRun()
	c := &ordinalRange{first: d.base + d.next, count: matches}
	found, rejected := d.sample(s, s.Entity, 0, d.m.requiredValues(s)), d.sample(s, s.Entity, 0, d.m.requiredValues(s))
	found.remember()
	for i := range c.count {
		if err := d.store(s, s.Entity, found.at(d.base+d.next+1+i).item()); err != nil {
			return err
		}
	}
	d.reject(rejected, s, c)
	rejected.remember()
	for i := range reads - c.count {
		if err := d.store(s, s.Entity, rejected.at(d.base+d.next+c.count+2+i).item()); err != nil {
			return err
		}
	}
	next := d.next + reads + 3
	for _, w := range a.With {
		e, _ := d.m.Entity(w.Name)
		n, _ := parseCount(w.Value.text)
		for range int(n) {
			if err := d.store(s, e, d.sample(s, e, next, a.Where).item()); err != nil {
				return err
			}
			next++
		}
	}
	for shard := range s.Shards {
		if err := d.addQuery(s, c, shard); err != nil {
			return err
		}
	}
	return d.checkCount(s, reads)
}

// requiredValues returns the values that items must have for a query to find
// them: those in its conditions, and those that put the items into the index.
func (m *Model) requiredValues(s *Step) []*Setting {
	asked := slices.Clone(s.Action.Where)
	if s.Index == nil {
		return asked
	}
	for _, a := range s.Index.schema.Key.All() {
		f, ok := s.Entity.byName[a.Name]
		if !ok {
			continue
		}
		for _, w := range f.requires {
			if _, given := named(asked, w.Name); !given {
				asked = append(asked, &Setting{Name: w.Name, Value: listedLiteral(s.Entity.byName[w.Name], w.Value.Texts()[0])})
			}
		}
	}
	return asked
}

// reject gives an item values that the filter rejects.
func (d *scenarioBuilder) reject(x *sample, s *Step, c *ordinalRange) {
	for _, name := range s.selective() {
		f := s.Entity.byName[name]
		delete(x.fixed, name)
		switch r := s.Action.Range; {
		case r != nil && r.Attribute == name && (r.Is == "after" || r.Is == "from"):
			x.shared[name] = c.first
		case r != nil && r.Attribute == name:
			x.shared[name] = c.first + c.count + 2
		case f.Attribute != nil && len(f.Attribute.Values) > 0:
			wanted, _ := named(s.Action.Where, name)
			for _, other := range f.Attribute.Values {
				if wanted == nil || other != wanted.Value.text {
					x.fixed[name], _ = listedLiteral(f, other).value(f.Type)
				}
			}
		case f.Type == item.BOOL:
			wanted, given := named(s.Action.Where, name)
			x.fixed[name] = item.Bool(given && wanted.Value.text != "true")
		default:
			x.shared[name] = d.base + d.freshOffset()
		}
	}
}

// addQuery adds one query and predicts its reply by evaluating its expressions
// with package expr.
func (d *scenarioBuilder) addQuery(s *Step, c *ordinalRange, shard int) error {
	x := d.queryOf(s, shard)
	r := compose(d.plan, []*Step{s}, []renderer{&requestRenderer{sample: x, matching: c}}, nil)
	want, pages, err := d.predict(s, r)
	if err != nil {
		return err
	}
	d.accesses = s.pagesOf(x, pages)
	d.addCall(Call{Request: r, Follow: s.Action.Page == 0, Targets: s.queried(x), Want: want})
	return nil
}

// queryOf returns the sample that has the values of a query of one shard.
func (d *scenarioBuilder) queryOf(s *Step, shard int) *sample {
	x := d.sample(s, s.Entity, d.next+1, d.m.requiredValues(s))
	if s.shard != nil {
		x.fixed[s.shard.Name] = shardValue(s.shard, shard)
	}
	return x
}

// queried is the partition that a query reads, by the values of one of its
// items; a scan reads all partitions.
func (s *Step) queried(x *sample) []Target {
	if s.Action.verb == Scan {
		return nil
	}
	t := Target{Table: s.Table.Name}
	if s.Index != nil {
		t.Index = s.Index.Name
	}
	key := make(map[string]item.Value)
	for _, k := range s.Partition {
		key[k.Name] = x.value(k.field)
	}
	t.Item = item.Make(key)
	return []Target{t}
}

// predict returns the reply to a query, and the units of each page.
func (d *scenarioBuilder) predict(s *Step, r Request) (want Want, pages []float64, err error) {
	b := new(expr.Bindings)
	if names, ok := r.Body["ExpressionAttributeNames"].(map[string]string); ok {
		b.Names = names
	}
	if values, ok := r.Body["ExpressionAttributeValues"].(map[string]any); ok {
		b.Values = valuesOf(values)
	}
	keep, err := bound(r.Body["FilterExpression"], expr.FilterExpression, b)
	if err != nil {
		return Want{}, nil, err
	}
	inRange, err := bound(r.Body["KeyConditionExpression"], expr.KeyConditionExpression, b)
	if err != nil {
		return Want{}, nil, err
	}
	entries := d.entries(s, inRange)
	var partitions int
	if s.Action.verb == Scan {
		partitions = s.Table.schema.Partitions()
	}
	limit := s.Action.Page
	if s.Index != nil {
		want.Index = s.Index.Name
	}
	var cost capacity.Consumed
	page, scan := 0, capacity.Scan{Consistent: s.Action.Consistent}
	turn := func() {
		units := capacity.Read(page, s.Action.Consistent)
		if partitions > 0 {
			units = scan.Units()
			scan = capacity.Scan{Consistent: s.Action.Consistent, Partition: scan.Partition}
		}
		if s.Index == nil {
			cost.Table += units
		} else {
			cost.Charge(s.Index.Name, s.Index.schema.Global, units)
		}
		want.Pages++
		pages = append(pages, units)
		page = 0
	}
	for _, e := range entries {
		it := e.it
		if limit > 0 && (want.Scanned == limit || want.Pages > 0) {
			break
		}
		want.Scanned++
		if keep.Holds(it) {
			want.Count++
		}
		if partitions > 0 {
			scan.Enter(keyspace.PartitionOf(e.key, partitions))
			scan.Add(it.Size())
		}
		if page += it.Size(); page >= MaxPageBytes {
			turn() // the end of the partition may need a page of its own
		}
	}
	if limit == 0 || want.Pages == 0 {
		if limit == 0 || want.Scanned < limit {
			scan.Enter(partitions - 1)
		}
		turn()
	}
	charge(&want.Read, s.Table.Name, cost)
	for _, u := range want.Read {
		d.addReadLoad(s, nil, u.Total())
	}
	return want, pages, nil
}

func bound(text any, kind expr.Kind, b *expr.Bindings) (*expr.Condition, error) {
	s, ok := text.(string)
	if !ok {
		return new(expr.Condition), nil
	}
	parsed, err := expr.ParseCondition(kind, s)
	if err != nil {
		return nil, err
	}
	return parsed.Bind(b)
}

// storedEntry is an item or an index entry, and where it is stored.
type storedEntry struct {
	key []byte
	it  item.Item
}

// entries returns the items that a query finds, in its order.
func (d *scenarioBuilder) entries(s *Step, inRange *expr.Condition) []storedEntry {
	var found []storedEntry
	t := s.Table.schema
	for _, stored := range d.scenario.Before {
		if stored.Table != t.Name {
			continue
		}
		e := storedEntry{keyspace.Item(nil, t, stored.Item), stored.Item}
		if s.Index != nil {
			if !s.Index.schema.Key.In(stored.Item) {
				continue
			}
			e = storedEntry{keyspace.Entry(nil, t, s.Index.schema, stored.Item), t.Entry(s.Index.schema, stored.Item)}
		}
		if inRange.Holds(e.it) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b storedEntry) int {
		if s.Reverse {
			a, b = b, a
		}
		return bytes.Compare(a.key, b.key)
	})
	return found
}

// checkCount checks that the query finds as many items as the pattern declares.
func (d *scenarioBuilder) checkCount(s *Step, reads int) error {
	if s.Action.Page > 0 || s.Action.verb == Scan {
		return nil
	}
	scanned, kept := 0, 0
	for _, c := range d.scenario.Calls {
		scanned += c.Want.Scanned
		kept += c.Want.Count
	}
	if scanned < reads {
		return fmt.Errorf("%q expects %d items, but its key condition matches %d of them", d.plan.Pattern.Name, reads, scanned)
	}
	if most := scanned - reads + max(1, s.Action.Matches); kept > most && len(s.Filter) > 0 {
		return fmt.Errorf("%q expects %d items of %d, but its filter cannot reject the others: all values of %s are the same",
			d.plan.Pattern.Name, max(1, s.Action.Matches), reads, strings.Join(s.Filter, ", "))
	}
	return nil
}

// bounds returns the values of a range on a key.
func (c *ordinalRange) bounds(x *sample, k *KeyPart) []any {
	ends := c.around(x, x.entity.byName[k.ranged], k.rangeIs)
	if len(k.template.parts) == 1 && !k.suffix {
		return ends
	}
	begin := k.beforeRange()
	text := func(i int) string { return plain(ends[i].(requestValue).value) }
	var values []any
	for _, v := range k.rangeValues(x.fill(&begin), text(0), text(len(ends)-1)) {
		values = append(values, requestValue{item.String(v)})
	}
	return values
}

// around returns values of a field such that the matching items are in the
// range.
func (c *ordinalRange) around(x *sample, f *Field, is string) []any {
	switch is {
	case "before":
		return []any{requestValue{c.at(x, f, c.count+1)}}
	case "until":
		return []any{requestValue{c.at(x, f, c.count)}}
	case "after":
		return []any{requestValue{c.at(x, f, 0)}}
	case "from":
		return []any{requestValue{c.at(x, f, 1)}}
	case "between":
		return []any{requestValue{c.at(x, f, 1)}, requestValue{c.at(x, f, c.count)}}
	}
	return []any{requestValue{item.String(common(plain(c.at(x, f, 1)), plain(c.at(x, f, c.count))))}}
}

// at is the value of a field in the i-th item.
func (c *ordinalRange) at(x *sample, f *Field, i int) item.Value {
	other := *x
	other.shared, other.known = nil, nil
	other.ordinal = c.first + i
	return other.value(f)
}

// common is the common prefix of two texts, without the last letter.
func common(a, b string) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	n = max(1, min(n, len(a)-1))
	return strings.ToValidUTF8(a[:min(n, len(a))], "")
}
