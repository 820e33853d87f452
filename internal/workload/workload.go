// Package workload counts requests by their shape: what they ask of a table,
// without the values.
//
// It parses no request: package ops knows which shape a request has.
package workload

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Shape is what requests have in common that differ only in their values. It
// holds names of attributes and the literal prefixes of keys, and no other part of
// what a customer stores (Prefix, Reported). A batch or a transaction has one shape
// for each of its tables.
type Shape struct {
	// Operation is that of a request with the same effect if Statement is set: a
	// SELECT of a whole partition is a Query.
	Operation string `json:"operation"`
	Table     string `json:"table,omitempty"`
	Index     string `json:"index,omitempty"`

	// Form is the key condition of a query (PK = ? AND begins_with(SK, ?)), the
	// key attributes of indexes that an update changes (changes GSI1PK), or
	// what a batch or a transaction does (Put, Update).
	Form string `json:"form,omitempty"`

	// Partition and Sort are the prefixes of the values of the key that the request
	// names, of the table or of the index; those of several attributes are separated by
	// commas.
	Partition string `json:"partition,omitempty"`
	Sort      string `json:"sort,omitempty"`

	// Actions are the actions of a batch or a transaction, as Actions returns them.
	Actions string `json:"actions,omitempty"`

	Filter     bool `json:"filter,omitempty"`
	Condition  bool `json:"condition,omitempty"`
	Consistent bool `json:"consistent,omitempty"`
	Statement  bool `json:"statement,omitempty"` // PartiQL

	// FilterText and ConditionText are the filter and the condition without values
	// (ConditionText), Projection and Changes the attributes that the request reads
	// and changes; all are empty where a batch or a transaction may have several.
	FilterText    string `json:"filterText,omitempty"`
	ConditionText string `json:"conditionText,omitempty"`
	Projection    string `json:"projection,omitempty"`
	Changes       string `json:"changes,omitempty"`
}

// ShapeCount holds the counts of one shape.
type ShapeCount struct {
	Shape
	Requests int64 `json:"requests"` // that succeeded
	Returned int64 `json:"returned"` // items
	Scanned  int64 `json:"scanned"`  // items read to find those returned

	// Units is an estimate of what all requests consumed: the mean of those
	// whose units were measured, times Requests.
	Units    float64 `json:"units"`
	Measured int64   `json:"measured"`
}

// Report holds the counts of all shapes.
type Report struct {
	Since  time.Time    `json:"since"`
	Shapes []ShapeCount `json:"shapes"` // most frequent first
	Other  ShapeCount   `json:"other"`  // requests of all shapes beyond the limit
}

// Merge returns the counts of several reports as one, since the earliest of them.
func Merge(reports ...Report) Report {
	merged := Report{Shapes: []ShapeCount{}, Other: ShapeCount{Shape: Shape{Operation: "other"}}}
	for i, r := range reports {
		if i == 0 || r.Since.Before(merged.Since) {
			merged.Since = r.Since
		}
		merged.Shapes = append(merged.Shapes, r.Shapes...)
		merged.Other.add(&r.Other)
	}
	merged.Shapes = sameTogether(merged.Shapes)
	slices.SortFunc(merged.Shapes, mostFrequentFirst)
	return merged
}

// mostFrequentFirst is the order of the shapes of a report.
func mostFrequentFirst(a, b ShapeCount) int {
	return cmp.Or(cmp.Compare(b.Requests, a.Requests), slices.Compare(a.texts(), b.texts()))
}

// sameTogether adds the counts of the same shapes.
func sameTogether(all []ShapeCount) []ShapeCount {
	merged := all[:0]
	at := make(map[Shape]int)
	for _, c := range all {
		i, ok := at[c.Shape]
		if !ok {
			at[c.Shape] = len(merged)
			merged = append(merged, c)
			continue
		}
		merged[i].add(&c)
	}
	return merged
}

// MaxShapes is how many shapes a Recorder counts separately.
const MaxShapes = 4096

// UncountedHeader is the HTTP header of a request that is not counted, whatever its value: one
// by which a tool or a test examines a table, and which is no traffic of an application.
const UncountedHeader = "X-Stator-Uncounted"

// Recorder counts the requests of a server. It may be used concurrently.
type Recorder struct {
	// Exists reports whether a table exists; nil if all do. The shapes of deleted tables
	// make room for others.
	Exists func(table string) bool

	seed    maphash.Seed
	current atomic.Pointer[countPeriod]
}

