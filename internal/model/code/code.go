// Package code generates typed keys and request builders from a model, for Go,
// TypeScript and Python.
//
// The generated code can send only the requests of the model's access patterns.
// Package model determines these; this package writes them down.
package code

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// Options are what a generated file contains apart from the model.
type Options struct {
	Source  string // the name of the model's file, as the header shows it
	Package string // the Go package; defaults to the name of the model
}

// codeSpec is what the code of a model consists of, in any language.
type codeSpec struct {
	model    *model.Model
	options  Options
	entities []*codeEntity
	patterns []*codePattern
}

// codeEntity is an entity with the attributes that a caller sees.
type codeEntity struct {
	*model.Entity
	fields     []*codeField     // with values of their own
	attributes []*codeAttribute // as they are stored, keys first
	key        []*codeAttribute // the table's key
}

// codeField is an attribute with a value of its own.
type codeField struct {
	*model.Field
	optional bool
	values   []string
	shards   int // of a shard number: how many there are
}

// codeAttribute is an attribute as it is stored.
type codeAttribute struct {
	*model.Field
	operand  *model.Operand
	when     []*model.Setting // of a key or another attribute that is built from others
	own      *codeField       // nil for an attribute that is built from others
	optional bool             // not in all items
}

// codePattern is an access pattern.
type codePattern struct {
	*model.Pattern
	operation string
	steps     []*codeStep
}

// codeStep is one action of a pattern.
type codeStep struct {
	*model.StepRequest
	entity  *codeEntity
	params  []*codeParam
	name    string // of the member that holds its input, as words
	list    bool   // the caller passes several
	most    int    // how many, if list is set
	returns []*codeAttribute
	with    []*codeEntity
}

// codeParam is a value that the caller passes.
type codeParam struct {
	model.Param
	field *codeField
	name  string // the attribute, preceded by new, from or to where that is needed
}

// newSpec prepares a model. It fails if the model has a pattern that cannot be
// served as it should be.
func newSpec(m *model.Model, o Options) (*codeSpec, error) {
	s := &codeSpec{model: m, options: o}
	if err := checkNames(m, o); err != nil {
		return nil, err
	}
	if faults := patternFaults(m); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	for _, e := range m.Entities {
		s.entities = append(s.entities, s.newEntity(e))
	}
	for _, p := range m.Patterns {
		s.patterns = append(s.patterns, s.newPattern(m.Plan(p)))
	}
	return s, nil
}

// patternFaults returns the faults of patterns that make their requests wrong. Cost is no
// reason to write no code.
func patternFaults(m *model.Model) (faults []error) {
	for _, f := range m.Check(model.DefaultPrices()).Faults {
		if f.Pattern != "" && f.Code != "budget" {
			faults = append(faults, fmt.Errorf("%q: %w", f.Pattern, f))
		}
	}
	return faults
}

// checkNames rejects names that could end a comment of the generated code.
func checkNames(m *model.Model, o Options) error {
	names := []string{m.Name, o.Source}
	for _, t := range m.Tables {
		names = append(names, t.Name)
	}
	for _, e := range m.Entities {
		names = append(names, e.Name)
		for _, f := range e.Fields() {
			names = append(names, f.Name)
			if f.Attribute != nil {
				names = append(names, f.Attribute.Values...)
			}
		}
	}
	for _, p := range m.Patterns {
		names = append(names, p.Name)
	}
	for _, name := range names {
		if strings.ContainsFunc(name, unicode.IsControl) || strings.Contains(name, "*/") {
			return fmt.Errorf("there is no code for the name %q: it contains a control character or the end of a comment", name)
		}
	}
	return nil
}

func (s *codeSpec) entity(e *model.Entity) *codeEntity {
	return s.entities[slices.IndexFunc(s.entities, func(c *codeEntity) bool { return c.Entity == e })]
}

func (s *codeSpec) newEntity(e *model.Entity) *codeEntity {
	c := &codeEntity{Entity: e}
	for _, f := range e.Fields() {
		if f.Templated() || f.Type == item.NULL || f.Attribute.Shards > 0 && f.Attribute.Of != "" {
			continue
		}
		if !f.Stored && !c.usedInTemplate(f) {
			continue
		}
		c.fields = append(c.fields, &codeField{Field: f, optional: s.optional(e, f), values: f.Attribute.Values, shards: f.Attribute.Shards})
	}
	for _, f := range e.Fields() {
		if !f.Stored {
			continue
		}
		a := &codeAttribute{Field: f, own: c.field(f), optional: s.optional(e, f)}
		if a.own == nil {
			a.when = whenOf(f)
			a.operand = f.Operand()
			if f.Type == item.NULL {
				a.operand = &model.Operand{Type: item.NULL, Constant: item.Null()}
			}
		}
		c.attributes = append(c.attributes, a)
	}
	for _, k := range e.TableOf().Schema().Key.All() {
		c.key = append(c.key, c.attribute(k.Name))
	}
	return c
}

func whenOf(f *model.Field) []*model.Setting {
	if f.Key != nil {
		return f.Key.When
	}
	return f.Attribute.When
}

