package rightsize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model/apply"
)

// Server is where the metrics of a table are read.
type Server struct {
	Tables apply.Send // operations of DynamoDB
	Watch  apply.Send // operations of CloudWatch

	// Now is the time by which CloudWatch keeps data points: by the minute for 15 days, and
	// longer by longer periods.
	Now time.Time

	Progress func(done, of int) // is called after each request for metrics
}

// Read reads the load of a table from a time until another.
func (s *Server) Read(ctx context.Context, table string, from, to time.Time) (*Load, error) {
	d, err := s.describe(ctx, table)
	if err != nil {
		return nil, err
	}
	if created := time.UnixMilli(int64(d.CreationDateTime * 1000)).UTC(); created.After(from) {
		from = created
	}
	from, to = from.UTC().Truncate(time.Minute), to.UTC().Truncate(time.Minute)
	if !from.Before(to) {
		return nil, fmt.Errorf("the table %s was created at %s, after the time that is looked at", table, from.Format(dateAndTime))
	}
	var indexes []string
	for _, x := range d.GlobalSecondaryIndexes {
		indexes = append(indexes, x.IndexName)
	}
	m := newMetrics(table)
	if err := s.readMetrics(ctx, m, queriesOf(table, indexes), spans(from, to, s.Now)); err != nil {
		return nil, err
	}
	l, err := m.load(to, indexes)
	if err != nil {
		return nil, fmt.Errorf("table %s, from %s to %s: %w", table, from.Format(dateAndTime), to.Format(dateAndTime), err)
	}
	l.Asked = from
	l.Now = &Current{OnDemand: d.BillingModeSummary.BillingMode == "PAY_PER_REQUEST", InfrequentAccess: d.TableClassSummary.TableClass == "STANDARD_INFREQUENT_ACCESS"}
	for _, r := range l.Resources {
		units := d.ProvisionedThroughput
		for _, x := range d.GlobalSecondaryIndexes {
			if x.IndexName == r.Index {
				units = x.ProvisionedThroughput
			}
		}
		for kind, n := range [2]float64{throttle.Read: units.ReadCapacityUnits, throttle.Write: units.WriteCapacityUnits} {
			if r.Provisioned[kind] == 0 {
				r.Provisioned[kind] = n
			}
		}
	}
	return l, nil
}

// tableSummary is the part of a description that is of interest.
type tableSummary struct {
	TableName              string
	CreationDateTime       float64
	BillingModeSummary     struct{ BillingMode string }
	TableClassSummary      struct{ TableClass string }
	ProvisionedThroughput  provisionedUnits
	GlobalSecondaryIndexes []struct {
		IndexName             string
		ProvisionedThroughput provisionedUnits
	}
}

type provisionedUnits struct{ ReadCapacityUnits, WriteCapacityUnits float64 }

func (s *Server) describe(ctx context.Context, table string) (*tableSummary, error) {
	var reply struct{ Table tableSummary }
	if err := s.Tables.Ask(ctx, "DescribeTable", map[string]string{"TableName": table}, &reply); err != nil {
		return nil, fmt.Errorf("describe the table %s: %w", table, err)
	}
	if reply.Table.TableName == "" {
		return nil, errors.New("the reply to DescribeTable describes no table; is the endpoint a DynamoDB server?")
	}
	return &reply.Table, nil
}

// timeSpan is a time of which metrics are read by one period.
type timeSpan struct {
	from, to time.Time
	period   time.Duration
}

// keptPeriod is how long CloudWatch keeps data points of a period.
type keptPeriod struct{ period, age time.Duration }

// retention holds all periods that CloudWatch keeps.
var retention = []keptPeriod{
	{time.Minute, 15 * 24 * time.Hour}, {5 * time.Minute, 63 * 24 * time.Hour}, {time.Hour, 455 * 24 * time.Hour},
}

// spans divides a time by the shortest periods that its data points are kept by. Before the
// longest there is nothing.
func spans(from, to, now time.Time) (all []timeSpan) {
	end := to
	for _, kept := range retention {
		if !from.Before(end) {
			break
		}
		begin := now.Add(-kept.age).Truncate(time.Hour).Add(time.Hour)
		if begin.Before(from) {
			begin = from.Truncate(kept.period)
		}
		if begin.Before(end) {
			all = append([]timeSpan{{begin, end, kept.period}}, all...)
			end = begin
		}
	}
	return all
}

