package model

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
)

// Parse reads a model. Its error is a *SyntaxError that lists every part of the
// text that is invalid; Check reports what is wrong with the design itself.
// file is the name to use in errors.
func Parse(file string, text []byte) (*Model, error) {
	m := new(Model)
	r := &resolver{m: m, faults: decode(text, m, "model", "model")}
	if len(r.faults) == 0 {
		r.resolve()
	}
	if len(r.faults) > 0 {
		slices.SortStableFunc(r.faults, func(a, b *Fault) int { return a.Position.compare(b.Position) })
		return nil, &SyntaxError{File: file, Faults: r.faults}
	}
	return m, nil
}

// resolver replaces the names in a model by the objects that they refer to, and
// checks each part.
type resolver struct {
	m      *Model
	faults []*Fault
}

func (r *resolver) fault(at Position, format string, args ...any) {
	if len(r.faults) < maxFaults {
		r.faults = append(r.faults, &Fault{Code: "syntax", Message: fmt.Sprintf(format, args...), Position: at})
	}
}

// resolve checks tables, entities, machines, patterns and rules in this order.
// It stops after the first of these with faults, since later faults would only
// repeat them.
func (r *resolver) resolve() {
	m := r.m
	if m.Version != Version {
		r.fault(m.At("model"), "the model has version %d; this program supports version %d", m.Version, Version)
	}
	for _, step := range []func(){r.tables, r.entities, r.machines, r.patterns, r.rules} {
		if step(); len(r.faults) > 0 {
			return
		}
	}
	if b := m.Budgets; b != nil && b.Partition > 1 {
		r.fault(b.At("partition"), "a share of a partition must be at most 1, not %v", b.Partition)
	}
}

// Limits of the service, then those of a model.
const (
	maxGlobalIndexes  = 20
	maxLocalIndexes   = 5
	maxKeyAttributes  = 4
	maxTransactItems  = 100
	maxBatchGets      = 100
	maxBatchWrites    = 25
	maxUpdateSettings = 50
	maxMatches        = 100_000
	maxShards         = 1_000
	maxTimes          = 1_000
	maxPatterns       = 1_000
	maxTemplateParts  = 16
	maxTemplateDepth  = 3
)

