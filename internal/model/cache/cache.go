// Package cache forecasts what DAX would do for the access patterns of a model: which reads
// it answers from memory, which of these are stale and for how long, and what it saves.
//
// It computes with rates and distributions, and sends no requests.
package cache

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/model"
)

// Options say what the cache is like.
type Options struct {
	ItemTTL  time.Duration // 0: items do not expire
	QueryTTL time.Duration // 0: queries are not cached
	NodeType string        // of the prices
	Nodes    int
	Bytes    float64 // memory for entries; 0 uses usableMemory of a node's
	Skew     float64 // Zipf exponent of the requests, where the model does not say
	Override bool    // Skew counts also where the model says
	Around   bool    // writes go to the database, and not through the cache
	Prices   *model.Prices
}

// usableMemory is the share of the memory of a node that entries may have.
const usableMemory = 0.75

// entryOverhead is the bytes of an entry besides its contents.
const entryOverhead = 100

// Advice is what a cache would do for a model.
type Advice struct {
	Prices          *model.PriceInfo `json:"prices"`
	NodeType        string           `json:"nodeType"`
	Nodes           int              `json:"nodes"`
	ItemTTLSeconds  float64          `json:"itemTTLSeconds"`
	QueryTTLSeconds float64          `json:"queryTTLSeconds"`
	Writes          string           `json:"writes"` // through or around

	MemoryBytes float64 `json:"memoryBytes"` // for entries, on each node
	UsedBytes   float64 `json:"usedBytes"`   // expected
	// EvictedAfterSeconds is how long an entry stays that is not asked for; absent if the
	// memory suffices, so that only times to live remove entries.
	EvictedAfterSeconds float64 `json:"evictedAfterSeconds,omitempty"`

	Patterns []*PatternAdvice `json:"patterns"`

	ReadUnits    float64  `json:"readUnits"`    // per second, without the cache
	SavedUnits   float64  `json:"savedUnits"`   // per second
	SavedDollars float64  `json:"savedDollars"` // per month, as the tables are billed
	NodeDollars  float64  `json:"nodeDollars"`  // per month
	Notes        []string `json:"notes"`
}

// PatternAdvice is what a cache would do for one pattern.
type PatternAdvice struct {
	Name      string  `json:"name"`
	Operation string  `json:"operation"`
	Rate      string  `json:"rate"`
	Verdict   Verdict `json:"verdict"`
	Reason    string  `json:"reason"`

	Keys     float64 `json:"keys,omitempty"` // different keys or parameters
	Skew     float64 `json:"skew,omitempty"` // Zipf exponent
	SkewFrom string  `json:"skewFrom,omitempty"`
	HitRate  float64 `json:"hitRate"`

	// StaleShare is the share of the requests that are answered with an older version than
	// the database has, and StaleSeconds how old that can be; infinite times are absent.
	StaleShare   float64 `json:"staleShare"`
	StaleSeconds float64 `json:"staleSeconds,omitempty"`
	StaleForever bool    `json:"staleForever,omitempty"`

	SavedUnits   float64 `json:"savedUnits"`   // read units per second
	SavedDollars float64 `json:"savedDollars"` // per month, on-demand
}

// Verdict says whether a cache helps a pattern.
type Verdict string

// The verdicts.
const (
	Helps   Verdict = "helps"
	Little  Verdict = "little"
	Stale   Verdict = "stale" // it would help, but most of what it answers is old
	No      Verdict = "no"
	Unknown Verdict = "unknown"
	Write   Verdict = "write"
)

// The hit rates from which a cache helps, and below which it does not.
const (
	helpfulHits = 0.5
	uselessHits = 0.1
)

// SkewFromModel and SkewAssumed say where an exponent is from.
const (
	SkewFromModel = "model"
	SkewAssumed   = "assumed"
)

// Run returns the advice for a model.
func Run(m *model.Model, o Options) (*Advice, error) {
	node, ok := o.Prices.DAXNode(o.NodeType)
	if !ok {
		return nil, fmt.Errorf("the prices have no node type %s: they have %v", o.NodeType, o.Prices.DAXNodeNames())
	}
	a := &Advice{
		Prices: o.Prices.Info(), NodeType: o.NodeType, Nodes: o.Nodes, ItemTTLSeconds: o.ItemTTL.Seconds(), QueryTTLSeconds: o.QueryTTL.Seconds(), Writes: "through",
		MemoryBytes: cmp.Or(o.Bytes, node.Memory*(1<<30)*usableMemory), NodeDollars: float64(o.Nodes) * node.Hour * model.MonthHours, Notes: []string{},
	}
	if o.Around {
		a.Writes = "around"
	}
	f := &forecaster{m: m, o: o, advice: a, cost: m.Cost(o.Prices), items: make(map[*model.Entity]*population)}
	for i, p := range m.Patterns {
		f.pattern(p, f.cost.Patterns[i])
	}
	f.forecast()
	f.dollars()
	f.note()
	return a, nil
}

