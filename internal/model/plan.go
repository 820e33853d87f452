package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/language/expr"
)

// Plan is how an access pattern is served: the keys or indexes and the
// requests, or why it cannot be served.
type Plan struct {
	Pattern   *Pattern
	Operation string // of the API, such as Query
	Steps     []*Step
	Requests  []Request // as they are sent, with {attribute} in place of values
	Faults    []*Fault  // what is wrong with this way of serving it
	Notes     []*Note   // remarks about it that are not faults
}

// Step is how one action of a pattern is served.
type Step struct {
	Action *Action
	Entity *Entity
	Table  *Table
	Index  *Index // nil for the table itself

	Partition []KeyPart // of the table or the index; of the table for actions on one item
	Sort      []KeyPart // of a query only the part that it uses
	Filter    []string  // attributes that only a filter can test
	Reverse   bool      // in descending order
	Shards    int       // how many requests a run takes, one for each shard
	Changed   []string  // attributes that an update changes, with the keys built from them

	shard      *Field      // the attribute that holds the shard number
	executable bool        // whether the request can be sent at all
	edits      []edit      // what an update changes
	states     []itemState // before an update, the most likely one first; nil if they do not matter
}

// KeyPart is a condition on one key attribute: it equals the value of the
// template, begins with it, or is in a range.
type KeyPart struct {
	Name string
	Op   expr.Op
	Text string // the known part of the template, with {attribute}

	field    *Field
	template template
	ranged   string // the attribute that the range is on, "" for none
	rangeIs  string // before, after, from, until, between or begins
	suffix   bool   // more text follows the attribute in the key
	next     string // the text that follows it
}

// Served reports whether the pattern can be executed. Its requests may still be
// inefficient.
func (p *Plan) Served() bool {
	for _, s := range p.Steps {
		if !s.executable {
			return false
		}
	}
	return len(p.Steps) > 0
}

// Indexes returns the indexes that the plan reads, each once.
func (p *Plan) Indexes() (all []*Index) {
	for _, s := range p.Steps {
		if s.Index != nil && !slices.Contains(all, s.Index) {
			all = append(all, s.Index)
		}
	}
	return all
}

// Plan determines how a pattern is served.
func (m *Model) Plan(p *Pattern) *Plan {
	plan := &Plan{Pattern: p, Operation: operationOf(p)}
	for _, a := range p.Actions() {
		step := &Step{Action: a, Entity: a.entity, Table: a.entity.table, Shards: 1}
		c := &planner{m: m, plan: plan, step: step}
		switch a.verb {
		case Query:
			c.query()
		case Scan:
			c.scan()
		case Update:
			c.byKey()
			c.update()
		default:
			c.byKey()
		}
		plan.Steps = append(plan.Steps, step)
	}
	if plan.Served() {
		plan.Requests = m.renderRequests(plan)
	}
	return plan
}

func operationOf(p *Pattern) string {
	reads := p.Actions()[0].verb == Get
	switch {
	case p.Transact != nil && reads:
		return "TransactGetItems"
	case p.Transact != nil:
		return "TransactWriteItems"
	case p.Batch != nil && reads:
		return "BatchGetItem"
	case p.Batch != nil:
		return "BatchWriteItem"
	}
	return map[Verb]string{Get: "GetItem", Query: "Query", Scan: "Scan", Put: "PutItem", Update: "UpdateItem", Delete: "DeleteItem"}[p.verb]
}

// planner plans one step.
type planner struct {
	m    *Model
	plan *Plan
	step *Step

	undecidedBy []string               // attributes that are reported by undecided
	accepted    map[string][]itemState // by names of attributes
}

func (c *planner) fault(code string, member, try, format string, args ...any) {
	c.plan.Faults = append(c.plan.Faults, &Fault{
		Code: code, Pattern: c.plan.Pattern.Name, Message: fmt.Sprintf(format, args...), Try: try,
		Position: c.step.Action.At(member),
	})
}

func (c *planner) note(code string, member, try, format string, args ...any) {
	c.plan.Notes = append(c.plan.Notes, &Note{
		Code: code, Pattern: c.plan.Pattern.Name, Message: fmt.Sprintf(format, args...), Try: try,
		Position: c.step.Action.At(member),
	})
}

// known reports whether the action determines the value of a field. A put
// determines its whole item.
func (s *Step) known(f *Field) bool {
	a := s.Action
	if a.verb == Put || slices.Contains(a.Given, f.Name) || slices.Contains(a.Each, f.Name) {
		return true
	}
	if _, ok := named(a.Where, f.Name); ok {
		return true
	}
	if f.template != nil {
		return !slices.ContainsFunc(f.template.names(), func(name string) bool { return !s.known(s.Entity.byName[name]) })
	}
	if f.Attribute != nil && f.Attribute.Shards > 0 && f.Attribute.Of != "" {
		return s.known(s.Entity.byName[f.Attribute.Of])
	}
	return false
}

// byKey plans an action that names one item by the table's key.
func (c *planner) byKey() {
	s := c.step
	s.executable = true
	key := s.Table.schema.Key
	for i, a := range key.All() {
		f := s.Entity.byName[a.Name]
		part := KeyPart{Name: a.Name, Op: expr.Equal, Text: f.Template(), field: f, template: templateOf(f)}
		if i < len(key.Partition) {
			s.Partition = append(s.Partition, part)
		} else {
			s.Sort = append(s.Sort, part)
		}
		if s.known(f) {
			continue
		}
		s.executable = false
		try := "give it the missing attributes, or query instead"
		if s.Action.verb != Get {
			try = "give it the missing attributes"
		}
		c.fault("key", "given", try, "the key cannot be built: %s is %q, but %s is not known", a.Name, f.Template(), strings.Join(s.unknownLeaves(f), ", "))
	}
	for _, w := range s.Action.Where {
		if !s.uses(w.Name) {
			c.fault("key", "where", "remove it, or query instead", "a get reads by key alone, so it cannot also filter by %s", w.Name)
		}
	}
}

// unknownLeaves returns the attributes that a field is built from and the
// action does not determine.
func (s *Step) unknownLeaves(f *Field) (all []string) {
	for _, name := range s.Entity.leaves(f.Name) {
		if leaf := s.Entity.byName[name]; !s.known(leaf) && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// uses reports whether a key condition contains an attribute.
func (s *Step) uses(name string) bool {
	for _, part := range slices.Concat(s.Partition, s.Sort) {
		if part.Name == name || part.ranged == name {
			return true
		}
		for _, p := range part.template.parts {
			if p.name != "" && (p.name == name || slices.Contains(s.Entity.leaves(p.name), name)) {
				return true
			}
		}
	}
	return false
}

func templateOf(f *Field) template {
	if f.template != nil {
		return *f.template
	}
	return template{text: "{" + f.Name + "}", parts: []templatePart{{name: f.Name}}}
}

// scan plans a scan and reports it as a fault.
func (c *planner) scan() {
	s := c.step
	s.executable = true
	if s.Action.Index != "" {
		s.Index, _ = s.Table.Index(s.Action.Index)
	}
	s.Filter = append(s.Filter, c.conditions()...)
	c.fault("scan", "scan", "add an index and query it", "it scans all of %s", s.Table.Name)
}

// conditions returns the attributes that an action has a condition on.
func (c *planner) conditions() []string {
	a := c.step.Action
	all := slices.Concat(a.Given, names(a.Where))
	if a.Range != nil {
		all = append(all, a.Range.Attribute)
	}
	return all
}
