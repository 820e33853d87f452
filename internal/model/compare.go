package model

import "slices"

// Difference is how the cost changes from one model to another.
type Difference struct {
	Changes []*Change `json:"changes"` // the total is always present, and last
}

// Change is the cost of one pattern, table, index or the whole model before and
// after.
type Change struct {
	What   string `json:"what"` // pattern, table, index or total
	Name   string `json:"name"`
	Change string `json:"change"` // added, removed, changed or same
	Before Spent  `json:"before"`
	After  Spent  `json:"after"`
}

// Spent is units and dollars per month. The units are per run for a pattern,
// else per second.
type Spent struct {
	Read    float64 `json:"read"`
	Write   float64 `json:"write"`
	Dollars float64 `json:"dollars"`
}

// looksLike reports whether two costs have the same figures when they are printed.
func (s Spent) looksLike(other Spent) bool {
	return Figure(s.Read) == Figure(other.Read) && Figure(s.Write) == Figure(other.Write) && Money(s.Dollars) == Money(other.Dollars)
}

// Compare returns what changes from one cost to another. Unchanged costs are
// left out, except the total.
func Compare(before, after *Cost) *Difference {
	d := new(Difference)
	d.addChanges("pattern", spentOnPatterns(before), spentOnPatterns(after))
	d.addChanges("table", spentOnTables(before), spentOnTables(after))
	d.addChanges("index", spentOnIndexes(before), spentOnIndexes(after))
	total := &Change{What: "total", Change: "same", Before: Spent{before.Read, before.Write, before.Dollars}, After: Spent{after.Read, after.Write, after.Dollars}}
	if !total.Before.looksLike(total.After) {
		total.Change = "changed"
	}
	d.Changes = append(d.Changes, total)
	return d
}

type costEntry struct {
	name  string
	spent Spent
}

func spentOnPatterns(c *Cost) (list []costEntry) {
	for _, p := range c.Patterns {
		list = append(list, costEntry{p.Name, Spent{p.Run.Read(), p.Run.Write(), p.Dollars}})
	}
	return list
}

func spentOnTables(c *Cost) (list []costEntry) {
	for _, t := range c.Tables {
		list = append(list, costEntry{t.Name, Spent{t.PerSecond.TableRead, t.PerSecond.TableWrite, t.Dollars}})
	}
	return list
}

func spentOnIndexes(c *Cost) (list []costEntry) {
	for _, t := range c.Tables {
		for _, x := range t.Indexes {
			list = append(list, costEntry{t.Name + "." + x.Index, Spent{Read: x.Read, Write: x.Write}})
		}
	}
	return list
}

// addChanges compares entries with the same name: first those of before, then
// the new ones.
func (d *Difference) addChanges(what string, before, after []costEntry) {
	find := func(list []costEntry, name string) (Spent, bool) {
		i := slices.IndexFunc(list, func(s costEntry) bool { return s.name == name })
		if i < 0 {
			return Spent{}, false
		}
		return list[i].spent, true
	}
	for _, b := range before {
		a, still := find(after, b.name)
		switch {
		case !still:
			d.Changes = append(d.Changes, &Change{what, b.name, "removed", b.spent, a})
		case !b.spent.looksLike(a):
			d.Changes = append(d.Changes, &Change{what, b.name, "changed", b.spent, a})
		}
	}
	for _, a := range after {
		if _, had := find(before, a.name); !had {
			d.Changes = append(d.Changes, &Change{what, a.name, "added", Spent{}, a.spent})
		}
	}
}
