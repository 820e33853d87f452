// Package throttle limits the units that requests consume: of each table and
// global index by its throughput, and of each partition by what a partition serves.
//
// A request is admitted if something is left of all limits that apply to it, and
// charged when it has been executed. Neither takes a lock.
package throttle

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/data/schema"
)

// Kind is the kind of units.
type Kind int

// The kinds of units.
const (
	Read Kind = iota
	Write
)

func (k Kind) String() string { return [...]string{"Read", "Write"}[k] }

// burst is how long the unused units of a table or an index are kept.
const burst = 300 * time.Second

// Exceeded is returned for a request that exceeds a limit.
type Exceeded struct {
	Table    string
	Index    string // empty for the table itself
	Kind     Kind
	Limit    Limit
	OnDemand bool // the billing mode of the table

	Hash uint64 // of the place that was accessed

	// Partition says that the limit is that of one partition, and not of the whole
	// table or index: both have the same reason if the table is on-demand.
	Partition bool
}

// Limit is a kind of limit, as ThrottlingReasons names it.
type Limit string

// The kinds of limits.
const (
	Provisioned Limit = "ProvisionedThroughputExceeded"
	KeyRange    Limit = "KeyRangeThroughputExceeded"
	OnDemandMax Limit = "MaxOnDemandThroughputExceeded"
	Account     Limit = "AccountLimitExceeded" // the quota of an on-demand table or index
)

// Reason returns the reason, as ThrottlingReasons names it.
func (e *Exceeded) Reason() string {
	place := "Table"
	if e.Index != "" {
		place = "Index"
	}
	return place + e.Kind.String() + string(e.Limit)
}

func (e *Exceeded) Error() string { return e.Reason() }

// Place is what a request accesses: items or entries with the hash of their
// partition key.
type Place struct {
	Index uint16 // 0 for the table itself
	Hash  uint64
	Scan  bool // it reads all items from there on, which does not make a key hot
}

// Table limits the requests to one table.
type Table struct {
	// Shared is set if other servers limit the requests to the table too: what is
	// charged here is kept for TakeCharged. It is set before the first use.
	Shared bool

	bytes     func(index uint16) int64
	resources atomic.Pointer[map[uint16]*metered] // the table has the key 0
	own       *metered                            // of the table, which is never replaced

	mu sync.Mutex // held by Configure
}

// New returns the limits of a table. bytes returns the sizes of the table and of its
// indexes. Times are those of a clock that is never set.
func New(def *schema.Table, now time.Duration, bytes func(index uint16) int64) *Table {
	t := &Table{bytes: bytes}
	t.resources.Store(&map[uint16]*metered{})
	t.Configure(def, now)
	t.own = (*t.resources.Load())[0]
	if s, ok := def.Stream(); ok {
		for _, span := range s.Spans() { // the partitions of an earlier run
			t.SplitOther(now, Place{Hash: span.First})
		}
		t.TakeSplits()
	}
	return t
}

// Configure sets the limits after a table has been changed.
func (t *Table) Configure(def *schema.Table, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := *t.resources.Load()
	after := make(map[uint16]*metered)
	add := func(id uint16, name string, set settings) {
		r := before[id]
		if r == nil {
			r = &metered{id: id, table: def.Name, index: name, bytes: t.bytes}
		}
		r.configure(set, now)
		after[id] = r
	}
	add(0, "", settings{def.OnDemand, def.Throughput, def.MaxRequests, def.Warm})
	for i := range def.Indexes {
		if x := &def.Indexes[i]; x.Global {
			add(x.ID, x.Name, settings{def.OnDemand, x.Throughput, x.MaxRequests, x.Warm})
		}
	}
	t.resources.Store(&after)
}

// resource returns the limits of an index. A local index shares those of its table.
func (t *Table) resource(index uint16) *metered {
	if index != 0 {
		if r, ok := (*t.resources.Load())[index]; ok {
			return r
		}
	}
	return t.own
}

// Admit returns an *Exceeded if a limit is exceeded.
func (t *Table) Admit(now time.Duration, kind Kind, at Place) error {
	if e := t.resource(at.Index).exceeded(now, kind, at.Hash); e != nil {
		return e
	}
	return nil
}

// AdmitAfter is Admit for a request of a batch, of which earlier ones will be charged
// units.
func (t *Table) AdmitAfter(now time.Duration, kind Kind, at Place, units float64) error {
	if err := t.Admit(now, kind, at); err != nil || units == 0 || t.Units(now, kind, at) > units {
		return err
	}
	r := t.resource(at.Index)
	return &Exceeded{Table: r.table, Index: r.index, Kind: kind, Limit: r.rateLimit(kind), OnDemand: r.onDemand.Load(), Hash: at.Hash}
}

