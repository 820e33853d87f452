package model

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/index"
)

// The limits of one partition, in units per second.
const (
	MaxPartitionReads  = 3000
	MaxPartitionWrites = 1000
)

// Partition is the busiest partition with a given form of key, at the peak.
type Partition struct {
	Table    string   `json:"table"`
	Index    string   `json:"index,omitempty"`
	Key      string   `json:"key"`      // the partition key, such as STATUS#PENDING#{shard}
	Read     float64  `json:"read"`     // units per second
	Write    float64  `json:"write"`    // units per second
	Share    float64  `json:"share"`    // of the limit of a partition; 1 is the limit
	Shards   int      `json:"shards"`   // the factor by which to shard it; 1 if that is not needed
	Patterns []string `json:"patterns"` // the patterns that use it, the hottest first

	by map[string]float64 // share by pattern
}

// partitionLoad is the units that one run of a pattern uses in a partition.
type partitionLoad struct {
	table  *Table
	index  *Index // nil for the table itself or a local index of it
	entity *Entity
	action *Action
	fixed  map[string]string // attributes whose value the pattern gives
	units  float64
	write  bool
}

// addReadLoad records the load of a read.
func (d *scenarioBuilder) addReadLoad(s *Step, x *sample, units float64) {
	t := partitionLoad{table: s.Table, index: s.Index, entity: s.Entity, action: s.Action, units: units, fixed: make(map[string]string)}
	if t.index != nil && t.index.Local {
		t.index = nil
	}
	for _, w := range s.Action.Where {
		t.fixed[w.Name] = w.Value.text
	}
	if x != nil {
		t.fixed = x.fixedValues()
	}
	d.loads = append(d.loads, t)
}

// fixedValues returns the listed attributes whose value is fixed.
func (s *sample) fixedValues() map[string]string {
	values := make(map[string]string)
	for name := range s.fixed {
		if f := s.entity.byName[name]; f.Attribute != nil && len(f.Attribute.Values) > 0 {
			values[name] = plain(s.fixed[name])
		}
	}
	return values
}

// addWriteLoad records the load of a write: on the item's partition, and on the
// index partitions that its entries leave and enter. Entries of local indexes
// are in the table's partition.
func (d *scenarioBuilder) addWriteLoad(s *Step, w *itemWrite, cost capacity.Consumed) {
	base := partitionLoad{table: s.Table, entity: s.Entity, action: s.Action, write: true}
	own := base
	own.units, own.fixed = cost.Table, w.now.fixedValues()
	for _, e := range index.Diff(s.Table.schema, w.before, w.after) {
		if !e.Index.Global {
			own.units += e.Units
			continue
		}
		t := base
		t.index, _ = s.Table.Index(e.Index.Name)
		t.units, t.fixed = e.Units, w.now.fixedValues()
		if e.After == nil {
			t.fixed = w.old.fixedValues()
		}
		d.loads = append(d.loads, t)
	}
	d.loads = append(d.loads, own)
}

// heat sums the load of patterns by partition.
type heat struct {
	m     *Model
	found map[[3]string]*Partition
}

func (h *heat) add(p *Pattern, touches []partitionLoad) {
	rate := p.PeakRate().PerSecond
	for _, t := range touches {
		h.spread(p, t, rate*t.units)
	}
}

// maxForms is the most partitions that listed attributes are spread over.
const maxForms = 64

// spread adds units to the busiest partition of each form that a load may have:
// one for each value of a listed attribute that is not fixed.
func (h *heat) spread(p *Pattern, t partitionLoad, units float64) {
	leaves := t.leaves()
	forms := []map[string]string{t.fixed}
	for _, leaf := range leaves {
		f := t.entity.byName[leaf]
		if _, fixed := t.fixed[leaf]; fixed || len(f.Attribute.Values) == 0 || len(forms)*len(f.Attribute.Values) > maxForms {
			continue
		}
		var next []map[string]string
		for _, form := range forms {
			for _, v := range f.Attribute.Values {
				more := map[string]string{leaf: v}
				for name, text := range form {
					more[name] = text
				}
				next = append(next, more)
			}
		}
		forms = next
	}
	share := h.share(t, leaves)
	for _, form := range forms {
		h.addUnits(p, t, form, units*share)
	}
}

