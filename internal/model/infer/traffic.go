package infer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/workload"
)

// AddTraffic derives access patterns from the requests that a server has
// counted until now. Each shape of requests is a pattern of the entity whose
// keys have its prefixes, with the measured rate.
func (r *Result) AddTraffic(traffic workload.Report, now time.Time) { r.addTraffic(traffic, now, true) }

// AddLog derives access patterns from the requests of a log, which says nothing of their
// replies: a query is assumed to return the items that a partition of the sample has.
func (r *Result) AddLog(traffic workload.Report, until time.Time) {
	r.addTraffic(traffic, until, false)
}

func (r *Result) addTraffic(traffic workload.Report, now time.Time, replies bool) {
	d := &trafficReader{r: r, seconds: max(1, now.Sub(traffic.Since).Seconds()), replies: replies}
	for _, c := range traffic.Shapes {
		if !slices.ContainsFunc(r.tables, func(s *TableSample) bool { return s.Table.Name == c.Table }) || c.Requests == 0 {
			continue
		}
		if combinedOf(c.Operation) != "" {
			d.addCombined(c)
		} else {
			d.addSingle(c)
		}
	}
	d.endCombined()
	if traffic.Other.Requests > 0 {
		r.Unmatched = append(r.Unmatched, plural(traffic.Other.Requests, "request")+" had more shapes than the server counts")
	}
	for r.validate(); r.dropContradicted(); r.validate() { // what an item has decides whether a condition can hold
	}
	r.namePatterns()
}

// Schemas returns the tables as the model describes them.
func (r *Result) Schemas() (tables []*schema.Table, err error) {
	m, err := model.Parse(r.Name, (&Result{Name: r.Name, Entities: r.Entities, tables: r.tables}).text())
	if err != nil {
		return nil, fmt.Errorf("what was derived is not a valid model: %w", err)
	}
	for _, t := range m.Tables {
		tables = append(tables, t.Schema())
	}
	return tables, nil
}

// trafficReader derives patterns from the counts of a server.
type trafficReader struct {
	r        *Result
	seconds  float64 // during which the requests were counted
	replies  bool    // the items that the requests returned are counted
	combined []*combinedPattern
}

// unmatched records a shape from which no pattern is derived.
func (d *trafficReader) unmatched(c workload.ShapeCount, why string) {
	text := c.Operation + " of " + c.Table
	for _, part := range []string{c.Index, c.Form, c.Partition, c.Sort, c.Actions} {
		if part != "" {
			text += " " + part
		}
	}
	d.r.Unmatched = append(d.r.Unmatched, fmt.Sprintf("%s: %s (%s)", text, why, plural(c.Requests, "request")))
}

// maxAlternatives is the most entities among which the requests of a shape are
// divided.
const maxAlternatives = 4

// addSingle adds the patterns of requests with one action. If the keys of
// several entities have the prefixes, the requests are divided among them. Requests
// that differ only in ways that a model does not show are one pattern.
func (d *trafficReader) addSingle(c workload.ShapeCount) {
	found := d.entitiesOf(c.Table, c.Index, c.Partition, c.Sort, readsPartition(c))
	if c.Operation == "Scan" {
		found = d.entitiesIn(c.Table, c.Index)
	}
	alternatives := alternativesOf(withAttributes(found, c), c)
	if len(alternatives) == 0 {
		d.unmatched(c, "no entity has such keys")
		return
	}
	divided := min(len(alternatives), maxAlternatives)
	for _, e := range alternatives[:divided] {
		a := d.action(c, e, found)
		if a == nil {
			d.unmatched(c, "a model has no such operation")
			return
		}
		runs := float64(c.Requests) / float64(divided)
		if len(alternatives) > 1 {
			a.Notes = append(a.Notes, fmt.Sprintf("the keys of %s have the same prefix; the requests are divided evenly", namesOf(alternatives)))
		}
		if n := e.shardsAsked(a); n > 1 {
			runs /= float64(n) // a run asks each shard
			a.Matches *= n
			a.Reads *= n
		}
		d.join(&Pattern{Actions: []*Action{a}, Requests: c.Requests, perSecond: runs / d.seconds})
	}
}

