package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

// disorder is why the keys that contain an attribute are not in the order of its values.
type disorder struct {
	reason  string
	try     string // what to do about it
	certain bool   // for values that the model lists or numbers of any length, and not only for some that it does not exclude
	numbers bool   // stored as text
}

// note is the code of a note about disorder that is not certain.
func (d *disorder) note() string {
	if d.numbers {
		return "order"
	}
	return "separator"
}

// disorderOf compares the order of an attribute with that of the keys in which a text
// follows it. It is nil if they are the same.
//
// Keys are ordered as a whole, so that a value that begins with another is compared with
// the text after the shorter one: "A B#" sorts before "A#".
func disorderOf(f, key *Field, next string) *disorder {
	if key.Type != item.S {
		return nil
	}
	if f.template != nil {
		if name, single := f.template.single(); single {
			return disorderOf(f.entity.byName[name], key, next)
		}
	}
	switch {
	case f.template == nil && len(f.Attribute.Values) > 0:
		return disorderOfValues(f, key, next)
	case f.hasEqualLength():
		return nil
	case f.Type == item.N:
		return disorderOfNumbers(f, key)
	}
	if next == "" {
		return nil // the attribute ends the key, or another follows directly, which is a collision
	}
	d := &disorder{try: tryOtherKey + f.tryEqualLength()}
	switch lower, example := lowerCharacters(next); lower {
	case "":
		d.reason = fmt.Sprintf("%q follows it in %s, and values may contain that: the keys of %q are among those of \"A\"", next, key.Name, example)
	default:
		d.reason = fmt.Sprintf("%q follows it in %s, and a value that continues another with a lower character (%s) sorts before it: %q before \"A\"", next, key.Name, lower, example)
	}
	return d
}

// tryEqualLength is how a model says that all values of a text have the same length, "" if it
// cannot: a template has the sizes of its attributes, and numbers and listed values have none.
func (f *Field) tryEqualLength() string {
	if f.template == nil {
		return "; if all values have the same length, set size and largest to it"
	}
	var parts []string
	for _, part := range f.entity.Leaves(f.Name) {
		switch {
		case part.hasEqualLength(), slices.Contains(parts, part.Name):
		case part.Type != item.S || len(part.Attribute.Values) > 0:
			return ""
		default:
			parts = append(parts, part.Name)
		}
	}
	each := ""
	if len(parts) > 1 {
		each = "each of "
	}
	return fmt.Sprintf("; if %s%s has values of one length, set its size and largest to that", each, strings.Join(parts, " and "))
}

// disorderOfNumbers is the disorder of numbers that the model does not list. Numbers whose
// digits are declared typically have as many, so that all may.
func disorderOfNumbers(f, key *Field) *disorder {
	d := &disorder{certain: f.Attribute.Digits == 0, numbers: true, try: tryPadding,
		reason: fmt.Sprintf("%s stores the number %s as text, where 10 sorts before 9", key.Name, f.Name)}
	if !d.certain {
		d.try += ", unless all values have the same number of digits"
	}
	return d
}

// What to do about disorder.
const (
	tryPadding  = "store it as zero-padded text: format: sequence"
	tryOtherKey = "end the key with it, or give it a sort key of its own"
)

// disorderOfValues compares the listed values of an attribute with the keys.
func disorderOfValues(f, key *Field, next string) *disorder {
	values := f.listedValues()
	slices.SortFunc(values, item.Compare)
	for i := 1; i < len(values); i++ {
		a, b := plain(values[i-1]), plain(values[i])
		if sortsBefore(a, b, next) {
			continue
		}
		d := &disorder{certain: true, numbers: f.Type == item.N}
		switch {
		case d.numbers:
			d.try = tryPadding
			d.reason = fmt.Sprintf("%s stores the number %s as text, where %s sorts before %s", key.Name, f.Name, b, a)
		default:
			d.try = tryOtherKey + ", or let a character follow it that sorts before those of the values"
			d.reason = fmt.Sprintf("%q follows it in %s, so that %q does not sort after %q", next, key.Name, b, a)
		}
		return d
	}
	return nil
}

// sortsBefore reports whether all keys with the value a sort before all keys with the value
// b, if next and then any text follows the value.
func sortsBefore(a, b, next string) bool {
	switch {
	case strings.HasPrefix(b, a):
		rest := b[len(a):]
		return next == "" || next < rest && !strings.HasPrefix(rest, next)
	case strings.HasPrefix(a, b):
		rest := a[len(b):]
		return next != "" && rest < next && !strings.HasPrefix(next, rest)
	}
	return a < b
}

// hasEqualLength reports whether all values of a field have the same length as text, so that
// none begins with another. A size alone does not say so, since it is the typical one.
func (f *Field) hasEqualLength() bool {
	if f.template != nil {
		return !slices.ContainsFunc(f.template.names(), func(name string) bool { return !f.entity.byName[name].hasEqualLength() })
	}
	a := f.Attribute
	switch {
	case a.Shards > 0:
		return f.Type == item.S
	case len(a.Values) > 0:
		return !slices.ContainsFunc(a.Values, func(v string) bool { return len(v) != len(a.Values[0]) })
	case a.Format != "":
		// Times in seconds and milliseconds have the same number of digits since 2001.
		return f.Type == item.S || a.Format != "sequence"
	}
	return f.Type == item.S && a.Size > 0 && a.Largest == a.Size
}

// lowerCharacters describes the characters of text that sort before a separator, with an
// example of a value that begins with A and is not in the order of the keys. lower is "" if no
// character does; the example then contains the separator.
func lowerCharacters(next string) (lower, example string) {
	switch c := next[0]; {
	case c > 'z':
		return "letters, digits, spaces and others", "AB"
	case c > 'Z':
		return "capital letters, digits, spaces and others", "AB"
	case c > '9':
		return "digits, spaces and others", "A1"
	case c > '#':
		return "spaces, ! and others", "A B"
	case c == '#':
		return `spaces, ! and "`, "A B"
	case c == '"':
		return "spaces and !", "A B"
	case c == '!':
		return "spaces", "A B"
	}
	return "", "A" + next + "B"
}
