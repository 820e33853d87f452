package workload

import (
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// How many different terms the shapes of a table contain. Further ones are Unknown.
const (
	MaxPrefixes = 64  // of each key attribute
	MaxNames    = 128 // of attributes
)

// unknownName stands for the name of an attribute that is not reported. A ? alone is a
// value.
const unknownName = "??"

// terms holds the prefixes and names that shapes contain, by table.
type terms struct {
	mu     sync.Mutex
	tables map[string]map[shapeTerm]int // 1 for a term, or the number of terms of its kind
}

// shapeTerm is a prefix of a key attribute, or with no attribute the name of one. Without
// text it stands for all terms of its kind.
type shapeTerm struct{ attribute, text string }

// known reports whether a table has a term, and adds it as long as there are fewer
// than most of its kind.
func (k *terms) known(table string, t shapeTerm, most int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.tables[table]
	if _, ok := all[t]; ok {
		return true
	}
	kind := shapeTerm{attribute: t.attribute}
	if all[kind] >= most || all == nil && len(k.tables) >= MaxShapes {
		return false
	}
	if all == nil {
		if k.tables == nil {
			k.tables = make(map[string]map[shapeTerm]int)
		}
		all = make(map[shapeTerm]int)
		k.tables[table] = all
	}
	all[kind]++
	all[shapeTerm{t.attribute, strings.Clone(t.text)}] = 1 // the name may share memory with a request
	return true
}

// Prefix returns the prefix of a key attribute's value as a shape contains it.
func (r *Recorder) Prefix(t *schema.Table, attribute string, v item.Value) string {
	p := string(PrefixOf(v))
	if p == "" || r.current.Load().terms.known(t.Name, shapeTerm{"p " + attribute, p}, MaxPrefixes) {
		return p
	}
	return Unknown
}

// Name returns the name of an attribute as a shape contains it.
func (r *Recorder) Name(t *schema.Table, name string) string {
	if t.Uses(name) {
		return name
	}
	if Reported(name) && r.current.Load().terms.known(t.Name, shapeTerm{"", name}, MaxNames) {
		return name
	}
	return unknownName
}

// Reported reports whether the name of an attribute that is not in its table's
// description is reported. A name of a program's has at most 40 letters and underscores
// and at most two digits; a longer or another one may be a customer's data.
func Reported(name string) bool {
	digits := 0
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case '0' <= c && c <= '9':
			digits++
		default:
			return false
		}
	}
	return len(name) <= 40 && digits <= 2
}