// forecaster makes the advice for a model.
type forecaster struct {
	m      *model.Model
	o      Options
	advice *Advice
	cost   *model.Cost

	items   map[*model.Entity]*population
	queries []*queried
	reading []*cachedReading
	writing []*writing

	transactions bool // some writes are transactions
}

// cachedReading is the requests of a pattern that can be cached.
type cachedReading struct {
	pattern *PatternAdvice
	units   float64 // per second
	parts   []*cachedPart
}

// cachedPart is the requests of one step.
type cachedPart struct {
	population *population
	stream     *stream
	weight     float64 // its share of the pattern's requests
}

// queried is a population of results, with what changes them.
type queried struct {
	*population
	index    string // a global one; "" for the table itself
	entities []*model.Entity
}

// writing is the writes of a step.
type writing struct {
	entity  *model.Entity
	rate    float64
	skew    float64
	creates bool
	indexes []string // global indexes whose entries it changes
}

// pattern adds a pattern.
func (f *forecaster) pattern(p *model.Pattern, cost *model.PatternCost) {
	plan := f.m.Plan(p)
	x := &PatternAdvice{Name: p.Name, Operation: plan.Operation, Rate: p.Rate.Text}
	f.advice.Patterns = append(f.advice.Patterns, x)
	if !plan.Served() || !cost.Served {
		x.Verdict, x.Reason = Unknown, "the pattern cannot be executed; see stator model check"
		return
	}
	f.advice.ReadUnits += cost.PerSecond.Read()
	first := plan.Steps[0].Action
	switch {
	case first.Verb().Writes():
		f.writes(p, plan, x)
		return
	case plan.Operation == "TransactGetItems":
		x.Verdict, x.Reason = No, "transactions are passed through"
		return
	case slices.ContainsFunc(plan.Steps, func(s *model.Step) bool { return s.Action.Consistent }):
		x.Verdict, x.Reason = No, "strongly consistent reads are passed through"
		return
	}
	isQuery := first.Verb() == model.Query || first.Verb() == model.Scan
	if isQuery && f.o.QueryTTL == 0 {
		x.Verdict, x.Reason = No, "with a query TTL of 0 queries are not cached"
		return
	}
	r := &cachedReading{pattern: x, units: cost.PerSecond.Read()}
	sizes := f.sizes(plan)
	total := 0.0
	for _, s := range plan.Steps {
		repeated := f.m.Repeated(p, s)
		if repeated.Keys == 0 {
			x.Verdict, x.Reason = Unknown, fmt.Sprintf("the model does not say how many items of %s there are: add its count", s.Entity.Name)
			return
		}
		if repeated.Unique != "" {
			x.Verdict, x.Reason = No, fmt.Sprintf("each request has another value of %s, and a result is used only for the same parameters; round the value, or read by a period", repeated.Unique)
			return
		}
		x.Keys = max(x.Keys, repeated.Keys)
		exponent := f.exponent(repeated, x)
		rate := p.Rate.PerSecond * float64(max(1, s.Action.Times))
		part := &cachedPart{stream: &stream{rate: rate, exponent: exponent}, weight: rate}
		if isQuery {
			part.stream.rate *= float64(max(1, s.Shards))
			part.population = f.results(s, repeated.Keys, sizes[s.Entity])
		} else {
			part.population = f.population(s.Entity, sizes[s.Entity])
		}
		part.population.reads = append(part.population.reads, part.stream)
		r.parts = append(r.parts, part)
		total += part.weight
	}
	for _, part := range r.parts {
		if total > 0 {
			part.weight /= total
		}
	}
	f.reading = append(f.reading, r)
}

// exponent returns the skew of requests: what the model says, or else what is assumed.
func (f *forecaster) exponent(r model.Repeated, x *PatternAdvice) float64 {
	exponent, from := f.o.Skew, SkewAssumed
	if r.HotShare > 0 && !f.o.Override {
		exponent, from = exponentFor(r.Keys, r.HotKeys, r.HotShare), SkewFromModel
	}
	if x != nil && r.Keys > 1 {
		x.Skew, x.SkewFrom = exponent, from
	}
	return exponent
}

