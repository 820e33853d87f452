// Package rightsize computes from the metrics of a table what each billing mode would
// have cost, and which one fits its load.
//
// The metrics come from the CloudWatch of AWS, from a stator, or from files.
package rightsize

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/meter"
)

// Load is what a table and its global indexes consumed, minute by minute.
type Load struct {
	Table     string
	Asked     time.Time // from when metrics were asked for; zero for files
	From      time.Time // the first data point
	Minutes   int
	Resources []*Resource // the table first
	Gaps      []Gap       // without any data point; they count as idle
	Coarse    []Coarse    // what is known by longer periods than a minute only
	Now       *Current    // nil if it is not known
}

// Resource is the load of a table or of a global index. The elements of its arrays are
// those of throttle.Read and throttle.Write.
type Resource struct {
	Index       string       // empty for the table itself
	Consumed    [2][]float64 // units of each minute
	Throttles   [2]float64   // events
	Provisioned [2]float64   // units per second on average; 0 if they are not known
}

// Gap is a time without any data point.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Coarse is how many minutes are known by a longer period only.
type Coarse struct {
	Seconds int `json:"period"`
	Minutes int `json:"minutes"`
}

// Current is how a table is billed at present.
type Current struct {
	OnDemand         bool
	InfrequentAccess bool // the table class
}

// longGap is how long a time without data points is before it is reported.
const longGap = time.Hour

// metricsOf collects the data points of one table.
type metricsOf struct {
	table  string
	points map[metricKey][]datapoint
}

// metricKey identifies a metric of a table.
type metricKey struct{ name, index string }

// datapoint is the value of a metric in a period.
type datapoint struct {
	at     time.Time
	length time.Duration
	value  float64
}

// consumedMetrics, throttleMetrics and provisionedMetrics are the metrics that are read, by
// throttle.Kind.
var (
	consumedMetrics    = [2]string{throttle.Read: meter.ConsumedRead, throttle.Write: meter.ConsumedWrite}
	throttleMetrics    = [2]string{throttle.Read: meter.ReadThrottles, throttle.Write: meter.WriteThrottles}
	provisionedMetrics = [2]string{throttle.Read: meter.ProvisionedRead, throttle.Write: meter.ProvisionedWrite}
)

// knownMetric reports whether a metric is one of those that are read.
func knownMetric(name string) bool {
	return slices.Contains(consumedMetrics[:], name) || slices.Contains(throttleMetrics[:], name) || slices.Contains(provisionedMetrics[:], name)
}

func newMetrics(table string) *metricsOf {
	return &metricsOf{table: table, points: make(map[metricKey][]datapoint)}
}

func (m *metricsOf) add(key metricKey, points ...datapoint) {
	m.points[key] = append(m.points[key], points...)
}

// ErrNoData is returned for a table without consumption in the time that is looked at.
var ErrNoData = errors.New("there are no data points of consumed units")

// load returns the load from the first data point until a time, or until the end of the
// last data point if it is zero. The table and its indexes are part of it, and further
// indexes that have data points.
func (m *metricsOf) load(until time.Time, indexes []string) (*Load, error) {
	var first, last time.Time
	consumed := false
	for key, points := range m.points {
		for _, p := range points {
			if first.IsZero() || p.at.Before(first) {
				first = p.at
			}
			if end := p.at.Add(p.length); end.After(last) {
				last = end
			}
			consumed = consumed || slices.Contains(consumedMetrics[:], key.name)
		}
		if !slices.Contains(indexes, key.index) {
			indexes = append(indexes, key.index)
		}
	}
	if !consumed {
		return nil, ErrNoData
	}
	if !until.IsZero() {
		last = until
	}
	l := &Load{Table: m.table, From: first.UTC().Truncate(time.Minute)}
	l.Minutes = int(last.Sub(l.From) / time.Minute)
	if l.Minutes < minMinutes {
		return nil, fmt.Errorf("the data points cover %d minutes, but %d are needed at least", l.Minutes, minMinutes)
	}
	if l.Minutes > maxMinutes {
		return nil, fmt.Errorf("the data points are from %s to %s, but CloudWatch keeps them for %d days: is one of the times wrong?", first.Format(dateAndTime), last.Format(dateAndTime), maxMinutes/60/24)
	}
	slices.Sort(indexes)
	for _, index := range slices.Compact(append([]string{""}, indexes...)) {
		r := &Resource{Index: index}
		for kind := range r.Consumed {
			r.Consumed[kind] = l.minutes(m.points[metricKey{consumedMetrics[kind], index}])
			for _, p := range m.points[metricKey{throttleMetrics[kind], index}] {
				r.Throttles[kind] += p.value
			}
			r.Provisioned[kind] = l.average(m.points[metricKey{provisionedMetrics[kind], index}])
		}
		l.Resources = append(l.Resources, r)
	}
	l.findGaps(m)
	return l, nil
}

