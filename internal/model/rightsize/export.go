package rightsize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Export is a file with metrics, as the AWS CLI prints the replies to GetMetricData and
// GetMetricStatistics.
type Export struct {
	File  string
	Index string // that the metrics are of, if their labels do not say so
	Text  []byte
}

// ReadExports returns the load that files have the metrics of. A table needs to be given if
// the labels of the metrics do not name it, or name several. A period that is zero is found
// by the times of the data points.
func ReadExports(files []Export, table string, period time.Duration) (*Load, error) {
	var all []*exportedSeries
	byFile := make([][]*exportedSeries, len(files))
	common := int64(0)
	for i := range files {
		found, err := files[i].series()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", files[i].File, err)
		}
		byFile[i], all = found, append(all, found...)
		common = divisor(common, distance(found))
	}
	for i, found := range byFile {
		if err := setPeriod(found, period, time.Duration(common)*time.Second); err != nil {
			return nil, fmt.Errorf("%s: %w", files[i].File, err)
		}
	}
	if table == "" {
		var named []string
		for _, s := range all {
			if s.table != "" && !slices.Contains(named, s.table) {
				named = append(named, s.table)
			}
		}
		switch slices.Sort(named); len(named) {
		case 0:
			return nil, errors.New("the labels of the metrics do not name a table: give its name as an argument")
		case 1:
			table = named[0]
		default:
			return nil, fmt.Errorf("there are metrics of the tables %s: give the name of one as an argument", strings.Join(named, ", "))
		}
	}
	m := newMetrics(table)
	seen := make(map[metricKey]map[datapoint]exportedValue)
	for _, s := range all {
		if s.table != "" && s.table != table {
			continue
		}
		if seen[s.metricKey] == nil {
			seen[s.metricKey] = make(map[datapoint]exportedValue)
		}
		for _, p := range s.points {
			at := datapoint{at: p.at, length: p.length}
			other, ok := seen[s.metricKey][at]
			if ok && other.value != p.value {
				return nil, fmt.Errorf("%s and %s are both %s, with other values: name the index of one, as --export INDEX=FILE, or give the queries labels", other.source, s.source, s.metricKey)
			}
			if !ok { // the times of files may overlap
				seen[s.metricKey][at] = exportedValue{p.value, s.source}
				m.add(s.metricKey, p)
			}
		}
	}
	return m.load(time.Time{}, nil)
}

func (k metricKey) String() string {
	if k.index == "" {
		return k.name
	}
	return k.name + " of the index " + k.index
}

// exportedSeries is a metric of a file.
type exportedSeries struct {
	metricKey
	table  string // empty if the label does not name it
	source string // the file, and the id of a query
	points []datapoint
}

// exportedValue is a value with the series that it is from.
type exportedValue struct {
	value  float64
	source string
}

// metricResult is one result of a GetMetricData.
type metricResult struct {
	ID         string `json:"Id"`
	Label      string
	Timestamps []anyTime
	Values     []float64
	StatusCode string
}

// check reports whether a result is complete in itself.
func (r *metricResult) check() error {
	if len(r.Timestamps) != len(r.Values) {
		return fmt.Errorf("the result %s has %d times and %d values", r.ID, len(r.Timestamps), len(r.Values))
	}
	for _, v := range r.Values {
		if err := checkValue(v); err != nil {
			return fmt.Errorf("the result %s has %w", r.ID, err)
		}
	}
	if r.StatusCode == "InternalError" || r.StatusCode == "Forbidden" {
		return fmt.Errorf("the result %s has the status %s", r.ID, r.StatusCode)
	}
	return nil
}

// maxValue is more than a table consumes in an hour: a thousand times the largest that are known.
const maxValue = 1e15

// checkValue rejects a value that is no number of units or events.
func checkValue(v float64) error {
	if v < 0 || v > maxValue {
		return fmt.Errorf("the value %v", v)
	}
	return nil
}

// anyTime is a time as text, or as seconds since 1970.
type anyTime struct{ time.Time }

// UnmarshalJSON decodes either form.
func (t *anyTime) UnmarshalJSON(text []byte) error {
	var seconds float64
	if json.Unmarshal(text, &seconds) == nil {
		if seconds < 0 || seconds > maxSeconds {
			return fmt.Errorf("the time %s is not in seconds since 1970", text)
		}
		t.Time = time.Unix(0, int64(seconds*1e9)).UTC()
		return nil
	}
	var form string
	if err := json.Unmarshal(text, &form); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, form)
	t.Time = at.UTC()
	return err
}

// maxSeconds is the year 2200. Milliseconds are more.
const maxSeconds = 7_258_118_400

// exportedReply is a reply to GetMetricData, or to GetMetricStatistics.
type exportedReply struct {
	MetricDataResults []metricResult

	Label      string
	Datapoints []struct {
		Timestamp    anyTime
		Sum, Average *float64
	}
}

