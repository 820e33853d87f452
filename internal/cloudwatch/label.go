package cloudwatch

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/cloudwatch/metricmath"
)

// dynamic matches the parts of a label that stand for something else, such as ${MAX}, ${LABEL}
// and ${PROP('Dim.TableName')}.
var dynamic = regexp.MustCompile(`\$\{([^}]*)\}`)

var property = regexp.MustCompile(`^PROP\('(MetricName|Namespace|Period|Stat|Dim\.[^']+)'\)$`)

// summaries are the parts of labels that stand for a number of the values.
var summaries = map[string]func([]metricmath.Point) float64{
	"AVG":             func(all []metricmath.Point) float64 { return total(all) / float64(len(all)) },
	"DATAPOINT_COUNT": func(all []metricmath.Point) float64 { return float64(len(all)) },
	"FIRST":           func(all []metricmath.Point) float64 { return all[0].Value },
	"LAST":            func(all []metricmath.Point) float64 { return all[len(all)-1].Value },
	"MAX": func(all []metricmath.Point) float64 {
		most := all[0].Value
		for _, p := range all {
			most = max(most, p.Value)
		}
		return most
	},
	"MIN": func(all []metricmath.Point) float64 {
		least := all[0].Value
		for _, p := range all {
			least = min(least, p.Value)
		}
		return least
	},
	"SUM": total,
}

func total(all []metricmath.Point) (n float64) {
	for _, p := range all {
		n += p.Value
	}
	return n
}

// checkLabel reports a part of a label that is not supported.
func checkLabel(label string) error {
	for _, m := range dynamic.FindAllStringSubmatch(label, -1) {
		if m[1] != "LABEL" && summaries[m[1]] == nil && !property.MatchString(m[1]) {
			return expressionFault("The label has %s, which is not supported. These are: ${AVG}, ${DATAPOINT_COUNT}, ${FIRST}, ${LABEL}, ${LAST}, ${MAX}, ${MIN}, ${SUM}, and ${PROP('…')} of Dim.NAME, MetricName, Namespace, Period and Stat", m[0])
		}
	}
	return nil
}

// labelOf returns the label of a time series of a query. Those of a list are distinguished by
// their metrics.
func (d *dataRequest) labelOf(q *dataQuery, s metricmath.Series, listed bool) string {
	source, known := s.Source.(metricSource)
	label := q.id
	switch {
	case q.math == nil:
		label = source.id.Name
	case listed && known:
		label = d.service.metricLabel(source)
	}
	switch {
	case q.label == "":
		return label
	case listed && !dynamic.MatchString(q.label):
		return q.label + " " + label
	}
	return dynamic.ReplaceAllStringFunc(q.label, func(part string) string {
		name := part[2 : len(part)-1]
		if name == "LABEL" {
			return label
		}
		if f := summaries[name]; f != nil {
			if len(s.Points) == 0 {
				return "--"
			}
			return strconv.FormatFloat(f(s.Points), 'f', -1, 64)
		}
		if !known {
			return ""
		}
		return d.service.propertyOf(source, property.FindStringSubmatch(name)[1])
	})
}

// metricLabel names a metric that a search has found: the values of its dimensions, and its name.
func (s *Service) metricLabel(of metricSource) string {
	var parts []string
	for _, d := range s.dimensions(of.id) {
		parts = append(parts, d[1])
	}
	return strings.Join(append(parts, of.id.Name), " ")
}

// propertyOf returns a property of a metric; empty if it does not have it.
func (s *Service) propertyOf(of metricSource, name string) string {
	switch name {
	case "MetricName":
		return of.id.Name
	case "Namespace":
		return namespaceOf(of.id)
	case "Period":
		return strconv.FormatInt(of.period, 10)
	case "Stat":
		return of.statistic
	}
	for _, d := range s.dimensions(of.id) {
		if "Dim."+d[0] == name {
			return d[1]
		}
	}
	return ""
}
