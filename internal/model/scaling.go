package model

import (
	"cmp"
	"fmt"
)

// ScaledCapacity is a capacity with auto scaling, of a table or a global index.
type ScaledCapacity struct {
	Table, Index string // Index is "" for the table
	Write        bool
	*Capacity
}

// ScaledCapacities returns the capacities of a table with auto scaling: those of the
// table, then those of its indexes, reads before writes.
func (t *Table) ScaledCapacities() (all []ScaledCapacity) {
	if t.OnDemand() {
		return nil
	}
	add := func(index string, read, write *Capacity) {
		for i, c := range []*Capacity{read, write} {
			if c != nil && c.Max > 0 {
				all = append(all, ScaledCapacity{t.Name, index, i == 1, c})
			}
		}
	}
	add("", t.Read, t.Write)
	for _, x := range t.Indexes {
		if !x.Local {
			add(x.Name, cmp.Or(x.Read, t.Read), cmp.Or(x.Write, t.Write))
		}
	}
	return all
}

// ScalableResource returns the name that Application Auto Scaling has for a table, or for
// one of its indexes.
func ScalableResource(table, index string) string {
	if index == "" {
		return "table/" + table
	}
	return "table/" + table + "/index/" + index
}

// ScalableDimension returns the name that Application Auto Scaling has for the reads or
// the writes of a table, or of an index.
func ScalableDimension(ofIndex, write bool) string {
	of, what := "table", "Read"
	if ofIndex {
		of = "index"
	}
	if write {
		what = "Write"
	}
	return fmt.Sprintf("dynamodb:%s:%sCapacityUnits", of, what)
}

// Resource is the name of what is scaled.
func (s ScaledCapacity) Resource() string { return ScalableResource(s.Table, s.Index) }

// Dimension is the name of how it is scaled.
func (s ScaledCapacity) Dimension() string { return ScalableDimension(s.Index != "", s.Write) }

// Metric is the name of the utilization that is kept at the target.
func (s ScaledCapacity) Metric() string {
	if s.Write {
		return "DynamoDBWriteCapacityUtilization"
	}
	return "DynamoDBReadCapacityUtilization"
}

// DefaultTarget is the default target utilization of auto scaling, in percent.
const DefaultTarget = 70

// Fewest is the lower bound of units that scale.
func (c *Capacity) Fewest() int { return max(1, c.Min) }

// Utilization is the target utilization, in percent.
func (c *Capacity) Utilization() int { return cmp.Or(c.Target, DefaultTarget) }
