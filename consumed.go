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
	m := d.db.Meter()
	var all []Consumption
	for r := range m.Resources() { // also those whose points are not kept any more
		c := Consumption{
			Table: r.Table, Index: r.Index,
			Read:  m.Total(meter.ID{Name: meter.ConsumedRead, Table: r.Table, Index: r.Index}),
			Write: m.Total(meter.ID{Name: meter.ConsumedWrite, Table: r.Table, Index: r.Index}),
		}
		if c.Read+c.Write > 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b Consumption) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Index, b.Index))
	})
	return all
}
