package ops

import (
	"math"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// consumed makes the ConsumedCapacity of one table; nil if the request does not
// ask for it.
func consumed(mode *string, table string, c capacity.Consumed) *api.ConsumedCapacity {
	switch {
	case isSet(mode, "TOTAL"):
		return &api.ConsumedCapacity{TableName: table, CapacityUnits: c.Total()}
	case isSet(mode, "INDEXES"):
		cc := &api.ConsumedCapacity{TableName: table, CapacityUnits: c.Total(), Table: &api.Capacity{CapacityUnits: c.Table}}
		for _, x := range c.Indexes {
			indexes := &cc.LocalSecondaryIndexes
			if x.Global {
				indexes = &cc.GlobalSecondaryIndexes
			}
			if *indexes == nil {
				*indexes = make(map[string]api.Capacity)
			}
			(*indexes)[x.Name] = api.Capacity{CapacityUnits: x.Units}
		}
		return cc
	}
	return nil
}

// collectionMetrics returns the size of the collection of a written item, if
// the customer asks for it; nil for a table that has no collections.
func collectionMetrics(mode *string, key item.Item, o db.Outcome) *api.ItemCollectionMetrics {
	if !isSet(mode, "SIZE") || !o.Table.HasLocal() {
		return nil
	}
	partition := o.Table.Key.Partition[0].Name
	v, _ := key.Get(partition)
	low := math.Floor(float64(o.CollectionBytes) / (1 << 30))
	return &api.ItemCollectionMetrics{
		ItemCollectionKey:   item.Make(map[string]item.Value{partition: v}),
		SizeEstimateRangeGB: []float64{low, low + 1},
	}
}