// optional reports whether some items lack an attribute: by its when, because
// an update removes it, or because an update that creates the item does not set it.
func (s *codeSpec) optional(e *model.Entity, f *model.Field) bool {
	if len(whenOf(f)) > 0 {
		return true
	}
	for _, p := range s.model.Patterns {
		for _, a := range p.Actions() {
			if a.Entity() != e || a.Verb() != model.Update {
				continue
			}
			if slices.Contains(a.Remove, f.Name) || a.Creates && !f.Templated() && !inKey(e, f) && !writes(a, f.Name) {
				return true
			}
		}
	}
	return false
}

// createdByUpdate reports whether an update creates items of an entity. These
// lack the attributes that their key is built from.
func (s *codeSpec) createdByUpdate(e *model.Entity) bool {
	for _, p := range s.model.Patterns {
		for _, a := range p.Actions() {
			if a.Entity() == e && a.Creates {
				return true
			}
		}
	}
	return false
}

func inKey(e *model.Entity, f *model.Field) bool {
	for _, k := range e.TableOf().Schema().Key.All() {
		if slices.Contains(e.Leaves(k.Name), f) {
			return true
		}
	}
	return false
}

func writes(a *model.Action, name string) bool {
	for _, list := range [][]*model.Setting{a.Set, a.Add, a.Append} {
		if slices.ContainsFunc(list, func(w *model.Setting) bool { return w.Name == name }) {
			return true
		}
	}
	return false
}

// itemBlock are attributes that an item has under the same conditions, and the tests of
// the values in them.
type itemBlock struct {
	tests      []string // conditions in the generated language
	attributes []*codeAttribute
	checks     []keyCheck
}

// itemBlocks groups the attributes of an entity by the conditions under which an item has
// them. The first block are those without conditions.
func (s *codeSpec) itemBlocks(e *codeEntity, tests func(*codeAttribute) []string) []*itemBlock {
	blocks := []*itemBlock{{}}
	for _, a := range e.attributes {
		conditions := tests(a)
		b := blocks[len(blocks)-1]
		switch {
		case len(conditions) == 0:
			b = blocks[0]
		case !slices.Equal(b.tests, conditions):
			b = &itemBlock{tests: conditions}
			blocks = append(blocks, b)
		}
		b.attributes = append(b.attributes, a)
		b.checks = addChecks(b.checks, s.fieldChecks(e, a.Field)...)
	}
	for _, b := range blocks[1:] {
		b.checks = addChecks(slices.Clone(blocks[0].checks), b.checks...)[len(blocks[0].checks):]
	}
	return blocks
}

// shardTypes returns the names of the types for queries over shards, if there are any.
func (s *codeSpec) shardTypes() []string {
	if slices.ContainsFunc(s.patterns, func(p *codePattern) bool { return p.operation == "Query" && p.steps[0].Shards > 1 }) {
		return []string{"Position", "ShardQuery", "ShardPage"}
	}
	return nil
}

// usedInTemplate reports whether a stored attribute is built from a field.
func (c *codeEntity) usedInTemplate(f *model.Field) bool {
	return slices.ContainsFunc(c.Fields(), func(other *model.Field) bool {
		return other.Stored && other.Templated() && uses(other.Operand().Parts, f)
	})
}

// uses reports whether parts contain the value of a field.
func uses(parts []model.OperandPart, f *model.Field) bool {
	return slices.ContainsFunc(parts, func(p model.OperandPart) bool {
		return p.Param.Field == f || p.Shard != nil && uses(p.Shard.Of, f)
	})
}

func (c *codeEntity) field(f *model.Field) *codeField {
	for _, x := range c.fields {
		if x.Field == f {
			return x
		}
	}
	return nil
}

