// Package metrics writes measurements in the text format of Prometheus.
//
// It knows the format only: the parts of the server say what they measure. The
// number of values of a label must be bounded.
package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ContentType is the media type of the format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Type says how the values of a metric change.
type Type string

// The types of metrics.
const (
	Counter   Type = "counter"   // it only increases, until a restart
	Gauge     Type = "gauge"     // it may change to any value
	Histogram Type = "histogram" // its samples are those of HistogramValue
)

// Metric is a measurement with a name that no other has.
type Metric struct {
	Name, Help string
	Type       Type
	Samples    []Sample
}

// Sample is a value of a metric. A metric with several has different labels in each.
type Sample struct {
	Suffix string // after the name of the metric; only in histograms
	Labels []Label
	Value  float64
}

// Label distinguishes the samples of a metric.
type Label struct{ Name, Value string }

// By returns a sample with one label.
func By(name, label string, v float64) Sample {
	return Sample{Labels: []Label{{name, label}}, Value: v}
}

// HistogramValue counts values by upper bounds.
type HistogramValue struct {
	Bounds []float64 // ascending
	Counts []int64   // of the values up to each bound and above the one before; the last is of those above all
	Sum    float64
}

// Samples returns the samples of a histogram.
func (h HistogramValue) Samples(labels ...Label) (all []Sample) {
	count := int64(0)
	for i, n := range h.Counts {
		count += n
		bound := "+Inf"
		if i < len(h.Bounds) {
			bound = strconv.FormatFloat(h.Bounds[i], 'g', -1, 64)
		}
		all = append(all, Sample{"_bucket", append(slices.Clip(labels), Label{"le", bound}), float64(count)})
	}
	return append(all, Sample{"_sum", labels, h.Sum}, Sample{"_count", labels, float64(count)})
}

// Value returns the sample of a metric without labels.
func Value(v float64) []Sample { return []Sample{{Value: v}} }

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// Append appends metrics in the text format. An invalid name is a bug of ours.
func Append(dst []byte, all ...Metric) []byte {
	for _, m := range all {
		mustName(m.Name)
		dst = fmt.Appendf(dst, "# HELP %s %s\n# TYPE %s %s\n", m.Name, escapeHelp.Replace(m.Help), m.Name, m.Type)
		for _, s := range m.Samples {
			dst = append(append(dst, m.Name...), s.Suffix...)
			for i, l := range s.Labels {
				mustName(l.Name)
				before := byte(',')
				if i == 0 {
					before = '{'
				}
				dst = fmt.Appendf(append(dst, before), `%s="%s"`, l.Name, escapeLabel.Replace(l.Value))
			}
			if len(s.Labels) > 0 {
				dst = append(dst, '}')
			}
			dst = append(strconv.AppendFloat(append(dst, ' '), s.Value, 'g', -1, 64), '\n')
		}
	}
	return dst
}

// mustName panics unless a name consists of lower-case letters and underscores.
func mustName(name string) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
		panic(fmt.Sprintf("metrics: %q is not a name", name))
	}
}
