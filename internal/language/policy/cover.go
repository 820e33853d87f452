package policy

import "unicode/utf8"

// maxPatternWork bounds the comparison of two patterns.
const maxPatternWork = 1 << 20

// globChar is a character of a pattern: one that must be there, or a wildcard.
type globChar struct {
	kind globKind
	char rune
}

// chars returns the pattern character by character. A variable stands for any text.
func (g *glob) chars() []globChar {
	var all []globChar
	for _, p := range g.parts {
		switch p.kind {
		case globLiteral:
			for _, c := range p.text {
				all = append(all, globChar{globLiteral, c})
			}
		case globOne:
			all = append(all, globChar{kind: globOne})
		default:
			all = append(all, globChar{kind: globAny})
		}
	}
	return all
}

// covers reports whether all texts that match inner match g as well. It may miss
// some that are covered in a complicated way.
func (g *glob) covers(inner *glob) bool {
	if g.vars || inner.vars {
		return false
	}
	a, b := g.chars(), inner.chars()
	if len(a)*len(b) > maxPatternWork {
		return false
	}
	seen := make(map[[2]int]bool)
	var match func(i, j int) bool
	match = func(i, j int) bool {
		if i == len(a) {
			return j == len(b)
		}
		if seen[[2]int{i, j}] {
			return false
		}
		seen[[2]int{i, j}] = true
		switch {
		case a[i].kind == globAny:
			return match(i+1, j) || j < len(b) && match(i, j+1)
		case j == len(b) || b[j].kind == globAny:
			return false
		case a[i].kind == globOne || a[i] == b[j]:
			return match(i+1, j+1)
		default:
			return false
		}
	}
	return match(0, 0)
}

// canMatch reports whether a text of a shape can match the pattern. In a shape, +
// stands for at least one character other than a slash.
func (g *glob) canMatch(shape string) bool {
	a := g.chars()
	if len(a)*len(shape) > maxPatternWork {
		return true
	}
	type state struct {
		i, j int
		in   bool // a character of the + at j was already taken
	}
	seen := make(map[state]bool)
	var match func(state) bool
	match = func(s state) bool {
		if seen[s] {
			return false
		}
		seen[s] = true
		next := state{s.i + 1, s.j, s.in}
		if s.j == len(shape) {
			return s.i == len(a) || a[s.i].kind == globAny && match(next)
		}
		c, size := utf8.DecodeRuneInString(shape[s.j:])
		after := s.j + size
		if c == '+' && s.in && match(state{s.i, after, false}) {
			return true
		}
		if s.i == len(a) {
			return false
		}
		if a[s.i].kind == globAny {
			if match(next) { // it takes nothing
				return true
			}
			if c == '+' {
				return match(state{s.i, s.j, true})
			}
			return match(state{s.i, after, false})
		}
		if c == '+' {
			return (a[s.i].kind == globOne || a[s.i].char != '/') && match(state{s.i + 1, s.j, true})
		}
		return (a[s.i].kind == globOne || a[s.i].char == c) && match(state{s.i + 1, after, false})
	}
	return match(state{})
}

// types returns the types of resources that a pattern can match.
func (g *glob) types() resourceTypes {
	var types resourceTypes
	for _, s := range resourceShapes {
		if s.types == onNothing {
			if g.match("*", nil, false) {
				types |= onNothing
			}
		} else if g.canMatch(s.arn) {
			types |= s.types
		}
	}
	return types
}