func (c *codeEntity) attribute(name string) *codeAttribute {
	for _, a := range c.attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// keyFields returns the fields that the table's key is built from.
func (c *codeEntity) keyFields() (all []*codeField) {
	for _, f := range c.fields {
		if slices.ContainsFunc(c.key, func(k *codeAttribute) bool { return k.own == f || k.own == nil && uses(k.operand.Parts, f.Field) }) {
			all = append(all, f)
		}
	}
	return all
}

// optionalFields returns the optional fields that an attribute is built from.
func (c *codeEntity) optionalFields(a *codeAttribute) (all []*codeField) {
	for _, f := range c.fields {
		if f.optional && uses(a.operand.Parts, f.Field) {
			all = append(all, f)
		}
	}
	return all
}

// source returns the attribute whose text a field is decoded from, nil if the
// field is stored itself.
func (s *codeSpec) source(c *codeEntity, f *codeField) *codeAttribute {
	created := s.createdByUpdate(c.Entity) && inKey(c.Entity, f.Field)
	if f.Stored && !created {
		return nil
	}
	for _, a := range slices.Concat(c.key, c.attributes) {
		if a.own == f {
			return nil
		}
		if a.own == nil && slices.ContainsFunc(a.operand.Parts, func(p model.OperandPart) bool { return p.Param.Field == f.Field }) {
			return a
		}
	}
	return nil
}

func (s *codeSpec) newPattern(plan *model.Plan) *codePattern {
	p := &codePattern{Pattern: plan.Pattern, operation: plan.Operation}
	for _, r := range s.model.StepRequests(plan) {
		p.steps = append(p.steps, s.newStep(p, r))
	}
	names := make(map[string]int)
	for _, c := range p.steps {
		names[c.name]++
	}
	used := make(map[string]bool)
	for i, c := range p.steps {
		if names[c.name] > 1 {
			c.name = string(c.Action.Verb()) + " " + c.name
		}
		if used[c.name] {
			c.name = fmt.Sprintf("%s %d", c.name, i+1)
		}
		used[c.name] = true
	}
	return p
}

func (s *codeSpec) newStep(p *codePattern, r *model.StepRequest) *codeStep {
	c := &codeStep{StepRequest: r, entity: s.entity(r.Entity), name: r.Entity.Name}
	a := r.Action
	if c.most = cmp.Or(a.Most, a.Times, 1); p.single() {
		c.most = 1
	}
	if c.list = c.most > 1; c.list {
		c.name = plural(c.name)
	}
	for _, x := range r.Params {
		c.params = append(c.params, &codeParam{Param: x, field: s.field(x.Field), name: paramName(x, r.Params)})
	}
	for _, name := range a.Returns {
		c.returns = append(c.returns, c.entity.attribute(name))
	}
	for _, w := range a.With {
		e, _ := s.model.Entity(w.Name)
		c.with = append(c.with, s.entity(e))
	}
	return c
}

// field returns a field of any entity, or a key that the caller passes whole.
func (s *codeSpec) field(f *model.Field) *codeField {
	for _, e := range s.entities {
		if x := e.field(f); x != nil {
			return x
		}
	}
	x := &codeField{Field: f}
	if f.Attribute != nil {
		x.values, x.shards = f.Attribute.Values, f.Attribute.Shards
	}
	return x
}

// paramName is the name of a parameter: that of its attribute, preceded by its
// role if there is another parameter of the same attribute.
func paramName(p model.Param, all []model.Param) string {
	for _, other := range all {
		if other != p && other.Field == p.Field && p.Role != model.CurrentValue {
			return string(p.Role) + " " + p.Field.Name
		}
	}
	return p.Field.Name
}

// single reports whether the pattern is one request of one action.
func (p *codePattern) single() bool { return p.Transact == nil && p.Batch == nil }

// reads reports whether the pattern returns items.
func (p *codePattern) reads() bool { return !p.steps[0].Action.Verb().Writes() }

// put reports whether the caller passes a whole item.
func (c *codeStep) put() bool { return c.Action.Verb() == model.Put }

// hasInput reports whether the caller passes anything.
func (c *codeStep) hasInput() bool { return c.put() || len(c.params) > 0 }

// limited returns the steps of which the caller passes several.
func (p *codePattern) limited() (all []*codeStep) {
	for _, c := range p.steps {
		if c.list {
			all = append(all, c)
		}
	}
	return all
}

// entities returns the entities of the steps in a table, or in all tables if it
// is "".
func (p *codePattern) entities(table string) (all []*codeEntity) {
	for _, c := range p.steps {
		if (table == "" || c.Table.Name == table) && !slices.Contains(all, c.entity) {
			all = append(all, c.entity)
		}
	}
	return all
}

// tables returns the tables of the steps.
func (p *codePattern) tables() (all []string) {
	for _, c := range p.steps {
		if !slices.Contains(all, c.Table.Name) {
			all = append(all, c.Table.Name)
		}
	}
	return all
}

// kinds returns the entities whose items a reply may contain, the one whose
// keys have the most constant text first.
func (c *codeStep) kinds() []*codeEntity {
	return bySpecificity(append([]*codeEntity{c.entity}, c.with...))
}

func bySpecificity(all []*codeEntity) []*codeEntity {
	text := func(c *codeEntity) (n int) {
		for _, k := range c.key {
			switch {
			case k.own != nil && len(k.own.values) > 0:
				n++
			case k.own == nil && k.operand.Constant != nil:
				n += 1000
			case k.own == nil:
				for _, p := range k.operand.Parts {
					n += len(p.Text)
				}
			}
		}
		return n
	}
	slices.SortStableFunc(all, func(a, b *codeEntity) int { return text(b) - text(a) })
	return all
}

// summary is the comment on a pattern.
func (p *codePattern) summary() string {
	text := fmt.Sprintf("the request of %q", p.Name)
	if p.Description != "" {
		text += ". " + strings.Join(strings.Fields(p.Description), " ")
	}
	text = strings.TrimSuffix(text, ".") + "."
	if p.steps[0].Shards > 1 {
		text += " It is one request for each shard that is not finished; the caller merges the replies."
	}
	return text
}

// plainText returns the text of a string, a number or binary.
func plainText(v item.Value) string {
	if v.Type() == item.N {
		return v.Number().String()
	}
	return string(v.Bytes())
}

// shardNumber returns a shard number without zeros before it.
func shardNumber(v item.Value) string {
	text := plainText(v)
	return strings.TrimLeft(text[:len(text)-1], "0") + text[len(text)-1:]
}
