package expr

import "github.com/stator-db/stator/internal/data/item"

// MayHold reports whether the condition can hold for an item of which only some
// attributes are known. A test that contains an unknown path can have either result;
// known reports whether the item determines the operand of an operator at a path.
// Tests count as independent of each other, so that it may report true for a
// condition that cannot hold, but not the reverse.
func (c *Condition) MayHold(it item.Item, known func(Op, item.Path) bool) bool {
	if c.root.Op == 0 {
		return true
	}
	p := partial{evaluation: evaluationOf(it), item: it, known: known}
	holds, _ := p.results(&c.root)
	return holds
}

// partial evaluates a condition on an item that is known in part.
type partial struct {
	evaluation
	item  item.Item
	known func(Op, item.Path) bool
}

// results reports whether a test can hold, and whether it can fail.
func (p *partial) results(t *Test) (holds, fails bool) {
	switch t.Op {
	case And:
		holds = true
		for i := range t.Tests {
			h, f := p.results(&t.Tests[i])
			holds, fails = holds && h, fails || f
		}
		return holds, fails
	case Or:
		fails = true
		for i := range t.Tests {
			h, f := p.results(&t.Tests[i])
			holds, fails = holds || h, fails && f
		}
		return holds, fails
	case Not:
		holds, fails = p.results(&t.Tests[0])
		return fails, holds
	}
	for i := range t.Operands {
		if path := t.Operands[i].Path; path != nil && !p.known(t.Op, path) {
			return true, true
		}
	}
	holds = p.test(t, p.item)
	return holds, !holds
}
