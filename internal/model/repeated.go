package model

import (
	"math"
	"regexp"
	"slices"
)

// Repeated is how many different requests a step of a pattern makes, and how unevenly they
// are repeated: what a cache sees of it.
type Repeated struct {
	Keys float64 // how many different keys there are; 0 if the model does not say

	// HotShare of the requests is for HotKeys of the keys; 0 if the model does not say.
	HotShare float64
	HotKeys  float64

	// Unique is the attribute whose value is another one in each request, such as the
	// current time; "" if there is none.
	Unique string
}

var placeholders = regexp.MustCompile(`\{([^{}]+)\}`)

// Repeated returns how the requests of a step are repeated: of one item by its key, of a
// query by all its parameters.
func (m *Model) Repeated(p *Pattern, s *Step) Repeated {
	switch s.Action.verb {
	case Scan:
		return Repeated{Keys: 1}
	case Query:
		return m.repeatedQuery(p, s)
	}
	r := Repeated{Keys: m.Items(s.Entity)}
	var leaves []string
	for _, a := range s.Table.schema.Key.All() {
		if s.Entity.byName[a.Name] != nil {
			leaves = append(leaves, s.Entity.leaves(a.Name)...)
		}
	}
	m.addHot(&r, p, s, leaves)
	return r
}

// repeatedQuery returns how a query is repeated: a result is another one for each value of
// its parameters. The identifiers among them are correlated (a project has one tenant), and
// listed values are not.
func (m *Model) repeatedQuery(p *Pattern, s *Step) Repeated {
	r := Repeated{Keys: 1}
	var leaves []string
	for _, part := range slices.Concat(s.Partition, s.Sort) {
		for _, name := range placeholders.FindAllStringSubmatch(part.Text, -1) {
			if s.Entity.byName[name[1]] != nil {
				leaves = append(leaves, s.Entity.leaves(name[1])...)
			}
		}
	}
	for _, name := range s.Filter {
		if s.Entity.byName[name] != nil {
			leaves = append(leaves, s.Entity.leaves(name)...)
		}
	}
	if s.Action.Range != nil {
		name := s.Action.Range.Attribute
		if f := s.Entity.byName[name]; f != nil {
			if f.Attribute != nil {
				if formats[f.Attribute.Format].period != nil && !isPeriod(f.Attribute) {
					r.Unique = name
				}
			}
			leaves = append(leaves, s.Entity.leaves(name)...)
		}
	}
	slices.Sort(leaves)
	leaves = slices.Compact(leaves)
	listed, most, known := 1.0, 1.0, true
	for _, leaf := range leaves {
		a := s.Entity.byName[leaf].Attribute
		if _, fixed := named(s.Action.Where, leaf); fixed || a == nil {
			continue
		}
		switch {
		case a.Shards > 0: // a run has a request for each
		case a.Distinct == 0 && isPeriod(a): // the current one is read
		case len(a.Values) > 0:
			listed *= float64(len(a.Values))
		default:
			known = known && (a.Distinct > 0 || m.Items(s.Entity) > 0)
			most = max(most, m.distinct(s.Entity.byName[leaf]))
		}
	}
	if r.Keys = most * listed * float64(max(1, s.Shards)); !known {
		r.Keys = 0
	}
	m.addHot(&r, p, s, leaves)
	return r
}

// isPeriod reports whether the values of an attribute are periods of time, such as months.
func isPeriod(a *Attribute) bool {
	period := formats[a.Format].period
	return period != nil && period(a) >= currentSeconds
}

// addHot sets which keys are hot, by the attribute that is spread most unevenly: its hot
// values have their part of the keys.
func (m *Model) addHot(r *Repeated, p *Pattern, s *Step, leaves []string) {
	for _, leaf := range leaves {
		f := s.Entity.byName[leaf]
		a := f.Attribute
		if a == nil || a.Shards > 0 || r.Keys < 2 {
			continue
		}
		share := declaredSkew(p, s.Action, a)
		keys := r.Keys * math.Min(1, float64(a.HotValues())/m.distinct(f))
		if share > 0 && keys < r.Keys && (r.HotShare == 0 || share/keys > r.HotShare/r.HotKeys) {
			r.HotShare, r.HotKeys = share, math.Max(1, keys)
		}
	}
}
