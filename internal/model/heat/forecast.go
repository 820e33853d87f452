package heat

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/partition"
)

// Forecast is what a model's traffic meets.
type Forecast struct {
	Seconds   float64     `json:"seconds"` // of virtual time
	Seed      uint64      `json:"seed"`
	PerSecond float64     `json:"perSecond"` // runs of all patterns
	Weight    float64     `json:"weight"`    // how many runs each simulated one stands for
	Throttled float64     `json:"throttled"` // requests
	Resources []*Resource `json:"resources"` // those that are used, the most throttled first
}

// Resource is the read or the write units of a table or a global index. An item of a
// batch or a transaction counts as a request, and a page of a query.
type Resource struct {
	Table      string   `json:"table"`
	Index      string   `json:"index,omitempty"`
	Units      string   `json:"units"` // read or write
	OnDemand   bool     `json:"onDemand"`
	Rate       int64    `json:"rate"`       // units per second at the beginning: provisioned, or the level of on-demand
	Partitions int      `json:"partitions"` // at the beginning
	Splits     []Split  `json:"splits,omitempty"`
	Asked      float64  `json:"asked"`  // units per second
	Served     float64  `json:"served"` // units per second
	Requests   float64  `json:"requests"`
	Throttled  float64  `json:"throttled"`
	Reasons    []Reason `json:"reasons,omitempty"` // the most frequent first
	First      float64  `json:"first"`             // second of the first throttled request
	Last       float64  `json:"last"`              // second of the last one

	Busiest  Busiest   `json:"busiest"` // the partition with the most throttled requests, or the most units
	Keys     []KeyLoad `json:"keys"`    // the hottest
	Patterns []string  `json:"patterns"`
	Advice   []Advice  `json:"advice,omitempty"`
}

// Advice is one thing to change so that nothing is throttled.
type Advice struct {
	Change Change  `json:"change"`
	To     float64 `json:"to,omitempty"` // the number of shards or copies, or units per second
	Text   string  `json:"text"`
}

// Change is a kind of change.
type Change string

// The kinds of changes.
const (
	AddShards      Change = "shards"    // of the hot keys
	AddCopies      Change = "copies"    // of what is read by the hot keys
	RaiseUnits     Change = "units"     // that are provisioned
	RaiseWarm      Change = "warm"      // the warm throughput
	BecomeOnDemand Change = "on-demand" // the billing mode
	Redesign       Change = "design"    // what is written or read
	Nothing        Change = "nothing"   // it ends by itself
)

// Split is a number of partitions from a time on.
type Split struct {
	Second     float64 `json:"second"`
	Partitions int     `json:"partitions"`
}

// Reason is a reason as ThrottlingReasons names it, and how many requests were throttled
// for it.
type Reason struct {
	Reason   string  `json:"reason"`
	Requests float64 `json:"requests"`
}

// Busiest is a partition over time, with those that it is split into.
type Busiest struct {
	Partition int       `json:"partition"` // from 1
	Limit     int64     `json:"limit"`     // units per second of one partition
	Share     float64   `json:"share"`     // that is asked for, of the limit
	Seconds   float64   `json:"seconds"`   // that each of the following stands for
	Asked     []float64 `json:"asked"`     // units per second
	Served    []float64 `json:"served"`

	// The same of the whole table or index.
	WholeAsked  []float64 `json:"wholeAsked"`
	WholeServed []float64 `json:"wholeServed"`
	OfWhole     bool      `json:"ofWhole"` // most requests were throttled by the limit of the whole
}

// KeyLoad is one partition key.
type KeyLoad struct {
	Key       string  `json:"key"`
	Form      string  `json:"form"`      // its template
	Partition int     `json:"partition"` // at the beginning, from 1
	Asked     float64 `json:"asked"`     // units per second
	Served    float64 `json:"served"`    // units per second
	Share     float64 `json:"share"`     // that is asked for, of the limit of a partition
	Throttled float64 `json:"throttled"` // requests
}

