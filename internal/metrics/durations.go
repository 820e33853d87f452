package metrics

import (
	"sync/atomic"
	"time"
)

// Durations counts durations by upper bounds, for a metric of the type Histogram. It may
// be used concurrently; the zero value has no durations.
type Durations struct {
	counts [len(durationBounds) + 1]atomic.Int64
	nanos  atomic.Int64
}

// durationBounds are in seconds.
var durationBounds = [...]float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// Observe counts a duration.
func (d *Durations) Observe(took time.Duration) {
	i := 0
	for i < len(durationBounds) && took.Seconds() > durationBounds[i] {
		i++
	}
	d.counts[i].Add(1)
	d.nanos.Add(int64(took))
}

// Value returns what was counted.
func (d *Durations) Value() HistogramValue {
	h := HistogramValue{Bounds: durationBounds[:], Sum: time.Duration(d.nanos.Load()).Seconds()}
	for i := range d.counts {
		h.Counts = append(h.Counts, d.counts[i].Load())
	}
	return h
}
