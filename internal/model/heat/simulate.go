package heat

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/partition"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
)

// simulator plays runs against the limits of the tables of a model. It decides as the
// server does (internal/db/throttled.go).
type simulator struct {
	traffic *traffic
	weight  float64 // how many runs an arrival stands for
	during  time.Duration
	allowed float64       // share of a partition's limit that may be used
	checked time.Duration // when the partitions were counted

	tables map[string]*throttle.Table
	all    []*unitPool
	of     map[resourceID]*unitPool

	now     time.Duration
	pattern int
}

// resourceID names the read or write units of a table or a global index.
type resourceID struct {
	table, index string
	write        bool
}

// unitPool is the read or write units of a table or a global index.
type unitPool struct {
	resourceID
	limits   *throttle.Table
	id       uint16
	kind     throttle.Kind
	onDemand bool
	rate     int64 // units per second at the beginning

	even       partition.Map // the partitions at the beginning
	partitions []partitionHeat
	whole      demandSeries
	splits     []Split

	requests, throttled float64
	first, last         time.Duration // of the throttled requests
	reasons             map[string]float64
	ofPartition         float64 // of those, by the limit of a partition
	keys                map[uint64]*keyHeat
	patterns            []float64 // units that each pattern asks for
}

// partitionHeat is a partition as it was at the beginning, with those that it was
// split into.
type partitionHeat struct {
	demandSeries
	throttled float64
}

// demandSeries is units over time: those that are asked for, and those that are served.
type demandSeries struct{ asked, served []float64 }

// keyHeat is one partition key.
type keyHeat struct {
	text, form    string
	hash          uint64
	asked, served float64
	throttled     float64
}

// columns is how many parts the time of a forecast is divided into.
const columns = 60

func newSimulator(m *model.Model, t *traffic, during time.Duration, weight float64) *simulator {
	s := &simulator{traffic: t, weight: weight, during: during, allowed: 1, tables: make(map[string]*throttle.Table), of: make(map[resourceID]*unitPool)}
	if b := m.Budgets; b != nil && b.Partition > 0 {
		s.allowed = min(1, b.Partition)
	}
	for _, t := range m.Tables {
		def := t.Schema()
		limits := throttle.New(def, 0, func(uint16) int64 { return 0 })
		s.tables[t.Name] = limits
		for _, write := range []bool{false, true} {
			s.add(&unitPool{resourceID: resourceID{t.Name, "", write}, limits: limits, onDemand: def.OnDemand})
		}
		for i := range def.Indexes {
			x := &def.Indexes[i]
			for _, write := range []bool{false, true} {
				if x.Global {
					s.add(&unitPool{resourceID: resourceID{t.Name, x.Name, write}, limits: limits, id: x.ID, onDemand: def.OnDemand})
				}
			}
		}
	}
	return s
}

func (s *simulator) add(r *unitPool) {
	if r.write {
		r.kind = throttle.Write
	}
	n := r.limits.Partitions(r.id)
	r.rate = r.limits.Rate(r.id, r.kind)
	r.even, r.partitions = partition.Even(n), make([]partitionHeat, n)
	r.reasons, r.keys, r.patterns = make(map[string]float64), make(map[uint64]*keyHeat), make([]float64, len(s.traffic.patterns))
	s.all, s.of[r.resourceID] = append(s.all, r), r
}

// unitTarget is a partition key at which a request consumes units.
type unitTarget struct {
	*unitPool
	key       *keyHeat
	partition *partitionHeat
	place     throttle.Place
	units     float64
}

// unitAccess is what a request consumes for one of its items, or for a page.
type unitAccess struct {
	unitTarget
	entries []unitTarget // of global indexes
}

// simulatedRun is a run with the resources that its requests access.
type simulatedRun struct {
	requests [][]unitAccess
	follow   []bool
}