// leaves returns the attributes that the partition key is built from.
func (t *partitionLoad) leaves() (leaves []string) {
	for _, name := range t.partition() {
		for _, leaf := range t.entity.leaves(name) {
			if !slices.Contains(leaves, leaf) {
				leaves = append(leaves, leaf)
			}
		}
	}
	return leaves
}

func (t *partitionLoad) partition() (names []string) {
	key := t.table.schema.Key
	if t.index != nil {
		key = t.index.schema.Key
	}
	for _, a := range key.Partition {
		names = append(names, a.Name)
	}
	return names
}

// share is the fraction of the traffic that the busiest partition receives. The
// attributes of a key are mostly correlated (a project has one tenant), so the
// smallest share of any attribute bounds that of the key; shards divide it
// evenly.
func (h *heat) share(t partitionLoad, leaves []string) float64 {
	share, spread := 1.0, 1.0
	for _, leaf := range leaves {
		f := t.entity.byName[leaf]
		a := f.Attribute
		skew, skewed := named(t.action.Skew, leaf)
		_, fixed := t.fixed[leaf]
		switch {
		case a.Shards > 0:
			spread /= float64(a.Shards)
		case fixed:
		case skewed:
			n, _ := parseFloat(skew.Value.text)
			share = min(share, n)
		case a.Hottest > 0:
			share = min(share, a.Hottest)
		default:
			share = min(share, 1/h.m.distinct(f))
		}
	}
	return share * spread
}

func (h *heat) addUnits(p *Pattern, t partitionLoad, form map[string]string, units float64) {
	var key []string
	for _, name := range t.partition() {
		key = append(key, label(t.entity, templateOf(t.entity.byName[name]), form))
	}
	id := [3]string{t.table.Name, "", strings.Join(key, " ")}
	if t.index != nil {
		id[1] = t.index.Name
	}
	x := h.found[id]
	if x == nil {
		x = &Partition{Table: id[0], Index: id[1], Key: id[2], by: make(map[string]float64)}
		h.found[id] = x
	}
	if t.write {
		x.Write += units
		x.by[p.Name] += units / MaxPartitionWrites
	} else {
		x.Read += units
		x.by[p.Name] += units / MaxPartitionReads
	}
}

// label is a template with the given values.
func label(e *Entity, t template, values map[string]string) string {
	var b strings.Builder
	for _, p := range t.parts {
		switch text, ok := values[p.name]; {
		case p.name == "":
			b.WriteString(p.text)
		case ok:
			b.WriteString(text)
		case e.byName[p.name].template != nil:
			b.WriteString(label(e, *e.byName[p.name].template, values))
		default:
			b.WriteString("{" + p.name + "}")
		}
	}
	return b.String()
}

// partitions returns the busiest partitions, hottest first. allowed is the
// share of a partition's limit that may be used.
func (h *heat) partitions(allowed float64) []*Partition {
	var all []*Partition
	for _, x := range h.found {
		x.Share = max(x.Read/MaxPartitionReads, x.Write/MaxPartitionWrites)
		x.Shards = shardsFor(x.Share, allowed)
		for name := range x.by {
			x.Patterns = append(x.Patterns, name)
		}
		slices.SortFunc(x.Patterns, func(a, b string) int {
			return cmp.Or(cmp.Compare(x.by[b], x.by[a]), cmp.Compare(a, b))
		})
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *Partition) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// shardsFor is the smallest number of shards of which none reaches its limit or
// exceeds allowed.
func shardsFor(share, allowed float64) int {
	if share < 1 && share <= allowed {
		return 1
	}
	n := int(math.Ceil(share / allowed))
	for n > 1 && share/float64(n-1) < 1 && share/float64(n-1) <= allowed {
		n--
	}
	for share/float64(n) >= 1 || share/float64(n) > allowed {
		n++
	}
	return n
}
