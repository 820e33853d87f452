// Package metrics writes measurements in the text format of Prometheus.
//
// It knows the format only: the parts of the server say what they measure. The
// values of a label must come from a fixed list, never from a request.
package metrics

import (
	"fmt"
	"strconv"
	"strings"
)

// ContentType is the media type of the format.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Type says how the values of a metric change.
type Type string

// The types of metrics.
const (
	Counter Type = "counter" // it only increases, until a restart
	Gauge   Type = "gauge"   // it may change to any value
)

// Metric is a measurement with a name that no other has.
type Metric struct {
	Name, Help string
	Type       Type
	Samples    []Sample
}

// Sample is a value of a metric. A metric with several has a different label
// value in each.
type Sample struct {
	Label, Of string // the name and the value of the label; empty for none
	Value     float64
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
			dst = append(dst, m.Name...)
			if s.Label != "" {
				mustName(s.Label)
				dst = fmt.Appendf(dst, `{%s="%s"}`, s.Label, escapeLabel.Replace(s.Of))
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
