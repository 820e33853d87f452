package infer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

// templateToken is constant text, or the name of an attribute.
type templateToken struct{ text, name string }

// nearlyAll is the share of items that a template must describe.
const nearlyAll = 0.98

// templates derives the templates of all keys of a group.
func (g *itemGroup) templates(e *Entity) {
	b := &templateBuilder{g: g, e: e}
	for _, name := range g.sample.Table.KeyAttributes() {
		b.key(name)
	}
}

// templateBuilder derives the templates of one entity.
type templateBuilder struct {
	g *itemGroup
	e *Entity
}

// key derives the template of a key attribute. An attribute without one is
// described like any other.
func (b *templateBuilder) key(name string) {
	var rows []*sampleRow
	for _, r := range b.g.rows {
		if v, ok := r.values[name]; ok && v.Type() == item.S {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return
	}
	signature := commonSignature(rows, name)
	agreeing := slices.DeleteFunc(slices.Clone(rows), func(r *sampleRow) bool { return delimitersOf(r.tokens[name]) != signature })
	if float64(len(agreeing)) < nearlyAll*float64(len(rows)) {
		return
	}
	k := &Key{Name: name}
	for i := range agreeing[0].tokens[name] {
		k.parts = append(k.parts, b.part(agreeing, k, i)...)
	}
	if len(k.parts) == 1 && k.parts[0].name == name {
		return
	}
	k.parts = joinTexts(k.parts)
	k.Template = templateText(k.parts)
	exact := 0
	for _, r := range rows {
		if fill(k.parts, r) == r.text[name] {
			exact++
		}
	}
	k.Guess = fmt.Sprintf("%s of %s items have it, %s of them in this form", figure(len(rows)), figure(len(b.g.rows)), figure(exact))
	if len(rows) == len(b.g.rows) {
		k.Guess = fmt.Sprintf("%s of %s items have this form", figure(exact), figure(len(rows)))
	}
	if others := b.others(agreeing, k); others != "" {
		k.Guess += "; " + others
	}
	b.e.Keys = append(b.e.Keys, k)
}

// commonSignature returns the delimiters that most values of a key have.
func commonSignature(rows []*sampleRow, name string) (common string) {
	counts := make(map[string]int)
	for _, r := range rows {
		s := delimitersOf(r.tokens[name])
		if counts[s]++; counts[s] > counts[common] || counts[s] == counts[common] && s < common {
			common = s
		}
	}
	return common
}

// part returns the tokens of the i-th part of a key.
func (b *templateBuilder) part(rows []*sampleRow, k *Key, i int) []templateToken {
	first := rows[0].tokens[k.Name][i]
	tokens := []templateToken{{text: first.before}}
	constant := share(rows, func(r *sampleRow) bool { return r.tokens[k.Name][i].text == first.text }) == 1
	if first.text == "" && constant {
		return tokens
	}
	value := func(r *sampleRow) string { return r.tokens[k.Name][i].text }
	before := lastText(append(slices.Clone(k.parts), tokens...))
	if literal, known := b.g.literalAt(k.Name, i); known && literal != "" || !known && constant && b.isLiteral(rows, before, first.text, value) {
		return append(tokens, templateToken{text: first.text})
	}
	whole := i == 0 && len(rows[0].tokens[k.Name]) == 1
	if parts := b.cover(rows, k.Name, before, value, 0); parts != nil {
		return append(tokens, parts...)
	}
	if whole && constant && slices.Contains(primaryKey(b.g.sample.Table), k.Name) && len(rows) >= 2 && b.g.sample.mayName(first.text, len(rows)) {
		return append(tokens, templateToken{text: first.text})
	}
	if whole {
		return []templateToken{{name: k.Name}} // the attribute has values of its own
	}
	return append(tokens, templateToken{name: b.unstored(rows, k.Name, before, value)})
}

// literalAt returns the literal by which items were grouped; known is false for
// keys that play no part in that.
func (g *itemGroup) literalAt(name string, i int) (literal string, known bool) {
	for _, k := range g.keys {
		if k.name == name && i < len(k.parts) {
			return k.parts[i].literal, k.parts[i].literal != ""
		}
	}
	return "", false
}

// isLiteral reports whether a part that is the same in all items is constant
// text: it is not the value of an attribute, and is a word or in many items. An
// attribute that is always the same may equal it by chance, if the text before it
// does not name the attribute.
func (b *templateBuilder) isLiteral(rows []*sampleRow, before, text string, value func(*sampleRow) string) bool {
	for _, name := range b.equal(rows, "", value) {
		varies := share(b.g.rows, func(r *sampleRow) bool { return r.text[name] == text }) < 1
		if varies || before != "" {
			return false
		}
	}
	if !b.g.sample.mayName(text, len(rows)) {
		return false
	}
	return capitals().MatchString(text) || len(rows) >= 5 || wordToken().MatchString(text) && len(rows) >= 2
}

// cover returns the attributes of which a part consists; nil if there are none.
func (b *templateBuilder) cover(rows []*sampleRow, key, before string, value func(*sampleRow) string, depth int) []templateToken {
	if same := b.equal(rows, key, value); len(same) > 0 {
		return []templateToken{{name: b.best(same, before)}}
	}
	if depth == 3 {
		return nil
	}
	for _, name := range b.candidates(rows, key) {
		between, ok := b.remainder(rows, name, value)
		if !ok {
			continue
		}
		rest := b.cover(rows, key, between, func(r *sampleRow) string { return value(r)[len(r.text[name])+len(between):] }, depth+1)
		if rest != nil {
			return append([]templateToken{{name: name}, {text: between}}, rest...)
		}
	}
	return nil
}

// remainder reports whether a part begins with an attribute and a separator in
// all items, and returns the separator.
func (b *templateBuilder) remainder(rows []*sampleRow, name string, value func(*sampleRow) string) (between string, ok bool) {
	for i, r := range rows {
		rest, found := strings.CutPrefix(value(r), r.text[name])
		if !found || r.text[name] == "" || len(rest) < 2 || !strings.ContainsAny(rest[:1], "-_.@+, ") {
			return "", false
		}
		if i == 0 {
			between = rest[:1]
		}
		if rest[:1] != between {
			return "", false
		}
	}
	return between, true
}

// candidates returns the attributes that a template may contain.
func (b *templateBuilder) candidates(rows []*sampleRow, key string) (all []string) {
	keys := b.g.sample.Table.KeyAttributes()
	for name := range rows[0].text {
		if name == key || name == "_" || strings.ContainsAny(name, "{}") || b.e.key(name) != nil {
			continue
		}
		at := slices.Index(keys, name)
		if at >= 0 && (key == "" || at > slices.Index(keys, key) || len(rows[0].tokens[name]) > 1) {
			continue // it may get a template itself
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// equal returns the attributes whose values are those of a part. An attribute
// that names the entity is not one of them if key is "".
func (b *templateBuilder) equal(rows []*sampleRow, key string, value func(*sampleRow) string) (all []string) {
	for _, name := range b.candidates(rows, key) {
		if key == "" && markOf(name) != noMark {
			continue
		}
		if share(rows, func(r *sampleRow) bool { return r.text[name] == value(r) }) >= nearlyAll {
			all = append(all, name)
		}
	}
	return all
}

// best returns the attribute that fits the constant text before it.
func (b *templateBuilder) best(names []string, before string) string {
	return slices.MaxFunc(names, func(x, y string) int { return b.score(x, before) - b.score(y, before) })
}

func (b *templateBuilder) score(name, before string) (n int) {
	lower, word := plainLower(name), plainLower(before)
	if word != "" && (strings.HasPrefix(lower, word) || strings.HasPrefix(word, lower)) {
		n += 8
	}
	for _, k := range b.e.Keys {
		if slices.ContainsFunc(k.parts, func(t templateToken) bool { return t.name == name }) {
			n += 4
			break
		}
	}
	if strings.HasSuffix(lower, "id") {
		n++
	}
	return n
}

func plainLower(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, text)
}

// lastText is the last constant of a template that is not only a delimiter.
func lastText(parts []templateToken) string {
	for _, p := range slices.Backward(parts) {
		if plainLower(p.text) != "" {
			return p.text
		}
	}
	return ""
}

// unstored adds a part that no attribute contains, and returns its name.
func (b *templateBuilder) unstored(rows []*sampleRow, key, before string, value func(*sampleRow) string) string {
	base := attributeName(before)
	if base == "" {
		base = attributeName(key) + "Part"
	}
	var texts []string
	for _, r := range rows {
		texts = append(texts, value(r))
	}
	if shardsOf(texts) > 0 {
		base = "shard"
	}
	name := base
	if b.taken(name) {
		name = base + "Part"
	}
	for n := 2; b.taken(name); n++ {
		name = base + strconv.Itoa(n)
	}
	for _, r := range rows {
		r.text[name] = value(r)
	}
	b.e.Attributes = append(b.e.Attributes, &Attribute{Name: name, Unstored: true})
	return name
}

func (b *templateBuilder) taken(name string) bool {
	return slices.ContainsFunc(b.g.rows, func(r *sampleRow) bool {
		_, stored := r.values[name]
		_, part := r.text[name]
		return stored || part
	})
}

// attributeName makes the name of an attribute from a word of a key.
func attributeName(word string) string {
	words := strings.Split(slugOf(word), "-")
	for i, w := range words {
		if i > 0 && w != "" {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// others names the attributes that would fit as well as the chosen ones.
func (b *templateBuilder) others(rows []*sampleRow, k *Key) string {
	for _, p := range k.parts {
		if p.name == "" {
			continue
		}
		same := b.equal(rows, k.Name, func(r *sampleRow) string { return r.text[p.name] })
		same = slices.DeleteFunc(same, func(name string) bool { return name == p.name })
		if len(same) > 0 {
			return fmt.Sprintf("%s could also be %s", p.name, strings.Join(same, " or "))
		}
	}
	return ""
}

// joinTexts joins neighbouring constants.
func joinTexts(parts []templateToken) (all []templateToken) {
	for _, p := range parts {
		switch last := len(all) - 1; {
		case p.text == "" && p.name == "":
		case p.name == "" && last >= 0 && all[last].name == "":
			all[last].text += p.text
		default:
			all = append(all, p)
		}
	}
	return all
}

// templateText writes a template as the format does.
func templateText(parts []templateToken) string {
	var b strings.Builder
	for _, p := range parts {
		if p.name != "" {
			b.WriteString("{" + p.name + "}")
		} else {
			b.WriteString(strings.NewReplacer("{", "{{", "}", "}}").Replace(p.text))
		}
	}
	return b.String()
}

// fill returns a template with the values of an item.
func fill(parts []templateToken, r *sampleRow) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.text)
		if p.name != "" {
			b.WriteString(r.text[p.name])
		}
	}
	return b.String()
}
