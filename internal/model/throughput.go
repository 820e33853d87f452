package model

import "github.com/stator-db/stator/internal/data/schema"

// SetOnDemand makes all tables on-demand.
func (m *Model) SetOnDemand() { m.setThroughput("on-demand", nil, nil) }

// SetProvisioned gives each table and each global index provisioned units.
func (m *Model) SetProvisioned(read, write int) {
	m.setThroughput("provisioned", &Capacity{Units: read}, &Capacity{Units: write})
}

func (m *Model) setThroughput(billing string, read, write *Capacity) {
	var units schema.Throughput
	if read != nil {
		units = schema.Throughput{Read: int64(read.Units), Write: int64(write.Units)}
	}
	for _, t := range m.Tables {
		t.Billing, t.Read, t.Write = billing, read, write
		t.schema.OnDemand, t.schema.Throughput = t.OnDemand(), units
		for i, x := range t.Indexes {
			if !x.Local {
				x.Read, x.Write = read, write
				t.schema.Indexes[i].Throughput = units
			}
		}
	}
}
