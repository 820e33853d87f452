package exchange

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Entity is one kind of item, derived from samples or from a schema.
type Entity struct {
	Name       string
	Table      string
	Keys       []KeyTemplate
	Attributes []SampleAttribute // those that the example does not fully describe
	Example    []SampleValue
	Notes      []string
}

// KeyTemplate is the template of a key attribute.
type KeyTemplate struct {
	Name, Text string
	Parts      []string // the attributes that it contains
}

// SampleAttribute is an attribute of an entity.
type SampleAttribute struct {
	Name    string
	Type    string // "" for the type of the example
	Part    bool   // it is a part of keys and not stored by itself
	Example string // set for a part

	Values           []string // all possible values
	Format, Template string   // as a model has them
	Size             string   // digits of a format
	Unstored         bool     // it is only a part of keys
}

// SampleValue is one attribute of an example item.
type SampleValue struct {
	Name  string
	value *sourceTree // {"S": "text"}, as the API encodes it
}

const maxEntities = 200

// sampler derives entities from sample items: items whose keys have the same
// shape are one entity.
type sampler struct {
	file     string
	entities []*Entity
	names    map[string]bool
	omitted  []Omission
}

func (s *sampler) omit(at *sourceTree, what, reason string) {
	if len(s.omitted) < maxOmissions {
		s.omitted = append(s.omitted, Omission{s.file, at.at, what, reason})
	}
}

// sampleGroup is samples whose keys have the same shape.
type sampleGroup struct {
	label string // its name in the file
	items []*sourceTree
	shape string
}

// table derives the entities of a table's samples, those of facets first. A
// facet without samples becomes an entity by the names of its keys.
func (s *sampler) table(t *Table, source *sourceTree) {
	grouping := sampleGrouping{t: t, seen: make(map[string]bool)}
	first := len(s.entities)
	for _, f := range listOrNil(source.get("TableFacets")) {
		label, rows := textOf(f.get("FacetName")), listOrNil(f.get("TableData"))
		what := fmt.Sprintf("facet %q of table %s", label, t.Name)
		switch keyless, added := grouping.add(label, rows); {
		case len(rows) == 0:
			s.facet(t, f, source, what)
		case keyless > 0:
			s.omit(f, what, fmt.Sprintf("%d of its %d rows have no valid key", keyless, len(rows)))
		case added == 0:
			s.omit(f, what, "its rows are also rows of other facets")
		}
	}
	if keyless, _ := grouping.add("", listOrNil(source.get("TableData"))); keyless > 0 {
		s.omit(source, fmt.Sprintf("a part of the rows of table %s", t.Name), fmt.Sprintf("%d of them have no valid key", keyless))
	}
	for _, g := range grouping.groups {
		if len(s.entities) >= maxEntities {
			s.omit(source, fmt.Sprintf("a kind of items of table %s", t.Name), fmt.Sprintf("only %d kinds are read", maxEntities))
			break
		}
		s.entities = append(s.entities, s.entity(t, g))
	}
	if len(s.entities) == first+1 && len(grouping.groups) == 1 {
		s.declared(s.entities[first], source)
	}
}

// sampleGrouping groups the samples of one table by the shape of their keys.
type sampleGrouping struct {
	t      *Table
	groups []*sampleGroup
	seen   map[string]bool
}

// add adds samples with a label. It returns how many have no valid key, and how
// many were not added before.
func (g *sampleGrouping) add(label string, items []*sourceTree) (keyless, added int) {
	for _, it := range items {
		shape, key, ok := g.t.shapeOf(it)
		if !ok {
			keyless++
		}
		if !ok || g.seen[key] {
			continue
		}
		g.seen[key] = true
		added++
		at := slices.IndexFunc(g.groups, func(g *sampleGroup) bool { return g.label == label && g.shape == shape })
		if at < 0 {
			at = len(g.groups)
			g.groups = append(g.groups, &sampleGroup{label: label, shape: shape})
		}
		g.groups[at].items = append(g.groups[at].items, it)
	}
	return keyless, added
}

