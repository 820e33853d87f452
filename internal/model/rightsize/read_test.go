package rightsize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
)

// watchStub answers GetMetricData from a function of metric, index and time, within the limits
// of CloudWatch, in pages.
type watchStub struct {
	t        *testing.T
	now      time.Time
	value    func(name, index string, at time.Time) (float64, bool)
	requests int
	periods  map[int]int // requests by period
}

func (w *watchStub) send(_ context.Context, operation string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if operation == "DescribeTable" {
		return json.Marshal(map[string]any{"Table": map[string]any{
			"TableName": "Orders", "TableStatus": "ACTIVE", "CreationDateTime": 1.5e9, "ProvisionedThroughput": map[string]int{"ReadCapacityUnits": 7, "WriteCapacityUnits": 3},
			"GlobalSecondaryIndexes": []any{map[string]any{"IndexName": "by-day", "ProvisionedThroughput": map[string]int{"ReadCapacityUnits": 2, "WriteCapacityUnits": 2}}},
		}})
	}
	var in struct {
		MetricDataQueries  []metricQuery
		StartTime, EndTime int64
		NextToken          string
	}
	if err := json.Unmarshal(text, &in); err != nil || operation != "GetMetricData" {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	w.requests++
	period := in.MetricDataQueries[0].MetricStat.Period
	w.periods[period]++
	points := int(in.EndTime-in.StartTime) / period * len(in.MetricDataQueries)
	if len(in.MetricDataQueries) > 500 || points > 100_800 {
		w.t.Errorf("%d queries of %d data points", len(in.MetricDataQueries), points)
	}
	if age := w.now.Sub(time.Unix(in.StartTime, 0)); age > 15*24*time.Hour && period%300 != 0 || age > 63*24*time.Hour && period%3600 != 0 {
		w.t.Errorf("a period of %d seconds is asked for %v ago", period, age)
	}
	first := 0
	if in.NextToken != "" {
		if _, err := fmt.Sscan(in.NextToken, &first); err != nil {
			return nil, err
		}
	}
	// Two results a page, and each of them in two parts.
	var results []map[string]any
	for i := first; i < min(first+2, len(in.MetricDataQueries)); i++ {
		q := in.MetricDataQueries[i]
		index := ""
		for _, d := range q.MetricStat.Metric.Dimensions {
			if d.Name == "GlobalSecondaryIndexName" {
				index = d.Value
			}
		}
		times, values := []int64{}, []float64{}
		for at := in.StartTime; at < in.EndTime; at += int64(period) {
			if v, ok := w.value(q.MetricStat.Metric.MetricName, index, time.Unix(at, 0)); ok {
				if q.MetricStat.Stat == "Sum" {
					v *= float64(period)
				}
				times, values = append(times, at), append(values, v)
			}
		}
		half := len(times) / 2
		results = append(results,
			map[string]any{"Id": q.ID, "Label": q.Label, "Timestamps": times[:half], "Values": values[:half], "StatusCode": "PartialData"},
			map[string]any{"Id": q.ID, "Label": q.Label, "Timestamps": times[half:], "Values": values[half:], "StatusCode": "Complete"})
	}
	reply := map[string]any{"MetricDataResults": results, "Messages": []any{}}
	if first+2 < len(in.MetricDataQueries) {
		reply["NextToken"] = fmt.Sprint(first + 2)
	}
	return json.Marshal(reply)
}

// Metrics are read by the shortest periods that are kept, within the limits of a request.
func TestRead(t *testing.T) {
	now := time.Date(2026, 11, 18, 7, 31, 20, 0, time.UTC)
	w := &watchStub{t: t, now: now, periods: make(map[int]int), value: func(name, index string, at time.Time) (float64, bool) {
		switch {
		case name == "ConsumedReadCapacityUnits" && index == "":
			return 3, true
		case name == "ConsumedWriteCapacityUnits" && index == "by-day":
			return 1, at.Minute() < 30 // half of each hour is idle
		case name == "ReadThrottleEvents" && index == "":
			return 0.01, true
		case name == "ProvisionedReadCapacityUnits" && index == "":
			return 9, true
		}
		return 0, false
	}}
	s := Server{Tables: w.send, Watch: w.send, Now: now, Progress: func(done, of int) {
		if done > of {
			t.Errorf("%d of %d requests", done, of)
		}
	}}
	l, err := s.Read(t.Context(), "Orders", now.Add(-80*24*time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	if w.periods[60] == 0 || w.periods[300] == 0 || w.periods[3600] == 0 {
		t.Errorf("requests by period are %v, want all three", w.periods)
	}
	if want := now.Add(-80 * 24 * time.Hour).Truncate(time.Hour); !l.From.Equal(want) || !l.at(l.Minutes).Equal(now.Truncate(time.Minute)) {
		t.Errorf("the load is from %v to %v, want %v to %v", l.From, l.at(l.Minutes), want, now)
	}
	r := l.Resources[0]
	if len(l.Resources) != 2 || l.Resources[1].Index != "by-day" {
		t.Fatalf("resources are %+v", l.Resources)
	}
	for _, minute := range []int{0, l.Minutes / 2, l.Minutes - 1} {
		if !near(r.Consumed[throttle.Read][minute], 180) {
			t.Errorf("minute %d has %v read units, want 180", minute, r.Consumed[throttle.Read][minute])
		}
	}
	if mean := sum(l.Resources[1].Consumed[throttle.Write]) / float64(l.Minutes); mean < 29 || mean > 61 {
		t.Errorf("the index has %v write units a minute", mean)
	}
	if !near(r.Provisioned[throttle.Read], 9) || !near(r.Provisioned[throttle.Write], 3) || !near(l.Resources[1].Provisioned[throttle.Read], 2) {
		t.Errorf("provisioned are %v and %v", r.Provisioned, l.Resources[1].Provisioned)
	}
	if l.Now == nil || l.Now.OnDemand || len(l.Coarse) != 2 || l.Coarse[0].Seconds != 300 || len(l.Gaps) > 0 {
		t.Errorf("now %+v, coarse %+v, gaps %+v", l.Now, l.Coarse, l.Gaps)
	}
	report := analyzed(l, settings())
	if want := model.DefaultPrices().Hour(9+2, 3+2) * 730; report.Now == nil || !near(report.Now.MonthlyDollars, want) {
		t.Errorf("now it costs %+v, want %v a month", report.Now, want)
	}
}

func TestReadFails(t *testing.T) {
	now := time.Now()
	w := &watchStub{t: t, now: now, periods: make(map[int]int), value: func(string, string, time.Time) (float64, bool) { return 0, false }}
	s := Server{Tables: w.send, Watch: w.send, Now: now, Progress: func(int, int) {}}
	if _, err := s.Read(t.Context(), "Orders", now.Add(-time.Hour), now); !errors.Is(err, ErrNoData) {
		t.Errorf("without data points: %v", err)
	}
	s.Watch = func(context.Context, string, any) ([]byte, error) {
		return []byte(`{"MetricDataResults": [{"Id": "m0_0", "StatusCode": "Forbidden", "Timestamps": [], "Values": []}]}`), nil
	}
	if _, err := s.Read(t.Context(), "Orders", now.Add(-time.Hour), now); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("a forbidden metric: %v", err)
	}
	s.Tables = func(context.Context, string, any) ([]byte, error) { return []byte(`{}`), nil }
	if _, err := s.Read(t.Context(), "Orders", now.Add(-time.Hour), now); err == nil || !strings.Contains(err.Error(), "is the endpoint a DynamoDB server?") {
		t.Errorf("another server: %v", err)
	}
}

// A server whose pages do not end is an error.
func TestEndlessPages(t *testing.T) {
	s := Server{Now: start, Progress: func(int, int) {},
		Tables: func(context.Context, string, any) ([]byte, error) {
			return []byte(`{"Table": {"TableName": "T"}}`), nil
		},
		Watch: func(context.Context, string, any) ([]byte, error) {
			return []byte(`{"MetricDataResults": [], "NextToken": "again"}`), nil
		},
	}
	if _, err := s.Read(t.Context(), "T", start.Add(-24*time.Hour), start); err == nil || !strings.Contains(err.Error(), "again and again") {
		t.Error(err)
	}
}
