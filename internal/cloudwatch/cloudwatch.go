// Package cloudwatch answers the requests of Amazon CloudWatch that read the metrics of
// tables and the rules of Contributor Insights, in the three protocols of its clients.
//
// It does not store metrics that clients send, nor alarms.
package cloudwatch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/ops"
)

// The namespaces of metrics.
const (
	namespace    = "AWS/DynamoDB"
	namespaceDAX = "AWS/DAX" // of the cache
)

// namespaceOf returns the namespace of a metric.
func namespaceOf(id meter.ID) string {
	if meter.IsDAX(id.Name) {
		return namespaceDAX
	}
	return namespace
}

// cluster returns the name of the cluster that the metrics of the cache are of; empty without
// a cache.
func (s *Service) cluster() string {
	if c := s.from.Cache(); c != nil {
		return c.Cluster()
	}
	return ""
}

// Service answers requests.
type Service struct{ from *ops.Service }

// New returns the CloudWatch of a service.
func New(from *ops.Service) *Service { return &Service{from} }

// operations holds all operations by name.
var operations = map[string]func(*Service, structure) (replyStruct, error){
	"GetInsightRuleReport": (*Service).getInsightRuleReport,
	"GetMetricData":        (*Service).getMetricData,
	"GetMetricStatistics":  (*Service).getMetricStatistics,
	"ListMetrics":          (*Service).listMetrics,
}

// Fault is an error of the caller.
type Fault struct {
	Code    string // of the query protocol
	Shape   string // of the other protocols
	Message string
}

func (f *Fault) Error() string { return f.Code + ": " + f.Message }

func missing(member string) error {
	return &Fault{"MissingParameter", "MissingRequiredParameterException", "The parameter " + member + " is required."}
}

func invalid(format string, args ...any) error {
	return &Fault{"InvalidParameterValue", "InvalidParameterValueException", fmt.Sprintf(format, args...)}
}

func conflicting(format string, args ...any) error {
	return &Fault{"InvalidParameterCombination", "InvalidParameterCombinationException", fmt.Sprintf(format, args...)}
}

// maxListed is how many metrics a page of ListMetrics has.
const maxListed = 500

func (s *Service) listMetrics(in structure) (replyStruct, error) {
	name, _ := in.text("MetricName")
	asked, err := in.structures("Dimensions")
	if err != nil {
		return nil, err
	}
	found := []replyStruct{}
	of, given := in.text("Namespace")
	for _, id := range s.from.DB.Meter().IDs() {
		if (!given || of == namespaceOf(id)) && (name == "" || id.Name == name) && hasDimensions(s.dimensions(id), asked) {
			found = append(found, s.metricReply(id))
		}
	}
	from := 0
	if token, ok := in.text("NextToken"); ok {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(found) {
			return nil, invalidToken()
		}
	}
	page := found[from:min(len(found), from+maxListed)]
	out := replyStruct{{"Metrics", page}}
	if from+len(page) < len(found) {
		out = append(out, member{"NextToken", strconv.Itoa(from + len(page))})
	}
	return out, nil
}

// dimension is a name and a value.
type dimension [2]string

// dimensions returns the dimensions of a metric, in order. Those of the cache are of a
// cluster.
func (s *Service) dimensions(id meter.ID) []dimension {
	all := []dimension{{"TableName", id.Table}, {"GlobalSecondaryIndexName", id.Index}, {"Operation", id.Operation}}
	if meter.IsDAX(id.Name) {
		all = []dimension{{"ClusterId", s.cluster()}}
	}
	return slices.DeleteFunc(all, func(d dimension) bool { return d[1] == "" })
}

func (s *Service) metricReply(id meter.ID) replyStruct {
	var all []replyStruct
	for _, d := range s.dimensions(id) {
		all = append(all, replyStruct{{"Name", d[0]}, {"Value", d[1]}})
	}
	return replyStruct{{"Namespace", namespaceOf(id)}, {"MetricName", id.Name}, {"Dimensions", all}}
}

// hasDimensions reports whether a metric has all of the dimensions that are asked for.
// One that is asked for without a value may have any.
func hasDimensions(has []dimension, asked []structure) bool {
	for _, d := range asked {
		name, _ := d.text("Name")
		value, given := d.text("Value")
		if !slices.ContainsFunc(has, func(h dimension) bool { return h[0] == name && (!given || h[1] == value) }) {
			return false
		}
	}
	return true
}

// readID returns the metric that a request names; not ok if there cannot be one.
func (s *Service) readID(in structure) (id meter.ID, ok bool, err error) {
	from, given := in.text("Namespace")
	if !given {
		return id, false, missing("Namespace")
	}
	if id.Name, given = in.text("MetricName"); !given {
		return id, false, missing("MetricName")
	}
	asked, err := in.structures("Dimensions")
	if err != nil {
		return id, false, err
	}
	ok = from == namespaceOf(id)
	if from == namespaceDAX {
		return id, ok && len(asked) == 1 && hasDimensions(s.dimensions(id), asked), nil
	}
	for _, d := range asked {
		name, _ := d.text("Name")
		value, _ := d.text("Value")
		switch name {
		case "TableName":
			id.Table = value
		case "GlobalSecondaryIndexName":
			id.Index = value
		case "Operation":
			id.Operation = value
		default:
			ok = false // no metric has it
		}
	}
	return id, ok, nil
}