// reportedKeys is how many keys of a Resource are reported.
const reportedKeys = 10

// forecast returns the result of a simulation.
func (s *simulator) forecast(o Options) *Forecast {
	s.now = s.during
	s.recordSplits()
	f := &Forecast{Seconds: o.For.Seconds(), Seed: o.Seed, PerSecond: s.traffic.perSecond, Weight: s.weight, Resources: []*Resource{}}
	for _, r := range s.all {
		if r.requests == 0 {
			continue
		}
		f.Throttled += r.throttled
		f.Resources = append(f.Resources, s.report(r))
	}
	slices.SortStableFunc(f.Resources, func(a, b *Resource) int {
		return cmp.Or(cmp.Compare(b.Throttled, a.Throttled), cmp.Compare(b.Busiest.Share, a.Busiest.Share))
	})
	return f
}

func (s *simulator) report(r *unitPool) *Resource {
	seconds := s.during.Seconds()
	x := &Resource{Keys: []KeyLoad{}, Table: r.table, Index: r.index, Units: r.kindName(), OnDemand: r.onDemand, Rate: r.rate, Partitions: r.even.Len(), Splits: r.splits,
		Asked: sum(r.whole.asked) / seconds, Served: sum(r.whole.served) / seconds, Requests: r.requests, Throttled: r.throttled, First: r.first.Seconds(), Last: r.last.Seconds()}
	for reason, n := range r.reasons {
		x.Reasons = append(x.Reasons, Reason{reason, n})
	}
	slices.SortFunc(x.Reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Reason, b.Reason))
	})
	x.Busiest = s.busiest(r)
	for _, k := range r.hottest() {
		if len(x.Keys) == reportedKeys {
			break
		}
		x.Keys = append(x.Keys, KeyLoad{Key: k.text, Form: k.form, Partition: 1 + r.even.Of(k.hash), Asked: k.asked / seconds, Served: k.served / seconds,
			Share: k.asked / seconds / float64(r.limit()), Throttled: k.throttled})
	}
	x.Patterns = s.patternsOf(r)
	x.Advice = s.advise(r)
	return x
}

// kindName is read or write.
func (r *unitPool) kindName() string { return strings.ToLower(r.kind.String()) }

// limit is what one partition serves, in units per second.
func (r *unitPool) limit() int64 {
	if r.write {
		return partition.MaxWrite
	}
	return partition.MaxRead
}

func (s *simulator) busiest(r *unitPool) Busiest {
	at := 0
	for i := range r.partitions {
		a, b := &r.partitions[i], &r.partitions[at]
		if cmp.Or(cmp.Compare(a.throttled, b.throttled), cmp.Compare(sum(a.asked), sum(b.asked))) > 0 {
			at = i
		}
	}
	each := s.during.Seconds() / columns
	perSecond := func(units []float64) []float64 {
		rates := make([]float64, columns)
		for i := range units {
			rates[i] = units[i] / each
		}
		return rates
	}
	p := &r.partitions[at]
	return Busiest{Partition: at + 1, Limit: r.limit(), Share: sum(p.asked) / s.during.Seconds() / float64(r.limit()), Seconds: each,
		Asked: perSecond(p.asked), Served: perSecond(p.served), WholeAsked: perSecond(r.whole.asked), WholeServed: perSecond(r.whole.served),
		OfWhole: r.throttled > 0 && 2*r.ofPartition < r.throttled}
}

// patternsOf returns the patterns that use some units, those with the most units first.
func (s *simulator) patternsOf(r *unitPool) (names []string) {
	order := make([]int, 0, len(r.patterns))
	for i, units := range r.patterns {
		if units > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.patterns[b], r.patterns[a]) })
	for _, i := range order {
		names = append(names, s.traffic.patterns[i].plan.Pattern.Name)
	}
	return names
}

func sum(all []float64) (n float64) {
	for _, x := range all {
		n += x
	}
	return n
}