// sizes returns the bytes that a run of a plan reads of each entity.
func (f *forecaster) sizes(plan *model.Plan) map[*model.Entity]entrySize {
	sizes := make(map[*model.Entity]entrySize)
	scenario, err := f.m.Scenario(plan, model.Generator{}, 0)
	if err != nil {
		return sizes
	}
	for _, stored := range scenario.Before {
		if e, ok := f.m.Entity(stored.Entity); ok {
			s := sizes[e]
			s.items++
			s.bytes += float64(stored.Item.Size())
			sizes[e] = s
		}
	}
	return sizes
}

// entrySize is items and their bytes.
type entrySize struct{ items, bytes float64 }

// population returns the items of an entity.
func (f *forecaster) population(e *model.Entity, size entrySize) *population {
	p := f.items[e]
	if p == nil {
		p = &population{keys: max(1, f.m.Items(e)), bytes: entryOverhead, ttl: seconds(f.o.ItemTTL), renewed: !f.o.Around}
		f.items[e] = p
	}
	if size.items > 0 {
		p.bytes = max(p.bytes, entryOverhead+size.bytes/size.items)
	}
	return p
}

// seconds is a time to live; 0 is none.
func seconds(ttl time.Duration) float64 {
	if ttl == 0 {
		return math.Inf(1)
	}
	return ttl.Seconds()
}

// results returns a population of results of a query or a scan.
func (f *forecaster) results(s *model.Step, keys float64, size entrySize) *population {
	bytes := size.bytes
	if s.Action.Verb() == model.Scan {
		bytes = size.bytes / max(1, size.items) * f.m.Items(s.Entity)
	} else if page := float64(s.Action.Page); page > 0 && size.items > page {
		bytes = size.bytes / size.items * page
	}
	p := &population{keys: keys, bytes: entryOverhead + bytes, ttl: f.o.QueryTTL.Seconds()}
	q := &queried{population: p, entities: []*model.Entity{s.Entity}}
	if s.Index != nil && !s.Index.Local {
		q.index = s.Index.Name
	}
	for _, with := range s.Action.With {
		if e, ok := f.m.Entity(with.Name); ok {
			q.entities = append(q.entities, e)
		}
	}
	f.queries = append(f.queries, q)
	return p
}

// writes adds the writes of a pattern.
func (f *forecaster) writes(p *model.Pattern, plan *model.Plan, x *PatternAdvice) {
	x.Verdict, x.Reason = Write, "each write also refreshes the item in the cache, and no query"
	if plan.Operation == "TransactWriteItems" {
		f.transactions = true
		x.Reason = "passed through; the items are then read again in a transaction, and cached"
	}
	if f.o.Around {
		x.Reason = "the cache does not see it"
	}
	changed := make(map[string][]string) // the global indexes by table
	if scenario, err := f.m.Scenario(plan, model.Generator{}, 0); err == nil {
		for _, c := range scenario.Calls {
			for _, access := range c.Accesses {
				for _, entry := range access.Entries {
					changed[entry.Table] = append(changed[entry.Table], entry.Index)
				}
			}
		}
	}
	for _, s := range plan.Steps {
		a := s.Action
		if a.Verb() == model.Check {
			continue
		}
		f.writing = append(f.writing, &writing{
			entity: s.Entity, rate: p.Rate.PerSecond * float64(max(1, a.Times)), skew: f.exponent(f.m.Repeated(p, s), nil),
			creates: a.Verb() == model.Put && !a.Replaces || a.Creates, indexes: changed[s.Table.Name],
		})
	}
}

// forecast computes the hit rates of all patterns.
func (f *forecaster) forecast() {
	var all []*population
	for _, e := range f.m.Entities {
		p := f.items[e]
		if p == nil {
			continue
		}
		for _, w := range f.writing {
			switch {
			case w.entity != e:
			case w.creates:
				p.created += w.rate
			default:
				p.writes = append(p.writes, &stream{rate: w.rate, exponent: w.skew})
			}
		}
		all = append(all, p)
	}
	for _, q := range f.queries {
		for _, w := range f.writing {
			if slices.Contains(q.entities, w.entity) && (q.index == "" || slices.Contains(w.indexes, q.index)) {
				// What is read most is also written most.
				q.writes = append(q.writes, &stream{rate: w.rate, exponent: q.reads[0].exponent})
			}
		}
		all = append(all, q.population)
	}
	for _, p := range all {
		p.prepare()
	}
	t := characteristicTime(all, f.advice.MemoryBytes)
	for _, p := range all {
		f.advice.UsedBytes += p.contents(t)
	}
	if !math.IsInf(t, 1) {
		f.advice.EvictedAfterSeconds = t
	}
	for _, r := range f.reading {
		f.read(r, t)
	}
}

