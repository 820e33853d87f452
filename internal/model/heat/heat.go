// Package heat plays the traffic of a model against the limits of tables, indexes and
// partitions, in virtual time: it forecasts what is throttled, when, and what to change.
//
// The limits are those that a server applies (package throttle). Measure sends the same
// requests to a server.
package heat

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/prove"
)

// Options say how much traffic arrives, and for how long.
type Options struct {
	Rate prove.Rate // a multiple of the peak rates, or a total number of runs per second
	For  time.Duration
	Seed uint64

	Progress func(share float64) // called from time to time with the share that is done

	Most int // runs that are simulated one by one, at most; defaults to maxSimulated
}

// maxSimulated limits the work of a forecast: beyond it, an arrival stands for several
// runs.
const maxSimulated = 4_000_000

// Run returns the forecast of a model.
func Run(m *model.Model, o Options) (*Forecast, error) {
	t, err := trafficOf(m, o)
	if err != nil {
		return nil, err
	}
	weight := max(1, t.perSecond*o.For.Seconds()/float64(cmp.Or(o.Most, maxSimulated)))
	for _, p := range t.patterns {
		if p.rate == 0 {
			continue
		}
		if o.Progress != nil {
			o.Progress(0)
		}
		if err := p.prepare(m, t, false, int(p.rate*o.For.Seconds())); err != nil {
			return nil, err
		}
	}
	s := newSimulator(m, t, o.For, weight)
	runs := make([][]simulatedRun, len(t.patterns))
	for i, p := range t.patterns {
		for j := range p.runs {
			runs[i] = append(runs[i], s.resolve(&p.runs[j]))
		}
		p.runs = nil
	}
	chance := rand.New(rand.NewPCG(o.Seed, 0))
	for i := 0; ; i++ {
		a, ok := t.next(weight, chance)
		if !ok {
			break
		}
		if of := runs[a.pattern]; len(of) > 0 {
			s.play(a.at, a.pattern, &of[chance.IntN(len(of))])
		}
		if o.Progress != nil && i%(1<<14) == 0 {
			o.Progress(a.at.Seconds() / o.For.Seconds())
		}
	}
	return s.forecast(o), nil
}

// traffic is the patterns of a model, and how often they run.
type traffic struct {
	patterns  []*patternTraffic
	until     []float64 // the sum of the rates up to each pattern
	perSecond float64   // runs of all patterns
	during    time.Duration
	now       float64 // seconds

	nextOrdinal int             // the first that no pattern uses
	claimed     map[string]bool // items of runs that succeed only once
}

// patternTraffic is one pattern.
type patternTraffic struct {
	plan *model.Plan
	rate float64 // runs per second
	runs []plannedRun
}

// plannedRun is a run of a pattern: what each of its requests accesses.
type plannedRun struct {
	requests [][]model.Access
	follow   []bool          // by request: all pages are read
	scenario *model.Scenario // set if it is sent to a server
}

// trafficOf returns the traffic of a model at a multiple of its peak rates.
func trafficOf(m *model.Model, o Options) (*traffic, error) {
	t := &traffic{during: o.For, claimed: make(map[string]bool)}
	sum := 0.0
	for _, p := range m.Patterns {
		sum += p.PeakRate().PerSecond
	}
	times := o.Rate.Times
	if o.Rate.PerSecond > 0 {
		times = o.Rate.PerSecond / max(sum, 1e-12)
	}
	for _, p := range m.Patterns {
		plan := m.Plan(p)
		if !plan.Served() && p.PeakRate().PerSecond > 0 {
			return nil, fmt.Errorf("%q cannot be executed: %w", p.Name, plan.Faults[0])
		}
		of := &patternTraffic{plan: plan, rate: times * p.PeakRate().PerSecond}
		t.perSecond += of.rate
		t.patterns, t.until = append(t.patterns, of), append(t.until, t.perSecond)
	}
	if t.perSecond == 0 {
		return nil, fmt.Errorf("no access pattern has a rate, so nothing arrives")
	}
	return t, nil
}

// arrived is a run that arrives.
type arrived struct {
	at      time.Duration
	pattern int
	run     int
}