// resourceName matches the names of tables and indexes.
var resourceName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`) })

func (r *resolver) tables() {
	for i, t := range r.m.Tables {
		if !resourceName().MatchString(t.Name) {
			r.fault(t.Position, "%q is not a valid table name: use 3 to 255 letters, digits, and . _ -", t.Name)
		}
		s := &schema.Table{Name: t.Name, ID: uint32(i + 1), OnDemand: t.OnDemand(), TimeToLive: schema.TimeToLive{Attribute: t.TTL}}
		s.Key.Partition = []schema.Attribute{r.keyAttribute(t, s, t.Key.Partition)}
		if t.Key.Sort != "" {
			s.Key.Sort = []schema.Attribute{r.keyAttribute(t, s, t.Key.Sort)}
		}
		if t.Key.Partition == "" || t.Key.Partition == t.Key.Sort {
			r.fault(t.Key.Position, "a key needs a partition attribute, and a sort attribute must be a different one")
		}
		s.Recovery.Enabled = t.Recovery
		if t.Readers != nil && t.Stream == "" {
			r.fault(t.At("readers"), "%s has readers of its stream, but no stream", t.Name)
		}
		if t.Stream != "" {
			s.Streams = []schema.Stream{{View: t.Stream}}
		}
		r.indexes(t, s)
		r.billing(t, s)
		for _, k := range t.Types {
			if !s.Uses(k.Name) {
				var known []string
				for _, a := range s.Attributes {
					known = append(known, a.Name)
				}
				r.fault(k.Position, "%s is not in any key of table %s, so it needs no type here%s", k.Name, t.Name, suggest(k.Name, known))
			}
		}
		t.schema = s
		for i, x := range t.Indexes {
			x.schema = &s.Indexes[i]
		}
	}
}

// keyAttribute returns a key attribute with its type, and adds it once to the
// table's attributes.
func (r *resolver) keyAttribute(t *Table, s *schema.Table, name string) schema.Attribute {
	a := schema.Attribute{Name: name, Type: item.S}
	if k, ok := named(t.Types, name); ok {
		a.Type, _ = item.TypeNamed(k.Type)
	}
	if !slices.Contains(s.Attributes, a) {
		s.Attributes = append(s.Attributes, a)
	}
	return a
}

func (r *resolver) indexes(t *Table, s *schema.Table) {
	local, global := 0, 0
	for _, x := range t.Indexes {
		if !resourceName().MatchString(x.Name) {
			r.fault(x.Position, "%q is not a valid index name: use 3 to 255 letters, digits, and . _ -", x.Name)
		}
		is := schema.Index{Name: x.Name, Global: !x.Local}
		is.Projection = schema.Projection{Kind: cmp.Or(x.Projection.Kind, schema.ProjectAll), Names: x.Projection.Names}
		if x.Local {
			local++
			r.checkLocal(t, x)
			is.Key.Partition = s.Key.Partition
		} else {
			global++
			for _, name := range x.Partition {
				is.Key.Partition = append(is.Key.Partition, r.keyAttribute(t, s, name))
			}
		}
		for _, name := range x.Sort {
			is.Key.Sort = append(is.Key.Sort, r.keyAttribute(t, s, name))
		}
		r.checkIndexKey(x)
		if is.Projection.Kind == schema.ProjectInclude && len(is.Projection.Names) == 0 {
			r.fault(x.At("projection"), "a projection is ALL, KEYS_ONLY or a list of attributes")
		}
		s.AddIndex(is)
	}
	if global > maxGlobalIndexes || local > maxLocalIndexes {
		r.fault(t.At("indexes"), "a table can have at most %d global and %d local indexes", maxGlobalIndexes, maxLocalIndexes)
	}
}

// checkLocal checks the key of a local index against that of its table.
func (r *resolver) checkLocal(t *Table, x *Index) {
	if len(x.Partition) > 0 && (len(x.Partition) > 1 || x.Partition[0] != t.Key.Partition) {
		r.fault(x.At("partition"), "a local index must have the table's partition key, %s", t.Key.Partition)
	}
	if len(x.Sort) != 1 || t.Key.Sort == "" {
		r.fault(x.Position, "a local index needs exactly one sort key, and its table must have a sort key")
	}
}

// checkIndexKey checks the attributes in the key of an index.
func (r *resolver) checkIndexKey(x *Index) {
	if !x.Local && len(x.Partition) == 0 {
		r.fault(x.Position, "index %s has no partition key", x.Name)
	}
	if len(x.Partition) > maxKeyAttributes || len(x.Sort) > maxKeyAttributes {
		r.fault(x.Position, "index %s has more than %d attributes in its partition or sort key", x.Name, maxKeyAttributes)
	}
	if all := slices.Concat(x.Partition, x.Sort); len(slices.Compact(slices.Sorted(slices.Values(all)))) < len(all) {
		r.fault(x.Position, "the key of index %s names an attribute twice", x.Name)
	} else if slices.Contains(all, "") {
		r.fault(x.Position, "the key of index %s has an attribute without a name", x.Name)
	}
}

func (r *resolver) billing(t *Table, s *schema.Table) {
	check := func(c *Capacity, of *Location, member string) int64 {
		if c == nil {
			return 0
		}
		if t.OnDemand() {
			r.fault(of.At(member), "%s units require billing: provisioned", member)
		}
		if c.Max < c.Min || c.Target > 100 || c.Units == 0 && c.Min == 0 {
			r.fault(c.Position, "give units, or min and max; min must not exceed max, and target must not exceed 100")
		}
		return int64(max(c.Units, c.Min))
	}
	s.Throughput.Read = check(t.Read, &t.Location, "read")
	s.Throughput.Write = check(t.Write, &t.Location, "write")
	if !t.OnDemand() && (t.Read == nil || t.Write == nil) {
		r.fault(t.At("billing"), "billing: provisioned needs read and write units")
	}
	for i, x := range t.Indexes {
		if x.Local && (x.Read != nil || x.Write != nil) {
			r.fault(x.Position, "a local index cannot have units of its own")
		}
		u := &s.Indexes[i].Throughput
		u.Read, u.Write = check(x.Read, &x.Location, "read"), check(x.Write, &x.Location, "write")
		if !x.Local {
			u.Read, u.Write = cmp.Or(u.Read, s.Throughput.Read), cmp.Or(u.Write, s.Throughput.Write)
		}
	}
}

func (r *resolver) machines() {
	for _, k := range r.m.Machines {
		e, ok := r.m.Entity(k.Entity)
		if !ok {
			r.fault(k.At("entity"), "unknown entity %s%s", k.Entity, suggest(k.Entity, names(r.m.Entities)))
			continue
		}
		f, ok := e.Field(k.Attribute)
		if !ok || f.Attribute == nil || f.Type != item.S {
			r.fault(k.At("attribute"), "%s has no attribute %s of type S%s", e.Name, k.Attribute, suggest(k.Attribute, e.names()))
			continue
		}
		k.entity, k.field = e, f
		if len(f.Attribute.Values) == 0 {
			f.Attribute.Values = k.states()
		}
		r.transitions(k)
	}
}

// transitions checks that a machine has states, which its attribute can have.
func (r *resolver) transitions(k *Machine) {
	values := k.field.Attribute.Values
	known := func(at Position, states ...string) {
		for _, s := range states {
			if !slices.Contains(values, s) {
				r.fault(at, "%s of %s cannot be %q%s", k.Attribute, k.entity.Name, s, suggest(s, values))
			}
		}
	}
	if len(k.Initial) == 0 || slices.ContainsFunc(k.Transitions, func(t *Transition) bool { return len(t.From) == 0 }) {
		r.fault(k.Position, "a machine needs an initial state, and each transition needs a from state")
	}
	known(k.At("initial"), k.Initial...)
	for _, t := range k.Transitions {
		known(t.At("from"), t.From...)
		known(t.At("to"), t.To)
		if t.Condition != "" {
			r.expression(&t.Location, k.entity, t.Condition, nil, t.Values)
		}
	}
}

// states returns all states that the machine names, each once.
func (k *Machine) states() []string {
	all := slices.Clone([]string(k.Initial))
	for _, t := range k.Transitions {
		all = append(append(all, t.From...), t.To)
	}
	var each []string
	for _, s := range all {
		if !slices.Contains(each, s) {
			each = append(each, s)
		}
	}
	return each
}

func (r *resolver) rules() {
	for _, rule := range r.m.Rules {
		found := slices.ContainsFunc(r.m.Entities, func(e *Entity) bool { _, ok := e.Field(rule.Contains); return ok })
		if !found {
			var all []string
			for _, e := range r.m.Entities {
				all = append(all, e.names()...)
			}
			r.fault(rule.At("contains"), "no entity has an attribute %s%s", rule.Contains, suggest(rule.Contains, all))
		}
		for _, name := range rule.Tables {
			if _, ok := r.m.Table(name); !ok {
				r.fault(rule.At("tables"), "unknown table %s%s", name, suggest(name, names(r.m.Tables)))
			}
		}
		for _, name := range rule.Except {
			entity, key, _ := strings.Cut(name, ".")
			e, ok := r.m.Entity(entity)
			if !ok {
				r.fault(rule.At("except"), "unknown entity %s%s", entity, suggest(entity, names(r.m.Entities)))
			} else if _, ok := e.Field(key); !ok && key != "" {
				r.fault(rule.At("except"), "%s has no %s%s", entity, key, suggest(key, e.names()))
			}
		}
	}
}

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[#:][A-Za-z0-9_]+`) })

// expression checks the text of a condition and that each of its placeholders
// is defined.
func (r *resolver) expression(p *Location, e *Entity, text string, names, values []*Setting) {
	at := p.At("condition")
	if _, err := expr.ParseCondition(expr.ConditionExpression, text); err != nil {
		r.fault(at, "the condition %q cannot be parsed: %v", text, err)
		return
	}
	used := placeholder().FindAllString(text, -1)
	for _, ref := range used {
		list := values
		if ref[0] == '#' {
			list = names
		}
		if _, ok := named(list, ref); ok {
			continue
		}
		if _, ok := e.Field(ref[1:]); !ok {
			r.fault(at, "the condition uses %s, which is neither given nor an attribute of %s%s", ref, e.Name, suggest(ref[1:], e.names()))
		}
	}
	for _, list := range [][]*Setting{names, values} {
		for _, s := range list {
			if !slices.Contains(used, s.Name) {
				r.fault(s.Position, "the condition does not use %s%s", s.Name, suggest(s.Name, used))
				continue
			}
			if s.Name[0] == ':' && s.Value.templated() {
				r.template(s.Value.Position, e, s.Value.text, 0)
			}
		}
	}
}