// read computes the hit rate of a pattern, and what it means.
func (f *forecaster) read(r *cachedReading, characteristic float64) {
	x := r.pattern
	ttl, changes := 0.0, false
	for _, part := range r.parts {
		hit, old := part.population.hits(part.stream, characteristic)
		x.HitRate += part.weight * hit
		x.StaleShare += part.weight * old
		if !part.population.renewed {
			ttl = max(ttl, part.population.ttl)
			changes = changes || len(part.population.writes) > 0 || part.population.created > 0
		}
	}
	switch {
	case !changes:
	case math.IsInf(ttl, 1):
		x.StaleForever = true
	default:
		x.StaleSeconds = ttl
	}
	x.SavedUnits = r.units * x.HitRate
	x.SavedDollars = f.o.Prices.Requests(x.SavedUnits*model.MonthHours*3600, 0)
	f.advice.SavedUnits += x.SavedUnits
	switch {
	case x.HitRate >= helpfulHits:
		x.Verdict, x.Reason = Helps, "most requests are answered from memory"
	case x.HitRate >= uselessHits:
		x.Verdict, x.Reason = Little, "most requests still go to the table"
	default:
		x.Verdict, x.Reason = No, "a key is rarely read again before its entry is gone"
	}
	if x.Verdict == No || x.StaleShare < notableStale {
		return
	}
	if x.StaleShare >= mostlyStale*x.HitRate {
		x.Verdict, x.Reason = Stale, "most of what is answered from memory is old: only if that will do"
		return
	}
	x.Reason += fmt.Sprintf("; %.0f %% of all answers are stale", 100*x.StaleShare)
}

// The share of stale reads that is worth a word, and the share of the hits from which it decides.
const (
	notableStale = 0.01
	mostlyStale  = 0.5
)

// dollars computes what the cache saves, as the tables are billed.
func (f *forecaster) dollars() {
	saved := make(map[[2]string]float64) // units per second by table and index
	for i, p := range f.m.Patterns {
		for _, part := range f.cost.Patterns[i].Parts {
			saved[[2]string{part.Table, part.Index}] += part.Read * p.Rate.PerSecond * f.advice.Patterns[i].HitRate
		}
	}
	for i, t := range f.m.Tables {
		c := f.cost.Tables[i]
		used := map[string]float64{"": c.PerSecond.TableRead}
		for _, x := range c.Indexes {
			used[x.Index] = x.Read
		}
		spared := make(map[string]float64)
		for name := range used {
			own := name
			if x, ok := t.Index(name); ok && x.Local {
				own = "" // it uses the table's units
				used[own] += used[name]
			}
			spared[own] += saved[[2]string{t.Name, name}]
		}
		if t.OnDemand() {
			for _, units := range spared {
				f.advice.SavedDollars += f.o.Prices.Requests(units*model.MonthHours*3600, 0)
			}
			continue
		}
		for _, provisioned := range c.Provisioned {
			read := t.Read
			if x, ok := t.Index(provisioned.Index); ok {
				read = cmp.Or(x.Read, read)
			}
			after := read.Provision(max(0, used[provisioned.Index]-spared[provisioned.Index]))
			f.advice.SavedDollars += f.o.Prices.Hour(max(0, provisioned.Read-after), 0) * model.MonthHours
			if spared[provisioned.Index] > 0 && after == provisioned.Read {
				f.addNote("the read units of %s are fixed: nothing is saved until they are lowered by hand", t.Name)
			}
		}
	}
}

func (f *forecaster) addNote(format string, args ...any) {
	if note := fmt.Sprintf(format, args...); !slices.Contains(f.advice.Notes, note) {
		f.advice.Notes = append(f.advice.Notes, note)
	}
}

// note adds what the figures do not say.
func (f *forecaster) note() {
	a := f.advice
	if a.EvictedAfterSeconds > 0 {
		f.addNote("the memory does not suffice: an entry that is not asked for is evicted after %s", shortTime(a.EvictedAfterSeconds))
	}
	if f.transactions && !f.o.Around {
		f.addNote("each transaction that writes through DAX is followed by one that reads its items, which consumes read units that are not counted here")
	}
	if f.o.Nodes > 1 && !f.o.Around {
		f.addNote("after a write, other nodes of the cluster may answer with the version before it for up to a second")
	}
}

func shortTime(seconds float64) string {
	switch {
	case seconds < 1:
		return "less than a second"
	case seconds >= 1e7:
		return fmt.Sprintf("%.0f days", seconds/86400)
	}
	return time.Duration(math.Round(seconds) * float64(time.Second)).String()
}