// resolve finds the resources of a run.
func (s *simulator) resolve(run *plannedRun) simulatedRun {
	made := simulatedRun{follow: run.follow}
	for _, accesses := range run.requests {
		all := make([]unitAccess, len(accesses))
		for i := range accesses {
			a := &accesses[i]
			all[i].unitTarget = s.target(&a.Place, a.Write)
			for j := range a.Entries {
				all[i].entries = append(all[i].entries, s.target(&a.Entries[j], a.Write))
			}
		}
		made.requests = append(made.requests, all)
	}
	return made
}

func (s *simulator) target(p *model.Place, write bool) unitTarget {
	r := s.of[resourceID{p.Table, p.Index, write}]
	t := unitTarget{unitPool: r, units: s.weight * p.Units, place: throttle.Place{Index: r.id, Hash: p.Hash, Scan: p.Scan}}
	if p.Scan {
		return t
	}
	t.partition = &r.partitions[r.even.Of(p.Hash)]
	if t.key = r.keys[p.Hash]; t.key == nil {
		t.key = &keyHeat{text: p.Key, form: p.Form, hash: p.Hash}
		r.keys[p.Hash] = t.key
	}
	return t
}

// play plays one run: its requests, until one of them is throttled.
func (s *simulator) play(at time.Duration, pattern int, run *simulatedRun) {
	s.now, s.pattern = at, pattern
	if at >= s.checked+time.Second {
		s.checked = at.Truncate(time.Second)
		s.recordSplits()
	}
	for i, accesses := range run.requests {
		for j := range accesses {
			s.ask(&accesses[j])
		}
		ok := true
		switch s.traffic.patterns[pattern].plan.Operation {
		case "BatchGetItem", "BatchWriteItem":
			s.batch(accesses)
		case "TransactGetItems", "TransactWriteItems":
			ok = s.transaction(accesses)
		case "Query", "Scan":
			ok = s.pages(accesses, run.follow[i])
		default:
			ok = s.one(&accesses[0])
		}
		if !ok {
			return
		}
	}
}

// recordSplits records how many partitions there are.
func (s *simulator) recordSplits() {
	for _, r := range s.all {
		was := r.even.Len()
		if len(r.splits) > 0 {
			was = r.splits[len(r.splits)-1].Partitions
		}
		if n := r.limits.Partitions(r.id); n != was {
			r.splits = append(r.splits, Split{Second: s.now.Seconds(), Partitions: n})
		}
	}
}

// ask records what a request would consume.
func (s *simulator) ask(a *unitAccess) {
	record := func(t *unitTarget) {
		t.patterns[s.pattern] += t.units
		add(&t.whole.asked, s.column(), t.units)
		if t.key != nil {
			add(&t.partition.asked, s.column(), t.units)
			t.key.asked += t.units
		}
	}
	record(&a.unitTarget)
	for i := range a.entries {
		record(&a.entries[i])
	}
}

func (s *simulator) column() int { return min(columns-1, int(s.now*columns/s.during)) }

func add(series *[]float64, i int, units float64) {
	if *series == nil {
		*series = make([]float64, columns)
	}
	(*series)[i] += units
}

// one plays a request for one item.
func (s *simulator) one(a *unitAccess) bool {
	if !s.admit(&a.unitTarget) {
		return false
	}
	for i := range a.entries {
		if !s.admit(&a.entries[i]) {
			return false
		}
	}
	s.charge(a)
	return true
}

// transaction plays a request that is executed as a whole or not at all. Each of its
// items that is throttled counts.
func (s *simulator) transaction(accesses []unitAccess) bool {
	ok := true
	for i := range accesses {
		ok = s.admit(&accesses[i].unitTarget) && ok
	}
	if !ok {
		return false
	}
	for i := range accesses {
		for j := range accesses[i].entries {
			if !s.admit(&accesses[i].entries[j]) {
				ok = false
				break
			}
		}
	}
	if ok {
		for i := range accesses {
			s.charge(&accesses[i])
		}
	}
	return ok
}

