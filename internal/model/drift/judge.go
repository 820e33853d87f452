package drift

import (
	"slices"

	"github.com/stator-db/stator/internal/workload"
)

// requestCount is the traffic of one request of a pattern: its own, and traffic that
// may also belong to other patterns.
type requestCount struct {
	pattern     *Pattern
	own, shared counts
	with        []*requestCount // of other patterns
}

// counts are the sums of the counts of several shapes.
type counts struct {
	requests, returned, scanned int64

	measured int64 // requests of shapes whose units were measured
	units    float64
}

func (s *counts) add(c workload.ShapeCount) {
	s.requests += c.Requests
	s.returned += c.Returned
	s.scanned += c.Scanned
	if c.Measured > 0 {
		s.measured += c.Requests
		s.units += c.Units
	}
}

// addCount adds the counts of a shape to the requests that have it.
func addCount(found []*requestCount, c workload.ShapeCount) {
	if len(found) == 1 {
		found[0].own.add(c)
		return
	}
	for _, r := range found {
		r.shared.add(c)
		for _, other := range found {
			if other != r && !slices.Contains(r.with, other) {
				r.with = append(r.with, other)
			}
		}
	}
}

// counted returns the traffic that is known to be of the request, or else the traffic
// that may be.
func (r *requestCount) counted() counts {
	if r.own.requests > 0 {
		return r.own
	}
	return r.shared
}

// A pattern is wasteful or expensive when it exceeds the prediction by these
// factors.
const (
	farMore   = 2.0
	fewScans  = 10  // too few to judge
	muchWaste = 4.0 // items read for each item returned
)

// judge sums up the counts of a pattern and sets its status. What several patterns
// share is compared with the highest of their predictions.
func (p *Pattern) judge() {
	certain, known, seen, units := false, true, 0, 0.0
	predicted, reads := p.Predicted, p.readsPerItem
	for _, r := range p.requests {
		c := r.counted()
		if c.requests == 0 {
			continue
		}
		seen++
		if r.own.requests > 0 {
			certain = true
		} else {
			for _, other := range r.with {
				predicted, reads = max(predicted, other.pattern.Predicted), max(reads, other.pattern.readsPerItem)
				p.Shared = append(p.Shared, other.pattern.Name)
			}
		}
		if p.Requests == 0 || c.requests < p.Requests {
			p.Requests = c.requests // a transaction counts once for each of its tables
		}
		p.Returned += c.returned
		p.Scanned += c.scanned
		if c.measured == 0 {
			known = false
			continue
		}
		units += c.units / float64(c.measured) * p.requestsPerRun
	}
	if len(p.requests) == 0 || seen < len(p.requests) {
		p.Status, p.Requests, p.Returned, p.Scanned, p.Shared = Never, 0, 0, 0, nil
		return
	}
	if known {
		p.Units = &units
	}
	wasted := float64(p.Scanned) / float64(max(1, p.Returned))
	switch {
	case p.Scanned >= fewScans && wasted >= muchWaste && wasted >= farMore*reads:
		p.Status = Wasteful
	case known && units > farMore*predicted:
		p.Status = Expensive
	case !certain:
		p.Status = Shared
	case !known:
		p.Status = Unmeasured
	default:
		p.Status = OK
	}
}
