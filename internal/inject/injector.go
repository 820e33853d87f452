package inject

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Bounds of what an Injector keeps.
const (
	maxKept   = 10_000  // injected faults
	maxSeen   = 200_000 // ids of requests; those beyond are counted by operation
	maxTables = 10_000  // that had transactions

	maxByOperation = 10_000 // ids of operations and tables beyond maxSeen; further requests are counted together
)

// Injected is a fault that was injected.
type Injected struct {
	Number     int           `json:"number"`
	At         time.Duration `json:"atNanoseconds"` // since the plan was set
	Fault      Fault         `json:"fault"`
	Rule       int           `json:"rule"` // its position in the plan, from 1 on
	Operation  string        `json:"operation"`
	Tables     []string      `json:"tables,omitempty"`
	Index      string        `json:"index,omitempty"`
	Key        string        `json:"key,omitempty"`
	Request    string        `json:"request"` // the id of requests like it
	Occurrence int           `json:"occurrence"`
	Detail     string        `json:"detail,omitempty"`

	// Of the rule.
	Delay time.Duration `json:"delayNanoseconds,omitempty"`
	Lag   time.Duration `json:"lagNanoseconds,omitempty"`
	As    string        `json:"as,omitempty"`
}

// Replay returns the rule that injects the fault, and nothing else, into the same request
// of another run.
func (f *Injected) Replay() Rule {
	r := Rule{Fault: f.Fault, Operations: []string{f.Operation}, Request: f.Request, Occurrences: []int{f.Occurrence}, Delay: f.Delay, Lag: f.Lag, As: f.As}
	if len(f.Tables) == 1 {
		r.Table = f.Tables[0]
	}
	return r
}

// Injector decides on the faults of requests. Its methods are safe for concurrent use.
type Injector struct {
	elapsed func() time.Duration

	mu       sync.Mutex
	plan     Plan
	set      uint64 // how often the plan was set
	since    time.Duration
	given    []int                // how often each rule was applied
	seen     map[uint64]*requests // by their id
	further  requests             // those with an id that is not in seen
	transact map[string]bool      // tables that had a transaction
	log      []Injected           // the newest, in a ring when it is full
	injected int
}

// requests are the requests with one id.
type requests struct {
	count    int
	rejected int // how many of the last ones, without another in between
}

// New returns an Injector that injects nothing. elapsed is a clock that is never set.
func New(elapsed func() time.Duration) *Injector {
	in := &Injector{elapsed: elapsed}
	in.Set(Plan{})
	return in
}

// Set replaces the plan, and forgets what was injected and counted before.
func (in *Injector) Set(p Plan) {
	p.Identity = cmp.Or(p.Identity, IdentityKey)
	rules := make([]Rule, len(p.Rules))
	for i, r := range p.Rules {
		rules[i] = r.fill()
	}
	p.Rules = rules
	in.mu.Lock()
	defer in.mu.Unlock()
	in.set++
	in.plan, in.since, in.given = p, in.elapsed(), make([]int, len(rules))
	in.seen, in.further, in.transact = make(map[uint64]*requests), requests{}, make(map[string]bool)
	in.log, in.injected = nil, 0
}

// Plan returns the plan.
func (in *Injector) Plan() Plan {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.plan
}

// Seen returns how many requests there were with each id, and whether these are all.
func (in *Injector) Seen() (counts map[string]int, all bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	counts = make(map[string]int, len(in.seen))
	for id, s := range in.seen {
		counts[idText(id)] = s.count
	}
	return counts, len(in.seen) < maxSeen
}

// Log returns the faults that were injected with a number above after, oldest first, at most
// limit of them, and how many were injected in total. Only the newest are kept.
func (in *Injector) Log(after, limit int) (found []Injected, total int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	first := max(after, in.injected-len(in.log))
	for n := first; n < in.injected && len(found) < limit; n++ {
		found = append(found, in.log[n%maxKept])
	}
	return found, in.injected
}

// Kept is how many of the injected faults are kept.
const Kept = maxKept

// Decision is what is injected into one request. A nil Decision is nothing.
type Decision struct {
	in      *Injector
	set     uint64 // of the plan
	request Request
	id      uint64
	number  int // of the request among those with its id
	seed    uint64
	chosen  []choice
}

type choice struct {
	rule int
	Rule
	noted bool
}

// Decide counts a request, and decides which faults it gets. It returns nil if it gets none.
func (in *Injector) Decide(r Request) *Decision {
	in.mu.Lock()
	defer in.mu.Unlock()
	id, own := r.id(in.plan.Identity), r.id(IdentityKey)
	of := in.count(&r, id)
	row := of
	if own != id {
		row = in.count(&r, own)
	}
	if r.Transacts && len(in.transact) < maxTables {
		for _, t := range r.Tables {
			in.transact[t] = true
		}
	}
	var d *Decision
	rejected := false
	now := in.elapsed() - in.since
	for i := range in.plan.Rules {
		rule := &in.plan.Rules[i]
		k := kinds[rule.Fault]
		switch {
		case !in.applies(rule, &k, &r, id, of.count, now), rule.Count > 0 && in.given[i] >= rule.Count:
			continue
		case rule.Share != nil && fraction(mix(in.plan.Seed, uint64(i), id, uint64(of.count))) >= *rule.Share:
			continue
		case k.rejects && in.plan.Consecutive > 0 && row.rejected >= in.plan.Consecutive:
			continue
		case k.exclusive != "" && d.excludes(k.exclusive):
			continue
		}
		if d == nil {
			d = &Decision{in: in, set: in.set, request: r, id: id, number: of.count, seed: in.plan.Seed}
		}
		in.given[i]++
		rejected = rejected || k.rejects
		d.chosen = append(d.chosen, choice{rule: i, Rule: *rule})
	}
	if rejected {
		row.rejected++
	} else {
		row.rejected = 0
	}
	return d
}

