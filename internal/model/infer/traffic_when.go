package infer

import (
	"slices"
	"strconv"

	"github.com/stator-db/stator/internal/model"
)

// dropContradicted removes the when of attributes that an update contradicts, whatever values it has
// before and after: no request would be right for all items that it is sent for, so that the
// enumeration does not decide which items have them. It reports whether there were any.
func (r *Result) dropContradicted() (changed bool) {
	for _, p := range r.stale(r.Patterns...) {
		all := r.decidedBy(p)
		for _, whens := range append(all, slices.Concat(all...)) {
			if len(whens) == 0 {
				continue
			}
			for _, w := range whens {
				w.of.When = nil
			}
			agrees := len(r.stale(p)) == 0
			for _, w := range whens {
				w.of.When = w.when
				if agrees {
					w.of.dropWhen("as an update that changes it shows")
				}
			}
			if agrees {
				changed = true
				break
			}
		}
	}
	return changed
}

// decidedWhen is the when of an attribute.
type decidedWhen struct {
	of   *Attribute
	when *Presence
}

// decidedBy returns the attributes that are decided by what a pattern sets, for each
// attribute that it sets.
func (r *Result) decidedBy(p *Pattern) (all [][]decidedWhen) {
	for _, a := range p.Actions {
		for _, e := range r.Entities {
			if e.Name != a.Entity {
				continue
			}
			for _, s := range a.Set {
				var decided []decidedWhen
				for _, x := range e.Attributes {
					if x.When != nil && x.When.Attribute == s.Name {
						decided = append(decided, decidedWhen{x, x.When})
					}
				}
				all = append(all, decided)
			}
		}
	}
	return all
}

// stale returns the patterns after which an item would contradict the model.
func (r *Result) stale(patterns ...*Pattern) (all []*Pattern) {
	faults, err := r.check(patterns...)
	if err != nil {
		return nil
	}
	for i, p := range patterns {
		if slices.ContainsFunc(faults, func(f *model.Fault) bool { return f.Code == "stale" && f.Pattern == strconv.Itoa(i) }) {
			all = append(all, p)
		}
	}
	return all
}