// alternativesOf returns the entities of which each may be what requests are
// about. A query of a whole partition is about all entities in it, and the first
// stands for them.
func alternativesOf(found []*Entity, c workload.ShapeCount) (all []*Entity) {
	if c.Operation == "Scan" {
		return found[:min(1, len(found))]
	}
	for _, e := range found {
		together := func(x *Entity) bool { return readsPartition(c) && samePartition(x, e, c.Index) }
		if !slices.ContainsFunc(all, together) {
			all = append(all, e)
		}
	}
	return all
}

// readsPartition reports whether a request reads all items of a partition.
func readsPartition(c workload.ShapeCount) bool {
	return c.Operation == "Query" && !strings.Contains(c.Form, " AND ")
}

// join adds a pattern to the result, or to an equal one.
func (d *trafficReader) join(p *Pattern) {
	same := func(x *Pattern) bool {
		return x.Combined == p.Combined && x.actionsText() == p.actionsText()
	}
	if at := slices.IndexFunc(d.r.Patterns, same); at >= 0 {
		x := d.r.Patterns[at]
		x.Requests += p.Requests
		x.perSecond += p.perSecond
		p = x
	} else {
		d.r.Patterns = append(d.r.Patterns, p)
	}
	p.Rate = rateText(p.perSecond)
	p.Guess = fmt.Sprintf("%s in %s", plural(p.Requests, "request"), spanText(d.seconds))
}

// spanText writes a span of time.
func spanText(seconds float64) string {
	for _, u := range []struct {
		name    string
		seconds float64
	}{{"days", 86400}, {"hours", 3600}, {"minutes", 60}} {
		if seconds >= 2*u.seconds {
			return number(seconds/u.seconds) + " " + u.name
		}
	}
	if text := number(seconds); text != "1" {
		return text + " seconds"
	}
	return "1 second"
}

// shardsAsked is the number of requests that a query makes because it does not
// know the shard.
func (e *Entity) shardsAsked(a *Action) int {
	if a.Verb != "query" {
		return 1
	}
	for _, name := range e.partitionOf(a.Index) {
		for _, leaf := range e.leaves(name) {
			if x := e.attribute(leaf); x != nil && x.Shards > 0 && !slices.Contains(a.Given, leaf) {
				return x.Shards
			}
		}
	}
	return 1
}

// partitionOf returns the partition key of the table or of an index, and sortOf
// the sort key.
func (e *Entity) partitionOf(index string) []string {
	t := e.group.sample.Table
	if x, ok := t.Index(index); ok && !x.Local {
		return x.Partition
	}
	return []string{t.Key.Partition}
}

func (e *Entity) sortOf(index string) []string {
	t := e.group.sample.Table
	if x, ok := t.Index(index); ok {
		return x.Sort
	}
	if t.Key.Sort == "" {
		return nil
	}
	return []string{t.Key.Sort}
}

// likeness is how many keys of an entity have the prefixes of a request and no
// others have; ok is false if some key cannot have its prefix.
func (e *Entity) likeness(index, partition, sort string, unknownSort bool) (likeness int, ok bool) {
	for _, k := range []struct {
		names   []string
		text    string
		unknown bool
	}{{e.partitionOf(index), partition, false}, {e.sortOf(index), sort, unknownSort}} {
		if k.unknown {
			continue
		}
		prefixes := strings.Split(k.text, ",")
		for i, name := range k.names {
			prefix := ""
			if i < len(prefixes) {
				prefix = prefixes[i]
			}
			same, sure := e.hasPrefix(name, prefix)
			if !same {
				return 0, false
			}
			if sure {
				likeness++
			}
		}
	}
	return likeness, true
}

