package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// Operand is a value of a request as an expression over parameters, from which
// code is generated.
type Operand struct {
	Type item.Type

	// Constant is the value if it depends on no parameter; it is nil otherwise.
	Constant item.Value

	// Parts are the pieces of a text. If the only piece is a parameter, the
	// operand is the value of the parameter, or a set of that one member.
	Parts []OperandPart

	// Of is the attribute whose value the operand is, or is compared with. It is nil for
	// a literal of the model.
	Of *Field
}

// OperandPart is constant text, a parameter, or the shard number that the hash
// of another text determines.
type OperandPart struct {
	Text  string
	Param Param         // if its Field is set
	Shard *ShardOperand // or nil

	// Leaf is the attribute whose value a parameter is, or is a piece of.
	Leaf *Field
}

// ShardOperand is the shard number of a field by the hash of a text.
type ShardOperand struct {
	Field *Field
	Of    []OperandPart
}

// Param is a value that the caller of a pattern passes.
type Param struct {
	Field *Field
	Role  ParamRole
}

// ParamRole says which value of an attribute a parameter is.
type ParamRole string

// The roles of parameters.
const (
	CurrentValue ParamRole = ""      // the value that the item has
	NewValue     ParamRole = "new"   // the value that an update writes
	RangeFrom    ParamRole = "from"  // the lower end of a range
	RangeTo      ParamRole = "to"    // the upper end of a range
	EachShard    ParamRole = "shard" // each shard number in turn; not passed by the caller
)

// StepRequest is the request of a step, or its part of a transaction or batch,
// with operands as its values.
type StepRequest struct {
	*Step

	// Body is as in Request, with an *Operand for each attribute value. It has no
	// Item, which is the whole item that the caller passes.
	Body   map[string]any
	Params []Param // in the order in which the body uses them

	// Clauses are the changes of an UpdateExpression.
	Clauses []UpdateClause

	// Assigned are attributes of the item of a put whose values the pattern
	// determines. Their operands refer to other attributes of the item.
	Assigned []Assignment
}

// Assignment is an attribute with its value.
type Assignment struct {
	Field   *Field
	Operand *Operand
}

// StepRequests returns the requests of the steps of a plan that is served.
func (m *Model) StepRequests(plan *Plan) (all []*StepRequest) {
	for _, s := range plan.Steps {
		v := newOperandRenderer(s)
		r := &StepRequest{Step: s}
		switch {
		case s.Action.verb == Query:
			r.Body = queryBody(s, v)
		case s.Action.verb == Get:
			r.Body = getBody(s, v)
		default:
			w := newRequestBuilder(v)
			r.Body = w.write(s, s.edits)
			r.Clauses = w.clauses
			delete(r.Body, "Item")
		}
		r.Params = v.params
		if s.Action.verb == Put {
			r.Assigned = m.assigned(s)
		}
		all = append(all, r)
	}
	return all
}

// assigned returns the attributes that a put determines: the only initial state
// of a machine, and those that the pattern sets.
func (m *Model) assigned(s *Step) (all []Assignment) {
	for _, k := range m.MachinesOf(s.Entity) {
		if _, set := named(s.Action.Set, k.Attribute); !set && len(k.Initial) == 1 {
			v, _ := StringLiteral(k.Initial[0]).value(k.field.Type)
			all = append(all, Assignment{k.field, &Operand{Type: k.field.Type, Constant: v}})
		}
	}
	for _, w := range s.Action.Set {
		f := s.Entity.byName[w.Name]
		o := (&operandRenderer{step: s}).literalOperand(w.Value, f.Type, CurrentValue)
		if len(o.Parts) == 1 && o.Parts[0].Param.Field == f {
			continue // its own value
		}
		all = append(all, Assignment{f, o})
	}
	return all
}

// Operand returns the value of a field as an expression over the attributes of
// its entity that have values of their own.
func (f *Field) Operand() *Operand {
	v := &operandRenderer{step: &Step{Entity: f.entity, Action: new(Action)}}
	return v.operand(f.Type, v.parts(templateOf(f)))
}

