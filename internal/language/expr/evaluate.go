package expr

import (
	"bytes"
	"slices"

	"github.com/stator-db/stator/internal/data/item"
)

// MaxPageSteps is the budget of a page: a page ends with the item for which
// its filter has taken this many steps. One operator on small values takes a
// step, so a filter of 150 operators on 60,000 items of 17 bytes stays below.
const MaxPageSteps = 10_000_000

// Filter evaluates a condition for the items of one page, and counts the
// steps that this takes. It indexes large constants when they are used again.
// The zero Filter holds for every item.
type Filter struct {
	condition *Condition
	evaluation
}

// Of sets the condition of the filter; nil holds for every item.
func (f *Filter) Of(c *Condition) { f.condition = c }

// Keep reports whether the condition holds for an item, and whether the budget
// of the page is used up.
func (f *Filter) Keep(it item.Item) (holds, spent bool) {
	holds = f.condition == nil || f.evaluation.condition(f.condition, it)
	return holds, f.Spent()
}

// Add counts steps of other work for the page.
func (f *Filter) Add(steps int) { f.steps += steps }

// Spent reports whether the budget of the page is used up.
func (f *Filter) Spent() bool { return f.steps >= MaxPageSteps }

// Work that grows with the size of a value is counted by these shifts: so many
// bytes or members take about as long as one operator on small values.
const (
	itemShift   = 6  // bytes of an item, searched for an attribute
	searchShift = 6  // bytes of text, searched or measured
	memberShift = 4  // members of a set or a list, compared with a value
	listShift   = 3  // operands of IN, compared with a value
	equalShift  = 10 // bytes of equally long values, compared
)

// evaluation is the state of evaluating conditions.
type evaluation struct {
	steps     int
	constants map[*byte]*largeConstant // by the address of their first byte
	lists     map[*Test]*item.Members  // the constants of IN; nil after the first use

	// Of an evaluation for one item, whose large values are like constants once
	// there were many lookups.
	one     bool
	lookups int
	index   item.Index
}

// largeConstant holds what was computed from a constant of an expression.
type largeConstant struct {
	members *item.Members // set at the second use
	size    item.Value
}

// From these sizes on, what is computed from constants is kept.
const (
	largeBytes = 256
	manyOf     = 16 // operands of IN

	largeInItem = 4 << 10 // of an item, or of a value in it
	freeLookups = 8       // from which large values of one item are like constants
)

// evaluationOf returns an evaluation for one item.
func evaluationOf(it item.Item) evaluation { return evaluation{one: true, index: item.IndexOf(it)} }

func (e *evaluation) condition(c *Condition, it item.Item) bool {
	return c.root.Op == 0 || e.test(&c.root, it)
}

func (e *evaluation) test(t *Test, it item.Item) bool {
	e.steps++
	switch t.Op {
	case And:
		for i := range t.Tests {
			if !e.test(&t.Tests[i], it) {
				return false
			}
		}
		return true
	case Or:
		for i := range t.Tests {
			if e.test(&t.Tests[i], it) {
				return true
			}
		}
		return false
	case Not:
		return !e.test(&t.Tests[0], it)
	}
	first, ok := e.operand(&t.Operands[0], it)
	switch t.Op {
	case Exists:
		return ok
	case NotExists:
		return !ok
	case In:
		return ok && e.in(t, first, it)
	case Between:
		low, okLow := e.operand(&t.Operands[1], it)
		high, okHigh := e.operand(&t.Operands[2], it)
		return ok && okLow && okHigh && compare(GreaterOrEqual, first, low) && compare(LessOrEqual, first, high)
	}
	second, okSecond := e.operand(&t.Operands[1], it)
	if !ok || !okSecond {
		return t.Op == NotEqual // a missing value differs from everything
	}
	switch t.Op {
	case HasType:
		return second.Type() == item.S && first.Type().String() == string(second.Bytes())
	case BeginsWith:
		return isText(first) && first.Type() == second.Type() && bytes.HasPrefix(first.Bytes(), second.Bytes())
	case Contains:
		return e.contains(&t.Operands[0], first, second)
	}
	if len(first) == len(second) {
		e.steps += len(first) >> equalShift
	}
	return compare(t.Op, first, second)
}