// Units returns how many units can be consumed at a place at once.
func (t *Table) Units(now time.Duration, kind Kind, at Place) float64 {
	r := t.resource(at.Index)
	k := &r.kinds[kind]
	return min(k.rate.units(now), k.ceiling.units(now), r.parts.Load().of(at.Hash).limits[kind].units(now))
}

// Charge records that units were consumed.
func (t *Table) Charge(now time.Duration, kind Kind, at Place, units float64) {
	p := t.charge(now, kind, at, units, (*limit).consume)
	if t.Shared {
		p.charged[kind].Add(milli(units))
	}
}

// TakeCharged calls each for the units that Charge has recorded since it was called last, by
// partition. The hash of a place is the first one of its partition.
func (t *Table) TakeCharged(each func(kind Kind, at Place, units float64)) {
	for id, r := range *t.resources.Load() {
		parts := r.parts.Load()
		for i, p := range parts.all {
			first, _ := parts.Span(i)
			for kind := range p.charged {
				if n := p.charged[kind].Swap(0); n != 0 {
					each(Kind(kind), Place{Index: id, Hash: first}, float64(n)/1000)
				}
			}
		}
	}
}

// ChargeOther is Charge for units that were consumed on another server.
func (t *Table) ChargeOther(now time.Duration, kind Kind, at Place, units float64) {
	t.charge(now, kind, at, units, (*limit).consumeLate)
}

// SplitOther splits the partition of a table or an index that was split on another server.
func (t *Table) SplitOther(now time.Duration, at Place) {
	r, ok := (*t.resources.Load())[at.Index]
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.parts.Load()
	if split := p.split(p.Of(at.Hash), at.Hash, now); split != p {
		r.parts.Store(split)
		r.noteSplits(at.Hash)
	}
}

// noteSplits records splits. The caller holds mu.
func (r *metered) noteSplits(at ...uint64) {
	if len(r.splits) < maxRanges {
		r.splits = append(r.splits, at...)
	}
	r.heat = append(r.heat, at...)
	r.heat = r.heat[max(0, len(r.heat)-maxHeatSplits):]
}

func (t *Table) charge(now time.Duration, kind Kind, at Place, units float64, consume func(*limit, time.Duration, float64)) *hashRange {
	r := t.resource(at.Index)
	r.endMinutes(now)
	k := &r.kinds[kind]
	consume(&k.rate, now, units)
	consume(&k.ceiling, now, units)
	k.demand.add(units)
	p := r.parts.Load().of(at.Hash)
	consume(&p.limits[kind], now, units)
	p.count(kind, at, units)
	return p
}

func milli(units float64) int64 { return int64(units * 1000) }

// Rate returns the units per second of the table or of a global index: what is
// provisioned, or the level of on-demand.
func (t *Table) Rate(index uint16, kind Kind) int64 {
	return t.resource(index).kinds[kind].rate.rate.Load()
}

// Partitions returns the number of partitions of the table or of a global index.
func (t *Table) Partitions(index uint16) int { return t.resource(index).parts.Load().Len() }

// Map returns the partitions of the table or of a global index.
func (t *Table) Map(index uint16) partition.Map { return t.resource(index).parts.Load().Map }

// Level returns what an on-demand table, or a global index of one, can serve per second. It is
// zero for a provisioned one.
func (t *Table) Level(index uint16) schema.Throughput {
	r, ok := (*t.resources.Load())[index]
	if !ok || !r.onDemand.Load() {
		return schema.Throughput{}
	}
	return schema.Throughput{Read: r.kinds[Read].rate.rate.Load(), Write: r.kinds[Write].rate.rate.Load()}
}