// batch plays a request of which each item is executed or not.
func (s *simulator) batch(accesses []unitAccess) {
	admitted := make([]bool, len(accesses))
	for i := range accesses {
		t := &accesses[i].unitTarget
		if admitted[i] = s.admit(t); admitted[i] {
			s.consume(t, t.units) // the items after it do not get these
		}
	}
	pending := make(map[*unitPool]float64)
	for i := range accesses {
		a := &accesses[i]
		for j := 0; j < len(a.entries) && admitted[i]; j++ {
			t := &a.entries[j]
			admitted[i] = s.record(t, t.limits.AdmitAfter(s.now, t.kind, t.place, pending[t.unitPool]))
			if !admitted[i] {
				s.consume(&a.unitTarget, -a.units)
			}
		}
		for j := 0; j < len(a.entries) && admitted[i]; j++ {
			pending[a.entries[j].unitPool] += a.entries[j].units
		}
	}
	for i := range accesses {
		for j := 0; j < len(accesses[i].entries) && admitted[i]; j++ {
			s.consume(&accesses[i].entries[j], accesses[i].entries[j].units)
		}
	}
}

// pages plays a query or a scan: a page ends when the units are used up. follow is set
// if all pages are read.
func (s *simulator) pages(accesses []unitAccess, follow bool) bool {
	for i := range accesses {
		t := &accesses[i].unitTarget
		if !s.admit(t) {
			return false
		}
		if t.place.Scan {
			s.scan(t)
			continue
		}
		left := t.limits.Units(s.now, t.kind, t.place)
		if t.units <= left {
			s.consume(t, t.units)
			continue
		}
		s.consume(t, min(t.units, max(0.5, math.Ceil(2*left)/2)))
		return !follow || s.admit(t)
	}
	return true
}

// scan charges a page of a scan, evenly to all partitions.
func (s *simulator) scan(t *unitTarget) {
	n := t.limits.Partitions(t.id)
	for i := range n {
		t.limits.Charge(s.now, t.kind, throttle.Place{Index: t.id, Hash: partition.First(i, n), Scan: true}, t.units/float64(n))
	}
	add(&t.whole.served, s.column(), t.units)
}

// admit reports whether the limits admit a request, and records it.
func (s *simulator) admit(t *unitTarget) bool {
	return s.record(t, t.limits.Admit(s.now, t.kind, t.place))
}

func (s *simulator) record(t *unitTarget, err error) bool {
	t.requests += s.weight
	if err == nil {
		return true
	}
	e := err.(*throttle.Exceeded) //nolint:errorlint // the throttle returns no other, and nothing wraps it
	if t.throttled == 0 {
		t.first = s.now
	}
	t.last = s.now
	t.throttled += s.weight
	t.reasons[e.Reason()] += s.weight
	if e.Partition {
		t.ofPartition += s.weight
	}
	if t.key != nil {
		t.key.throttled += s.weight
		t.partition.throttled += s.weight
	}
	return false
}

// charge charges a request that was executed: the entries first, as the server does.
func (s *simulator) charge(a *unitAccess) {
	for i := range a.entries {
		s.consume(&a.entries[i], a.entries[i].units)
	}
	s.consume(&a.unitTarget, a.units)
}

func (s *simulator) consume(t *unitTarget, units float64) {
	t.limits.Charge(s.now, t.kind, t.place, units)
	add(&t.whole.served, s.column(), units)
	add(&t.partition.served, s.column(), units)
	t.key.served += units
}

// hottest returns the keys that are asked for most units.
func (r *unitPool) hottest() []*keyHeat {
	all := make([]*keyHeat, 0, len(r.keys))
	for _, k := range r.keys {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b *keyHeat) int {
		return cmp.Or(cmp.Compare(b.asked, a.asked), cmp.Compare(a.text, b.text))
	})
	return all
}
