package meter

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/stator-db/stator/internal/metrics"
)

// Metrics returns all measurements for Prometheus: counters since the start, the
// present values of gauges, and histograms by operation.
func (r *Registry) Metrics() []metrics.Metric {
	gauges := make(map[ID]float64)
	if r.Sample != nil {
		r.Sample(func(id ID, value float64) { gauges[id] = value })
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	byName := make(map[string][]ID)
	for id := range r.series {
		if !definitions[id.Name].Gauge {
			byName[id.Name] = append(byName[id.Name], id)
		}
	}
	for id := range gauges {
		byName[id.Name] = append(byName[id.Name], id)
	}
	var all []metrics.Metric
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		d, ids := definitions[name], byName[name]
		slices.SortFunc(ids, ID.compare)
		switch {
		case d.Gauge:
			m := metrics.Metric{Name: prometheusName(name), Help: d.Help, Type: metrics.Gauge}
			for _, id := range ids {
				m.Samples = append(m.Samples, metrics.Sample{Labels: id.labels(), Value: gauges[id]})
			}
			all = append(all, m)
		case d.Histogram:
			all = append(all, r.latencies(ids)...)
		default:
			m := metrics.Metric{Name: prometheusName(name) + "_total", Help: d.Help, Type: metrics.Counter}
			for _, id := range ids {
				total, _ := r.series[id].sinceStart()
				m.Samples = append(m.Samples, metrics.Sample{Labels: id.labels(), Value: total.Sum})
			}
			all = append(all, m)
		}
	}
	return all
}

// latencies returns the histograms of operations, and the counts and times of each
// table. Histograms of each table would be too many lines.
func (r *Registry) latencies(ids []ID) []metrics.Metric {
	requests := metrics.Metric{Name: "dynamodb_successful_requests_total", Help: "Requests that were successful.", Type: metrics.Counter}
	seconds := metrics.Metric{Name: "dynamodb_successful_request_seconds_total", Help: definitions[Latency].Help, Type: metrics.Counter}
	byOperation := make(map[string]metrics.HistogramValue)
	for _, id := range ids {
		total, within := r.series[id].sinceStart()
		requests.Samples = append(requests.Samples, metrics.Sample{Labels: id.labels(), Value: float64(total.Count)})
		seconds.Samples = append(seconds.Samples, metrics.Sample{Labels: id.labels(), Value: total.Sum / 1000})
		h, ok := byOperation[id.Operation]
		if !ok {
			h.Counts = make([]int64, len(within))
			for _, bound := range Bounds {
				h.Bounds = append(h.Bounds, bound/1000)
			}
		}
		for i, n := range within {
			h.Counts[i] += n
		}
		h.Sum += total.Sum / 1000
		byOperation[id.Operation] = h
	}
	latency := metrics.Metric{Name: "dynamodb_successful_request_latency_seconds", Help: definitions[Latency].Help, Type: metrics.Histogram}
	for _, operation := range slices.Sorted(maps.Keys(byOperation)) {
		latency.Samples = append(latency.Samples, byOperation[operation].Samples(ID{Operation: operation}.labels()...)...)
	}
	return []metrics.Metric{latency, requests, seconds}
}

// labels returns the labels of a measurement, in order.
func (id ID) labels() (all []metrics.Label) {
	for _, l := range []metrics.Label{{Name: "table", Value: id.Table}, {Name: "index", Value: id.Index}, {Name: "operation", Value: id.Operation}} {
		if l.Value != "" {
			all = append(all, l)
		}
	}
	return all
}

// prometheusName turns ConsumedReadCapacityUnits into
// dynamodb_consumed_read_capacity_units, and ItemCacheHits into dax_item_cache_hits.
func prometheusName(name string) string {
	var b strings.Builder
	if definitions[name].DAX {
		b.WriteString("dax")
	} else {
		b.WriteString("dynamodb")
	}
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
