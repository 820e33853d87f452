package main

import (
	"cmp"
	"regexp"
)

// A known fault is a difference that has been decided: the witness is wrong, or
// AWS does not define the answer.
type known struct {
	name     string
	witness  string // the server that it concerns; "" is both
	ops      string // a regular expression of operations; "" is all
	stator   string // a regular expression of stator's outcome; "" is any
	other    string // a regular expression of the witness's outcome; "" is any
	places   string // a regular expression of the place of the difference; "" is the outcome
	agreed   bool   // the third server must have the same answer as stator
	alone    bool   // it also explains what both witnesses answer alike
	when     func(f *finding) bool
	evidence string

	patterns knownPatterns // set by compiled
}

// knownPatterns are the compiled regular expressions of a known fault; nil
// matches everything.
type knownPatterns struct{ ops, stator, other, places *regexp.Regexp }

// compiled compiles the regular expressions of known faults.
func compiled(all []known) []known {
	for i := range all {
		k := &all[i]
		k.patterns = knownPatterns{whole(k.ops), whole(k.stator), whole(k.other), whole(cmp.Or(k.places, "outcome"))}
	}
	return all
}

// whole compiles a regular expression that matches whole texts.
func whole(pattern string) *regexp.Regexp {
	if pattern == "" {
		return nil
	}
	return regexp.MustCompile(`(?s)^(?:` + pattern + `)$`)
}

func matches(pattern *regexp.Regexp, text string) bool {
	return pattern == nil || pattern.MatchString(text)
}

// explain returns the known faults that explain all places of a finding, or nil.
func explain(f *finding) (found []*known) {
	if f.Stator.Status >= 500 || !f.worded() {
		return nil
	}
	if statements, ok := f.statements(); ok {
		return explainBatch(f, statements)
	}
	return explainPlaces(f)
}

func explainPlaces(f *finding) (found []*known) {
	for _, place := range f.Places {
		k := explainPlace(f, place)
		if k == nil {
			return nil
		}
		found = append(found, k)
	}
	return found
}

func explainPlace(f *finding, place string) *known {
	for i := range faults {
		if faults[i].explains(f, place) {
			return &faults[i]
		}
	}
	return nil
}

func (k *known) explains(f *finding, place string) bool {
	return (k.witness == "" || k.witness == f.Witness) &&
		matches(k.patterns.places, place) &&
		matches(k.patterns.ops, f.Step.Op) &&
		matches(k.patterns.stator, f.Stator.bare()) &&
		matches(k.patterns.other, f.Other.bare()) &&
		(!k.agreed || f.agreed(place)) &&
		(k.alone || !f.alone(place)) &&
		(k.when == nil || k.when(f))
}
