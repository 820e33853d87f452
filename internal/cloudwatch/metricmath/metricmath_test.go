package metricmath

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

// request returns a request for ten minutes with three metrics of a period of a minute: m1 is 1, 2, 3
// in the minutes 0, 1 and 3; m2 is 10 and 20 in 1 and 3; m3 has no values.
func request() *Request {
	series := map[string]Series{
		"m1": {Period: 60, Source: "m1", Points: []Point{{0, 1}, {60, 2}, {180, 3}}},
		"m2": {Period: 60, Source: "m2", Points: []Point{{60, 10}, {180, 20}}},
		"m3": {Period: 60, Source: "m3"},
	}
	r := &Request{To: 300, Period: 60}
	r.Query = func(id string) (Value, error) {
		s, ok := series[id]
		if !ok {
			return Value{}, faulty("there is no query %s", id)
		}
		return Value{Kind: Single, Series: []Series{s}}, nil
	}
	r.Metrics = func(id string) (all []Series, err error) {
		for _, name := range []string{"m1", "m2", "m3"} {
			if strings.Contains(name, id) {
				all = append(all, series[name])
			}
		}
		return all, nil
	}
	r.Search = func(search, statistic string, period int64) ([]Series, error) {
		return []Series{{Period: period, Source: search + " " + statistic, Points: []Point{{0, 5}}}}, nil
	}
	return r
}

// shown writes a value: of a series, its minutes and values.
func shown(v Value) string {
	if v.Kind == Number {
		return fmt.Sprintf("%.6g", v.Number)
	}
	var all []string
	for _, s := range v.Series {
		var points []string
		for _, p := range s.Points {
			points = append(points, fmt.Sprintf("%d:%.6g", p.Time/60, p.Value))
		}
		all = append(all, strings.Join(points, " "))
	}
	if v.Kind == List {
		return "[" + strings.Join(all, ", ") + "]"
	}
	return all[0]
}