// operandRenderer renders values as operands.
type operandRenderer struct {
	step   *Step
	set    map[string]Literal // what an update sets
	fixed  map[string]string  // attributes with a constant value
	params []Param
}

func newOperandRenderer(s *Step) *operandRenderer {
	v := &operandRenderer{step: s, set: make(map[string]Literal), fixed: make(map[string]string)}
	a := s.Action
	for _, w := range a.From {
		// A value before the write is that of one run, unless it is a state.
		if f := s.Entity.byName[w.Name]; f.Attribute != nil && len(f.Attribute.Values) > 0 && !w.Value.templated() {
			v.fixed[w.Name] = w.Value.text
		}
	}
	for _, w := range a.Where {
		v.fixed[w.Name] = w.Value.text
	}
	if a.verb == Update {
		for _, w := range a.Set {
			v.set[w.Name] = w.Value
		}
	}
	return v
}

// use records a parameter and returns it as a part.
func (v *operandRenderer) use(f *Field, role ParamRole) OperandPart {
	p := Param{f, role}
	if role != EachShard && !slices.Contains(v.params, p) {
		v.params = append(v.params, p)
	}
	return OperandPart{Param: p, Leaf: f}
}

// operand returns parts as a value; text without parameters is a constant.
func (v *operandRenderer) operand(t item.Type, parts []OperandPart) *Operand {
	parts = joinText(parts)
	if len(parts) == 1 && parts[0].Param.Field == nil && parts[0].Shard == nil {
		if c, err := StringLiteral(parts[0].Text).value(t); err == nil {
			return &Operand{Type: t, Constant: c}
		}
	}
	return &Operand{Type: t, Parts: parts}
}

// joinText joins adjacent texts.
func joinText(parts []OperandPart) (joined []OperandPart) {
	constant := func(p OperandPart) bool { return p.Param.Field == nil && p.Shard == nil }
	for _, p := range parts {
		if last := len(joined) - 1; last >= 0 && constant(p) && constant(joined[last]) {
			joined[last].Text += p.Text
			continue
		}
		joined = append(joined, p)
	}
	return joined
}

// parts returns the pieces of a template.
func (v *operandRenderer) parts(t template) (all []OperandPart) {
	for _, p := range t.parts {
		if p.name == "" {
			all = append(all, OperandPart{Text: p.text})
		} else {
			all = append(all, v.named(v.step.Entity.byName[p.name])...)
		}
	}
	return all
}

// named returns the pieces of the value of a field.
func (v *operandRenderer) named(f *Field) []OperandPart {
	a := v.step.Action
	if l, ok := v.set[f.Name]; ok {
		parts := slices.Clone(v.literalOperand(l, f.Type, NewValue).pieces())
		for i := range parts {
			parts[i].Leaf = f
		}
		return parts
	}
	if slices.Contains(a.Given, f.Name) || slices.Contains(a.Each, f.Name) {
		return []OperandPart{v.use(f, CurrentValue)}
	}
	if text, ok := v.fixed[f.Name]; ok {
		return []OperandPart{{Text: text}}
	}
	if f.template != nil {
		return v.parts(*f.template)
	}
	if f.Attribute != nil && f.Attribute.Shards > 0 {
		if f == v.step.shard {
			return []OperandPart{v.use(f, EachShard)}
		}
		if f.Attribute.Of != "" {
			return []OperandPart{{Shard: &ShardOperand{f, v.named(f.entity.byName[f.Attribute.Of])}}}
		}
	}
	return []OperandPart{v.use(f, CurrentValue)}
}

// pieces returns the parts of an operand, which is a text or a number.
func (o *Operand) pieces() []OperandPart {
	if o.Constant != nil {
		return []OperandPart{{Text: plain(o.Constant)}}
	}
	return o.Parts
}

func (v *operandRenderer) field(f *Field) any { return v.operandOf(f, v.named(f)) }

// operandOf returns parts as a value of a field, or a value that it is compared with.
func (v *operandRenderer) operandOf(f *Field, parts []OperandPart) *Operand {
	o := v.operand(f.Type, parts)
	o.Of = f
	return o
}

func (v *operandRenderer) item(*Step) any { return nil }