// minMinutes is the shortest load that is looked at: auto scaling needs more to decrease
// units.
const minMinutes = 60

// maxMinutes is the longest: as long as CloudWatch keeps metrics, and a month for exports that
// were added to.
const maxMinutes = (455 + 31) * 24 * 60

// minutes spreads the sums of data points evenly over their minutes.
func (l *Load) minutes(points []datapoint) []float64 {
	units := make([]float64, l.Minutes)
	l.each(points, func(minute int, p datapoint) { units[minute] = p.value * float64(time.Minute) / float64(p.length) })
	return units
}

// average returns the average of data points, weighted by their lengths.
func (l *Load) average(points []datapoint) float64 {
	sum, n := make([]float64, l.Minutes), 0.0
	l.each(points, func(minute int, p datapoint) { sum[minute] = p.value })
	total := 0.0
	for _, v := range sum {
		if v > 0 {
			total, n = total+v, n+1
		}
	}
	return total / max(n, 1)
}

// each calls do for each minute of data points. Those with a shorter period come later.
func (l *Load) each(points []datapoint, do func(minute int, p datapoint)) {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b datapoint) int { return cmp.Compare(b.length, a.length) })
	for _, p := range points {
		from := int(p.at.Sub(l.From) / time.Minute)
		for minute := max(0, from); minute < min(l.Minutes, from+int(p.length/time.Minute)); minute++ {
			do(minute, p)
		}
	}
}

// findGaps sets the gaps, and what is known by longer periods only.
func (l *Load) findGaps(m *metricsOf) {
	known := make([]time.Duration, l.Minutes) // the length of the data point of consumption
	covered := make([]bool, l.Minutes)
	for key, points := range m.points {
		consumed := slices.Contains(consumedMetrics[:], key.name)
		l.each(points, func(minute int, p datapoint) {
			covered[minute] = true
			if consumed && (known[minute] == 0 || p.length < known[minute]) {
				known[minute] = p.length
			}
		})
	}
	coarse := make(map[time.Duration]int)
	for minute := 0; minute < l.Minutes; minute++ {
		if known[minute] > time.Minute {
			coarse[known[minute]]++
		}
		end := minute
		for end < l.Minutes && !covered[end] {
			end++
		}
		if time.Duration(end-minute)*time.Minute >= longGap {
			l.Gaps = append(l.Gaps, Gap{l.at(minute), l.at(end)})
		}
		minute = max(minute, end-1)
	}
	for length, n := range coarse {
		l.Coarse = append(l.Coarse, Coarse{int(length.Seconds()), n})
	}
	slices.SortFunc(l.Coarse, func(a, b Coarse) int { return cmp.Compare(a.Seconds, b.Seconds) })
}

// at returns the beginning of a minute.
func (l *Load) at(minute int) time.Time { return l.From.Add(time.Duration(minute) * time.Minute) }

// hours returns how long the load is.
func (l *Load) hours() float64 { return float64(l.Minutes) / 60 }