// TakeSplits returns the hashes at which partitions of the table were split because they
// were hot, since it was called last.
func (t *Table) TakeSplits() []uint64 {
	r := t.resource(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	splits := r.splits
	r.splits = nil
	return splits
}

// PutBackSplits makes TakeSplits return splits again.
func (t *Table) PutBackSplits(splits []uint64) {
	r := t.resource(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.splits) < maxRanges {
		r.splits = append(r.splits, splits...)
	}
}

// HeatSplits returns the latest places at which partitions of the table and of its indexes
// were split because they were hot, on this server or another.
func (t *Table) HeatSplits() (places []Place) {
	for id, r := range *t.resources.Load() {
		r.mu.Lock()
		for _, at := range r.heat {
			places = append(places, Place{Index: id, Hash: at})
		}
		r.mu.Unlock()
	}
	return places
}

// maxHeatSplits is how many splits HeatSplits returns for a table or an index.
const maxHeatSplits = 64

// settings are the parts of a description that limit a table or an index.
type settings struct {
	onDemand          bool
	units, most, warm schema.Throughput // provisioned, the maximum of on-demand, and warm
}

// metered is a table or a global index.
type metered struct {
	id    uint16
	table string
	index string
	bytes func(index uint16) int64

	onDemand atomic.Bool
	kinds    [2]struct { // by Kind
		rate    limit // of what is provisioned, or the level of on-demand
		ceiling limit // of MaxReadRequestUnits and MaxWriteRequestUnits
		demand  demand
	}
	parts  atomic.Pointer[hashRanges]
	minute atomic.Int64 // that is counted

	mu     sync.Mutex // held to change the settings, the level or the partitions
	set    settings
	splits []uint64 // for TakeSplits
	heat   []uint64 // for HeatSplits
}

func (r *metered) configure(set settings, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parts.Load() == nil {
		r.minute.Store(minuteOf(now))
		r.parts.Store(evenRanges(1, now))
	}
	if set == r.set {
		return
	}
	r.set = set
	r.onDemand.Store(set.onDemand)
	for kind, most := range [2]int64{set.most.Read, set.most.Write} {
		if !set.onDemand {
			most = 0
		}
		r.kinds[kind].ceiling.set(now, max(0, most), burst) // -1 is none, as 0
	}
	r.adjust(now)
}

// adjust sets the rates and the number of partitions. The caller holds mu.
func (r *metered) adjust(now time.Duration) {
	atOnce := schema.ReadyFor(r.set.onDemand, r.set.units, r.set.warm)
	ready := [2]int64{Read: atOnce.Read, Write: atOnce.Write}
	for kind, units := range [2]int64{r.set.units.Read, r.set.units.Write} {
		k := &r.kinds[kind]
		if !r.set.onDemand {
			k.rate.set(now, units, burst)
			continue
		}
		ready[kind] = k.demand.level(ready[kind])
		k.rate.set(now, ready[kind], time.Second)
	}
	p := r.parts.Load()
	if n := partition.Count(ready[Read], ready[Write], r.bytes(r.id)); n > p.Len() {
		if p.Len() == 1 {
			was := p.all[0]
			p = evenRanges(min(n, maxRanges), now)
			p.all[0].takeCharged(was)
		}
		r.parts.Store(p.grown(n, now))
	}
}

// endMinutes ends the minute that is counted, if it is over: the level of on-demand
// is adjusted, and hot partitions are split. Other requests do not wait for it.
func (r *metered) endMinutes(now time.Duration) {
	was, is := r.minute.Load(), minuteOf(now)
	if was >= is || !r.minute.CompareAndSwap(was, is) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind := range r.kinds {
		r.kinds[kind].demand.end(was, is)
	}
	parts, splits := r.parts.Load().cooled(now, is-was > 1)
	r.parts.Store(parts)
	r.noteSplits(splits...)
	r.adjust(now)
}

func minuteOf(now time.Duration) int64 { return int64(now / time.Minute) }

// exceeded returns the first limit that is exceeded, or nil.
func (r *metered) exceeded(now time.Duration, kind Kind, hash uint64) *Exceeded {
	k := &r.kinds[kind]
	limit, ofPartition := Limit(""), false
	switch {
	case !k.ceiling.admits(now):
		limit = OnDemandMax
	case !k.rate.admits(now):
		limit = r.rateLimit(kind)
	case !r.parts.Load().of(hash).limits[kind].admits(now):
		limit, ofPartition = KeyRange, true
	default:
		return nil
	}
	return &Exceeded{Table: r.table, Index: r.index, Kind: kind, Limit: limit, OnDemand: r.onDemand.Load(), Hash: hash, Partition: ofPartition}
}

// rateLimit is the kind of limit that the rate is: what is provisioned, or the level of
// on-demand, which rises until it has reached the account's quota.
func (r *metered) rateLimit(kind Kind) Limit {
	switch {
	case !r.onDemand.Load():
		return Provisioned
	case r.kinds[kind].rate.rate.Load() >= maxOnDemand:
		return Account
	}
	return KeyRange
}
