package rightsize

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
)

// dataOf returns results of GetMetricData as the AWS CLI prints them.
func dataOf(results ...string) string {
	return `{"MetricDataResults": [` + strings.Join(results, ", ") + `], "Messages": []}`
}

// resultOf returns one result with the same value in some periods.
func resultOf(id, label string, from time.Time, period time.Duration, n int, value float64) string {
	times, values := []string{}, []float64{}
	for i := range n {
		times, values = append(times, from.Add(time.Duration(n-1-i)*period).Format("2006-01-02T15:04:05-07:00")), append(values, value) // the newest first
	}
	text, _ := json.Marshal(map[string]any{"Id": id, "Label": label, "Timestamps": times, "Values": values, "StatusCode": "Complete"})
	return string(text)
}

// statisticsOf returns a reply of GetMetricStatistics as the AWS CLI prints it.
func statisticsOf(label string, from time.Time, period time.Duration, n int, value float64) string {
	var points []string
	for i := range n {
		points = append(points, fmt.Sprintf(`{"Timestamp": "%s", "Sum": %v, "Unit": "Count"}`, from.Add(time.Duration(i*7%n)*period).Format(time.RFC3339), value)) // in no order
	}
	return fmt.Sprintf(`{"Label": "%s", "Datapoints": [%s]}`, label, strings.Join(points, ", "))
}

// Metrics are recognised in both forms, by labels, ids and the names of indexes.
func TestExports(t *testing.T) {
	const read, write = "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"
	minutes := func(id, label string, value float64) string {
		return resultOf(id, label, start, time.Minute, 120, value)
	}
	for _, c := range []struct {
		name   string
		files  []Export
		table  string
		period time.Duration
		want   string // index, read and write units of the minute 70, for each resource
	}{
		{"labels", []Export{{File: "a", Text: []byte(dataOf(minutes("a", "Orders "+read, 60), minutes("b", "Orders "+write, 30), minutes("c", "Orders by-day "+write, 6)))}}, "", 0, " 60 30; by-day 0 6"},
		{"ids", []Export{{File: "a", Text: []byte(dataOf(minutes("consumedReadCapacityUnits", "some text", 60), minutes("consumedWriteCapacityUnits_1", "", 30)))}}, "Orders", 0, " 60 30"},
		{"one of several tables", []Export{{File: "a", Text: []byte(dataOf(minutes("a", "Orders "+read, 60), minutes("b", "Carts "+read, 30)))}}, "Carts", 0, " 30 0"},
		{"pages", []Export{{File: "a", Text: []byte(dataOf(resultOf("a", "T "+read, start, time.Minute, 60, 60), resultOf("a", "T "+read, start.Add(time.Hour), time.Minute, 60, 30)))}}, "", 0, " 30 0"},
		{"statistics", []Export{
			{File: "r", Text: []byte(statisticsOf(read, start, time.Minute, 60, 60) + "\n" + statisticsOf(read, start.Add(time.Hour), time.Minute, 60, 24))},
			{File: "w", Text: []byte(statisticsOf(write, start, 5*time.Minute, 24, 30))},
			{File: "x", Index: "by-day", Text: []byte(statisticsOf(write, start, time.Minute, 120, 12))},
		}, "Orders", 0, " 24 6; by-day 0 12"},
		{"a shorter period counts", []Export{{File: "a", Text: []byte(statisticsOf(read, start.Add(time.Hour), time.Minute, 60, 1))}, {File: "b", Text: []byte(statisticsOf(read, start, 5*time.Minute, 24, 600))}}, "T", 0, " 1 0"},
		{"a given period", []Export{{File: "a", Text: []byte(statisticsOf(read, start, 10*time.Minute, 12, 60))}}, "T", time.Minute, " 60 0"},
		{"few data points have the period of other files", []Export{
			{File: "a", Text: []byte(statisticsOf(read, start, time.Minute, 120, 60))},
			{File: "b", Text: []byte(statisticsOf(write, start, 70*time.Minute, 2, 60))},
		}, "T", 0, " 60 60"},
		{"seconds since 1970", []Export{{File: "a", Text: []byte(dataOf(fmt.Sprintf(`{"Id": "a", "Label": "T %s", "Timestamps": [%d, %d, %d], "Values": [60, 30, 15]}`, read, start.Unix(), start.Unix()+60, start.Unix()+4200)))}}, "", 0, " 15 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := ReadExports(c.files, c.table, c.period)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range l.Resources {
				got = append(got, fmt.Sprintf("%s %v %v", r.Index, r.Consumed[throttle.Read][70], r.Consumed[throttle.Write][70]))
			}
			if text := strings.Join(got, "; "); text != c.want || !l.From.Equal(start) {
				t.Errorf("%s from %v, want %s", text, l.From, c.want)
			}
		})
	}
}

