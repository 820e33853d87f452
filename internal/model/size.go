package model

import (
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// defaultHorizon is the default of Model.Horizon, in seconds.
const defaultHorizon = yearSeconds

// Items returns how many items of an entity exist at the horizon: the number of
// items that are kept for a limited time levels off, the others grow.
func (m *Model) Items(e *Entity) float64 {
	horizon := m.Horizon.Seconds()
	if !m.Horizon.Given() {
		horizon = defaultHorizon
	}
	if e.Keep.Given() {
		return max(float64(e.Count), e.Growth.PerSecond*min(horizon, e.Keep.Seconds()))
	}
	return float64(e.Count) + e.Growth.PerSecond*horizon
}

// distinct is how many distinct values of an attribute occur.
func (m *Model) distinct(f *Field) float64 {
	a := f.Attribute
	switch {
	case a.Shards > 0:
		return float64(a.Shards)
	case a.Distinct > 0:
		return float64(a.Distinct)
	case len(a.Values) > 0:
		return float64(len(a.Values))
	}
	return max(1, m.Items(f.entity))
}

// partitions is how many partition key values an entity has: as many as its
// attribute with the most values, times the number of shards.
func (m *Model) partitions(e *Entity, partition []string) float64 {
	most, shards := 1.0, 1.0
	for _, name := range partition {
		for _, leaf := range e.leaves(name) {
			f := e.byName[leaf]
			if f.Attribute.Shards > 0 {
				shards *= float64(f.Attribute.Shards)
			} else {
				most = max(most, m.distinct(f))
			}
		}
	}
	return most * shards
}

// inPartition is how many items of an entity the partition of a query holds on
// average.
func (m *Model) inPartition(s *Step) float64 {
	key := s.Table.schema.Key
	if s.Index != nil {
		key = s.Index.schema.Key
	}
	var attrs []string
	for _, a := range key.Partition {
		attrs = append(attrs, a.Name)
	}
	return m.Items(s.Entity) * m.present(s.Entity, key) / m.partitions(s.Entity, attrs)
}

// present is the fraction of an entity's stored items that have all attributes of a key.
func (m *Model) present(e *Entity, key schema.Key) float64 {
	share := 1.0
	for _, a := range key.All() {
		if f, ok := e.byName[a.Name]; ok {
			share = min(share, m.share(f))
		}
	}
	return share
}

// share is the fraction of an entity's stored items that have a field.
func (m *Model) share(f *Field) float64 {
	share := 1.0
	for _, w := range f.when {
		of := f.entity.byName[w.Name].Attribute
		values := w.Value.Texts()
		sum := 0.0
		for i, n := range of.shares(0) {
			if slices.Contains(values, of.Values[i]) {
				sum += n
			}
		}
		share *= min(1, sum)
	}
	return share
}

// overhead is the number of bytes that the service adds to each item and each
// index entry when it bills storage.
const overhead = 100

// Storage is the billed size of a table and its indexes at the horizon, in
// bytes.
type Storage struct {
	Table   float64
	Indexes []IndexBytes
}

// IndexBytes is the billed size of one index.
type IndexBytes struct {
	Name  string
	Bytes float64
}

// Storage returns the billed size of a table and its indexes.
func (m *Model) Storage(t *Table) Storage {
	var s Storage
	for _, x := range t.Indexes {
		s.Indexes = append(s.Indexes, IndexBytes{Name: x.Name})
	}
	for _, e := range m.EntitiesOf(t) {
		items := m.Items(e)
		it := Generator{}.everything(e)
		s.Table += items * float64(it.Size()+overhead)
		for i, x := range t.Indexes {
			if !x.schema.Key.In(it) {
				continue
			}
			s.Indexes[i].Bytes += items * m.present(e, x.schema.Key) * float64(t.schema.Entry(x.schema, it).Size()+overhead)
		}
	}
	return s
}

// everything generates an item of typical size with all keys present.
func (g Generator) everything(e *Entity) item.Item {
	s := &sample{gen: g, entity: e, whole: true}
	return s.item()
}
