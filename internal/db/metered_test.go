package db

import (
	"testing"
	"time"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// Series of tables and indexes that do not exist disappear within a minute, though a request
// in progress has made them again after the deletion.
func TestSeriesOfDeletedTablesDisappear(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		d := newDB(t, newEngine(t, pebble.InMemory()), Options{Clock: clock.Given(time.Now)})
		key := schema.Attribute{Name: "id", Type: item.S}
		if _, err := d.CreateTable(t.Context(), schema.Table{Name: "Here", Key: schema.Key{Partition: []schema.Attribute{key}}, Attributes: []schema.Attribute{key}, OnDemand: true}); err != nil {
			t.Fatal(err)
		}
		kept := []meter.ID{{Name: meter.ConsumedRead, Table: "Here"}, {Name: meter.Latency, Operation: "ListTables"}}
		gone := []meter.ID{{Name: meter.ConsumedRead, Table: "Gone"}, {Name: meter.ReadThrottles, Table: "Here", Index: "gone"}}
		for _, r := range []*meter.Registry{d.meter, d.elsewhere} {
			for _, id := range append(kept, gone...) {
				r.Series(id).Add(1)
			}
		}
		time.Sleep(2 * time.Minute)
		for _, r := range []*meter.Registry{d.meter, d.elsewhere} {
			for _, id := range kept {
				if r.Total(id) != 1 {
					t.Errorf("%v has disappeared", id)
				}
			}
			for _, id := range gone {
				if r.Total(id) != 0 {
					t.Errorf("%v is still there", id)
				}
			}
		}
	})
}
