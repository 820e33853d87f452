package workload

import (
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

// MaxPrefixBytes is the length of the longest prefix of a key that a shape contains.
const MaxPrefixBytes = 24

// Unknown stands in a shape for a prefix or a name that is not reported, since it may
// be a customer's data or the table has too many of them.
const Unknown = "?"

// Prefix returns the part of a key value that names its entity in a table of several
// entities: letters and underscores up to the first separator, as in ORDER#17, or a
// whole value of upper-case letters and underscores, as in PROFILE. A separator may come
// first, as in #META#17. Other values have none: they may be a customer's data. The
// result is a part of value.
func Prefix(value []byte) []byte {
	i := 0
	if len(value) > 0 && isSeparator(value[0]) {
		i = 1
	}
	begin, upper := i, true
	for ; i < len(value) && i < MaxPrefixBytes; i++ {
		switch c := value[i]; {
		case 'A' <= c && c <= 'Z', c == '_':
		case 'a' <= c && c <= 'z':
			upper = false
		case isSeparator(c) && i > begin:
			return value[:i+1]
		default:
			return nil
		}
	}
	if i == len(value) && i > begin && upper {
		return value
	}
	return nil
}

// isSeparator reports whether a byte ends the prefix of a key.
func isSeparator(c byte) bool {
	switch c {
	case '#', ':', '|', '/', '~', '^', '$', '!':
		return true
	}
	return false
}

// PrefixOf returns the prefix of a key attribute's value.
func PrefixOf(v item.Value) []byte {
	if len(v) == 0 || v.Type() != item.S {
		return nil
	}
	return Prefix(v.Bytes())
}

// KeyPrefix is what a design says about the prefix of a key attribute: the literal text
// that its values begin with.
type KeyPrefix struct {
	Literal string
	Whole   bool // the values consist of the literal text alone
	Begins  bool // the request asks for values that begin with the text, so it may be shorter
}

// Prefix returns the prefix that all values have; not ok if it depends on the rest of
// the value.
func (k KeyPrefix) Prefix() (prefix string, ok bool) {
	if k.Whole {
		return string(Prefix([]byte(k.Literal))), true
	}
	// A digit ends the search for a prefix as a separator does, but finds none.
	if p := Prefix([]byte(k.Literal + "0")); p != nil {
		return string(p), true
	}
	rest := k.Literal
	if rest != "" && isSeparator(rest[0]) {
		rest = rest[1:]
	}
	open := len(k.Literal) <= MaxPrefixBytes && strings.Trim(rest, letters) == ""
	return "", !open
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

// Matches reports whether requests with such keys may have a prefix in their shape, and
// whether the prefix identifies the entity.
func (k KeyPrefix) Matches(prefix string) (ok, sure bool) {
	if prefix == Unknown {
		return true, false
	}
	if want, fixed := k.Prefix(); fixed {
		if k.Begins && prefix != "" && want != "" && strings.HasPrefix(want, prefix) {
			return true, true
		}
		return prefix == want, want != ""
	}
	return prefix == "" || strings.HasPrefix(prefix, k.Literal), prefix != "" && k.Literal != ""
}
