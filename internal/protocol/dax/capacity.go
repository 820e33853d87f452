package dax

import (
	"maps"
	"slices"

	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// The consumed capacity has two encodings. Transactions have a map, which tells reads from
// writes; the other operations have the values one after another, as bytes.

func (w *replyWriter) float(v float64) { w.dst = cbor.AppendFloat(w.dst, v) }

// consumed appends the member of a reply, if there is one.
func (w *replyWriter) consumed(c *api.ConsumedCapacity) {
	if c != nil {
		w.int(memberConsumedCapacity)
		w.capacity(c)
	}
}

func (w *replyWriter) consumedArray(all []api.ConsumedCapacity) {
	w.array(len(all))
	for i := range all {
		w.capacity(&all[i])
	}
}

func (w *replyWriter) capacity(c *api.ConsumedCapacity) {
	from := len(w.dst)
	w.text(c.TableName)
	w.float(c.CapacityUnits)
	if c.Table != nil {
		w.float(c.Table.CapacityUnits)
	} else {
		w.null()
	}
	w.indexUnits(c.GlobalSecondaryIndexes)
	w.indexUnits(c.LocalSecondaryIndexes)
	w.dst = cbor.WrapBytes(w.dst, from)
}

func (w *replyWriter) indexUnits(indexes map[string]api.Capacity) {
	if len(indexes) == 0 {
		w.null()
		return
	}
	w.mapOf(len(indexes))
	for _, name := range slices.Sorted(maps.Keys(indexes)) {
		w.text(name)
		w.float(indexes[name].CapacityUnits)
	}
}

// The members of the map.
const (
	capacityUnits         = 1
	capacityReadUnits     = 2
	capacityWriteUnits    = 3
	capacityTableName     = 4
	capacityTable         = 5
	capacityGlobalIndexes = 6
	capacityLocalIndexes  = 7
)

func (w *replyWriter) consumedDetails(all []api.ConsumedCapacity) {
	w.array(len(all))
	for i := range all {
		c := &all[i]
		units := api.Capacity{CapacityUnits: c.CapacityUnits, ReadCapacityUnits: c.ReadCapacityUnits, WriteCapacityUnits: c.WriteCapacityUnits}
		w.unitsMap(&units, 1+count(c.Table != nil, len(c.GlobalSecondaryIndexes) > 0, len(c.LocalSecondaryIndexes) > 0))
		w.int(capacityTableName)
		w.text(c.TableName)
		if c.Table != nil {
			w.int(capacityTable)
			w.unitsMap(c.Table, 0)
		}
		w.indexDetails(capacityGlobalIndexes, c.GlobalSecondaryIndexes)
		w.indexDetails(capacityLocalIndexes, c.LocalSecondaryIndexes)
	}
}

// unitsMap appends a map with the units and some more members, which the caller appends.
func (w *replyWriter) unitsMap(c *api.Capacity, more int) {
	w.mapOf(more + 1 + count(c.ReadCapacityUnits != nil, c.WriteCapacityUnits != nil))
	w.int(capacityUnits)
	w.float(c.CapacityUnits)
	if c.ReadCapacityUnits != nil {
		w.int(capacityReadUnits)
		w.float(*c.ReadCapacityUnits)
	}
	if c.WriteCapacityUnits != nil {
		w.int(capacityWriteUnits)
		w.float(*c.WriteCapacityUnits)
	}
}

func (w *replyWriter) indexDetails(member int64, indexes map[string]api.Capacity) {
	if len(indexes) == 0 {
		return
	}
	w.int(member)
	w.mapOf(len(indexes))
	for _, name := range slices.Sorted(maps.Keys(indexes)) {
		w.text(name)
		w.unitsMap(new(indexes[name]), 0)
	}
}

// metricsByTable appends the metrics of the item collections.
func (w *replyWriter) metricsByTable(metrics map[string][]api.ItemCollectionMetrics) {
	w.mapOf(len(metrics))
	for _, table := range slices.Sorted(maps.Keys(metrics)) {
		w.text(table)
		w.array(len(metrics[table]))
		for i := range metrics[table] {
			w.collectionMetrics(&metrics[table][i])
		}
	}
}

// collectionMetrics appends the partition key's value and the two ends of the size, as bytes.
func (w *replyWriter) collectionMetrics(m *api.ItemCollectionMetrics) {
	from := len(w.dst)
	for _, v := range m.ItemCollectionKey.Names() {
		w.dst = appendValue(w.dst, v)
		break // it has one attribute
	}
	for _, size := range m.SizeEstimateRangeGB {
		w.float(size)
	}
	w.dst = cbor.WrapBytes(w.dst, from)
}