// count counts a request with an id.
func (in *Injector) count(r *Request, id uint64) *requests {
	of := in.seen[id]
	if of == nil {
		if len(in.seen) >= maxSeen {
			id = r.id(IdentityOperation)
		}
		switch of = in.seen[id]; {
		case of != nil:
		case len(in.seen) >= maxSeen+maxByOperation:
			of = &in.further
		default:
			of = new(requests)
			in.seen[id] = of
		}
	}
	of.count++
	return of
}

// applies reports whether a request matches a rule, before its share.
func (in *Injector) applies(rule *Rule, k *faultKind, r *Request, id uint64, occurrence int, now time.Duration) bool {
	named := len(rule.Operations) > 0
	switch {
	case named && !slices.Contains(rule.Operations, r.Operation),
		!k.takes(r.Operation, named),
		rule.Table != "" && !slices.ContainsFunc(r.Tables, func(t string) bool { return matches(rule.Table, t) }),
		rule.Index != "" && !matches(rule.Index, r.Index),
		rule.Key != nil && !r.hasKey(rule.Key),
		rule.Request != "" && rule.Request != idText(id),
		rule.Occurrences != nil && !slices.Contains(rule.Occurrences, occurrence):
		return false
	case now < rule.From || rule.Until > 0 && now >= rule.Until:
		return false
	case rule.Fault == StaleRead && (r.Consistent || r.Global), rule.Fault == IndexLag && !r.Global && r.Operation != "ExecuteStatement":
		return false
	case rule.Fault == Unprocessed && r.Parts < 2:
		return false // DynamoDB rejects a batch of which it does nothing
	case rule.Fault == Conflict && !named && !r.Transacts:
		// Writes conflict with transactions only.
		return slices.ContainsFunc(r.Tables, func(t string) bool { return in.transact[t] })
	}
	return true
}

// excludes reports whether a fault was chosen that excludes others with a word.
func (d *Decision) excludes(word string) bool {
	return d != nil && slices.ContainsFunc(d.chosen, func(c choice) bool { return kinds[c.Fault].exclusive == word })
}

// Get returns the rule by which a request gets a fault.
func (d *Decision) Get(f Fault) (Rule, bool) {
	if d == nil {
		return Rule{}, false
	}
	for i := range d.chosen {
		if d.chosen[i].Fault == f {
			return d.chosen[i].Rule, true
		}
	}
	return Rule{}, false
}

// Transacts reports whether the request is a transaction.
func (d *Decision) Transacts() bool { return d.request.Transacts }

// Pick returns a number from 0 to n-1 that depends on the request, the fault and the seed, but
// not on the rule: a replay picks the same.
func (d *Decision) Pick(f Fault, n int) int {
	word := uint64(0)
	for _, c := range []byte(f) {
		word = word*31 + uint64(c)
	}
	return int(mix(d.seed, word, d.id, uint64(d.number)) % uint64(max(1, n)))
}

// Note records that a fault was injected. A fault is recorded once for each request, and not if the
// plan was replaced meanwhile: its log is gone.
func (d *Decision) Note(f Fault, detail string) {
	in := d.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if d.set != in.set {
		return
	}
	for i := range d.chosen {
		c := &d.chosen[i]
		if c.Fault != f || c.noted {
			continue
		}
		c.noted = true
		made := Injected{
			Number: in.injected + 1, At: in.elapsed() - in.since, Fault: f, Rule: c.rule + 1, Operation: d.request.Operation, Tables: d.request.Tables, Index: d.request.Index,
			Key: d.request.key(), Request: idText(d.id), Occurrence: d.number, Detail: detail, Delay: c.Delay, Lag: c.Lag, As: c.As,
		}
		if len(in.log) < maxKept {
			in.log = append(in.log, made)
		} else {
			in.log[in.injected%maxKept] = made
		}
		in.injected++
		return
	}
}

// Common returns how many of the requests of two runs have the same ids, as a share of the run with
// more of them; 1 if there were none.
func Common(a, b map[string]int) float64 {
	sum := func(counts map[string]int) (n int) {
		for c := range maps.Values(counts) {
			n += c
		}
		return n
	}
	total, both := max(sum(a), sum(b)), 0
	for id, n := range a {
		both += min(n, b[id])
	}
	if total == 0 {
		return 1
	}
	return float64(both) / float64(total)
}