func TestInvalidExports(t *testing.T) {
	const read = "ConsumedReadCapacityUnits"
	for _, c := range []struct{ name, text, table, want string }{
		{"no JSON", "Label,1", "T", "it is not the output of aws cloudwatch get-metric-data or get-metric-statistics as JSON"},
		{"another reply", `{"Table": {}}`, "T", "it has neither MetricDataResults"},
		{"an unknown label", dataOf(resultOf("a", "reads", start, time.Minute, 60, 1)), "T", `neither the label "reads" nor the id "a" of a result names a metric`},
		{"another metric", statisticsOf("UserErrors", start, time.Minute, 60, 1), "T", "the metric UserErrors is not one of those that are needed"},
		{"no table", statisticsOf(read, start, time.Minute, 60, 1), "", "give its name as an argument"},
		{"two tables", dataOf(resultOf("a", "A "+read, start, time.Minute, 60, 1), resultOf("b", "B "+read, start, time.Minute, 60, 1)), "", "there are metrics of the tables A, B"},
		{"another statistic", `{"Label": "` + read + `", "Datapoints": [{"Timestamp": "2026-11-01T00:00:00Z", "Average": 1}]}`, "T", "have no Sum: export them with --statistics Sum"},
		{"one data point", statisticsOf(read, start, time.Minute, 1, 1), "T", "give it with --period"},
		{"days", statisticsOf(read, start, 24*time.Hour, 14, 1), "T", "which hides all peaks"},
		{"seconds", statisticsOf(read, start, time.Second, 100, 1), "T", "must be whole minutes"},
		{"two metrics without an index", dataOf(resultOf("a", read, start, time.Minute, 60, 1), resultOf("b", read, start, time.Minute, 60, 2)), "T", "x (a) and x (b) are both ConsumedReadCapacityUnits, with other values"},
		{"a negative value", statisticsOf(read, start, time.Minute, 60, -1), "T", "has the value -1"},
		{"times without values", dataOf(`{"Id": "a", "Label": "T ` + read + `", "Timestamps": ["2026-11-01T00:00:00Z"], "Values": []}`), "T", "has 1 times and 0 values"},
		{"a few minutes", statisticsOf(read, start, time.Minute, 30, 1), "T", "cover 30 minutes, but 60 are needed"},
		{"throttles only", statisticsOf("ReadThrottleEvents", start, time.Minute, 60, 1), "T", "no data points of consumed units"},
		{"nothing", dataOf(), "T", "it has no metrics"},
		{"more than any table consumes", statisticsOf("ConsumedReadCapacityUnits", start, time.Minute, 60, 1e300), "T", "has the value 1e+300"},
		{"a time in another century", statisticsOf("ConsumedReadCapacityUnits", start, time.Minute, 60, 1) + statisticsOf("ConsumedReadCapacityUnits", start.AddDate(-200, 0, 0), time.Minute, 60, 1), "T", "is one of the times wrong?"},
		{"milliseconds", dataOf(fmt.Sprintf(`{"Id": "a", "Label": "T ConsumedReadCapacityUnits", "Timestamps": [%d], "Values": [1]}`, start.UnixMilli())), "T", "is not in seconds since 1970"},
		{"seconds before 1970", dataOf(`{"Id": "a", "Label": "T ConsumedReadCapacityUnits", "Timestamps": [-60], "Values": [1]}`), "T", "is not in seconds since 1970"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadExports([]Export{{File: "x", Text: []byte(c.text)}}, c.table, 0)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// The queries that are printed have labels that an export is recognised by.
func TestQueries(t *testing.T) {
	text, err := json.Marshal(Queries("Orders", []string{"by-day"}, 5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	var queries []metricQuery
	if err := json.Unmarshal(text, &queries); err != nil {
		t.Fatal(err)
	}
	var results []string
	for _, q := range queries {
		if q.MetricStat.Period != 300 {
			t.Errorf("a query has a period of %d", q.MetricStat.Period)
		}
		results = append(results, resultOf(q.ID, q.Label, start, 5*time.Minute, 24, 300))
	}
	l, err := ReadExports([]Export{{File: "x", Text: []byte(dataOf(results...))}}, "", 0)
	if err != nil || l.Table != "Orders" || len(l.Resources) != 2 || l.Resources[1].Index != "by-day" {
		t.Fatalf("%+v, %v", l, err)
	}
	for _, r := range l.Resources {
		for kind := range r.Consumed {
			if r.Consumed[kind][7] != 60 || r.Throttles[kind] != 24*300 || r.Provisioned[kind] != 300 {
				t.Errorf("index %q: %v units, %v throttles, %v provisioned", r.Index, r.Consumed[kind][7], r.Throttles[kind], r.Provisioned[kind])
			}
		}
	}
}

// The times of files may overlap: a data point counts once.
func TestOverlappingExports(t *testing.T) {
	l, err := ReadExports([]Export{
		{File: "a", Text: []byte(statisticsOf("ConsumedReadCapacityUnits", start, time.Minute, 120, 60))},
		{File: "b", Text: []byte(statisticsOf("ReadThrottleEvents", start, time.Minute, 120, 1))},
		{File: "c", Text: []byte(statisticsOf("ReadThrottleEvents", start.Add(time.Hour), time.Minute, 60, 1))},
	}, "T", 0)
	if err != nil || l.Resources[0].Throttles[throttle.Read] != 120 {
		t.Errorf("%v events, %v, want 120", l.Resources[0].Throttles, err)
	}
}

// What a table costs now is not known if a part of its provisioned units is not.
func TestCostOfUnknownUnits(t *testing.T) {
	const consumed, read, write = "ConsumedReadCapacityUnits", "ProvisionedReadCapacityUnits", "ProvisionedWriteCapacityUnits"
	for _, c := range []struct {
		name    string
		metrics []string
		known   bool
	}{
		{"none", []string{"T " + consumed}, false},
		{"reads only", []string{"T " + consumed, "T " + read}, false},
		{"both", []string{"T " + consumed, "T " + read, "T " + write}, true},
		{"not those of an index", []string{"T " + consumed, "T " + read, "T " + write, "T by-day " + consumed}, false},
		{"those of an index too", []string{"T " + consumed, "T " + read, "T " + write, "T by-day " + consumed, "T by-day " + read, "T by-day " + write}, true},
	} {
		var results []string
		for i, label := range c.metrics {
			results = append(results, resultOf(fmt.Sprint("m", i), label, start, time.Minute, 120, 60))
		}
		l, err := ReadExports([]Export{{File: "a", Text: []byte(dataOf(results...))}}, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		r := Analyze(l, &Settings{Prices: model.DefaultPrices(), Target: 70}, func(int, int) {})
		if (r.Now != nil) != c.known {
			t.Errorf("%s: the present cost is %+v", c.name, r.Now)
		}
	}
}
