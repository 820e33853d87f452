package model

import (
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/data/item"
)

// match finds the values with which a template gives a text. It returns them if
// there is one way, and the number of ways: 0, 1, or 2 for several.
func (e *Entity) match(t *template, text string, known map[string]item.Value) (map[string]item.Value, int) {
	m := &templateMatch{text: text}
	for _, p := range e.flatten(t, nil) {
		v, ok := known[p.name]
		switch {
		case p.name == "":
			m.parts = append(m.parts, matchPart{constant: p.text})
		case !ok:
			m.parts = append(m.parts, matchPart{field: e.byName[p.name]})
		case v.Type() != item.S && v.Type() != item.N:
			return nil, 0 // a template has no text for it
		default:
			m.parts = append(m.parts, matchPart{constant: plain(v)})
		}
	}
	if f := m.repeated(); f != nil {
		return m.matchRepeated(e, t, f, known)
	}
	m.count()
	if m.ways[0][0] != 1 {
		return nil, int(m.ways[0][0])
	}
	return m.solution(), 1
}

// MayBe reports whether the template of a field gives a value for any values of its
// attributes, whether or not these are valid.
func (f *Field) MayBe(v item.Value) bool {
	if v.Type() != f.Type || f.Type != item.S {
		return v.Type() == f.Type
	}
	text, constant, open := string(v.Bytes()), "", false
	for _, p := range f.entity.flatten(f.template, nil) {
		if p.name == "" {
			constant += p.text
			continue
		}
		at := 0
		if open {
			at = strings.Index(text, constant)
		}
		if at < 0 || !strings.HasPrefix(text[at:], constant) {
			return false
		}
		text, constant, open = text[at+len(constant):], "", true
	}
	return text == constant || open && strings.HasSuffix(text, constant)
}

// flatten replaces attributes with templates by their parts.
func (e *Entity) flatten(t *template, parts []templatePart) []templatePart {
	for _, p := range t.parts {
		if f, ok := e.byName[p.name]; p.name != "" && ok && f.template != nil {
			parts = e.flatten(f.template, parts)
		} else {
			parts = append(parts, p)
		}
	}
	return parts
}

// templateMatch counts the ways in which a template gives a text.
type templateMatch struct {
	parts []matchPart
	text  string

	// ways is in how many ways the parts from one on give the text from an offset
	// on: 0, 1, or 2 for several. It takes a number of steps that is proportional
	// to the text's length, while a search may take a power of it.
	ways [][]uint8
}

// matchPart is a part of a template: an attribute, or a constant if field is nil.
type matchPart struct {
	constant string
	field    *Field
}

// count fills ways, from the end of the template and of the text.
func (m *templateMatch) count() {
	m.ways = make([][]uint8, len(m.parts)+1)
	for i := range m.ways {
		m.ways[i] = make([]uint8, len(m.text)+1)
	}
	m.ways[len(m.parts)][len(m.text)] = 1
	for i := len(m.parts) - 1; i >= 0; i-- {
		after := m.ways[i+1]
		for at := len(m.text); at >= 0; at-- {
			n := uint8(0)
			switch p := m.parts[i]; {
			case p.field == nil:
				if strings.HasPrefix(m.text[at:], p.constant) {
					n = after[at+len(p.constant)]
				}
			case p.field.isFree():
				// It ends at the next byte, or where a value ends that begins there.
				if at < len(m.text) {
					n = m.ways[i][at+1] + m.endsAt(at+1)*after[at+1]
				}
			default:
				for end := range p.field.ends(m.text, at) {
					n = min(2, n+after[end])
				}
			}
			m.ways[i][at] = min(2, n)
		}
	}
}

// endsAt is 1 if a value may end at an offset, and 0 within a character.
func (m *templateMatch) endsAt(at int) uint8 {
	if at == len(m.text) || utf8.RuneStart(m.text[at]) {
		return 1
	}
	return 0
}

// solution returns the values, of which there is one way.
func (m *templateMatch) solution() map[string]item.Value {
	found := make(map[string]item.Value)
	at := 0
	for i, p := range m.parts {
		if p.field == nil {
			at += len(p.constant)
			continue
		}
		for end := range p.field.ends(m.text, at) {
			if m.ways[i+1][end] > 0 {
				found[p.field.Name], _ = p.field.parse(m.text[at:end])
				at = end
				break
			}
		}
	}
	return found
}

// isFree reports whether an attribute may have any text.
func (f *Field) isFree() bool {
	return f.Type == item.S && (f.Attribute == nil || len(f.Attribute.Values) == 0)
}

// maxNumberText is more than the length of any number as text.
const maxNumberText = 200

// ends yields where values of the attribute may end that begin at an offset of a
// text.
func (f *Field) ends(text string, at int) func(yield func(end int) bool) {
	return func(yield func(int) bool) {
		if f.Attribute != nil && len(f.Attribute.Values) > 0 {
			for _, v := range f.Attribute.Values {
				if strings.HasPrefix(text[at:], v) && f.reads(v) && !yield(at+len(v)) {
					return
				}
			}
			return
		}
		last := len(text)
		if f.Type == item.N {
			last = min(last, at+maxNumberText)
		}
		for end := at + 1; end <= last; end++ {
			if end < len(text) && !utf8.RuneStart(text[end]) || !f.isFree() && !f.reads(text[at:end]) {
				continue
			}
			if !yield(end) {
				return
			}
		}
	}
}

// reads reports whether a text is a value of the attribute.
func (f *Field) reads(text string) bool {
	_, ok := f.parse(text)
	return ok && text != ""
}

// repeated returns an attribute that occurs twice, nil if there is none.
func (m *templateMatch) repeated() *Field {
	seen := make(map[*Field]bool)
	for _, p := range m.parts {
		if p.field != nil && seen[p.field] {
			return p.field
		}
		seen[p.field] = true
	}
	return nil
}

// maxRepeated is how long a text may be in which an attribute occurs twice that
// is read from it.
const maxRepeated = 100

// matchRepeated tries the values of an attribute that occurs twice.
func (m *templateMatch) matchRepeated(e *Entity, t *template, f *Field, known map[string]item.Value) (found map[string]item.Value, ways int) {
	if len(m.text) > maxRepeated {
		return nil, 2
	}
	tried := make(map[string]bool)
	for at := range m.text {
		for end := range f.ends(m.text, at) {
			text := m.text[at:end]
			if tried[text] || strings.Count(m.text, text) < 2 {
				continue
			}
			tried[text] = true
			with := maps.Clone(known)
			with[f.Name], _ = f.parse(text)
			one, n := e.match(t, m.text, with)
			if ways += n; ways > 1 {
				return nil, 2
			}
			if n == 1 {
				found = one
				found[f.Name] = with[f.Name]
			}
		}
	}
	return found, ways
}
