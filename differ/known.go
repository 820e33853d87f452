package main

import "regexp"

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
	when     func(f *finding) bool
	evidence string
}

// explain returns the known faults that explain all places of a finding, or nil.
func explain(f *finding) (found []*known) {
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
	pattern := k.places
	if pattern == "" {
		pattern = "outcome"
	}
	return (k.witness == "" || k.witness == f.Witness) &&
		matches(pattern, place) &&
		matches(k.ops, f.Step.Op) &&
		matches(k.stator, f.Stator.bare()) &&
		matches(k.other, f.Other.bare()) &&
		(!k.agreed || f.agreed(place)) &&
		(k.when == nil || k.when(f))
}

var compiled = make(map[string]*regexp.Regexp)

// matches reports whether a whole text matches a regular expression.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	re := compiled[pattern]
	if re == nil {
		re = regexp.MustCompile(`(?s)^(?:` + pattern + `)$`)
		compiled[pattern] = re
	}
	return re.MatchString(text)
}
