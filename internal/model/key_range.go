package model

import "github.com/stator-db/stator/internal/language/expr"

// highText sorts after all other text: it is the last code point, which is assigned to
// no character.
const highText = "\U0010FFFF"

// beforeRange is the part of the template before the attribute of the range.
func (k *KeyPart) beforeRange() template {
	return template{parts: k.template.parts[:len(k.template.parts)-1]}
}

// selective returns the attributes that the filter selects items by, without one that only
// excludes the end of a range of keys.
func (s *Step) selective() (names []string) {
	for _, name := range s.Filter {
		if !s.uses(name) {
			names = append(names, name)
		}
	}
	return names
}

// rangeValues returns the values of the condition on a key that is a range of text: one,
// or both of BETWEEN. begin is the text before the attribute, from and to are the ends of
// the range.
//
// Another attribute may follow in the key. Keys with the value v then begin with v and the
// text that follows it (next), so that those after v are beyond v + next + highText.
// The range is exact if the keys are in the order of the attribute; see disorderOf.
func (k *KeyPart) rangeValues(begin, from, to string) []string {
	last := "" // what the last key with a value has after the value
	if k.suffix {
		last = k.next + highText
	}
	low, high := begin, begin+highText
	switch k.rangeIs {
	case "before":
		high = begin + to
	case "until":
		high = begin + to + last
	case "after":
		low = begin + from + last
		if !k.suffix && k.Op == expr.Between {
			low += "\x00" // the next text
		}
	case "from", "begins":
		low = begin + from
	default:
		low, high = begin+from, begin+to+last
	}
	switch {
	case k.Op == expr.Between:
		return []string{low, high}
	case k.rangeIs == "before" || k.rangeIs == "until":
		return []string{high}
	}
	return []string{low}
}
