// Package drift compares the traffic that a server counted with the access
// patterns of a model.
package drift

import (
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/match"
	"github.com/stator-db/stator/internal/workload"
)

// Report is how the traffic differs from the model.
type Report struct {
	Since    time.Time  `json:"since"` // start of the counts
	Patterns []*Pattern `json:"patterns"`

	// Strays is traffic on the model's tables that no pattern matches, the most
	// frequent first.
	Strays []*Stray `json:"strays"`

	Elsewhere int64 `json:"elsewhere"` // requests to tables that the model does not have
	Uncounted int64 `json:"uncounted"` // requests with more shapes than the server counts separately
}

// Pattern is the traffic of one pattern.
type Pattern struct {
	Name   string `json:"name"`
	Status string `json:"status"`

	// Shared are other patterns that the same traffic may belong to. The counts are
	// those of all of them if the status is Shared.
	Shared   []string `json:"shared,omitempty"`
	Requests int64    `json:"requests"`
	Returned int64    `json:"returned"`
	Scanned  int64    `json:"scanned"`

	Units     *float64 `json:"units"`     // average of a run; nil if it is unknown, since no request was measured
	Predicted float64  `json:"predicted"` // of a run, by the model

	requestsPerRun float64 // requests of a run
	readsPerItem   float64 // items that the model expects to be read for each item returned
	requests       []*requestCount
}

// The statuses of a pattern.
const (
	OK         = "ok"
	Never      = "never"      // it was never requested
	Shared     = "shared"     // it or another pattern with the same requests was requested
	Unmeasured = "unmeasured" // it was requested, and its cost is unknown
	Wasteful   = "wasteful"   // it reads far more items than it returns, and than the model predicts
	Expensive  = "expensive"  // it costs far more than the model predicts
)

// Stray is traffic that no pattern matches.
type Stray struct {
	workload.ShapeCount
	Near    string `json:"near,omitempty"`    // the closest pattern
	Differs string `json:"differs,omitempty"` // how it differs from that
}

// Allowed is what does not count as a difference.
type Allowed struct {
	Unused    bool // patterns that were never requested
	Uncounted bool // requests whose shapes the server did not count
}

// OK reports whether the traffic matches the model, as far as that is not allowed to differ.
func (r *Report) OK(a Allowed) bool {
	return len(r.Strays) == 0 && (r.Uncounted == 0 || a.Uncounted) && !slices.ContainsFunc(r.Patterns, func(p *Pattern) bool {
		return p.Status == Never && !a.Unused || p.Status == Wasteful || p.Status == Expensive
	})
}

// Count returns how many patterns have a status.
func (r *Report) Count(status string) (n int) {
	for _, p := range r.Patterns {
		if p.Status == status {
			n++
		}
	}
	return n
}

// Join compares traffic with a model.
func Join(m *model.Model, traffic workload.Report) *Report {
	r := &Report{Since: traffic.Since, Patterns: []*Pattern{}, Strays: []*Stray{}, Uncounted: traffic.Other.Requests}
	checked := m.Check(model.DefaultPrices())
	matcher := match.New(m)
	byRequest := make(map[*match.Request]*requestCount)
	for i, p := range m.Patterns {
		x := &Pattern{Name: p.Name, Predicted: checked.Patterns[i].Read + checked.Patterns[i].Write, requestsPerRun: float64(max(1, checked.Patterns[i].Requests)), readsPerItem: 1}
		for _, request := range matcher.Requests(p) {
			c := &requestCount{pattern: x}
			byRequest[request] = c
			x.requests = append(x.requests, c)
		}
		if len(x.requests) > 0 {
			x.readsPerItem = expected(m, m.Plan(p))
		}
		r.Patterns = append(r.Patterns, x)
	}
	for _, c := range traffic.Shapes {
		if _, ours := m.Table(c.Table); !ours {
			r.Elsewhere += c.Requests
			continue
		}
		var found []*requestCount
		for _, request := range matcher.Find(c.Shape) {
			found = append(found, byRequest[request])
		}
		if found == nil {
			r.Strays = append(r.Strays, stray(matcher, c))
		}
		addCount(found, c)
	}
	for _, p := range r.Patterns {
		p.judge()
	}
	return r
}

// stray finds the pattern that is closest to a shape.
func stray(matcher *match.Matcher, c workload.ShapeCount) *Stray {
	s := &Stray{ShapeCount: c}
	if p, differs := matcher.Nearest(c.Shape); p != nil {
		s.Near, s.Differs = p.Name, strings.Join(differs, ", ")
	}
	return s
}

// expected is how many items a pattern reads for each item that it returns.
func expected(m *model.Model, plan *model.Plan) float64 {
	scenario, err := m.Scenario(plan, model.Generator{}, 0)
	if err != nil {
		return 1
	}
	scanned, count := 0, 0
	for _, c := range scenario.Calls {
		scanned, count = scanned+c.Want.Scanned, count+c.Want.Count
	}
	return float64(max(1, scanned)) / float64(max(1, count))
}