// metricQuery asks for one metric.
type metricQuery struct {
	ID         string     `json:"Id"`
	Label      string     `json:"Label"`
	MetricStat metricStat `json:"MetricStat"`

	of metricKey
}

type metricStat struct {
	Metric watchedMetric `json:"Metric"`
	Period int           `json:"Period"`
	Stat   string        `json:"Stat"`
}

type watchedMetric struct {
	Namespace  string            `json:"Namespace"`
	MetricName string            `json:"MetricName"`
	Dimensions []metricDimension `json:"Dimensions"`
}

type metricDimension struct{ Name, Value string }

// queriesOf returns the queries for all metrics of a table. The labels are those that an
// export is recognised by.
func queriesOf(table string, indexes []string) (queries []metricQuery) {
	for i, index := range append([]string{""}, indexes...) {
		label, dimensions := table, []metricDimension{{"TableName", table}}
		if index != "" {
			label, dimensions = table+" "+index, append(dimensions, metricDimension{"GlobalSecondaryIndexName", index})
		}
		for _, of := range []struct {
			names [2]string
			stat  string
		}{{consumedMetrics, "Sum"}, {throttleMetrics, "Sum"}, {provisionedMetrics, "Average"}} {
			for _, name := range of.names {
				queries = append(queries, metricQuery{
					ID: fmt.Sprintf("m%d_%d", i, len(queries)), Label: label + " " + name, of: metricKey{name, index},
					MetricStat: metricStat{Metric: watchedMetric{"AWS/DynamoDB", name, dimensions}, Period: 60, Stat: of.stat},
				})
			}
		}
	}
	return queries
}

// Queries returns the queries of GetMetricData for an export, by a period.
func Queries(table string, indexes []string, period time.Duration) any {
	queries := queriesOf(table, indexes)
	for i := range queries {
		queries[i].MetricStat.Period = int(period.Seconds())
	}
	return queries
}

// CloudWatch's limits of one GetMetricData.
const (
	maxQueries    = 500
	maxDatapoints = 100_800
)

// metricRequest is a GetMetricData.
type metricRequest struct {
	timeSpan
	queries []metricQuery
}

// readMetrics reads the data points of all queries, in requests that keep to the limits.
func (s *Server) readMetrics(ctx context.Context, m *metricsOf, queries []metricQuery, all []timeSpan) error {
	var requests []metricRequest
	for _, span := range all {
		for first := 0; first < len(queries); first += maxQueries {
			some := queries[first:min(len(queries), first+maxQueries)]
			length := time.Duration(maxDatapoints/len(some)) * span.period
			for at := span.from; at.Before(span.to); at = at.Add(length) {
				part := timeSpan{at, at.Add(length), span.period}
				if span.to.Before(part.to) {
					part.to = span.to
				}
				requests = append(requests, metricRequest{part, some})
			}
		}
	}
	for i, r := range requests {
		if err := s.send(ctx, m, r); err != nil {
			return err
		}
		s.Progress(i+1, len(requests))
	}
	return nil
}

// send sends a request, and adds the data points of all pages.
func (s *Server) send(ctx context.Context, m *metricsOf, r metricRequest) error {
	of := make(map[string]metricKey)
	asked := make([]metricQuery, len(r.queries))
	for i, q := range r.queries {
		q.MetricStat.Period = int(r.period.Seconds())
		asked[i], of[q.ID] = q, q.of
	}
	body := map[string]any{"MetricDataQueries": asked, "StartTime": r.from.Unix(), "EndTime": r.to.Unix(), "ScanBy": "TimestampAscending"}
	for {
		text, err := s.Watch(ctx, "GetMetricData", body)
		if err != nil {
			return fmt.Errorf("read the metrics from CloudWatch: %w", err)
		}
		var reply struct {
			MetricDataResults []metricResult
			NextToken         string
		}
		if err := json.Unmarshal(text, &reply); err != nil {
			return fmt.Errorf("cannot decode the reply to GetMetricData: %w", err)
		}
		for _, result := range reply.MetricDataResults {
			if err := result.check(); err != nil {
				return err
			}
			for i, at := range result.Timestamps {
				m.add(of[result.ID], datapoint{at.Time, r.period, result.Values[i]})
			}
		}
		if reply.NextToken == "" {
			return nil
		}
		if reply.NextToken == body["NextToken"] {
			return errors.New("CloudWatch returns the same page of metrics again and again")
		}
		body["NextToken"] = reply.NextToken
	}
}