// declared adds the attributes that a table declares and no sample has. It is
// used only for tables with one kind of item, since the source does not say
// which kind has them.
func (s *sampler) declared(e *Entity, source *sourceTree) {
	for _, a := range listOrNil(source.get("NonKeyAttributes")) {
		name, kind := textOf(a.get("AttributeName")), textOf(a.get("AttributeType"))
		known := slices.ContainsFunc(e.Example, func(v SampleValue) bool { return v.Name == name }) ||
			slices.ContainsFunc(e.Attributes, func(v SampleAttribute) bool { return v.Name == name }) ||
			slices.ContainsFunc(e.Keys, func(k KeyTemplate) bool { return k.Name == name })
		if !known && usable(name) && kinds[kind] {
			e.Attributes = append(e.Attributes, SampleAttribute{Name: name, Type: kind})
		}
	}
}

var kinds = map[string]bool{"S": true, "N": true, "B": true, "BOOL": true, "NULL": true, "SS": true, "NS": true, "BS": true, "L": true, "M": true}

// usable reports whether a model may have an attribute of this name.
func usable(name string) bool { return name != "" && name != "_" }

// typed returns the type and the value of a sample's attribute.
func typed(v *sourceTree) (kind string, value *sourceTree, ok bool) {
	if v == nil || v.kind != treeMap || len(v.members) != 1 || !kinds[v.members[0].name] {
		return "", nil, false
	}
	return v.members[0].name, v.members[0].value, true
}

// shapeOf returns the shape of an item's key, and the key itself; ok is false
// if the item has no valid key.
func (t *Table) shapeOf(it *sourceTree) (shape, key string, ok bool) {
	for _, name := range []string{t.Key.Partition, t.Key.Sort} {
		if name == "" {
			continue
		}
		kind, v, ok := typed(it.get(name))
		if !ok || kind != t.kindOf(name) || v.text == "" {
			return "", "", false
		}
		shape += name + "=" + shapeOf(kind, v.text) + "\x00"
		key += v.text + "\x00"
	}
	return shape, key, true
}

// kindOf returns the type of a key attribute.
func (t *Table) kindOf(name string) string {
	for _, k := range t.Types {
		if k.Name == name {
			return k.Type
		}
	}
	return "S"
}

const (
	separator = "#"
	wildcard  = "*"
)

var (
	constantWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z_]*$`) })
	firstWord    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z_-]*$`) })
)

// maxTokens is the most parts of a key that is split.
const maxTokens = 7

// shapeOf is a key with a wildcard for each part that seems to vary: USER#* for
// USER#alice.
func shapeOf(kind, text string) string {
	tokens := strings.Split(text, separator)
	if kind != "S" || len(tokens) > maxTokens {
		return wildcard
	}
	for i, token := range tokens {
		constant := constantWord().MatchString(token) || i == 0 && len(tokens) > 1 && firstWord().MatchString(token)
		if !constant && token != "" {
			tokens[i] = wildcard
		}
	}
	return strings.Join(tokens, separator)
}

// entity derives the entity of a group.
func (s *sampler) entity(t *Table, g *sampleGroup) *Entity {
	e := &Entity{Table: t.Name, Name: s.name(t, g)}
	made := entityBuilder{e: e, g: g, parts: make(map[string]string)}
	names := []string{t.Key.Partition, t.Key.Sort}
	for _, x := range t.Indexes {
		names = append(append(names, x.Partition...), x.Sort...)
	}
	for i, name := range names {
		if name != "" && !slices.Contains(names[:i], name) {
			made.key(name, t.kindOf(name))
		}
	}
	for _, m := range g.items[0].members {
		made.example(m)
	}
	return e
}

// entityMarks are attributes that hold the kind of an item in many designs.
var entityMarks = []string{"entity", "entitytype", "entity_type", "type", "_type", "kind", "_et"}

// name returns a unique name for the entity of a group.
func (s *sampler) name(t *Table, g *sampleGroup) string {
	name := slug(g.label)
	for _, m := range g.items[0].members {
		_, v, ok := typed(m.value)
		if name == "" && ok && slices.Contains(entityMarks, strings.ToLower(m.name)) && allHave(g, m.name, v.text) {
			name = slug(v.text)
		}
	}
	if name == "" {
		var words []string
		for part := range strings.SplitSeq(g.shape, "\x00") {
			_, shape, _ := strings.Cut(part, "=")
			for word := range strings.SplitSeq(shape, separator) {
				if word = slug(word); word != "" && !slices.Contains(words, word) {
					words = append(words, word)
				}
			}
		}
		name = strings.Join(words, "-")
	}
	return s.unique(cmp.Or(name, slug(t.Name), "item"))
}

// unique returns a name that no other entity has.
func (s *sampler) unique(name string) string {
	unique := name
	for n := 2; s.names[unique]; n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	s.names[unique] = true
	return unique
}

