package model

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/capacity"
	"github.com/stator-db/stator/internal/data/index"
	"github.com/stator-db/stator/internal/data/partition"
)

// The limits of one partition, in units per second.
const (
	MaxPartitionReads  = partition.MaxRead
	MaxPartitionWrites = partition.MaxWrite
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

	exact     float64            // units per second of consistent reads
	by        map[string]float64 // share by pattern
	at        Position           // where its key is declared
	shardsNow int                // the number of shards that the key is already spread over
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
	enters bool // the write puts the item or the entry into the partition
}

// isCurrent reports whether a load goes to the current value of a time: that of an attribute that
// the write sets.
func (t *partitionLoad) isCurrent(leaf string) bool {
	a := t.action
	if !t.enters || formats[t.entity.byName[leaf].Attribute.Format].period == nil {
		return false
	}
	_, isSet := named(a.Set, leaf)
	return isSet || a.verb == Put && !a.Replaces || a.verb == Update && a.Creates
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
	own.units, own.fixed, own.enters = cost.Table, w.now.fixedValues(), true
	edits := index.Diff(s.Table.schema, w.before, w.after)
	d.accesses = append(d.accesses, accessOf(s.Entity, w, cost.Table, edits))
	for _, e := range edits {
		if !e.Index.Global {
			own.units += e.Units
			continue
		}
		t := base
		t.index, _ = s.Table.Index(e.Index.Name)
		t.units, t.fixed, t.enters = e.Units, w.now.fixedValues(), e.After != nil
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

// partitionForm is a form of a partition key: with the values of some listed attributes.
type partitionForm struct {
	values map[string]string
	share  float64 // the largest that the values leave
}

// with returns the form with one more value.
func (f partitionForm) with(name, value string, share float64) partitionForm {
	values := maps.Clone(f.values)
	if values == nil {
		values = make(map[string]string)
	}
	values[name] = value
	return partitionForm{values, min(f.share, share)}
}

// spread adds units to the busiest partition of each form that a load may have:
// one for each value of a listed attribute that is not fixed.
func (h *heat) spread(p *Pattern, t partitionLoad, units float64) {
	forms := []partitionForm{{t.fixed, 1}}
	listed := make(map[string]bool)
	for _, leaf := range t.leaves() {
		a := t.entity.byName[leaf].Attribute
		if _, fixed := t.fixed[leaf]; fixed || len(a.Values) == 0 || len(forms)*len(a.Values) > maxForms {
			continue
		}
		listed[leaf] = true
		shares := a.shares(skewOf(p, &t, leaf))
		var next []partitionForm
		for _, form := range forms {
			for i, v := range a.Values {
				next = append(next, form.with(leaf, v, shares[i]))
			}
		}
		forms = next
	}
	share, shards := h.share(p, &t, listed)
	for _, form := range forms {
		h.addUnits(p, t, form.values, units*min(share, form.share)/shards)
	}
}

// skewOf is the share that the pattern or the attribute declares for the busiest value; 0 if
// neither does.
func skewOf(p *Pattern, t *partitionLoad, leaf string) float64 {
	a := t.entity.byName[leaf].Attribute
	return declaredSkew(p, t.action, a) / float64(a.HotValues())
}

// declaredSkew is the share that a pattern or the attribute declares for the hot values; 0 if
// neither does. That of a transaction or batch applies to its actions.
func declaredSkew(p *Pattern, action *Action, of *Attribute) float64 {
	for _, a := range []*Action{action, &p.Action} {
		if s, ok := named(a.Skew, of.Name); ok {
			n, _ := parseFloat(s.Value.text)
			return n
		}
	}
	return of.Hottest
}

// shares is the share of the traffic of each listed value: that of its mix, or an even one. If
// skew is not 0, the most common value has that share, and the others divide the rest.
func (a *Attribute) shares(skew float64) []float64 {
	shares, rest, unlisted := make([]float64, len(a.Values)), 1.0, 0
	for i, v := range a.Values {
		s, ok := named(a.Mix, v)
		if !ok {
			shares[i] = -1
			unlisted++
			continue
		}
		shares[i], _ = parseFloat(s.Value.text)
		rest -= shares[i]
	}
	for i := range shares {
		if shares[i] < 0 {
			shares[i] = max(0, rest) / float64(unlisted)
		}
	}
	if skew == 0 || len(shares) == 1 {
		return shares
	}
	top := slices.Index(shares, slices.Max(shares))
	others := max(1e-9, 1-shares[top])
	for i := range shares {
		shares[i] *= (1 - skew) / others
	}
	shares[top] = skew
	return shares
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

// share is the fraction of the traffic that the busiest partition receives, and the number of
// shards that divide it evenly. The attributes of a key are mostly correlated (a project has one
// tenant), so the smallest share of any attribute bounds that of the key. All that is written in
// one period of a time has the same value of it. Listed attributes are the forms of the key.
func (h *heat) share(p *Pattern, t *partitionLoad, listed map[string]bool) (share, shards float64) {
	return h.shareOf(p, t, t.leaves(), listed)
}

// shareOf is the share of the busiest value of a key that is built from leaves.
func (h *heat) shareOf(p *Pattern, t *partitionLoad, leaves []string, listed map[string]bool) (share, shards float64) {
	share, shards = 1, 1
	for _, leaf := range leaves {
		f := t.entity.byName[leaf]
		a := f.Attribute
		_, fixed := t.fixed[leaf]
		skew := skewOf(p, t, leaf)
		switch {
		case a.Shards > 0:
			shards *= float64(a.Shards)
		case fixed || listed[leaf]:
		case skew > 0:
			share = min(share, skew)
		case len(a.Values) > 0: // too many for a form of each
			share = min(share, slices.Max(a.shares(0)))
		case t.isCurrent(leaf):
			share = min(share, max(formats[a.Format].period(a), 1/h.m.distinct(f)))
		default:
			share = min(share, 1/h.m.distinct(f))
		}
	}
	return share, shards
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
		x = &Partition{Table: id[0], Index: id[1], Key: id[2], by: make(map[string]float64), shardsNow: 1}
		x.at = t.entity.byName[t.partition()[0]].location.Position
		for _, leaf := range t.leaves() {
			x.shardsNow = max(x.shardsNow, t.entity.byName[leaf].Attribute.Shards)
		}
		h.found[id] = x
	}
	if t.write {
		x.Write += units
		x.by[p.Name] += units / MaxPartitionWrites
	} else {
		x.Read += units
		if t.action != nil && t.action.Consistent {
			x.exact += units
		}
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
		x.Shards = ShardsFor(x.Share, allowed)
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

// ShardsFor returns the smallest number of shards of which none reaches its limit or
// exceeds allowed.
func ShardsFor(share, allowed float64) int {
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
