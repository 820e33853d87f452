package infer

import (
	"maps"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/exchange"
)

// sampleRow is one item of a sample.
type sampleRow struct {
	item   item.Item
	values map[string]item.Value
	text   map[string]string     // strings and numbers, as templates write them
	tokens map[string][]keyToken // the parts of keys
}

// itemGroup is the items of one entity.
type itemGroup struct {
	sample *TableSample
	rows   []*sampleRow
	keys   []groupKey // of the table's own key
	mark   string     // the value of the attribute that names the entity
}

// groupKey is what the values of a key attribute have in common within a group.
type groupKey struct {
	name  string
	parts []groupPart
}

// groupPart is one part of a key; literal is "" if it varies.
type groupPart struct{ before, literal string }

const (
	maxWords      = 30 // more words at a place of a key are values
	maxSignatures = 6  // keys with more combinations of delimiters are split only once
	mostly        = 0.95
)

// textOf is a value as templates write it.
func textOf(v item.Value) (string, bool) {
	switch v.Type() {
	case item.S:
		return string(v.Bytes()), true
	case item.N:
		return v.Number().String(), true
	}
	return "", false
}

// groupsOf divides a sample into entities: by the literal parts of their keys,
// then by the attribute that names the entity, or by the sets of attributes.
func groupsOf(s *TableSample) []*itemGroup {
	if len(s.Items) == 0 {
		return nil
	}
	groups := []*itemGroup{{sample: s, rows: rowsOf(s)}}
	for _, name := range primaryKey(s.Table) {
		var next []*itemGroup
		for _, g := range groups {
			next = append(next, g.divide(name)...)
		}
		groups = next
	}
	var marked []*itemGroup
	for _, g := range groups {
		marked = append(marked, g.divideByMark()...)
	}
	groups = mergeGroups(marked)
	slices.SortStableFunc(groups, func(a, b *itemGroup) int { return strings.Compare(a.shapeText(), b.shapeText()) })
	return groups
}

// rowsOf prepares the items of a sample.
func rowsOf(s *TableSample) (rows []*sampleRow) {
	kinds := keyKinds(s.Table)
	for _, it := range s.Items {
		r := &sampleRow{item: it, values: make(map[string]item.Value), text: make(map[string]string), tokens: make(map[string][]keyToken)}
		for name, v := range it.All() {
			if kind := kinds[name]; kind != "" && kind != v.Type().String() {
				continue // the item is older than the index, and not in it
			}
			r.values[name] = v
			if text, ok := textOf(v); ok {
				r.text[name] = text
			}
		}
		rows = append(rows, r)
	}
	for _, name := range s.Table.KeyAttributes() {
		split(rows, name)
	}
	return rows
}

// keyKinds returns the types of the key attributes of a table.
func keyKinds(t *exchange.Table) map[string]string {
	kinds := make(map[string]string)
	for _, name := range t.KeyAttributes() {
		kinds[name] = "S"
	}
	for _, k := range t.Types {
		kinds[k.Name] = k.Type
	}
	return kinds
}

// split splits the values of a key attribute into parts.
func split(rows []*sampleRow, name string) {
	prefixes := usesPrefixes(rows, name)
	signatures := make(map[string]bool)
	for _, r := range rows {
		v, ok := r.values[name]
		if !ok || v.Type() != item.S {
			continue
		}
		r.tokens[name] = tokensOf(r.text[name], prefixes)
		first := r.tokens[name][0].text
		signatures[first+"\x00"+delimitersOf(r.tokens[name])] = true
	}
	perWord := make(map[string]int)
	for s := range signatures {
		first, _, _ := strings.Cut(s, "\x00")
		if wordToken().MatchString(first) {
			perWord[first]++
		}
	}
	for _, r := range rows {
		if t := r.tokens[name]; len(t) > 2 && perWord[t[0].text] > maxSignatures {
			rest := r.text[name][len(t[0].text)+len(t[1].before):]
			r.tokens[name] = []keyToken{t[0], {t[1].before, rest}}
		}
	}
}