func allHave(g *sampleGroup, name, text string) bool {
	for _, it := range g.items {
		if _, v, ok := typed(it.get(name)); !ok || v.text != text {
			return false
		}
	}
	return true
}

var nonSlug = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) })

// slug turns a text into a plain name.
func slug(text string) string {
	text = strings.Trim(nonSlug().ReplaceAllString(strings.ToLower(text), "-"), "-")
	return text[:min(len(text), 60)]
}

// entityBuilder builds one entity from a group.
type entityBuilder struct {
	e     *Entity
	g     *sampleGroup
	parts map[string]string // the names of the varying parts of keys, by their values
}

// key derives the template of a key attribute. If the samples differ too much,
// it remains a plain attribute.
func (m *entityBuilder) key(name, kind string) {
	var rows [][]string // the tokens of each sample that has the attribute
	shape := ""
	for _, it := range m.g.items {
		k, v, ok := typed(it.get(name))
		if !ok {
			continue
		}
		if k != kind || shape != "" && shapeOf(kind, v.text) != shape {
			return
		}
		shape = shapeOf(kind, v.text)
		rows = append(rows, strings.Split(v.text, separator))
	}
	if len(rows) < len(m.g.items) || shape == wildcard {
		return
	}
	pattern := strings.Split(shape, separator)
	template := KeyTemplate{Name: name}
	var text []string
	for i, token := range pattern {
		if token != wildcard {
			text = append(text, token)
			continue
		}
		var values []string
		for _, row := range rows {
			values = append(values, row[i])
		}
		before := ""
		if i > 0 {
			before = pattern[i-1]
		}
		part := m.part(name, before, values)
		template.Parts = append(template.Parts, part)
		text = append(text, "{"+part+"}")
	}
	template.Text = strings.Join(text, separator)
	m.e.Keys = append(m.e.Keys, template)
}

// part returns the name of a varying part of a key: the attribute with the same
// values, or a new one named after the constant before it.
func (m *entityBuilder) part(key, before string, values []string) string {
	id := fmt.Sprintf("%q", values)
	if name, ok := m.parts[id]; ok {
		return name
	}
	if len(values) == len(m.g.items) {
		for _, a := range m.g.items[0].members {
			if m.isKey(a.name) || a.name == key || !templatable(a.name) {
				continue
			}
			same := true
			for i, it := range m.g.items {
				kind, v, ok := typed(it.get(a.name))
				same = same && ok && kind == "S" && v.text == values[i]
			}
			if same {
				m.parts[id] = a.name
				return a.name
			}
		}
	}
	base := cmp.Or(strings.ReplaceAll(slug(before), "-", "_"), strings.ReplaceAll(slug(key), "-", "_"), "part")
	name := base
	for n := 2; m.taken(name); n++ {
		name = base + strconv.Itoa(n)
	}
	m.parts[id] = name
	m.e.Attributes = append(m.e.Attributes, SampleAttribute{Name: name, Part: true, Example: values[0]})
	return name
}

func (m *entityBuilder) isKey(name string) bool {
	return slices.ContainsFunc(m.e.Keys, func(k KeyTemplate) bool { return k.Name == name })
}

func (m *entityBuilder) taken(name string) bool {
	for _, it := range m.g.items {
		if it.get(name) != nil {
			return true
		}
	}
	return slices.ContainsFunc(m.e.Attributes, func(a SampleAttribute) bool { return a.Name == name })
}

// templatable reports whether a name may be used in a template.
func templatable(name string) bool {
	return usable(name) && !strings.ContainsAny(name, "{}")
}

// example adds one attribute of the first sample to the example.
func (m *entityBuilder) example(a treeMember) {
	kind, v, ok := typed(a.value)
	if !ok || !usable(a.name) || m.isKey(a.name) || slices.ContainsFunc(m.e.Example, func(v SampleValue) bool { return v.Name == a.name }) {
		return
	}
	text, fits := yamlLiteral(kind, v, 0)
	if !fits {
		m.e.Attributes = append(m.e.Attributes, SampleAttribute{Name: a.name, Type: kind})
		return
	}
	m.e.Example = append(m.e.Example, SampleValue{a.name, a.value})
	if guessed := guess(text); guessed != kind {
		m.e.Attributes = append(m.e.Attributes, SampleAttribute{Name: a.name, Type: kind})
	}
}