func TestEvaluate(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"1 + 2 * 3 ^ 2 ^ 0 - -4", "11"},
		{"(1 + 2) * .5e1", "15"},
		{"-2 ^ 2", "-4"},
		{"7 - 2 - 1", "4"},
		{"1 < 2 AND 2 != 2 || 3 >= 3", "1"},
		{"1 == 2 OR 0 && 1", "0"},
		{"m1 / 60", "0:0.0166667 1:0.0333333 3:0.05"},
		{"m1/PERIOD(m1)", "0:0.0166667 1:0.0333333 3:0.05"},
		{"m1 + m2", "1:12 3:23"},
		{"100 * m1 / (m1 - 1)", "1:200 3:150"}, // a division by 0 has no value
		{"-m1", "0:-1 1:-2 3:-3"},
		{"m1 > 1", "0:0 1:1 3:1"},
		{"m1 + m3", ""},
		{"METRICS() * 2", "[0:2 1:4 3:6, 1:20 3:40, ]"},
		{"METRICS() + m2", "[1:12 3:23, 1:20 3:40, ]"},
		{"m2 - METRICS(\"1\")", "[1:8 3:17]"},
		{"ABS(-1) + CEIL(0.5) + FLOOR(1.5) + LOG10(100) + LOG(1)", "5"},
		{"SUM(m1) + AVG(m1) + MAX(m1) + MIN(m1) + DATAPOINT_COUNT(m1)", "15"},
		{"STDDEV(m2)", "5"},
		{"SUM(METRICS())", "0:1 1:12 3:23"},
		{"AVG(METRICS())", "0:1 1:6 3:11.5"},
		{"DATAPOINT_COUNT(METRICS())", "0:1 1:2 3:2"},
		{"m1 * AVG(m3)", ""},
		{"DIFF(m1)", "1:1 3:1"},
		{"DIFF_TIME(m1)", "1:60 3:120"},
		{"RATE(m2)", "3:0.0833333"},
		{"RUNNING_SUM(m1)", "0:1 1:3 3:6"},
		{"FILL(m1, 0)", "0:1 1:2 2:0 3:3 4:0"},
		{"FILL(m3, 7)", "0:7 1:7 2:7 3:7 4:7"},
		{"FILL(m1, REPEAT)", "0:1 1:2 2:2 3:3 4:3"},
		{"FILL(m2, REPEAT)", "1:10 2:10 3:20 4:20"},
		{"FILL(m2, LINEAR)", "1:10 2:15 3:20"},
		{"FILL(m2, m1)", "0:1 1:10 3:20"},
		{"FILL(METRICS(), 0)", "[0:1 1:2 2:0 3:3 4:0, 0:0 1:10 2:0 3:20 4:0, 0:0 1:0 2:0 3:0 4:0]"},
		{"FIRST(METRICS())", "0:1 1:2 3:3"},
		{"LAST(SLICE(METRICS(), 0, 2))", "1:10 3:20"},
		{"LAST(SLICE(METRICS(), 5))", ""},
		{"SLICE(METRICS(), 1)", "[1:10 3:20, ]"},
		{"SORT(METRICS(), SUM, DESC)", "[1:10 3:20, 0:1 1:2 3:3, ]"},
		{"SORT(METRICS(), MIN, ASC, 1)", "[0:1 1:2 3:3]"},
		{"METRIC_COUNT(METRICS()) + METRIC_COUNT(REMOVE_EMPTY(METRICS()))", "5"},
		{"IF(m1 > 1, m1)", "1:2 3:3"},
		{"IF(m1 > 1, m2, -1)", "0:-1 1:10 3:20"},
		{"IF(m1 > 1, m3, 4)", "0:4"},
		{"IF(2 > 1, m2, m1)", "1:10 3:20"},
		{"IF(0, m2)", ""},
		{"TIME_SERIES(3)", "0:3 1:3 2:3 3:3 4:3"},
		{"MINUTE(m1) + HOUR(m1)", "0:0 1:1 3:3"},
		{"DAY(m2) * 10000000 + DATE(m2) * 1000000 + MONTH(m2) * 10000 + YEAR(m2)", "1:4.1012e+07 3:4.1012e+07"}, // Thursday, 1970-01-01: 41011970
		{"EPOCH(m2)", "1:60 3:180"},
		{`SEARCH('{AWS/DynamoDB} "it''s"', 'Sum', 300)`, "a closing parenthesis is expected, not \"s\\\"\""},
		{`SEARCH('{AWS/DynamoDB} MetricName="x"', 'Sum', 300) * 2`, "[0:10]"},

		{"", "the end is not expected"},
		{"m1 +", "the end is not expected"},
		{"m1 m2", "\"m2\" is not expected"},
		{"(m1", "a closing parenthesis is expected, not the end"},
		{"m9", "there is no query m9"},
		{"'text", "a quote is not closed"},
		{"'text'", "the text \"text\" is not expected"},
		{"1.2.3", "\"1.2.3\" is no number"},
		{"m1 % 2", "the character '%' is not expected"},
		{"REPEAT", "REPEAT is not expected"},
		{"METRICS() + METRICS()", "the operator + does not combine two lists of time series"},
		{"SUM(1)", "the function needs a time series, and not a number"},
		{"SUM(m1, m2)", "the function SUM does not have 2 arguments"},
		{"FILL(m1, NEVER)", "FILL knows REPEAT and LINEAR, and not NEVER"},
		{"FILL(m1, METRICS())", "FILL needs a number or a time series, and not a list of time series"},
		{"SORT(METRICS(), SUM, UP)", "SORT sorts in the order ASC or DESC"},
		{"SORT(METRICS(), m1, ASC)", "SORT sorts by AVG, MAX, MIN or SUM"},
		{"SLICE(METRICS(), -1)", "SLICE needs a number of time series, and not -1"},
		{"IF(METRICS(), 1, 2)", "IF needs numbers or time series, and not a list of time series"},
		{"SELECT AVG(x) FROM SCHEMA(y)", "queries of Metrics Insights (SELECT) are not supported"},
		{strings.Repeat("(", 200) + "1" + strings.Repeat(")", 200), "it is nested too deeply"},
		{strings.Repeat("-", 2000) + "1", "it is nested too deeply"},
		{strings.Repeat("1+", 1500) + "1", "it has 3001 characters, more than 2048"},
	} {
		t.Run(c.expression, func(t *testing.T) {
			got := ""
			if x, err := Parse(c.expression); err != nil {
				got = err.Error()
			} else if v, err := x.Evaluate(request()); err != nil {
				got = err.Error()
			} else {
				got = shown(v)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Functions that are not supported are named, with those that are.
func TestUnknownFunction(t *testing.T) {
	_, err := Parse("ANOMALY_DETECTION_BAND(m1)")
	if err == nil || !strings.Contains(err.Error(), "ANOMALY_DETECTION_BAND is not supported") || !strings.Contains(err.Error(), "RUNNING_SUM") {
		t.Error(err)
	}
}

// A computed series that is of one metric knows it.
func TestSourceOfComputedSeries(t *testing.T) {
	x, err := Parse("FILL(METRICS(), 0) / 60")
	if err != nil {
		t.Fatal(err)
	}
	v, err := x.Evaluate(request())
	if err != nil || len(v.Series) != 3 || v.Series[1].Source != "m2" {
		t.Errorf("%v %v", v, err)
	}
}

// The number of values is bounded, before they are made.
func TestValuesAreBounded(t *testing.T) {
	for _, expression := range []string{"FILL(m1, 0)", "TIME_SERIES(1)", strings.Repeat("FILL(m2, 0) + ", 40) + "0"} {
		x, err := Parse(expression)
		if err != nil {
			t.Fatal(err)
		}
		r := request()
		r.To = math.MaxInt32 * 60
		if strings.Contains(expression, "+") {
			r.To = 60 * MaxPoints / 20
		}
		if _, err := x.Evaluate(r); err == nil {
			t.Errorf("%s has a value", expression)
		}
	}
}

// Whatever the expression, it is evaluated or rejected with a reason.
func FuzzExpressions(f *testing.F) {
	for _, s := range []string{"m1/PERIOD(m1)", "IF(m1 > 1, FILL(m2, LINEAR), -1)", "SORT(METRICS('m'), SUM, DESC, 2)", `SEARCH('{a,b} "c"', 'Sum', 60)`, "1e9^-9 || ((m1))"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := Parse(s)
		if err == nil {
			_, err = x.Evaluate(request())
		}
		if fault := (*Error)(nil); err != nil && !errors.As(err, &fault) {
			t.Errorf("%q: %v", s, err)
		}
	})
}
