package doc

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
)

// Table is one table with its indexes.
type Table struct {
	ID          string
	Name        string
	Description string
	Facts       []Fact
	Layout      Layout
	Grid        Grid
	Entities    []Entity
	Patterns    []Link // the patterns that the table itself serves
	Indexes     []Index
	Cost        []Fact
}

// Fact is a name with a value.
type Fact struct{ Name, Value string }

// Link is a link to a pattern.
type Link struct{ ID, Name string }

// Index is one index with the patterns that it serves.
type Index struct {
	Name        string
	Description string
	Facts       []Fact
	Patterns    []Link
	Grid        Grid
}

// Entity is one kind of item.
type Entity struct {
	Name        string
	Description string
	Keys        []Fact
	Attributes  []Fact
	Facts       []Fact
}

// Grid is example rows in the order of a query.
type Grid struct {
	Keys []string // the attributes of the key
	Rows []Row
}

// Row is one item.
type Row struct {
	Entity string
	Span   int // how many rows from here share the partition key; 0 if a row above includes this one
	Keys   []Cell
	Cells  []Cell // the other attributes
}

// Cell is one attribute: a short form of its value, and the whole value.
type Cell struct {
	Name      string
	Text      string
	Whole     string
	Partition bool
}

func tableOf(m *model.Model, r *model.Report, t *model.Table, i int) Table {
	shown := Table{ID: fmt.Sprintf("table-%d", i+1), Name: t.Name, Description: t.Description}
	key := t.Schema().Key
	shown.Facts = append(keyFacts(key), Fact{"billing", cmp.Or(t.Billing, "on-demand")})
	if !t.OnDemand() {
		shown.Facts = append(shown.Facts, Fact{"read units", capacity(t.Read)}, Fact{"write units", capacity(t.Write)})
	}
	if t.TTL != "" {
		shown.Facts = append(shown.Facts, Fact{"expires by", t.TTL})
	}
	if t.Stream != "" {
		shown.Facts = append(shown.Facts, Fact{"stream", t.Stream})
	}
	if t.Recovery {
		shown.Facts = append(shown.Facts, Fact{"point-in-time recovery", "yes"})
	}
	var rows []exampleItem
	for _, e := range m.EntitiesOf(t) {
		for ordinal := range rowsOfEntity {
			rows = append(rows, exampleItem{e.Name, exampleOf(e, ordinal)})
		}
		shown.Entities = append(shown.Entities, entityOf(m, e))
	}
	shown.Layout = layoutOf(m, t)
	shown.Grid = gridOf(key, key, rows)
	shown.Patterns = served(r, t, nil)
	storage := m.Storage(t)
	for n, x := range t.Indexes {
		shown.Indexes = append(shown.Indexes, indexOf(m, r, t, x, storage.Indexes[n].Bytes))
	}
	shown.Cost = costOf(r, t)
	return shown
}

// rowsOfEntity is the number of example rows of each kind of item.
const rowsOfEntity = 2

func keyFacts(k schema.Key) (facts []Fact) {
	facts = append(facts, Fact{"partition key", attributesText(k.Partition)})
	if len(k.Sort) > 0 {
		facts = append(facts, Fact{"sort key", attributesText(k.Sort)})
	}
	return facts
}