// divide divides a group by the literal parts of a key attribute.
func (g *itemGroup) divide(name string) (all []*itemGroup) {
	bySignature := make(map[string][]*sampleRow)
	for _, r := range g.rows {
		s := delimitersOf(r.tokens[name])
		bySignature[s] = append(bySignature[s], r)
	}
	for _, s := range slices.Sorted(maps.Keys(bySignature)) {
		rows := bySignature[s]
		groups := []*itemGroup{{sample: g.sample, rows: rows, keys: append(slices.Clone(g.keys), groupKey{name: name})}}
		for i := range rows[0].tokens[name] {
			var next []*itemGroup
			for _, x := range groups {
				next = append(next, x.divideAt(name, i)...)
			}
			groups = next
		}
		all = append(all, groups...)
	}
	return all
}

// divideAt divides a group by the words at one place of a key.
func (g *itemGroup) divideAt(name string, at int) (all []*itemGroup) {
	byWord := make(map[string][]*sampleRow)
	for _, r := range g.rows {
		word := r.tokens[name][at].text
		if !wordToken().MatchString(word) {
			word = ""
		}
		byWord[word] = append(byWord[word], r)
	}
	words := slices.Sorted(maps.Keys(byWord))
	first := at == 0 && len(g.rows[0].tokens[name]) > 1
	tooMany := len(words) > maxWords || g.isIndexKey(name, at, len(words))
	values := make(map[string]bool)
	for _, word := range words {
		if word != "" && g.isValue(byWord[word], word) {
			values[word] = true
		}
	}
	if first && len(values) == 1 {
		clear(values) // an attribute may equal a prefix by chance
	}
	rest := byWord[""]
	for _, word := range words {
		if word == "" {
			continue
		}
		rows := byWord[word]
		constant := capitals().MatchString(word) || first || len(rows) >= 3
		if tooMany || !constant || values[word] || !g.sample.mayName(word, len(rows)) {
			rest = append(rest, rows...)
			continue
		}
		all = append(all, g.with(rows, name, at, word))
	}
	if len(rest) > 0 {
		all = append(all, g.with(rest, name, at, ""))
	}
	return all
}

// with returns a group of some of the rows, with one more part of its last key.
func (g *itemGroup) with(rows []*sampleRow, name string, at int, literal string) *itemGroup {
	x := &itemGroup{sample: g.sample, rows: rows, keys: slices.Clone(g.keys), mark: g.mark}
	last := &x.keys[len(x.keys)-1]
	last.parts = append(slices.Clone(last.parts), groupPart{rows[0].tokens[name][at].before, literal})
	return x
}

// isValue reports whether a word in the keys of items is the value of one of
// their attributes, other than one that may name the entity.
func (g *itemGroup) isValue(rows []*sampleRow, word string) bool {
	keys := g.sample.Table.KeyAttributes()
	for name := range rows[0].text {
		if slices.Contains(keys, name) || markOf(name) != noMark {
			continue
		}
		if share(rows, func(r *sampleRow) bool { return r.text[name] == word }) >= mostly {
			return true
		}
	}
	return false
}

// isIndexKey reports whether the words at a place of a key are the values of
// the key attribute of an index.
func (g *itemGroup) isIndexKey(key string, at, words int) bool {
	if words < 3 {
		return false
	}
	for _, name := range g.sample.Table.KeyAttributes() {
		if slices.Contains(primaryKey(g.sample.Table), name) {
			continue
		}
		if share(g.rows, func(r *sampleRow) bool { return r.text[name] == r.tokens[key][at].text }) >= mostly {
			return true
		}
	}
	return false
}

// share is the share of items for which something holds.
func share(rows []*sampleRow, holds func(*sampleRow) bool) float64 {
	n := 0
	for _, r := range rows {
		if holds(r) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(rows)))
}

// shapeText is the keys of a group with * for each part that varies.
func (g *itemGroup) shapeText() string {
	var all []string
	for _, k := range g.keys {
		text := ""
		for _, p := range k.parts {
			text += p.before
			if p.literal == "" {
				text += "*"
			} else {
				text += p.literal
			}
		}
		if text == "" {
			text = "*"
		}
		all = append(all, text)
	}
	if g.mark != "" {
		all = append(all, "("+g.mark+")")
	}
	return strings.Join(all, " ")
}
