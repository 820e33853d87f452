package infer

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model/exchange"
	"github.com/stator-db/stator/internal/workload"
)

// changes derives what an update writes. Keys with templates follow from the
// other attributes.
func (e *Entity) changes(a *Action, c workload.ShapeCount) {
	key := e.keyLeaves()
	var unknown []string
	for name := range strings.SplitSeq(c.Changes, ", ") {
		x := e.attribute(name)
		switch {
		case name == "" || e.key(name) != nil || slices.Contains(key, name):
		case x == nil || x.Unstored || x.Shards > 0:
			unknown = append(unknown, name)
		default:
			a.Set = append(a.Set, Assignment{name, e.newValue(x)})
		}
	}
	if len(unknown) > 0 {
		a.Notes = append(a.Notes, "it also changes "+strings.Join(unknown, ", ")+", which no sampled item has")
	}
	if len(a.Set) == 0 && len(unknown) == 0 {
		a.Notes = append(a.Notes, unknownChange)
	}
	e.transition(a, strings.TrimPrefix(c.Form, "changes "), c.ConditionText)
}

// newValue is the value that an update sets, as YAML.
func (e *Entity) newValue(a *Attribute) string {
	switch a.Type {
	case "BOOL":
		return "true"
	case "NULL":
		return "null"
	}
	return `"{` + a.Name + `}"`
}

// unknownChange says that the server does not count the attributes of an update.
const unknownChange = "which attributes it changes is not known"

// transition chooses the values of an enumeration before and after an update:
// those with which exactly the index keys change that the server has counted, the
// attributes of the condition are present, and as few attributes as possible appear or
// disappear that the update does not change. Those that do are not decided by the
// enumeration, whatever the samples show.
func (e *Entity) transition(a *Action, changed, condition string) {
	keys := e.templated(strings.Split(changed, ", "))
	needed := e.neededBy(condition)
	var best *transition
	for i := range a.Set {
		by := e.attribute(a.Set[i].Name)
		if by == nil || len(by.Values) < 2 {
			continue
		}
		for _, from := range by.Values {
			for _, to := range by.Values {
				if from == to || !needed.allow(by.Name, from) || !slices.Equal(e.keysChanged(a, by.Name, from, to), keys) {
					continue
				}
				if t := e.transitionOf(a, i, from, to); best == nil || t.penalty() < best.penalty() {
					best = t
				}
			}
		}
	}
	if best != nil {
		by := a.Set[best.of].Name
		a.From = append(a.From, Assignment{by, exchange.Quote(best.from)})
		a.Set[best.of].Value = exchange.Quote(best.to)
		a.Notes = append(a.Notes, "which values "+by+" has before and after is not counted")
		for _, x := range best.unchanged {
			x.When = nil
			x.Guess += "; " + by + " does not decide which, as an update changes only that"
		}
		e.removeAbsent(a, by, best.to)
		return
	}
	for _, p := range needed {
		if !slices.ContainsFunc(a.From, func(x Assignment) bool { return x.Name == p.Attribute }) {
			a.From = append(a.From, Assignment{p.Attribute, exchange.Quote(p.Values[0])})
		}
	}
}

// transition is a change of an enumeration by an update.
type transition struct {
	of        int // the index of the enumeration in the assignments
	from, to  string
	unchanged []*Attribute // that would appear or disappear, but are not changed
	absent    int          // how many attributes are changed that are absent before and after
}

func (t *transition) penalty() int { return len(t.unchanged) + 2*t.absent }

// transitionOf compares the attributes that appear or disappear with those that an update
// changes.
func (e *Entity) transitionOf(a *Action, of int, from, to string) *transition {
	t := &transition{of: of, from: from, to: to}
	for _, x := range e.Attributes {
		if x.When == nil || x.When.Attribute != a.Set[of].Name || e.inKey(x.Name) {
			continue
		}
		was, is := slices.Contains(x.When.Values, from), slices.Contains(x.When.Values, to)
		switch changed := slices.ContainsFunc(a.Set, func(s Assignment) bool { return s.Name == x.Name }); {
		case was != is && !changed:
			t.unchanged = append(t.unchanged, x)
		case changed && !was && !is:
			t.absent++
		}
	}
	return t
}

// presences are the values that attributes must have for others to be present.
type presences []*Presence

// allow reports whether an attribute may have a value.
func (p presences) allow(name, value string) bool {
	return !slices.ContainsFunc(p, func(x *Presence) bool { return x.Attribute == name && !slices.Contains(x.Values, value) })
}

// neededBy returns what must hold for the attributes of a condition to be
// present.
func (e *Entity) neededBy(condition string) (all presences) {
	for _, x := range e.Attributes {
		if x.When == nil || strings.Contains(condition, "attribute_not_exists("+x.Name+")") {
			continue
		}
		words := strings.FieldsFunc(condition, func(r rune) bool { return strings.ContainsRune(" (),", r) })
		if slices.Contains(words, x.Name) {
			all = append(all, x.When)
		}
	}
	return all
}

// templated returns the names that are keys with templates, in order.
func (e *Entity) templated(names []string) (all []string) {
	for _, name := range names {
		if e.key(name) != nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// keysChanged returns the keys of indexes that change when an update changes an
// enumeration, in order.
func (e *Entity) keysChanged(a *Action, by, from, to string) (all []string) {
	for _, k := range e.Keys {
		present := func(value string) bool {
			return k.When == nil || k.When.Attribute != by || slices.Contains(k.When.Values, value)
		}
		built := slices.ContainsFunc(a.Set, func(s Assignment) bool { return slices.Contains(e.leaves(k.Name), s.Name) })
		if present(from) != present(to) || present(to) && built {
			all = append(all, k.Name)
		}
	}
	slices.Sort(all)
	return all
}

// removeAbsent turns changes of attributes that are absent after an update into
// removals.
func (e *Entity) removeAbsent(a *Action, by, to string) {
	a.Set = slices.DeleteFunc(a.Set, func(s Assignment) bool {
		x := e.attribute(s.Name)
		gone := x.When != nil && x.When.Attribute == by && !slices.Contains(x.When.Values, to)
		if gone {
			a.Remove = append(a.Remove, s.Name)
		}
		return gone
	})
}
