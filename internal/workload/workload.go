// Package workload counts requests by their shape: what they ask of a table,
// without the values.
//
// It parses no request: package ops knows which shape a request has.
package workload

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Shape is what requests have in common that differ only in their values. It
// holds names from the table's description, and nothing that a customer stores.
// A batch or a transaction has one shape for each of its tables.
type Shape struct {
	Operation string `json:"operation"`
	Table     string `json:"table,omitempty"`
	Index     string `json:"index,omitempty"`

	// Form is the key condition of a query (PK = ? AND begins_with(SK, ?)), the
	// key attributes of indexes that an update changes (changes GSI1PK), or
	// what a batch or a transaction does (Put, Update).
	Form string `json:"form,omitempty"`

	Filter     bool `json:"filter,omitempty"`
	Condition  bool `json:"condition,omitempty"`
	Consistent bool `json:"consistent,omitempty"`
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

// MaxShapes is how many shapes a Recorder counts separately.
const MaxShapes = 4096

// Recorder counts the requests of a server. It may be used concurrently.
type Recorder struct {
	since time.Time
	known atomic.Pointer[map[Shape]*Counter] // copied on write: new shapes are rare
	other Counter
	mu    sync.Mutex // held while a shape is added

	seed  maphash.Seed
	cache fingerprintCache
}

// NewRecorder makes a recorder without counts.
func NewRecorder(since time.Time) *Recorder {
	r := &Recorder{since: since, seed: maphash.MakeSeed()}
	r.known.Store(new(map[Shape]*Counter))
	return r
}

// Report returns the counts so far.
func (r *Recorder) Report() Report {
	report := Report{Since: r.since, Shapes: []ShapeCount{}, Other: r.other.count(Shape{Operation: "other"})}
	for shape, c := range *r.known.Load() {
		report.Shapes = append(report.Shapes, c.count(shape))
	}
	slices.SortFunc(report.Shapes, func(a, b ShapeCount) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Table, b.Table),
			cmp.Compare(a.Index, b.Index), cmp.Compare(a.Form, b.Form))
	})
	return report
}

// Counter returns the counter of a shape. Shapes beyond MaxShapes share one.
func (r *Recorder) Counter(shape Shape) *Counter {
	if c := (*r.known.Load())[shape]; c != nil {
		return c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := *r.known.Load()
	if c := known[shape]; c != nil {
		return c
	}
	if len(known) >= MaxShapes {
		return &r.other
	}
	// The request's strings may share memory with its body.
	for _, text := range []*string{&shape.Operation, &shape.Table, &shape.Index, &shape.Form} {
		*text = strings.Clone(*text)
	}
	more := maps.Clone(known)
	if more == nil {
		more = make(map[Shape]*Counter)
	}
	c := new(Counter)
	more[shape] = c
	r.known.Store(&more)
	return c
}

// Counter counts the requests of one shape.
type Counter struct {
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

func (c *Counter) count(s Shape) ShapeCount {
	n := ShapeCount{Shape: s, Requests: c.requests.Load(), Returned: c.returned.Load(), Measured: c.measured.Load()}
	n.Scanned = n.Returned + c.discarded.Load()
	if n.Measured > 0 {
		n.Units = float64(c.halfUnits.Load()) / 2 / float64(n.Measured) * float64(n.Requests)
	}
	return n
}
