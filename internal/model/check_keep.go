package model

import (
	"math"
	"slices"
)

// removedShare is the least share of the new items that must be removed. Rates are
// estimates.
const removedShare = 0.95

// keep reports an entity whose items are kept for a limited time, but are not all
// removed.
func (c *modelChecker) keep(e *Entity) {
	if !e.Keep.Given() {
		return
	}
	expiring, partly := c.expiring(e)
	rate, deletes := c.deletes(e)
	left := e.Growth.PerSecond * (1 - expiring)
	switch {
	case expiring == 1:
	case !deletes && partly:
		f := e.byName[e.table.TTL]
		c.fault("keep", e.At("keep"), "give all of them the attribute, or declare the pattern that deletes the others",
			"%s of the items of %s never have %s, so that nothing removes them after %s and they accumulate", Figure(math.Round(1000*(1-expiring))/10)+" %", e.Name, f.Name, e.Keep.Text)
	case !deletes:
		try := "give it the attribute " + e.table.TTL + ", or declare the pattern that deletes them"
		if e.table.TTL == "" {
			try = "set ttl of the table " + e.table.Name + " and give the entity that attribute, or declare the pattern that deletes them"
		}
		c.fault("keep", e.At("keep"), try, "nothing removes the items of %s after %s, so they accumulate", e.Name, e.Keep.Text)
	case rate > 0 && rate < removedShare*left:
		c.fault("keep", e.At("keep"), "let the items expire by a TTL attribute, or correct the rates",
			"%s items of %s are added each day and do not expire, but only %s are deleted, so they accumulate", Figure(left*daySeconds), e.Name, Figure(rate*daySeconds))
	}
}

// expiring is the share of an entity's items that get an expiry time: 1 if an update can
// set the attributes on which it depends so that an item has one. It is partly if some get
// none.
func (c *modelChecker) expiring(e *Entity) (share float64, partly bool) {
	f, ok := e.byName[e.table.TTL]
	if !ok || !f.Stored {
		return 0, false
	}
	for _, w := range f.when {
		if c.isUpdatedTo(e, w) {
			return 1, false
		}
	}
	share = c.m.share(f)
	return share, share < 1
}

// isUpdatedTo reports whether an update sets an attribute to one of some values, or to any.
func (c *modelChecker) isUpdatedTo(e *Entity, w *Setting) bool {
	for _, p := range c.m.Patterns {
		for _, a := range p.Actions() {
			if a.verb != Update || a.entity != e {
				continue
			}
			to, set := named(a.Set, w.Name)
			if set && (to.Value.templated() || slices.Contains(w.Value.Texts(), to.Value.text)) {
				return true
			}
		}
	}
	return false
}

// deletes is how many items of an entity the patterns delete each second, and whether any
// pattern does. The rate is 0 if that of a pattern is not known.
func (c *modelChecker) deletes(e *Entity) (rate float64, any bool) {
	unknown := false
	for _, p := range c.m.Patterns {
		for _, a := range p.Actions() {
			if a.verb == Delete && a.entity == e && !a.Absent {
				any, unknown = true, unknown || p.Rate.PerSecond == 0
				rate += p.Rate.PerSecond * float64(max(1, a.Times))
			}
		}
	}
	if unknown {
		return 0, any
	}
	return rate, any
}
