package model

import "slices"

// overwrite reports a put that may silently replace an item that exists. The
// puts of an entity with a status machine are checked by machine.
func (c *modelChecker) overwrite(p *Pattern, a *Action) {
	if a.verb != Put || a.Replaces || len(c.m.MachinesOf(a.entity)) > 0 || c.rejectsExisting(a) {
		return
	}
	try := "add a condition such as attribute_not_exists(" + a.entity.table.Key.Partition + "), or set replaces: true if that is intended"
	if p.Batch != nil {
		try = "put the items one by one with a condition, or set replaces: true if that is intended"
	}
	if a.Condition != "" {
		c.patternFault(p, "overwrite", a.At("condition"), try, "the condition %q accepts items of %s that exist, so it may overwrite one", a.Condition, a.entity.Name)
		return
	}
	if !a.entity.hasGeneratedKey() && !followsNewItem(p, a) {
		c.patternFault(p, "overwrite", a.At("put"), try, "no condition prevents it from overwriting an item of %s", a.entity.Name)
		return
	}
	// A key with a generated identifier belongs to no other item. But a request that is sent again
	// after a timeout replaces what was written in between.
	if by := c.updateOf(a.entity); by != "" && !isGuarded(p) {
		c.patternFault(p, "overwrite", a.At("put"), try, "if it is sent again after a timeout, it undoes what %q has changed since: it has no condition", by)
	}
}

// hasGeneratedKey reports whether the table's key of an entity contains an
// identifier that is made for each item.
func (e *Entity) hasGeneratedKey() bool {
	return slices.ContainsFunc(e.keyLeaves(), func(leaf string) bool {
		a := e.byName[leaf].Attribute
		return a.Distinct == 0 && isGenerated(a)
	})
}

// isGenerated reports whether an attribute holds whole identifiers of a format
// that never makes the same one twice.
func isGenerated(a *Attribute) bool {
	switch a.Format {
	case "uuid":
		return true
	case "ulid":
		return ulid.shown(a) == ulid.length
	case "ksuid":
		return ksuid.shown(a) == ksuid.length
	}
	return false
}

// updateOf returns the name of a pattern that updates items of an entity, "" for
// none.
func (c *modelChecker) updateOf(e *Entity) string {
	for _, p := range c.m.Patterns {
		if slices.ContainsFunc(p.Actions(), func(a *Action) bool { return a.verb == Update && a.entity == e }) {
			return p.Name
		}
	}
	return ""
}

// followsNewItem reports whether a transaction also has a condition on an item
// with the same generated identifier in its key, as that of an order whose lines
// it puts.
func followsNewItem(p *Pattern, a *Action) bool {
	own := a.entity.keyLeaves()
	return slices.ContainsFunc(p.Transact, func(other *Action) bool {
		return other != a && other.Condition != "" && slices.ContainsFunc(other.entity.keyLeaves(), func(leaf string) bool {
			return slices.Contains(own, leaf) && isGenerated(other.entity.byName[leaf].Attribute)
		})
	})
}

// isGuarded reports whether a transaction has a condition, which fails if it is
// sent again.
func isGuarded(p *Pattern) bool {
	return slices.ContainsFunc(p.Transact, func(a *Action) bool { return a.Condition != "" })
}

// conditionNames reports attributes in a condition that the entity does not
// have: attribute_not_exists of such an attribute always holds.
func (c *modelChecker) conditionNames(p *Pattern, a *Action) {
	if a.Condition == "" {
		return
	}
	cond, _ := c.conditionOf(a)
	if cond == nil {
		return
	}
	for _, path := range cond.Paths() {
		if name := path[0].Name; a.entity.byName[name] == nil {
			c.patternFault(p, "condition", a.At("condition"), suggestTry(name, a.entity.names()), "the condition %q tests %s, which %s does not have", a.Condition, name, a.entity.Name)
			return
		}
	}
}
