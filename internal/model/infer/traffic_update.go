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

// transition chooses the values of the enumerations that an update changes, before and after
// it: those with which exactly the index keys change that the server has counted, the
// attributes of the condition are present, and as few attributes as possible appear or
// disappear that the update does not change. Those that do are not decided by the
// enumeration, whatever the samples show.
//
// One enumeration is enough to tell which keys change, unless several decide them. Others have values too if they decide
// which attributes or keys an item has.
func (e *Entity) transition(a *Action, changed, condition string) {
	s := &transitionSearch{
		e: e, a: a, keys: e.templated(strings.Split(changed, ", ")), needed: e.neededBy(condition),
		condition: condition, before: make(map[string]string), after: make(map[string]string),
	}
	var enumerations, deciding []string
	for _, x := range a.Set {
		if by := e.attribute(x.Name); by == nil || len(by.Values) < 2 {
			continue
		}
		enumerations = append(enumerations, x.Name)
		if e.decides(x.Name) {
			deciding = append(deciding, x.Name)
		}
	}
	some := func(name string, changed []string) bool { return s.explainsSome(name, changed, deciding) }
	if !s.choose(s.explainsAll, enumerations...) && !s.choose(some, deciding...) {
		for _, p := range s.needed {
			if !slices.ContainsFunc(a.From, func(x Assignment) bool { return x.Name == p.Attribute }) {
				a.From = append(a.From, Assignment{p.Attribute, exchange.Quote(p.Values[0])})
			}
		}
		return
	}
	for _, name := range deciding {
		s.choose(s.explainsAll, name)
	}
}

// decides reports whether an enumeration decides which attributes or keys an item has.
func (e *Entity) decides(name string) bool {
	by := func(p *Presence) bool { return p != nil && p.Attribute == name }
	return slices.ContainsFunc(e.Attributes, func(x *Attribute) bool { return by(x.When) }) ||
		slices.ContainsFunc(e.Keys, func(k *Key) bool { return by(k.When) })
}

// transitionSearch looks for the values of enumerations before and after an update.
type transitionSearch struct {
	e             *Entity
	a             *Action
	keys          []string // of indexes, which change
	needed        presences
	condition     string
	before, after map[string]string // the values that are chosen, by enumeration
}

// explainsAll reports whether the keys that change with an enumeration are all of those that do.
func (s *transitionSearch) explainsAll(_ string, changed []string) bool {
	return slices.Equal(changed, s.keys)
}

// explainsSome reports whether the keys that change with an enumeration are some of those that
// do, and other enumerations decide the rest.
func (s *transitionSearch) explainsSome(name string, changed, deciding []string) bool {
	if len(changed) == 0 || slices.ContainsFunc(changed, func(k string) bool { return !slices.Contains(s.keys, k) }) {
		return false
	}
	return !slices.ContainsFunc(s.keys, func(k string) bool {
		when := s.e.key(k).When
		return !slices.Contains(changed, k) && (when == nil || when.Attribute == name || !slices.Contains(deciding, when.Attribute))
	})
}

// choose chooses the values of the enumeration that explains the changes best. It reports
// whether one does.
func (s *transitionSearch) choose(explains func(name string, changed []string) bool, enumerations ...string) bool {
	var best *transition
	for _, name := range enumerations {
		if _, chosen := s.before[name]; chosen || !s.a.sets(name) {
			continue
		}
		values := s.e.attribute(name).Values
		for _, from := range values {
			for _, to := range values {
				if from == to || !s.needed.allow(name, from) || !explains(name, s.keysChanged(name, from, to)) {
					continue
				}
				if t := s.transitionOf(name, from, to); best == nil || t.penalty() < best.penalty() {
					best = t
				}
			}
		}
	}
	if best == nil {
		return false
	}
	s.before[best.of], s.after[best.of] = best.from, best.to
	s.a.From = append(s.a.From, Assignment{best.of, exchange.Quote(best.from)})
	i := slices.IndexFunc(s.a.Set, func(x Assignment) bool { return x.Name == best.of })
	s.a.Set[i].Value = exchange.Quote(best.to)
	s.a.Notes = append(s.a.Notes, "which values "+best.of+" has before and after is not counted")
	for _, x := range best.unchanged {
		x.dropWhen("as an update changes only that")
	}
	s.e.removeAbsent(s.a, best.of, best.to)
	return true
}

// sets reports whether an update sets an attribute.
func (a *Action) sets(name string) bool {
	return slices.ContainsFunc(a.Set, func(x Assignment) bool { return x.Name == name })
}

// dropWhen removes the when of an attribute, for a reason.
func (a *Attribute) dropWhen(reason string) {
	a.Guess += "; " + a.When.Attribute + " does not decide which, " + reason
	a.When = nil
}

// transition is a change of an enumeration by an update.
type transition struct {
	of        string // the enumeration
	from, to  string
	unchanged []*Attribute // that would appear or disappear, but are not changed
	absent    int          // how many attributes are changed that are absent before and after
}

func (t *transition) penalty() int { return len(t.unchanged) + 2*t.absent }

// transitionOf compares the attributes that appear or disappear with those that an update
// changes.
func (s *transitionSearch) transitionOf(of, from, to string) *transition {
	t := &transition{of: of, from: from, to: to}
	for _, x := range s.e.Attributes {
		if x.When == nil || x.When.Attribute != of || s.e.inKey(x.Name) {
			continue
		}
		was, is := slices.Contains(x.When.Values, from), slices.Contains(x.When.Values, to)
		switch changed := s.a.sets(x.Name); {
		case !changed && (was != is || is && !s.mustHave(x)):
			t.unchanged = append(t.unchanged, x)
		case changed && !was && !is:
			t.absent++
		}
	}
	return t
}

// mustHave reports whether the condition holds only for items that have an attribute.
func (s *transitionSearch) mustHave(x *Attribute) bool {
	if !isDerivable(s.condition) || strings.Contains(s.condition, " OR ") || strings.Contains(s.condition, "NOT ") {
		return false
	}
	by := s.e.attribute(x.When.Attribute)
	return slices.Contains(strings.Split(s.condition, " AND "), by.Name+" = ?") || // with the value before
		!slices.ContainsFunc(by.Values, func(v string) bool { return s.needed.allow(by.Name, v) && !slices.Contains(x.When.Values, v) })
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

// keysChanged returns the keys of indexes that change when an update changes an enumeration
// in addition to those whose values are chosen, in order.
func (s *transitionSearch) keysChanged(name, from, to string) (all []string) {
	for _, k := range s.e.Keys {
		present := func(chosen map[string]string, value string) bool {
			if k.When == nil {
				return true
			}
			v, ok := chosen[k.When.Attribute]
			if k.When.Attribute == name {
				v, ok = value, true
			}
			return !ok || slices.Contains(k.When.Values, v)
		}
		was, is := present(s.before, from), present(s.after, to)
		built := slices.ContainsFunc(s.a.Set, func(x Assignment) bool { return slices.Contains(s.e.leaves(k.Name), x.Name) })
		if was != is || is && built {
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