// hasPrefix reports whether a key of an entity may have a prefix, and whether it
// identifies the entity.
func (e *Entity) hasPrefix(key, prefix string) (ok, sure bool) {
	if prefix == workload.Unknown {
		return true, false
	}
	k := e.key(key)
	if k == nil {
		a := e.attribute(key)
		if a == nil || a.Type != "S" || len(a.Values) == 0 {
			return true, false
		}
		has := func(v string) bool { return string(workload.Prefix([]byte(v))) == prefix }
		return slices.ContainsFunc(a.Values, has), prefix != ""
	}
	known := workload.KeyPrefix{Literal: k.parts[0].text, Whole: len(k.parts) == 1 && k.parts[0].name == ""}
	return known.Matches(prefix)
}

// entitiesOf returns the entities that a request may be about, the most likely
// ones only.
func (d *trafficReader) entitiesOf(table, index, partition, sort string, unknownSort bool) (found []*Entity) {
	most := 0
	for _, e := range d.entitiesIn(table, index) {
		likeness, ok := e.likeness(index, partition, sort, unknownSort)
		if !ok {
			continue
		}
		if likeness > most {
			found, most = nil, likeness
		}
		if likeness == most {
			found = append(found, e)
		}
	}
	return found
}

// entitiesIn returns the entities that a table or an index contains, those with
// the most items in a partition first.
func (d *trafficReader) entitiesIn(table, index string) (all []*Entity) {
	for _, e := range d.r.Entities {
		if e.Table == table && e.itemsWith(slices.Concat(e.partitionOf(index), e.sortOf(index))) > 0 {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *Entity) int {
		return cmp.Or(cmp.Compare(b.perPartition(index), a.perPartition(index)), cmp.Compare(b.Count, a.Count))
	})
	return all
}

// action derives the action of a request on an entity; nil if a model has no
// such operation. found are all entities that fit.
func (d *trafficReader) action(c workload.ShapeCount, e *Entity, found []*Entity) *Action {
	a := &Action{Entity: e.Name, Consistent: c.Consistent}
	switch c.Operation {
	case "GetItem":
		a.Verb, a.Given = "get", e.keyLeaves()
	case "Query":
		a.Verb = "query"
		e.query(a, c)
		if !d.replies {
			e.assumeMatches(a, c)
		}
		d.neighbours(a, e, found, c)
	case "Scan":
		a.Verb, a.Index = "scan", c.Index
		a.Matches = perRequest(c.Returned, c.Requests)
	case "PutItem":
		a.Verb, a.Replaces = "put", !c.Condition
	case "UpdateItem":
		a.Verb, a.Given = "update", e.keyLeaves()
		e.changes(a, c)
	case "DeleteItem":
		a.Verb, a.Given = "delete", e.keyLeaves()
	default:
		return nil
	}
	e.project(a, c.Projection)
	if c.Condition {
		e.condition(a, c.ConditionText)
	}
	return a
}

func namesOf(all []*Entity) string {
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return strings.Join(names, " and ")
}

// perRequest is the typical number of items of a request, at least one.
func perRequest(items, requests int64) int {
	return int(max(1, (items+requests/2)/max(1, requests)))
}

// project sets the attributes that a read returns, if the entity has them all.
func (e *Entity) project(a *Action, projection string) {
	if projection == "" {
		return
	}
	var returns []string
	for name := range strings.SplitSeq(projection, ", ") {
		if e.attribute(name) == nil && e.key(name) == nil {
			a.Notes = append(a.Notes, "it returns only "+projection)
			return
		}
		returns = append(returns, name)
	}
	a.Returns = returns
}

// neighbours adds the other entities that a query reads because they are in the
// same partition.
func (d *trafficReader) neighbours(a *Action, e *Entity, found []*Entity, c workload.ShapeCount) {
	if !readsPartition(c) {
		return
	}
	for _, x := range found {
		if x == e || !samePartition(e, x, c.Index) {
			continue
		}
		n := max(1, int(x.perPartition(c.Index)+0.5))
		a.With = append(a.With, Assignment{x.Name, fmt.Sprint(n)})
		a.Matches = max(1, a.Matches-n)
	}
}

// samePartition reports whether two entities are in the same partitions.
func samePartition(a, b *Entity, index string) bool {
	for _, name := range a.partitionOf(index) {
		x, y := a.key(name), b.key(name)
		if (x == nil) != (y == nil) || x != nil && x.Template != y.Template {
			return false
		}
	}
	return true
}