// operand returns the operand's value for one item. It is not ok when there is
// no value at the path, or its size is undefined.
func (e *evaluation) operand(o *Operand, it item.Item) (item.Value, bool) {
	v, ok := o.Value, true
	if o.Path != nil {
		v, ok = e.at(it, o.Path)
	}
	if !ok || !o.Size {
		return v, ok
	}
	if e.isLargeConstant(o, v) {
		return e.sizeOfConstant(v)
	}
	if v.Type() == item.S {
		e.steps += len(v) >> searchShift
	}
	return size(v)
}

// at returns the value at a path of an item.
func (e *evaluation) at(it item.Item, p item.Path) (item.Value, bool) {
	e.lookups++
	if !e.one || len(it) < largeInItem || e.lookups <= freeLookups {
		e.steps += len(it) >> itemShift
		return it.At(p)
	}
	v, passed, ok := e.index.At(p)
	e.steps += passed >> itemShift
	return v, ok
}

// isLargeConstant reports whether v, the value of o, is large and the same whenever it
// is used.
func (e *evaluation) isLargeConstant(o *Operand, v item.Value) bool {
	if o.Path == nil {
		return len(v) >= largeBytes
	}
	return e.one && len(v) >= largeInItem && e.lookups > freeLookups
}

func (e *evaluation) sizeOfConstant(v item.Value) (item.Value, bool) {
	c, _ := e.constant(v)
	if c.size == nil {
		e.steps += len(v) >> searchShift
		n, ok := size(v)
		if !ok {
			return nil, false
		}
		c.size = n
	}
	return c.size, true
}

// constant returns what is kept of a large constant, and whether it was there
// before.
func (e *evaluation) constant(v item.Value) (c *largeConstant, before bool) {
	c, before = e.constants[&v[0]]
	if !before {
		if e.constants == nil {
			e.constants = make(map[*byte]*largeConstant)
		}
		c = new(largeConstant)
		e.constants[&v[0]] = c
	}
	return c, before
}

// contains is the function contains. v is the value of o.
func (e *evaluation) contains(o *Operand, v, wanted item.Value) bool {
	switch t := v.Type(); {
	case isText(v):
		e.steps += len(v) >> searchShift
		return t == wanted.Type() && bytes.Contains(v.Bytes(), wanted.Bytes())
	case t.IsSet() && t.Member() != wanted.Type() || t != item.L && !t.IsSet():
		return false
	}
	if e.isLargeConstant(o, v) {
		if c, before := e.constant(v); before {
			if c.members == nil {
				e.steps += v.Len() >> 1 // hashing costs more than comparing
				c.members = item.MembersOf(v)
			}
			return c.members.Has(wanted)
		}
	}
	compared := 0
	found := false
	for m := range v.Elements() {
		compared++
		if found = item.Equal(m, wanted); found {
			break
		}
	}
	e.steps += compared >> memberShift
	return found
}

// in reports whether one of the operands after the first is equal to the
// first, whose value is v.
func (e *evaluation) in(t *Test, v item.Value, it item.Item) bool {
	list := t.Operands[1:]
	if len(list) >= manyOf {
		if indexed, before := e.lists[t]; before {
			return e.indexed(indexed, t).Has(v)
		}
		e.indexNext(t)
	}
	e.steps += len(list) >> listShift
	for i := range list {
		o, ok := e.operand(&list[i], it)
		if ok && len(o) == len(v) {
			e.steps += len(o) >> equalShift
			if item.Equal(o, v) {
				return true
			}
		}
	}
	return false
}

// indexNext makes the next use of an IN index its operands, if all are
// constants.
func (e *evaluation) indexNext(t *Test) {
	if slices.ContainsFunc(t.Operands[1:], func(o Operand) bool { return o.Path != nil || o.Size }) {
		return
	}
	if e.lists == nil {
		e.lists = make(map[*Test]*item.Members)
	}
	e.lists[t] = nil
}

// indexed returns the constants of an IN, which it indexes unless that is done.
func (e *evaluation) indexed(list *item.Members, t *Test) *item.Members {
	if list == nil {
		list = new(item.Members)
		for _, o := range t.Operands[1:] {
			list.Add(o.Value)
			e.steps += 1 + len(o.Value)>>equalShift
		}
		e.lists[t] = list
	}
	return list
}