func attributesText(attrs []schema.Attribute) string {
	var all []string
	for _, a := range attrs {
		text := a.Name
		if a.Type != item.S {
			text += " (" + a.Type.String() + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, " + ")
}

func capacity(c *model.Capacity) string {
	if c.Max == 0 {
		return model.Figure(float64(c.Units))
	}
	return fmt.Sprintf("%s to %s", model.Figure(float64(c.Min)), model.Figure(float64(c.Max)))
}

// served returns the patterns that a table, or an index of it, serves.
func served(r *model.Report, t *model.Table, x *model.Index) (links []Link) {
	for i, p := range r.Patterns {
		if !p.Plan.Served() {
			continue
		}
		for _, s := range p.Plan.Steps {
			if s.Table == t && s.Index == x {
				links = append(links, Link{patternID(i), p.Name})
				break
			}
		}
	}
	return links
}

func indexOf(m *model.Model, r *model.Report, t *model.Table, x *model.Index, bytes float64) Index {
	shown := Index{Name: x.Name, Description: x.Description, Facts: keyFacts(x.Schema().Key), Patterns: served(r, t, x)}
	kind := "global"
	if x.Local {
		kind = "local"
	}
	projection := cmp.Or(x.Projection.Kind, "ALL")
	if projection == "INCLUDE" {
		projection = strings.Join(x.Projection.Names, ", ")
	}
	shown.Facts = append(shown.Facts, Fact{"kind", kind}, Fact{"projection", projection})
	if bytes >= 1 {
		shown.Facts = append(shown.Facts, Fact{"size at the horizon", model.Bytes(bytes).String()})
	}
	shown.Grid = gridOf(x.Schema().Key, t.Schema().Key, entries(m, r, t, x))
	return shown
}

// rowsOfIndex is the number of example entries of an index.
const rowsOfIndex = 4

// entries returns example entries of an index. They are made from items that
// patterns find there, since an ordinary item may not be in a sparse index;
// without such patterns, from ordinary items.
func entries(m *model.Model, r *model.Report, t *model.Table, x *model.Index) (rows []exampleItem) {
	add := func(name string, it item.Item) {
		same := func(s exampleItem) bool { return t.Schema().Key.Of(s.item).Equal(t.Schema().Key.Of(it)) }
		if len(rows) < rowsOfIndex && x.Schema().Key.In(it) && !slices.ContainsFunc(rows, same) {
			rows = append(rows, exampleItem{name, t.Schema().Entry(x.Schema(), it)})
		}
	}
	for _, e := range m.EntitiesOf(t) {
		if it := exampleOf(e, 0); !it.Equal(model.Generator{Seed: 1}.Item(e, 0)) {
			add(e.Name, it)
		}
	}
	for _, p := range r.Patterns {
		if !p.Plan.Served() || !slices.Contains(p.Plan.Indexes(), x) {
			continue
		}
		scenario, err := m.Scenario(p.Plan, model.Generator{Seed: 1}, 0)
		if err != nil {
			continue // Check reports it
		}
		for _, s := range scenario.Before {
			if s.Table == t.Name {
				add(s.Entity, s.Item)
			}
		}
	}
	if len(rows) > 0 {
		return rows
	}
	for _, e := range m.EntitiesOf(t) {
		for ordinal := range rowsOfEntity {
			add(e.Name, exampleOf(e, ordinal))
		}
	}
	return rows
}

// exampleOf returns an example item: the first has the values that the model
// gives as examples.
func exampleOf(e *model.Entity, ordinal int) item.Item {
	if ordinal == 0 {
		return model.Generator{Seed: 1}.Example(e)
	}
	return model.Generator{Seed: 1}.Item(e, ordinal)
}

// exampleItem is an item with the name of its entity.
type exampleItem struct {
	entity string
	item   item.Item
}

// gridOf arranges items in the order of a key. The grid of an index also shows
// the table's key.
func gridOf(key, table schema.Key, rows []exampleItem) Grid {
	g := Grid{}
	var names []string
	for _, a := range append(key.All(), table.All()...) {
		if !slices.Contains(names, a.Name) {
			names = append(names, a.Name)
		}
	}
	g.Keys = names
	order := func(attrs []schema.Attribute, a, b item.Item) int {
		for _, x := range attrs {
			left, _ := a.Get(x.Name)
			right, _ := b.Get(x.Name)
			if left == nil || right == nil {
				continue
			}
			if c := bytes.Compare(left.Sortable(), right.Sortable()); c != 0 {
				return c
			}
		}
		return 0
	}
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b exampleItem) int {
		return cmp.Or(order(key.Partition, a.item, b.item), order(key.Sort, a.item, b.item))
	})
	for i, s := range rows {
		row := Row{Entity: s.entity}
		same := func(j int) bool {
			return key.Partition[0].Name != "" && order(key.Partition, s.item, rows[j].item) == 0
		}
		if i == 0 || !same(i-1) {
			for row.Span = 1; i+row.Span < len(rows) && same(i+row.Span); row.Span++ {
			}
		}
		for n, name := range names {
			c := Cell{Name: name, Partition: n < len(key.Partition)}
			if v, ok := s.item.Get(name); ok {
				c = cellOf(name, v)
				c.Partition = n < len(key.Partition)
			}
			row.Keys = append(row.Keys, c)
		}
		for name, v := range s.item.All() {
			if !slices.Contains(names, name) {
				row.Cells = append(row.Cells, cellOf(name, v))
			}
		}
		slices.SortStableFunc(row.Cells, func(a, b Cell) int { return cmp.Compare(rank(a), rank(b)) })
		g.Rows = append(g.Rows, row)
	}
	return g
}

// rank orders the filler after all other attributes.
func rank(c Cell) int {
	if c.Name == filler {
		return 1
	}
	return 0
}

// filler is the attribute that pads items to their declared size.
const filler = "_"

