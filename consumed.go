package stator

import (
	"cmp"
	"slices"

	"github.com/stator-db/stator/internal/meter"
)

// Consumption is what requests have consumed of a table, or of one of its global indexes.
type Consumption struct {
	Table, Index string
	Read, Write  float64 // units
}

// Consumed returns what was consumed since the database was opened, in order of tables and
// indexes. Those that were deleted are not known any more.
func (d *DB) Consumed() []Consumption {
	of := make(map[meter.Resource]*Consumption)
	m := d.db.Meter()
	for _, id := range m.IDs() {
		if id.Name != meter.ConsumedRead && id.Name != meter.ConsumedWrite {
			continue
		}
		r := meter.Resource{Table: id.Table, Index: id.Index}
		c := of[r]
		if c == nil {
			c = &Consumption{Table: id.Table, Index: id.Index}
			of[r] = c
		}
		if id.Name == meter.ConsumedRead {
			c.Read += m.Total(id)
		} else {
			c.Write += m.Total(id)
		}
	}
	all := make([]Consumption, 0, len(of))
	for _, c := range of {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Consumption) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Index, b.Index))
	})
	return all
}
