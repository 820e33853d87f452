package cloudwatch

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/cloudwatch/metricmath"
	"github.com/stator-db/stator/internal/meter"
)

// Bounds of a GetMetricData: the queries of a request, the metrics that a search finds, the searches, and
// the values of a reply, unless its first result has more.
const (
	maxQueries  = 500
	maxFound    = 500
	maxSearches = 100
	maxValues   = 100_800
	maxLabel    = 2_000 // bytes
)

// dataRequest is a GetMetricData. Its queries are evaluated when they are needed, once.
type dataRequest struct {
	service  *Service
	window   timeWindow
	queries  []*dataQuery
	math     metricmath.Request
	searches int
	ids      []meter.ID // that have values; nil if there was no search yet
	messages []replyStruct
}

// dataQuery is a query of a GetMetricData: of a metric, or an expression.
type dataQuery struct {
	id, label string
	returned  bool                   // in the reply
	period    int64                  // seconds; 0 if the query does not say
	source    metricSource           // of a metric
	known     bool                   // such a metric can exist
	math      *metricmath.Expression // nil for a metric

	evaluating bool
	value      *metricmath.Value // nil until it is evaluated
}

// metricSource is where the values of a time series come from.
type metricSource struct {
	id        meter.ID
	statistic string
	period    int64
}

func (s *Service) getMetricData(in structure) (replyStruct, error) {
	d, err := s.readDataRequest(in)
	if err != nil {
		return nil, err
	}
	order, _ := in.text("ScanBy")
	from := 0
	if token, ok := in.text("NextToken"); ok {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(d.queries) {
			return nil, invalidToken()
		}
	}
	all, values := []replyStruct{}, 0
	for i, q := range d.queries[from:] {
		if !q.returned {
			continue
		}
		results, n, err := d.results(q, order)
		if err != nil {
			return nil, err
		}
		if values += n; values > maxValues && len(all) > 0 {
			return replyStruct{{"MetricDataResults", all}, {"Messages", d.messages}, {"NextToken", strconv.Itoa(from + i)}}, nil
		}
		all = append(all, results...)
	}
	return replyStruct{{"MetricDataResults", all}, {"Messages", d.messages}}, nil
}