func cellOf(name string, v item.Value) Cell {
	whole := valueText(v, 0)
	c := Cell{Name: name, Text: shorten(whole), Whole: whole}
	if v.Type() == item.S && len(whole) > 60 && !strings.Contains(whole, "#") {
		begin := []rune(whole)
		c.Text = fmt.Sprintf("%s… %s", string(begin[:min(12, len(begin))]), model.Bytes(len(whole)))
	}
	if name == filler {
		c.Name, c.Text, c.Whole = "other attributes", model.Bytes(v.Size()).String(), ""
	}
	if len(c.Whole) > 500 {
		c.Whole = ""
	}
	return c
}

// shorten keeps both ends of a text, where keys mostly differ; of a key with
// several parts, both ends of each part.
func shorten(text string) string {
	const short = 34
	if len([]rune(text)) <= short {
		return text
	}
	parts := strings.Split(text, "#")
	if len(parts) == 1 || len(parts) > 8 {
		return middle(text, 18, 12)
	}
	for i, part := range parts {
		parts[i] = middle(part, 8, 4)
	}
	return strings.Join(parts, "#")
}

// middle omits the middle of a long text.
func middle(text string, begin, end int) string {
	r := []rune(text)
	if len(r) <= begin+end+3 {
		return text
	}
	return string(r[:begin]) + "…" + string(r[len(r)-end:])
}

// valueText formats a value for people.
func valueText(v item.Value, depth int) string {
	if depth > 4 {
		return "…"
	}
	var parts []string
	switch v.Type() {
	case item.S:
		return string(v.Bytes())
	case item.N:
		return v.Number().String()
	case item.B:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case item.BOOL:
		return fmt.Sprint(v.Bool())
	case item.NULL:
		return "null"
	case item.M:
		for name, e := range v.Item().All() {
			parts = append(parts, name+": "+valueText(e, depth+1))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	for e := range v.Elements() {
		if len(parts) == 20 {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, valueText(e, depth+1))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func entityOf(m *model.Model, e *model.Entity) Entity {
	shown := Entity{Name: e.Name, Description: e.Description}
	for _, f := range e.Fields() {
		switch {
		case f.Key != nil:
			shown.Keys = append(shown.Keys, Fact{f.Name, f.Template() + whenText(f.Key.When)})
		case f.Attribute != nil:
			shown.Attributes = append(shown.Attributes, Fact{f.Name, attributeText(f)})
		}
	}
	it := model.Generator{Seed: 1}.Item(e, 0)
	shown.Facts = append(shown.Facts, Fact{"size", model.Bytes(it.Size()).String()})
	if n := m.Items(e); n > 0 {
		shown.Facts = append(shown.Facts, Fact{"at the horizon", model.Figure(float64(int64(n))) + " items"})
	}
	if e.Growth.Given() {
		shown.Facts = append(shown.Facts, Fact{"growth", e.Growth.String()})
	}
	if e.Keep.Given() {
		shown.Facts = append(shown.Facts, Fact{"kept for", e.Keep.Text})
	}
	return shown
}

func whenText(when []*model.Setting) string {
	var parts []string
	for _, s := range when {
		parts = append(parts, s.Name+" is "+strings.Join(s.Value.Texts(), " or "))
	}
	if len(parts) == 0 {
		return ""
	}
	return " when " + strings.Join(parts, " and ")
}

func attributeText(f *model.Field) string {
	a := f.Attribute
	parts := []string{f.Type.String()}
	if a.Format != "" {
		parts = append(parts, a.Format)
	}
	if len(a.Values) > 0 {
		parts = append(parts, strings.Join(a.Values, " | "))
	}
	if f.Templated() {
		parts = append(parts, f.Template())
	}
	if a.Shards > 0 {
		text := fmt.Sprintf("one of %d shards", a.Shards)
		if a.Of != "" {
			text += " by " + a.Of
		}
		parts = append(parts, text)
	}
	if a.Largest > 0 {
		parts = append(parts, "up to "+a.Largest.String())
	}
	if !f.Stored {
		parts = append(parts, "in keys only")
	}
	return strings.Join(parts, ", ") + whenText(a.When)
}

func costOf(r *model.Report, t *model.Table) (facts []Fact) {
	for _, c := range r.Cost.Tables {
		if c.Name != t.Name {
			continue
		}
		facts = append(facts, Fact{"reads", perTime(c.PerSecond.Read())}, Fact{"writes", perTime(c.PerSecond.Write())})
		if c.Amplification > 0 {
			facts = append(facts, Fact{"write amplification", "× " + model.Figure(c.Amplification)})
		}
		facts = append(facts, Fact{"storage", model.Bytes(c.StorageBytes).String()},
			Fact{"on demand", model.Money(c.OnDemandDollars)}, Fact{"provisioned", model.Money(c.ProvisionedDollars)},
			Fact{"as billed, a month", model.Money(c.Dollars)})
	}
	return facts
}