// next returns the next arrival: at random times around the rate, of which each stands
// for weight runs. It is not ok at the end.
func (t *traffic) next(weight float64, chance *rand.Rand) (arrived, bool) {
	t.now += weight * chance.ExpFloat64() / t.perSecond
	if t.now >= t.during.Seconds() { // compared as seconds: a small rate has arrivals beyond any Duration
		return arrived{}, false
	}
	at := min(time.Duration(t.now*float64(time.Second)), t.during-1)
	i, _ := slices.BinarySearch(t.until, chance.Float64()*t.perSecond)
	return arrived{at: at, pattern: min(i, len(t.patterns)-1)}, true
}

// Limits of the runs that are prepared: more are repeated. Of all runs, a pattern has
// its share of the traffic.
const (
	allRuns     = 8_000
	minRuns     = 100   // of a pattern
	maxRuns     = 2_000 // of a pattern
	maxAccesses = 10_000
)

// prepare makes runs of a pattern for a number of arrivals. Those of a server have
// their requests, and one is made for each arrival if a run succeeds only once.
func (p *patternTraffic) prepare(m *model.Model, t *traffic, forServer bool, arrivals int) error {
	g := model.Generator{Spread: true}
	ordinals, err := m.RunOrdinals(p.plan, g)
	if err != nil {
		return err
	}
	first := (t.nextOrdinal + ordinals - 1) / ordinals
	one, err := m.Scenario(p.plan, model.Generator{}, first)
	if err != nil {
		return err
	}
	accesses := 0
	for i := range one.Calls {
		for _, a := range one.Calls[i].Accesses {
			accesses += 1 + len(a.Entries)
		}
	}
	share := max(minRuns, int(allRuns*p.rate/t.perSecond))
	n := max(1, min(arrivals, share, maxRuns, maxAccesses/max(1, accesses)))
	if forServer {
		n = max(1, min(n, maxFound/max(1, len(one.Before))))
		if prove.RunsOnce(p.plan) {
			n = max(1, arrivals)
		}
	}
	run := first
	for len(p.runs) < n {
		made, err := planRun(m, p.plan, g, run, one, ordinals, forServer)
		exclusive := forServer && prove.RunsOnce(p.plan)
		for tries := 0; err == nil && exclusive && t.claims(m, &made) && tries < maxTries; tries++ {
			run++
			made, err = planRun(m, p.plan, g, run, one, ordinals, forServer)
		}
		if err != nil || exclusive && t.claims(m, &made) {
			// Its items have the same key, or one that another run changes: such a run has
			// values of its own.
			if made, err = planRun(m, p.plan, model.Generator{}, run, one, ordinals, forServer); err != nil {
				return err
			}
		}
		if exclusive {
			t.claim(m, &made)
		}
		p.runs = append(p.runs, made)
		run++
	}
	t.nextOrdinal = run * ordinals
	return nil
}

// maxTries is how many further runs are tried if one names an item of another.
const maxTries = 4

// keysOf returns the items that a run finds or writes.
func keysOf(m *model.Model, run *plannedRun) (keys []string) {
	add := func(name string, it item.Item) {
		table, _ := m.Table(name)
		keys = append(keys, name+"\x00"+string(keyspace.Item(nil, table.Schema(), it)))
	}
	for _, stored := range run.scenario.Before {
		add(stored.Table, stored.Item)
	}
	for i := range run.scenario.Calls {
		for _, target := range run.scenario.Calls[i].Targets {
			if target.Writes {
				add(target.Table, target.Item)
			}
		}
	}
	return keys
}

// claims reports whether a run names an item that belongs to another run.
func (t *traffic) claims(m *model.Model, run *plannedRun) bool {
	return slices.ContainsFunc(keysOf(m, run), func(key string) bool { return t.claimed[key] })
}

// claim reserves the items of a run that succeeds only once.
func (t *traffic) claim(m *model.Model, run *plannedRun) {
	for _, key := range keysOf(m, run) {
		t.claimed[key] = true
	}
}

func planRun(m *model.Model, plan *model.Plan, g model.Generator, run int, one *model.Scenario, ordinals int, forServer bool) (made plannedRun, err error) {
	if forServer {
		if made.scenario, err = m.Scenario(plan, g, run); err != nil {
			return made, err
		}
		one = made.scenario
		for i := range one.Calls {
			made.requests = append(made.requests, one.Calls[i].Accesses)
		}
	} else if made.requests, err = m.Accesses(plan, g, run, one, ordinals); err != nil {
		return made, err
	}
	for i := range made.requests {
		made.follow = append(made.follow, one.Calls[i].Follow)
	}
	return made, nil
}