// series returns the metrics of a file, which may have several replies.
func (e *Export) series() (all []*exportedSeries, err error) {
	in := json.NewDecoder(bytes.NewReader(e.Text))
	for {
		var reply exportedReply
		if err := in.Decode(&reply); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("it is not the output of aws cloudwatch get-metric-data or get-metric-statistics as JSON: %w", err)
		}
		if reply.MetricDataResults == nil && reply.Label == "" {
			return nil, errors.New("it has neither MetricDataResults, as aws cloudwatch get-metric-data prints, nor Datapoints with a Label, as get-metric-statistics does")
		}
		for i := range reply.MetricDataResults {
			s, err := e.queried(&reply.MetricDataResults[i])
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		if reply.MetricDataResults == nil {
			s, err := e.statistics(&reply)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("it has no metrics")
	}
	for _, s := range all {
		for _, p := range s.points {
			if err := checkValue(p.value); err != nil {
				return nil, fmt.Errorf("%s has %w", s.metricKey, err)
			}
		}
	}
	return all, nil
}

// queried returns the series of a result of GetMetricData.
func (e *Export) queried(r *metricResult) (*exportedSeries, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	s := &exportedSeries{source: e.File + " (" + r.ID + ")"}
	words := strings.Fields(r.Label)
	if n := len(words); n > 0 && knownMetric(words[n-1]) {
		s.name = words[n-1]
		if n > 1 {
			s.table = words[0]
		}
		if n > 2 {
			s.index = words[1]
		}
	} else if s.name = metricOfID(r.ID); s.name == "" {
		return nil, fmt.Errorf("neither the label %q nor the id %q of a result names a metric: a label is TABLE METRIC or TABLE INDEX METRIC, such as Orders ConsumedReadCapacityUnits", r.Label, r.ID)
	}
	if s.index == "" {
		s.index = e.Index
	}
	for i, at := range r.Timestamps {
		s.points = append(s.points, datapoint{at: at.Time, value: r.Values[i]})
	}
	return s, nil
}

// metricOfID returns the metric that the id of a query begins with, without regard to case;
// an id may go on after an underscore.
func metricOfID(id string) string {
	id, _, _ = strings.Cut(id, "_")
	for _, names := range [][2]string{consumedMetrics, throttleMetrics, provisionedMetrics} {
		for _, name := range names {
			if strings.EqualFold(id, name) {
				return name
			}
		}
	}
	return ""
}

// statistics returns the series of a reply to GetMetricStatistics.
func (e *Export) statistics(r *exportedReply) (*exportedSeries, error) {
	if !knownMetric(r.Label) {
		return nil, fmt.Errorf("the metric %s is not one of those that are needed: %s", r.Label, strings.Join(consumedMetrics[:], ", "))
	}
	s := &exportedSeries{metricKey: metricKey{r.Label, e.Index}, source: e.File}
	averaged := slices.Contains(provisionedMetrics[:], r.Label)
	for _, p := range r.Datapoints {
		value := p.Sum
		if averaged {
			value = p.Average
		}
		switch {
		case value == nil && averaged:
			return nil, fmt.Errorf("the data points of %s have no Average: export them with --statistics Average", r.Label)
		case value == nil:
			return nil, fmt.Errorf("the data points of %s have no Sum: export them with --statistics Sum", r.Label)
		}
		s.points = append(s.points, datapoint{at: p.Timestamp.Time, value: *value})
	}
	return s, nil
}

// distance returns the largest number of seconds that divides the distances between all data
// points; 0 if there are less than two times.
func distance(all []*exportedSeries) (seconds int64) {
	first := time.Time{}
	for _, s := range all {
		for _, p := range s.points {
			if first.IsZero() {
				first = p.at
			}
			seconds = divisor(seconds, p.at.Unix()-first.Unix())
		}
	}
	return seconds
}

// setPeriod sets the length of the data points of a file. A period that is zero is their
// distance; that of all files if theirs is not one of the usual periods, since it may be
// that of a table with few requests.
func setPeriod(all []*exportedSeries, period, common time.Duration) error {
	if period == 0 {
		period = time.Duration(distance(all)) * time.Second
		if !slices.ContainsFunc(retention, func(kept keptPeriod) bool { return kept.period == period }) {
			period = common
		}
	}
	for _, s := range all {
		if len(s.points) == 0 {
			continue
		}
		switch {
		case period == 0:
			return errors.New("the period of a single data point is not known: give it with --period")
		case period < time.Minute || period%time.Minute != 0:
			return fmt.Errorf("the period is %v, but must be whole minutes", period)
		case period > time.Hour:
			return fmt.Errorf("the data points are %v apart, which hides all peaks: export them with a period of 60, 300 or 3600 seconds, or give the period with --period", period)
		}
		for i := range s.points {
			s.points[i].length = period
		}
	}
	return nil
}

// divisor returns the greatest common divisor of two numbers.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}