// literal renders a literal. The names in it are new values of attributes that
// the caller does not know already, or the item's own values.
func (v *operandRenderer) literal(l Literal, t item.Type, fresh bool) any {
	if fresh {
		return v.literalOperand(l, t, NewValue)
	}
	return v.literalOperand(l, t, CurrentValue)
}

func (v *operandRenderer) literalOperand(l Literal, t item.Type, role ParamRole) *Operand {
	if !l.templated() {
		c, err := l.value(t)
		if err != nil {
			panic(fmt.Sprintf("convert a value that was checked: %v", err))
		}
		return &Operand{Type: t, Constant: c}
	}
	tpl, err := parseTemplate(l.text)
	if err != nil {
		panic(fmt.Sprintf("parse a template that was checked: %v", err))
	}
	if name, single := tpl.single(); single && !t.IsSet() {
		t = v.step.Entity.byName[name].Type
	}
	var parts []OperandPart
	for _, p := range tpl.parts {
		if p.name == "" {
			parts = append(parts, OperandPart{Text: p.text})
			continue
		}
		f := v.step.Entity.byName[p.name]
		_, changes := v.set[p.name]
		constant, fixed := v.fixed[p.name]
		switch {
		case fixed && role == CurrentValue:
			parts = append(parts, OperandPart{Text: constant})
		case changes && role == NewValue:
			parts = append(parts, v.use(f, NewValue))
		case f.template != nil:
			parts = append(parts, v.parts(*f.template)...)
		case role == NewValue && (slices.Contains(v.step.Action.Given, p.name) || slices.Contains(v.step.Entity.keyLeaves(), p.name)):
			parts = append(parts, v.use(f, CurrentValue))
		default:
			parts = append(parts, v.use(f, role))
		}
	}
	return v.operand(t, parts)
}

func (v *operandRenderer) bounds(k *KeyPart) []any {
	if k.ranged == "" {
		if k.Op == expr.Equal {
			return []any{v.field(k.field)}
		}
		return []any{v.operandOf(k.field, v.parts(k.template))}
	}
	begin := v.parts(k.beforeRange())
	ends := v.ends(v.step.Entity.byName[k.ranged], k.rangeIs)
	if len(k.template.parts) == 1 && !k.suffix {
		var values []any
		for _, p := range ends {
			values = append(values, v.operandOf(k.field, []OperandPart{p}))
		}
		return values
	}
	const beginMark, fromMark, toMark = "\x01b", "\x01f", "\x01t"
	marked := map[byte][]OperandPart{'b': begin, 'f': ends[:1], 't': ends[len(ends)-1:]}
	var values []any
	for _, text := range k.rangeValues(beginMark, fromMark, toMark) {
		values = append(values, v.operandOf(k.field, replaceMarks(text, marked)))
	}
	return values
}

// replaceMarks returns a text in which each byte after \x01 stands for other parts.
func replaceMarks(text string, marked map[byte][]OperandPart) (parts []OperandPart) {
	for i, piece := range strings.Split(text, "\x01") {
		if i > 0 {
			parts = append(parts, marked[piece[0]]...)
			piece = piece[1:]
		}
		if piece != "" {
			parts = append(parts, OperandPart{Text: piece})
		}
	}
	return parts
}

// ends returns the parameters of a range: one, or the two of between.
func (v *operandRenderer) ends(f *Field, is string) []OperandPart {
	switch is {
	case "between":
		return []OperandPart{v.use(f, RangeFrom), v.use(f, RangeTo)}
	case "before", "until":
		return []OperandPart{v.use(f, RangeTo)}
	}
	return []OperandPart{v.use(f, RangeFrom)}
}

func (v *operandRenderer) filter(s *Step, f *Field) []any {
	r := s.Action.Range
	if r == nil || r.Attribute != f.Name {
		if w, ok := named(s.Action.Where, f.Name); ok {
			return []any{v.literalOperand(w.Value, f.Type, CurrentValue)}
		}
		return []any{v.field(f)}
	}
	var values []any
	for _, p := range v.ends(f, r.Is) {
		values = append(values, v.operand(f.Type, []OperandPart{p}))
	}
	return values
}