// perPartition is the average number of items in a partition; 0 if there can be
// only one.
func (e *Entity) perPartition(index string) float64 {
	constant := func(name string) bool { return len(e.leaves(name)) == 0 }
	if index == "" && !slices.ContainsFunc(e.sortOf(index), func(name string) bool { return !constant(name) }) {
		return 0
	}
	values := make(map[string]bool)
	items := 0
	for _, row := range e.group.rows {
		id := ""
		for _, name := range e.partitionOf(index) {
			id += row.text[name] + "\x00"
		}
		values[id] = true
		items++
	}
	return float64(items) / float64(max(1, len(values)))
}

// validate removes what makes a pattern invalid: its condition first, then the
// pattern itself.
func (r *Result) validate() {
	if r.valid(r.Patterns...) {
		return
	}
	kept := r.Patterns[:0]
	for _, p := range r.Patterns {
		if r.valid(p) || p.withoutConditions() && r.valid(p) {
			kept = append(kept, p)
			continue
		}
		r.Unmatched = append(r.Unmatched, fmt.Sprintf("%s: a model cannot describe it (%s)", p.title(), plural(p.Requests, "request")))
	}
	r.Patterns = kept
}

// valid reports whether a model with only these patterns can be read, and their
// conditions can hold.
func (r *Result) valid(patterns ...*Pattern) bool {
	faults, err := r.check(patterns...)
	return err == nil && !slices.ContainsFunc(faults, func(f *model.Fault) bool { return f.Code == "condition" })
}

// check returns the faults of a model with only these patterns, each of which is named by its
// place.
func (r *Result) check(patterns ...*Pattern) ([]*model.Fault, error) {
	some := &Result{Name: r.Name, Entities: r.Entities, tables: r.tables}
	for i, p := range patterns {
		named := *p
		named.Name = strconv.Itoa(i)
		some.Patterns = append(some.Patterns, &named)
	}
	m, err := model.Parse(r.Name, some.text())
	if err != nil {
		return nil, err
	}
	return m.Check(model.DefaultPrices()).Faults, nil
}

// withoutConditions removes the conditions of a pattern and reports whether it
// had any.
func (p *Pattern) withoutConditions() (had bool) {
	for _, a := range p.Actions {
		if a.Condition != "" {
			had = true
			a.Notes = append(a.Notes, "it has a condition that could not be derived: "+a.Condition)
			a.Condition, a.Values = "", nil
			a.Replaces = a.Verb == "put"
		}
	}
	return had
}

// title describes a pattern.
func (p *Pattern) title() string {
	var words []string
	for _, a := range p.Actions {
		text := a.Verb + " " + a.Entity
		if a.Index != "" {
			text += " by " + a.Index
		}
		words = appendNew(words, text)
	}
	return strings.Join(words, ", ")
}

// namePatterns gives each pattern a name of its own.
func (r *Result) namePatterns() {
	taken := make(map[string]bool)
	for _, p := range r.Patterns {
		title := p.title()
		if len(title) > 80 {
			title = p.Combined + " of " + p.Actions[0].Verb + " " + p.Actions[0].Entity + " and others"
		}
		names := []string{title}
		if a := p.Actions[0]; len(p.Actions) == 1 {
			if a.Range != nil {
				names = append(names, title+" and "+a.Range.Attribute)
			}
			var set []string
			for _, s := range a.Set {
				set = append(set, s.Name)
			}
			if len(set) > 0 && len(set) <= 4 {
				names = append(names, title+" "+strings.Join(set, ", "))
			}
			if a.Condition != "" {
				names = append(names, title+" if "+a.Condition)
			}
			if a.Consistent {
				names = append(names, title+", consistent")
			}
		}
		for n := 2; p.Name == ""; n++ {
			for _, name := range names {
				if p.Name == "" && !taken[name] && len(name) <= 120 {
					p.Name = name
				}
			}
			names = []string{fmt.Sprintf("%s (%d)", title, n)}
		}
		taken[p.Name] = true
	}
}
