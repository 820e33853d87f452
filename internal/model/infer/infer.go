// Package infer derives a model from the items and the traffic of a system
// that exists.
//
// It reads items through a client or a reader that it is given, and writes
// nothing but the text of the model. Everything that it derives from a sample
// is a guess, which the text marks with its evidence.
package infer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model/exchange"
)

// TableSample is a table with a sample of its items.
type TableSample struct {
	Table *exchange.Table
	Items []item.Item

	// Count is the number of items in the table, as far as it is known.
	Count    int64
	Complete bool    // Items holds all items
	Units    float64 // read units that the sample used

	// AllValues allows to write any text of an item into the model, also what may be a
	// customer's data.
	AllValues bool
}

// fraction is the share of the table's items that the sample holds.
func (s *TableSample) fraction() float64 {
	if s.Complete || s.Count <= int64(len(s.Items)) || len(s.Items) == 0 {
		return 1
	}
	return float64(len(s.Items)) / float64(s.Count)
}

// Result is a model that was derived, with its evidence.
type Result struct {
	Name     string         `json:"name"`
	Source   string         `json:"source"`
	Tables   []*TableResult `json:"tables"`
	Entities []*Entity      `json:"entities"`
	Patterns []*Pattern     `json:"patterns"`

	// Unmatched is traffic from which no pattern is derived.
	Unmatched []string `json:"unmatched,omitempty"`

	tables []*TableSample
}

// TableResult says how much of a table was read.
type TableResult struct {
	Name     string  `json:"name"`
	Items    int64   `json:"items"`
	Sampled  int     `json:"sampled"`
	Complete bool    `json:"complete"`
	Units    float64 `json:"units"`
}

// Entity is one kind of item that was found.
type Entity struct {
	Name       string       `json:"name"`
	Table      string       `json:"table"`
	Sampled    int          `json:"sampled"`
	Count      int64        `json:"count"`
	Typical    int          `json:"typicalBytes"`
	Largest    int          `json:"largestBytes"`
	Growth     string       `json:"growth,omitempty"`
	Keep       string       `json:"keep,omitempty"`
	Guess      string       `json:"evidence"`
	GrowthFrom string       `json:"growthEvidence,omitempty"`
	KeepFrom   string       `json:"keepEvidence,omitempty"`
	Keys       []*Key       `json:"keys"`
	Attributes []*Attribute `json:"attributes"`

	group *itemGroup
}

// Key is a key attribute that is built from a template.
type Key struct {
	Name     string    `json:"name"`
	Template string    `json:"template"`
	When     *Presence `json:"when,omitempty"`
	Guess    string    `json:"evidence"`

	parts []templateToken
}

// Presence is the values of an attribute with which another one is present.
type Presence struct {
	Attribute string   `json:"attribute"`
	Values    []string `json:"values"`
}

// Attribute is an attribute that was found, as the model describes it.
type Attribute struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Format   string    `json:"format,omitempty"`
	Size     int       `json:"size,omitempty"`
	Largest  int       `json:"largest,omitempty"`
	Digits   int       `json:"digits,omitempty"`
	Count    int       `json:"count,omitempty"`
	Most     int       `json:"most,omitempty"`
	Values   []string  `json:"values,omitempty"`
	Mix      []float64 `json:"mix,omitempty"` // the share of each of Values
	Shards   int       `json:"shards,omitempty"`
	Of       string    `json:"of,omitempty"`
	Distinct int64     `json:"distinct,omitempty"`
	Hottest  float64   `json:"hottest,omitempty"`
	When     *Presence `json:"when,omitempty"`
	Unstored bool      `json:"unstored,omitempty"` // it occurs only within keys
	Guess    string    `json:"evidence"`

	allValues bool // TableSample.AllValues
}

// From derives the tables and entities of samples. source describes where they
// come from, for people.
func From(name, source string, samples []*TableSample) *Result {
	r := &Result{Name: name, Source: source, Tables: []*TableResult{}, Entities: []*Entity{}, Patterns: []*Pattern{}, tables: samples}
	var groups []*itemGroup
	for _, s := range samples {
		r.Tables = append(r.Tables, &TableResult{s.Table.Name, s.Count, len(s.Items), s.Complete, s.Units})
		groups = append(groups, groupsOf(s)...)
	}
	names := nameGroups(groups)
	for i, g := range groups {
		r.Entities = append(r.Entities, g.entity(names[i]))
	}
	return r
}

// entity describes the items of a group.
func (g *itemGroup) entity(name string) *Entity {
	e := &Entity{Name: name, Table: g.sample.Table.Name, Sampled: len(g.rows), group: g}
	e.Count = max(int64(len(g.rows)), int64(float64(len(g.rows))/g.sample.fraction()+0.5))
	var sizes []int
	for _, r := range g.rows {
		sizes = append(sizes, r.item.Size())
	}
	e.Typical, e.Largest = median(sizes), slices.Max(sizes)
	e.Guess = fmt.Sprintf("%s of %s sampled items have keys like %s", figure(len(g.rows)), figure(len(g.sample.Items)), g.shapeText())
	g.templates(e)
	g.attributes(e)
	g.growth(e)
	return e
}

// attribute returns the attribute with a name; nil if there is none.
func (e *Entity) attribute(name string) *Attribute {
	for _, a := range e.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// key returns the template of a key attribute; nil if it has none.
func (e *Entity) key(name string) *Key {
	for _, k := range e.Keys {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// leaves returns the attributes with values of their own that a key is built
// from.
func (e *Entity) leaves(name string) (all []string) {
	k := e.key(name)
	if k == nil {
		return []string{name}
	}
	for _, p := range k.parts {
		if p.name != "" && !slices.Contains(all, p.name) {
			all = append(all, p.name)
		}
	}
	return all
}

// primaryKey returns the attributes of a table's own key.
func primaryKey(t *exchange.Table) []string {
	if t.Key.Sort == "" {
		return []string{t.Key.Partition}
	}
	return []string{t.Key.Partition, t.Key.Sort}
}

// figure writes a number with commas.
func figure[T int | int64](n T) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// slugOf is a text in lower case with the words separated by hyphens.
func slugOf(text string) string {
	var b strings.Builder
	lower := false
	for _, r := range text {
		switch {
		case r >= 'A' && r <= 'Z':
			if lower {
				b.WriteByte('-')
			}
			b.WriteRune(r + 'a' - 'A')
			lower = false
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
			lower = true
		default:
			b.WriteByte('-')
			lower = false
		}
	}
	words := strings.FieldsFunc(b.String(), func(r rune) bool { return r == '-' })
	slug := strings.Join(words, "-")
	return slug[:min(len(slug), 60)]
}

// plural is a number of things.
func plural[T int | int64](n T, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return figure(n) + " " + thing + "s"
}
