package doc

import (
	"slices"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
)

// Layout is what each entity stores in the keys of a table and its indexes.
type Layout struct {
	Places []LayoutPlace
	Rows   []LayoutRow
}

// LayoutPlace is the table or an index, with the attributes of its key.
type LayoutPlace struct {
	Name  string
	Names []string
}

// LayoutRow is the keys of one entity, in the order of the places.
type LayoutRow struct {
	Entity string
	Cells  []LayoutCell
}

// LayoutCell is the template of one key attribute; the text is empty if the
// entity does not have the attribute.
type LayoutCell struct {
	Text      string
	When      string
	Partition bool
	First     bool // it begins a place
}

// layoutOf returns the key layout of a table.
func layoutOf(m *model.Model, t *model.Table) (l Layout) {
	keys := []schema.Key{t.Schema().Key}
	names := []string{"table"}
	for _, x := range t.Indexes {
		keys, names = append(keys, x.Schema().Key), append(names, x.Name)
	}
	for i, k := range keys {
		place := LayoutPlace{Name: names[i]}
		for _, a := range k.All() {
			place.Names = append(place.Names, a.Name)
		}
		l.Places = append(l.Places, place)
	}
	for _, e := range m.EntitiesOf(t) {
		row := LayoutRow{Entity: e.Name}
		for _, k := range keys {
			in := !slices.ContainsFunc(k.All(), func(a schema.Attribute) bool { return keyCell(e, a.Name).Text == "" })
			for i, a := range k.All() {
				cell := LayoutCell{}
				if in {
					cell = keyCell(e, a.Name)
				}
				cell.Partition, cell.First = i < len(k.Partition), i == 0
				row.Cells = append(row.Cells, cell)
			}
		}
		l.Rows = append(l.Rows, row)
	}
	return l
}

// keyCell returns what an entity stores in an attribute.
func keyCell(e *model.Entity, name string) LayoutCell {
	f, ok := e.Field(name)
	switch {
	case !ok || !f.Stored:
		return LayoutCell{}
	case f.Key != nil:
		return LayoutCell{Text: f.Template(), When: whenText(f.Key.When)}
	case f.Templated():
		return LayoutCell{Text: f.Template(), When: whenText(f.Attribute.When)}
	}
	return LayoutCell{Text: "{" + name + "}", When: whenText(f.Attribute.When)}
}