func (s *Service) readDataRequest(in structure) (*dataRequest, error) {
	queries, err := in.structures("MetricDataQueries")
	if err != nil {
		return nil, err
	}
	if len(queries) == 0 {
		return nil, missing("MetricDataQueries")
	}
	if len(queries) > maxQueries {
		return nil, invalid("A request can have at most %d queries.", maxQueries)
	}
	d := &dataRequest{service: s, messages: []replyStruct{}}
	if d.window, err = readPeriod(in, 60); err != nil {
		return nil, err
	}
	shortest := int64(0)
	for _, q := range queries {
		read, err := d.readQuery(q)
		if err != nil {
			return nil, err
		}
		if d.query(read.id) != nil {
			return nil, expressionFault("The values for parameter id in MetricDataQueries must be unique: %s is there twice.", read.id)
		}
		d.queries = append(d.queries, read)
		if read.math == nil && (shortest == 0 || read.period < shortest) {
			shortest = read.period
		}
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	end := d.window.to
	if now := s.from.DB.Now(); now.Before(end) {
		end = now // nothing is filled that has not come yet
	}
	d.math = metricmath.Request{From: d.window.from.Unix(), To: end.Unix(), Period: shortest, Query: d.valueOf, Metrics: d.metrics, Search: d.search}
	return d, nil
}

// check reports references to queries that there are not.
func (d *dataRequest) check() error {
	for _, q := range d.queries {
		if q.math == nil {
			continue
		}
		for _, id := range q.math.Identifiers() {
			if d.query(id) == nil {
				return expressionFault("Error in expression '%s': there is no query %s in the request", q.id, id)
			}
		}
	}
	return nil
}

func (d *dataRequest) query(id string) *dataQuery {
	for _, q := range d.queries {
		if q.id == id {
			return q
		}
	}
	return nil
}

// expressionFault is a fault of a request with metric math.
func expressionFault(format string, args ...any) error {
	return &Fault{"ValidationError", "ValidationError", fmt.Sprintf(format, args...)}
}

var queryID = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]{0,254}$`)

func (d *dataRequest) readQuery(in structure) (q *dataQuery, err error) {
	q = new(dataQuery)
	var given bool
	if q.id, given = in.text("Id"); !given {
		return nil, missing("MetricDataQueries.member.N.Id")
	}
	if !queryID.MatchString(q.id) {
		return nil, expressionFault("The value %q for parameter MetricDataQueries.member.N.Id is not matching the expected pattern ^[a-z][a-zA-Z0-9_]*$.", q.id)
	}
	if q.label, _ = in.text("Label"); len(q.label) > maxLabel {
		return nil, invalid("The label of the query %s has more than %d characters.", q.id, maxLabel)
	}
	if err := checkLabel(q.label); err != nil {
		return nil, err
	}
	returned, given := in["ReturnData"]
	q.returned = !given || isTrue(returned)
	text, isMath := in.text("Expression")
	stat, isMetric := in["MetricStat"].(structure)
	switch {
	case isMath && isMetric:
		return nil, expressionFault("The query %s has both Expression and MetricStat: it must have one of them.", q.id)
	case isMetric:
		return q, d.readMetric(q, stat)
	case !isMath:
		return nil, missing("MetricDataQueries.member.N.MetricStat or Expression")
	}
	if _, given := in["Period"]; given {
		if q.period, err = in.number("Period"); err != nil {
			return nil, err
		}
		if _, err := d.window.divided(q.period); err != nil {
			return nil, err
		}
	}
	if q.math, err = metricmath.Parse(text); err != nil {
		return nil, expressionFault("Error in expression '%s': %v", q.id, err)
	}
	return q, nil
}

// readMetric reads a query of a metric.
func (d *dataRequest) readMetric(q *dataQuery, stat structure) (err error) {
	metric, ok := stat["Metric"].(structure)
	if !ok {
		return missing("MetricDataQueries.member.N.MetricStat.Metric")
	}
	if q.source.id, q.known, err = d.service.readID(metric); err != nil {
		return err
	}
	if q.period, err = stat.number("Period"); err != nil {
		return err
	}
	if _, err = d.window.divided(q.period); err != nil {
		return err
	}
	q.source.period = q.period
	if q.source.statistic, ok = stat.text("Stat"); !ok {
		return missing("MetricDataQueries.member.N.MetricStat.Stat")
	}
	return checkStatistic(q.source.statistic)
}

// series reads the values of a metric.
func (d *dataRequest) series(of metricSource, known bool) (metricmath.Series, error) {
	s := metricmath.Series{Period: of.period, Source: of}
	window, err := d.window.divided(of.period)
	if err != nil || !known {
		return s, err
	}
	for _, part := range d.service.read(of.id, window) {
		if value, ok := part.statistic(of.statistic); ok {
			s.Points = append(s.Points, metricmath.Point{Time: part.at.Unix(), Value: value})
		}
	}
	return s, nil
}

// valueOf returns the value of a query that an expression refers to.
func (d *dataRequest) valueOf(id string) (metricmath.Value, error) {
	return d.evaluate(d.query(id), true)
}

// evaluate returns the value of a query. Only those that expressions need count for their bounds.
func (d *dataRequest) evaluate(q *dataQuery, needed bool) (metricmath.Value, error) {
	if q.value != nil {
		return *q.value, nil
	}
	if q.evaluating {
		return metricmath.Value{}, expressionFault("Error in expression '%s': it refers to itself", q.id)
	}
	q.evaluating = true
	defer func() { q.evaluating = false }()
	var value metricmath.Value
	if q.math == nil {
		s, err := d.series(q.source, q.known)
		if err != nil {
			return value, err
		}
		value = metricmath.Value{Kind: metricmath.Single, Series: []metricmath.Series{s}}
		if !needed {
			return value, nil // it is not kept either
		}
		if err := d.math.Count(len(s.Points)); err != nil {
			return value, err
		}
	} else {
		period := d.math.Period
		if q.period != 0 {
			d.math.Period = q.period
		}
		var err error
		value, err = q.math.Evaluate(&d.math)
		d.math.Period = period
		if fault := (*metricmath.Error)(nil); errors.As(err, &fault) {
			err = expressionFault("Error in expression '%s': %s", q.id, fault.Message)
		}
		if err != nil {
			return value, err
		}
	}
	q.value = &value
	return value, nil
}

// metrics returns the metrics of the request whose id contains a text.
func (d *dataRequest) metrics(id string) (all []metricmath.Series, err error) {
	for _, q := range d.queries {
		if q.math != nil || !strings.Contains(q.id, id) {
			continue
		}
		v, err := d.evaluate(q, true)
		if err != nil {
			return nil, err
		}
		all = append(all, v.Series...)
	}
	return all, nil
}

// search returns the metrics that a search finds, in the order of their names.
func (d *dataRequest) search(text, statistic string, period int64) ([]metricmath.Series, error) {
	if err := checkStatistic(statistic); err != nil {
		return nil, err
	}
	if _, err := d.window.divided(period); err != nil {
		return nil, err
	}
	if d.searches++; d.searches > maxSearches {
		return nil, &metricmath.Error{Message: fmt.Sprintf("the request has more than %d searches", maxSearches)}
	}
	matches, err := parseSearch(text)
	if err != nil {
		return nil, err
	}
	if d.ids == nil {
		d.ids = d.service.from.DB.Meter().IDs()
	}
	all, found := []metricmath.Series{}, 0
	for _, id := range d.ids {
		if !matches(d.service.found(id)) {
			continue
		}
		if found++; found > maxFound {
			continue
		}
		s, err := d.series(metricSource{id, statistic, period}, true)
		if err != nil {
			return nil, err
		}
		if err := d.math.Count(len(s.Points)); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	if found > maxFound {
		d.messages = append(d.messages, replyStruct{{"Code", "MaxMetricsExceeded"}, {"Value", fmt.Sprintf("A search finds %d metrics, of which the first %d are used.", found, maxFound)}})
	}
	return all, nil
}

// results returns the results of a query, and the number of their values.
func (d *dataRequest) results(q *dataQuery, order string) (all []replyStruct, n int, err error) {
	value, err := d.evaluate(q, false)
	if err != nil {
		return nil, 0, err
	}
	if value.Kind == metricmath.Number {
		return nil, 0, expressionFault("Error in expression '%s': its value is a number, and not a time series: use TIME_SERIES, or set ReturnData to false", q.id)
	}
	for _, s := range value.Series {
		times, values := make([]time.Time, len(s.Points)), make([]float64, len(s.Points))
		for i, p := range s.Points {
			times[i], values[i] = time.Unix(p.Time, 0).UTC(), p.Value
		}
		label := d.labelOf(q, s, value.Kind == metricmath.List)
		if order != "TimestampAscending" {
			slices.Reverse(times)
			slices.Reverse(values)
		}
		all = append(all, replyStruct{{"Id", q.id}, {"Label", label}, {"Timestamps", times}, {"Values", values}, {"StatusCode", "Complete"}})
		n += len(values)
	}
	return all, n, nil
}
