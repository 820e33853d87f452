package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
)

// Plan is what a migration does.
type Plan struct {
	Entities []*EntityPlan  `json:"entities"`
	Patterns []*PatternPlan `json:"patterns"`
	Changes  []string       `json:"changes,omitempty"` // of tables that keep their keys
	Estimate *Estimate      `json:"estimate,omitempty"`
	Faults   []string       `json:"faults,omitempty"` // if there are any, the plan cannot be executed
	Notes    []string       `json:"notes,omitempty"`

	old, new  *model.Model
	unmatched string
	forward   *mapping
	sources   []*model.Table  // of the old model, which are copied
	targets   []*model.Table  // of the new model, which get the copies
	rewritten map[string]bool // tables that keep their keys and get index keys
}

// The kinds of an entity's plan.
const (
	Copied    = "copied"
	Rewritten = "updated in place" // its items get the keys of new indexes
	Unchanged = "unchanged"
)

// EntityPlan is what becomes of the items of an entity.
type EntityPlan struct {
	Entity string  `json:"entity"`
	Kind   string  `json:"kind"`
	Before string  `json:"before"` // table and key
	After  string  `json:"after"`
	Items  float64 `json:"items,omitempty"` // estimated
}

// PatternPlan is how an access pattern is served before and after.
type PatternPlan struct {
	Pattern string `json:"pattern"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
}

// The treatments of items that match no entity.
const (
	StopUnmatched = "stop"
	CopyUnmatched = "copy"
)

// makePlan compares two models.
func makePlan(old, new *model.Model, unmatched string) *Plan {
	p := &Plan{old: old, new: new, unmatched: unmatched, rewritten: make(map[string]bool), Entities: []*EntityPlan{}, Patterns: []*PatternPlan{}}
	p.classify()
	p.forward = newMapping()
	p.forward.back = newMapping()
	p.forward.back.back = p.forward
	for _, t := range old.Tables {
		p.forward.sources[t.Name] = t
	}
	for _, t := range new.Tables {
		p.forward.back.sources[t.Name] = t
	}
	for _, e := range old.Entities {
		p.entity(e)
	}
	for _, e := range new.Entities {
		if _, ok := old.Entity(e.Name); !ok {
			p.forward.back.ignored[e.TableOf().Name] = append(p.forward.back.ignored[e.TableOf().Name], e)
			p.Notes = append(p.Notes, fmt.Sprintf("the old model has no entity %s: a rollback does not keep its items", e.Name))
		}
	}
	if unmatched == CopyUnmatched {
		p.copyUnmatched()
	}
	p.patterns()
	return p
}

func newMapping() *mapping {
	return &mapping{entities: map[string][]*entityMapping{}, copies: map[string]*model.Table{}, ignored: map[string][]*model.Entity{}, sources: map[string]*model.Table{}, keysOnly: map[string]bool{}}
}

func (p *Plan) fault(format string, args ...any) {
	p.Faults = append(p.Faults, fmt.Sprintf(format, args...))
}

// classify finds the tables that are copied, and checks those that stay.
func (p *Plan) classify() {
	for _, t := range p.old.Tables {
		stays, ok := p.new.Table(t.Name)
		if !ok {
			p.sources = append(p.sources, t)
			continue
		}
		if !sameKey(t.Schema().Key, stays.Schema().Key) {
			p.fault("table %s has another key in the new model: give the new table another name", t.Name)
		}
		for _, x := range t.Indexes {
			y, ok := stays.Index(x.Name)
			if ok && !sameKey(x.Schema().Key, y.Schema().Key) {
				p.fault("index %s of table %s has another key in the new model: give the new index another name", x.Name, t.Name)
			}
		}
	}
	for _, t := range p.new.Tables {
		if _, ok := p.old.Table(t.Name); !ok {
			p.targets = append(p.targets, t)
		}
	}
}

func sameKey(a, b schema.Key) bool {
	return slices.Equal(a.Partition, b.Partition) && slices.Equal(a.Sort, b.Sort)
}

// entity plans one entity of the old model.
func (p *Plan) entity(e *model.Entity) {
	to, ok := p.new.Entity(e.Name)
	if !ok {
		p.fault("the new model has no entity %s: its items would be lost", e.Name)
		return
	}
	from, into := e.TableOf().Name, to.TableOf().Name
	plan := &EntityPlan{Entity: e.Name, Kind: Copied, Before: describeKey(e), After: describeKey(to)}
	p.Entities = append(p.Entities, plan)
	_, stays := p.new.Table(from)
	_, existed := p.old.Table(into)
	switch {
	case from == into:
		p.inPlaceEntity(e, to, plan)
		return
	case stays:
		p.fault("entity %s leaves table %s, which the new model has too: give that table another name in the new model", e.Name, from)
		return
	case existed:
		p.fault("entity %s moves into table %s, which the old model has too: give that table another name in the new model", e.Name, into)
		return
	}
	x, err := mapEntity(e, to)
	if err != nil {
		p.fault("%v", err)
		return
	}
	back, err := mapEntity(to, e)
	if err != nil {
		p.fault("%v", err)
		return
	}
	if err := cmp.Or(x.checkConditions("old", "new"), back.checkConditions("new", "old")); err != nil {
		p.fault("%v", err)
		return
	}
	p.forward.entities[from] = append(p.forward.entities[from], x)
	p.forward.back.entities[into] = append(p.forward.back.entities[into], back)
	p.noteShards(e, to)
}

// noteShards notes shard numbers that the migration computes.
func (p *Plan) noteShards(e, to *model.Entity) {
	for _, f := range to.Fields() {
		if f.Attribute == nil || f.Attribute.Shards == 0 {
			continue
		}
		if old, ok := e.Field(f.Name); ok && old.SameShard(f) {
			continue
		}
		of := "the key"
		if f.Attribute.Of != "" {
			of = f.Attribute.Of
		}
		p.Notes = append(p.Notes, fmt.Sprintf("%s of %s is computed as the FNV-1a hash (64 bits) of %s modulo %d; the application must use the same", f.Name, e.Name, of, f.Attribute.Shards))
	}
}

// inPlaceEntity plans an entity that stays in its table.
func (p *Plan) inPlaceEntity(e, to *model.Entity, plan *EntityPlan) {
	plan.Kind = Unchanged
	if !sameKey(e.TableOf().Schema().Key, to.TableOf().Schema().Key) {
		return // classify reports it
	}
	for _, a := range e.TableOf().Schema().Key.All() {
		was, _ := e.Field(a.Name)
		is, _ := to.Field(a.Name)
		if was.Template() != is.Template() {
			p.fault("%s of entity %s has another template in the new model: give the new table another name", a.Name, e.Name)
			return
		}
	}
	for _, f := range to.Fields() {
		was, ok := e.Field(f.Name)
		switch {
		case !f.Templated() || !f.Stored || to.TableOf().Schema().Key.Has(f.Name):
		case !ok:
			plan.Kind = Rewritten
			p.rewritten[e.TableOf().Name] = true
		case was.Template() != f.Template():
			p.fault("%s of entity %s has another template in the new model, but the old index still uses it: give the new key another name", f.Name, e.Name)
		}
	}
	x := &entityMapping{from: e, to: to}
	if err := x.checkConditions("old", "new"); err != nil {
		p.fault("%v", err)
		return
	}
	p.forward.entities[e.TableOf().Name] = append(p.forward.entities[e.TableOf().Name], x)
	p.forward.back.entities[e.TableOf().Name] = append(p.forward.back.entities[e.TableOf().Name], &entityMapping{from: to, to: e})
}

// copyUnmatched decides where items go that match no entity.
func (p *Plan) copyUnmatched() {
	if len(p.sources) == 0 {
		return
	}
	if len(p.sources) != 1 || len(p.targets) != 1 {
		p.fault("unmatched items can be copied only from one table to one")
		return
	}
	from, to := p.sources[0], p.targets[0]
	if !sameKey(from.Schema().Key, to.Schema().Key) {
		p.fault("unmatched items cannot be copied: the tables %s and %s have different key attributes", from.Name, to.Name)
		return
	}
	p.forward.copies[from.Name] = to
	p.forward.back.copies[to.Name] = from
}

// patterns adds how each pattern is served before and after.
func (p *Plan) patterns() {
	served := func(m *model.Model, name string) string {
		i := slices.IndexFunc(m.Patterns, func(q *model.Pattern) bool { return q.Name == name })
		if i < 0 {
			return ""
		}
		plan := m.Plan(m.Patterns[i])
		if !plan.Served() {
			return "not served"
		}
		return plan.Operation + " of " + plan.By()
	}
	var names []string
	for _, q := range slices.Concat(p.old.Patterns, p.new.Patterns) {
		if !slices.Contains(names, q.Name) {
			names = append(names, q.Name)
		}
	}
	for _, name := range names {
		p.Patterns = append(p.Patterns, &PatternPlan{name, served(p.old, name), served(p.new, name)})
	}
}

// describeKey shows the table and the key of an entity.
func describeKey(e *model.Entity) string {
	var parts []string
	for _, a := range e.TableOf().Schema().Key.All() {
		f, _ := e.Field(a.Name)
		parts = append(parts, a.Name+" "+f.Template())
	}
	return e.TableOf().Name + " (" + strings.Join(parts, ", ") + ")"
}

// inPlace reports whether a table keeps its items.
func (p *Plan) inPlace(table string) bool {
	_, stays := p.new.Table(table)
	return stays
}

// sourceNames returns the tables whose items are read: those that are copied,
// and those that get index keys.
func (p *Plan) sourceNames() (names []string) {
	for _, t := range p.old.Tables {
		if !p.inPlace(t.Name) || p.rewritten[t.Name] {
			names = append(names, t.Name)
		}
	}
	return names
}

func (p *Plan) targetNames() (names []string) {
	for _, t := range p.targets {
		names = append(names, t.Name)
	}
	return names
}

// needsImages reports whether the stream of a table must have old images.
func (m *mapping) needsImages(table string) bool {
	return slices.ContainsFunc(m.entities[table], func(x *entityMapping) bool { return x.needsImage })
}
