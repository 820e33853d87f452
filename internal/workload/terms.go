package workload

import (
	"maps"
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
	tables map[string]*tableTerms
}

// tableTerms holds the terms of one table.
type tableTerms struct {
	schema *schema.Table // as the last request with a new shape found it
	counts map[shapeTerm]int
}

// shapeTerm is a prefix of a key attribute, a whole value of one, or the name of an
// attribute. Without text it stands for all terms of its kind: its count is their number, or
// one more than the most if there were more.
type shapeTerm struct {
	kind            termKind
	attribute, text string
}

type termKind int

const (
	nameTerm termKind = iota
	prefixTerm
	wholeTerm
)

// most is how many terms of a kind a table has.
func (k termKind) most() int {
	return [...]int{nameTerm: MaxNames, prefixTerm: MaxPrefixes, wholeTerm: MaxWhole}[k]
}

// known reports whether a table has a term, and adds it as long as there are not too many
// of its kind.
func (k *terms) known(t *schema.Table, term shapeTerm) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.tables[t.Name]
	if all == nil {
		if len(k.tables) >= MaxShapes {
			return false
		}
		if k.tables == nil {
			k.tables = make(map[string]*tableTerms)
		}
		all = &tableTerms{counts: make(map[shapeTerm]int)}
		k.tables[t.Name] = all
	}
	all.schema = t
	if _, ok := all.counts[term]; ok {
		return true
	}
	kind := shapeTerm{kind: term.kind, attribute: term.attribute}
	if n := all.counts[kind]; n >= term.kind.most() {
		all.counts[kind] = term.kind.most() + 1
		return false
	}
	all.counts[kind]++
	term.text = strings.Clone(term.text) // it may share memory with a request
	all.counts[term] = 1
	return true
}

// drop drops the terms of tables.
func (k *terms) drop(gone map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.tables, func(table string, _ *tableTerms) bool { return gone[table] })
}

// wholeValues returns the tables, and the key attributes that have too many whole values.
func (k *terms) wholeValues() (tables map[string]*schema.Table, tooMany map[wholeValue]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	tables, tooMany = make(map[string]*schema.Table), make(map[wholeValue]bool)
	for name, t := range k.tables {
		tables[name] = t.schema
		for term, n := range t.counts {
			if term.kind == wholeTerm && term.text == "" && n > MaxWhole {
				tooMany[wholeValue{name, term.attribute, ""}] = true
			}
		}
	}
	return tables, tooMany
}

// Prefix returns the prefix of a key attribute's value as a shape contains it.
func (r *Recorder) Prefix(t *schema.Table, attribute string, v item.Value) string {
	p := string(PrefixOf(v))
	term := shapeTerm{prefixTerm, attribute, p}
	if isWhole(p) {
		term.kind = wholeTerm
	}
	if p == "" || r.current.Load().terms.known(t, term) {
		return p
	}
	return Unknown
}

// Name returns the name of an attribute as a shape contains it.
func (r *Recorder) Name(t *schema.Table, name string) string {
	if t.Uses(name) {
		return name
	}
	if Reported(name) && r.current.Load().terms.known(t, shapeTerm{nameTerm, "", name}) {
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