// countPeriod holds the counts since the start, or since the last reset.
type countPeriod struct {
	since time.Time
	other Counter
	full  atomic.Uint64 // how often there was no room for a shape

	mu    sync.RWMutex // guards known; most requests find their counter in the cache
	known map[Shape]*Counter

	cache fingerprintCache
	terms terms

	marks marks
}

// NewRecorder makes a recorder without counts.
func NewRecorder(since time.Time) *Recorder {
	r := &Recorder{seed: maphash.MakeSeed()}
	r.current.Store(newPeriod(since))
	return r
}

func newPeriod(since time.Time) *countPeriod {
	p := &countPeriod{since: since, known: make(map[Shape]*Counter)}
	p.other.period = p
	return p
}

// Report returns the counts so far.
func (r *Recorder) Report() Report { return r.current.Load().report() }

// Reset returns the counts so far, and starts again without counts. A request that ends
// meanwhile may be in neither.
func (r *Recorder) Reset(now time.Time) Report { return r.current.Swap(newPeriod(now)).report() }

func (p *countPeriod) report() Report {
	report := Report{Since: p.since, Shapes: []ShapeCount{}, Other: p.other.count(Shape{Operation: "other"})}
	p.mu.RLock()
	for shape, c := range p.known {
		report.Shapes = append(report.Shapes, c.count(shape))
	}
	p.mu.RUnlock()
	report.Shapes = p.hideWhole(report.Shapes)
	slices.SortFunc(report.Shapes, mostFrequentFirst)
	return report
}

// texts returns the members of a shape that are text.
func (s *Shape) texts() []string {
	return []string{s.Operation, s.Table, s.Index, s.Form, s.Partition, s.Sort, s.Actions, s.FilterText, s.ConditionText, s.Projection, s.Changes}
}

// Counter returns the counter of a shape. Shapes beyond MaxShapes share one.
func (r *Recorder) Counter(shape Shape) *Counter {
	p := r.current.Load()
	p.mu.RLock()
	c, full := p.known[shape], len(p.known) >= MaxShapes
	p.mu.RUnlock()
	if c != nil {
		return c
	}
	if full && !r.makeRoom(p) {
		return &p.other
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.known[shape]; c != nil {
		return c
	}
	if len(p.known) >= MaxShapes {
		return &p.other
	}
	// The request's strings may share memory with its body.
	for _, text := range []*string{&shape.Operation, &shape.Table, &shape.Index, &shape.Form, &shape.Partition, &shape.Sort,
		&shape.Actions, &shape.FilterText, &shape.ConditionText, &shape.Projection, &shape.Changes} {
		*text = strings.Clone(*text)
	}
	c = &Counter{period: p}
	p.known[shape] = c
	return c
}

// Counter counts the requests of one shape.
type Counter struct {
	period                       *countPeriod // that it belongs to
	dropped                      atomic.Bool  // its table was deleted, and its shape is not counted any more
	requests, returned, measured atomic.Int64
	discarded                    atomic.Int64 // items scanned and not returned
	halfUnits                    atomic.Int64 // of the requests measured
}

// SampleEvery is the sampling interval: where measuring a request is expensive,
// one in SampleEvery is measured.
const SampleEvery = 32

// Observe counts a request that succeeded. It reports whether the request
// belongs to the sample, of which the first request is a part.
func (c *Counter) Observe(returned, scanned int) (sampled bool) {
	sampled = c.requests.Add(1)%SampleEvery == 1
	if returned > 0 {
		c.returned.Add(int64(returned))
	}
	if scanned > returned {
		c.discarded.Add(int64(scanned - returned))
	}
	return sampled
}

// AddUnits adds the units of a request whose units were measured.
func (c *Counter) AddUnits(units float64) {
	c.measured.Add(1)
	c.halfUnits.Add(int64(2 * units))
}

func (c *Counter) count(s Shape) ShapeCount { return c.since(markedCounts{}, s) }

// since returns the counts since a mark. If no request was measured since, its units are the
// mean of the measured ones before.
func (c *Counter) since(m markedCounts, s Shape) ShapeCount {
	now := c.marked()
	n := ShapeCount{Shape: s, Requests: now.requests - m.requests, Returned: now.returned - m.returned, Measured: now.measured - m.measured}
	n.Scanned = n.Returned + now.discarded - m.discarded
	halfUnits := now.halfUnits - m.halfUnits
	if n.Measured == 0 && n.Requests > 0 {
		n.Measured, halfUnits = now.measured, now.halfUnits
	}
	if n.Measured > 0 {
		n.Units = float64(halfUnits) / 2 / float64(n.Measured) * float64(n.Requests)
	}
	return n
}