// timeWindow is a time that is divided into equal parts.
type timeWindow struct {
	from, to time.Time
	length   time.Duration
}

// readPeriod reads the time of a request.
func readPeriod(in structure, seconds int64) (p timeWindow, err error) {
	if p.from, err = in.time("StartTime"); err != nil {
		return p, err
	}
	if p.to, err = in.time("EndTime"); err != nil {
		return p, err
	}
	return p.divided(seconds)
}

// divided sets the length of the parts, in seconds.
func (p timeWindow) divided(seconds int64) (timeWindow, error) {
	if !p.from.Before(p.to) {
		return p, invalid("The parameter StartTime must be less than the parameter EndTime.")
	}
	if seconds < 60 || seconds%60 != 0 || seconds > int64(365*24*time.Hour/time.Second) {
		return p, invalid("The parameter Period must be a multiple of 60: metrics are kept by the minute.")
	}
	p.length = time.Duration(seconds) * time.Second
	p.from = p.from.Truncate(time.Minute)
	return p, nil
}

// partOf returns the beginning of the part that a time belongs to.
func (p timeWindow) partOf(t time.Time) time.Time {
	return p.from.Add(t.Sub(p.from) / p.length * p.length)
}

// statBucket is the statistics of a part of a period that has values.
type statBucket struct {
	at time.Time
	meter.Summary
}

// read returns the parts of a period that have values.
func (s *Service) read(id meter.ID, p timeWindow) (parts []statBucket) {
	points := s.from.DB.Meter().Points(id, p.from, p.to)
	for len(points) > 0 {
		at := p.partOf(points[0].Time())
		n := 1
		for n < len(points) && p.partOf(points[n].Time()).Equal(at) {
			n++
		}
		parts = append(parts, statBucket{at, meter.Summarize(points[:n])})
		points = points[n:]
	}
	return parts
}

// statistic returns a statistic by its name; not ok if the values do not have it.
func (p *statBucket) statistic(name string) (value float64, ok bool) {
	switch name {
	case "Sum":
		return p.Sum, true
	case "SampleCount":
		return float64(p.Count), true
	case "Average":
		return p.Sum / float64(max(1, p.Count)), true
	case "Minimum":
		return p.Min, true
	case "Maximum":
		return p.Max, true
	}
	share, err := percentile(name)
	if err != nil {
		return 0, false
	}
	return p.Quantile(share)
}

// percentile returns the share that p99.9 stands for.
func percentile(name string) (share float64, err error) {
	digits, ok := strings.CutPrefix(name, "p")
	n, parseErr := strconv.ParseFloat(digits, 64)
	if !ok || parseErr != nil || strings.Trim(digits, "0123456789.") != "" || n > 100 {
		return 0, invalid("The value %s for the statistic is not supported: it must be SampleCount, Average, Sum, Minimum, Maximum or a percentile such as p99.", name)
	}
	return n / 100, nil
}

var plainStatistics = []string{"SampleCount", "Average", "Sum", "Minimum", "Maximum"}

func checkStatistic(name string) error {
	if slices.Contains(plainStatistics, name) {
		return nil
	}
	_, err := percentile(name)
	return err
}

// maxDatapoints is how many points GetMetricStatistics returns at most.
const maxDatapoints = 1440

func (s *Service) getMetricStatistics(in structure) (replyStruct, error) {
	id, known, err := s.readID(in)
	if err != nil {
		return nil, err
	}
	seconds, err := in.number("Period")
	if err != nil {
		return nil, err
	}
	p, err := readPeriod(in, seconds)
	if err != nil {
		return nil, err
	}
	names, extended := in.texts("Statistics"), in.texts("ExtendedStatistics")
	if len(names)+len(extended) == 0 {
		return nil, conflicting("At least one of the parameters Statistics and ExtendedStatistics must be specified.")
	}
	for _, name := range names {
		if !slices.Contains(plainStatistics, name) {
			return nil, invalid("The value %s for the parameter Statistics is not supported.", name)
		}
	}
	for _, name := range extended {
		if _, err := percentile(name); err != nil {
			return nil, err
		}
	}
	if n := int64(p.to.Sub(p.from) / p.length); n > maxDatapoints {
		return nil, conflicting("You have requested up to %d datapoints, which exceeds the limit of %d. Increase Period, or decrease the time range.", n, maxDatapoints)
	}
	points := []replyStruct{}
	if known {
		for _, part := range s.read(id, p) {
			points = append(points, part.datapoint(id, names, extended))
		}
	}
	return replyStruct{{"Label", id.Name}, {"Datapoints", points}}, nil
}

// datapoint returns the statistics of a part that are asked for.
func (p *statBucket) datapoint(id meter.ID, names, extended []string) replyStruct {
	point := replyStruct{{"Timestamp", p.at}}
	for _, name := range names {
		value, _ := p.statistic(name)
		point = append(point, member{name, value})
	}
	var percentiles replyStruct
	for _, name := range extended {
		if value, ok := p.statistic(name); ok {
			percentiles = append(percentiles, member{name, value})
		}
	}
	if percentiles != nil {
		point = append(point, member{"ExtendedStatistics", entries(percentiles)})
	}
	return append(point, member{"Unit", string(meter.UnitOf(id.Name))})
}

func invalidToken() error {
	return &Fault{"InvalidNextToken", "InvalidNextToken", "The token is not valid."}
}

func isTrue(v any) bool { return v == true || v == "true" }
