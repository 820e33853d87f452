package cloudwatch

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/store/pebble"
)

var start = time.Date(2026, 11, 18, 10, 0, 0, 0, time.UTC)

// open returns a CloudWatch with the values of twelve minutes: in minute i, the table
// Orders has consumed i and 1 units, in two requests.
func open(t testing.TB) *Service {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	d, err := db.Open(t.Context(), engine, db.Options{Clock: clock.New(clock.Options{Now: func() time.Time { return start.Add(time.Duration(passed.Load())) }})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	// Without the table, the meter's loop would remove the series.
	day := schema.Attribute{Name: "day", Type: item.S}
	_, err = d.CreateTable(t.Context(), schema.Table{
		Name: "Orders", Attributes: []schema.Attribute{day}, OnDemand: true, Key: schema.Key{Partition: []schema.Attribute{day}},
		Indexes: []schema.Index{{Name: "by-day", ID: 1, Global: true, Key: schema.Key{Partition: []schema.Attribute{day}}, Projection: schema.Projection{Kind: schema.ProjectAll}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		r := d.Meter()
		r.Series(meter.ID{Name: meter.ConsumedRead, Table: "Orders"}).Add(float64(i))
		r.Series(meter.ID{Name: meter.ConsumedRead, Table: "Orders"}).Add(1)
		r.Series(meter.ID{Name: meter.ConsumedRead, Table: "Orders", Index: "by-day"}).Add(100)
		r.Series(meter.ID{Name: meter.Latency, Table: "Orders", Operation: "GetItem"}).Add(float64(i + 1))
		passed.Add(int64(time.Minute))
		d.Meter()
	}
	return New(ops.New(ops.Parts{DB: d}))
}

// ask sends a request, which is given as JSON, in a protocol, and returns the reply as
// JSON; of an error, its code.
func ask(t *testing.T, s *Service, p Protocol, operation, request string) string {
	t.Helper()
	var in map[string]any
	if err := json.Unmarshal([]byte(request), &in); err != nil {
		t.Fatal(err)
	}
	var body []byte
	switch p {
	case JSON:
		body = []byte(request)
	case CBOR:
		body = cbor.Encode(toCBOR(in))
	case Query:
		form := url.Values{"Action": {operation}, "Version": {"2010-08-01"}}
		flatten(form, "", in)
		body, operation = []byte(form.Encode()), ""
	}
	r := s.Do(p, operation, body, "id")
	var out any
	switch p {
	case JSON:
		if err := json.Unmarshal(r.Body, &out); err != nil {
			t.Fatalf("%s: %v", r.Body, err)
		}
	case CBOR:
		v, err := cbor.Decode(r.Body)
		if err != nil {
			t.Fatalf("%x: %v", r.Body, err)
		}
		out = withEpochs(fromCBOR(v))
	case Query:
		var x element
		if err := xml.Unmarshal(r.Body, &x); err != nil {
			t.Fatalf("%s: %v", r.Body, err)
		}
		if x.XMLName.Local == "ErrorResponse" {
			return fmt.Sprint(r.Status, " ", x.Elements[0].Elements[1].Text)
		}
		out = x.Elements[0].value()
	}
	if r.Status != 200 {
		return fmt.Sprint(r.Status, " ", strings.TrimSuffix(r.QueryError, ";Sender"))
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func flatten(form url.Values, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, of := range v {
			flatten(form, strings.TrimPrefix(path+"."+name, "."), of)
		}
	case []any:
		for i, of := range v {
			flatten(form, fmt.Sprintf("%s.member.%d", path, i+1), of)
		}
	default:
		form.Set(path, fmt.Sprint(v))
	}
}

func withEpochs(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = withEpochs(v[name])
		}
	case []any:
		for i := range v {
			v[i] = withEpochs(v[i])
		}
	case time.Time:
		return v.Unix()
	}
	return v
}

// element is any element of XML.
type element struct {
	XMLName  xml.Name
	Elements []element `xml:",any"`
	Text     string    `xml:",chardata"`
}

// value returns an element as JSON has it, as far as that can be seen.
func (x *element) value() any {
	if len(x.Elements) == 0 {
		if at, err := time.Parse(time.RFC3339, x.Text); err == nil {
			return at.Unix()
		}
		var number float64
		if json.Unmarshal([]byte(x.Text), &number) == nil {
			return number
		}
		if x.Text == "" {
			return []any{}
		}
		return x.Text
	}
	if x.Elements[0].XMLName.Local == "member" {
		all := []any{}
		for i := range x.Elements {
			all = append(all, x.Elements[i].value())
		}
		return all
	}
	all := make(map[string]any)
	for i := range x.Elements {
		if x.Elements[i].XMLName.Local == "entry" {
			all[x.Elements[i].Elements[0].Text] = x.Elements[i].Elements[1].value()
			continue
		}
		all[x.Elements[i].XMLName.Local] = x.Elements[i].value()
	}
	return all
}

// Requests get the same replies in all protocols.
func TestProtocols(t *testing.T) {
	s := open(t)
	at := func(minutes int) string { return fmt.Sprint(start.Add(time.Duration(minutes) * time.Minute).Unix()) }
	const orders = `"Namespace": "AWS/DynamoDB", "MetricName": "ConsumedReadCapacityUnits", "Dimensions": [{"Name": "TableName", "Value": "Orders"}]`
	hour := `"StartTime": ` + at(0) + `, "EndTime": ` + at(60)
	for _, c := range []struct{ name, operation, in, want string }{
		{"metrics of an index", "ListMetrics", `{"Namespace": "AWS/DynamoDB", "Dimensions": [{"Name": "GlobalSecondaryIndexName"}]}`,
			`{"Metrics": [{"Namespace": "AWS/DynamoDB", "MetricName": "ConsumedReadCapacityUnits", "Dimensions": [{"Name": "TableName", "Value": "Orders"}, {"Name": "GlobalSecondaryIndexName", "Value": "by-day"}]}]}`},
		{"metrics of another namespace", "ListMetrics", `{"Namespace": "AWS/Lambda"}`, `{"Metrics": []}`},
		{"sums", "GetMetricStatistics", `{` + orders + `, ` + hour + `, "Period": 300, "Statistics": ["Sum", "SampleCount", "Average", "Minimum", "Maximum"]}`,
			`{"Label": "ConsumedReadCapacityUnits", "Datapoints": [
				{"Timestamp": ` + at(0) + `, "Sum": 15, "SampleCount": 10, "Average": 1.5, "Minimum": 0, "Maximum": 4, "Unit": "Count"},
				{"Timestamp": ` + at(5) + `, "Sum": 40, "SampleCount": 10, "Average": 4, "Minimum": 1, "Maximum": 9, "Unit": "Count"},
				{"Timestamp": ` + at(10) + `, "Sum": 23, "SampleCount": 4, "Average": 5.75, "Minimum": 1, "Maximum": 11, "Unit": "Count"}]}`},
		{"percentiles", "GetMetricStatistics", `{"Namespace": "AWS/DynamoDB", "MetricName": "SuccessfulRequestLatency", "Dimensions": [{"Name": "TableName", "Value": "Orders"}, {"Name": "Operation", "Value": "GetItem"}], ` +
			hour + `, "Period": 3600, "ExtendedStatistics": ["p100"]}`,
			`{"Label": "SuccessfulRequestLatency", "Datapoints": [{"Timestamp": ` + at(0) + `, "ExtendedStatistics": {"p100": 12}, "Unit": "Milliseconds"}]}`},
		{"an unknown metric", "GetMetricStatistics", `{"Namespace": "AWS/DynamoDB", "MetricName": "None", ` + hour + `, "Period": 60, "Statistics": ["Sum"]}`, `{"Label": "None", "Datapoints": []}`},
		{"data", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "MetricStat": {"Metric": {` + orders + `}, "Period": 600, "Stat": "Sum"}}, {"Id": "b", "ReturnData": false, "MetricStat": {"Metric": {` + orders + `}, "Period": 600, "Stat": "Sum"}}]}`,
			`{"MetricDataResults": [{"Id": "a", "Label": "ConsumedReadCapacityUnits", "Timestamps": [` + at(10) + `, ` + at(0) + `], "Values": [23, 55], "StatusCode": "Complete"}], "Messages": []}`},
		{"data, the oldest first", "GetMetricData", `{` + hour + `, "ScanBy": "TimestampAscending", "MetricDataQueries": [{"Id": "a", "Label": "units", "MetricStat": {"Metric": {` + orders + `}, "Period": 600, "Stat": "Maximum"}}]}`,
			`{"MetricDataResults": [{"Id": "a", "Label": "units", "Timestamps": [` + at(0) + `, ` + at(10) + `], "Values": [9, 11], "StatusCode": "Complete"}], "Messages": []}`},

		{"a part of a period", "GetMetricStatistics", `{` + orders + `, "StartTime": ` + at(3) + `, "EndTime": ` + at(5) + `, "Period": 3600, "Statistics": ["Sum"]}`,
			`{"Label": "ConsumedReadCapacityUnits", "Datapoints": [{"Timestamp": ` + at(3) + `, "Sum": 9, "Unit": "Count"}]}`},
		{"no percentile", "GetMetricStatistics", `{` + orders + `, ` + hour + `, "Period": 60, "ExtendedStatistics": ["pNaN"]}`, "400 InvalidParameterValue"},
		{"no name", "GetMetricStatistics", `{"Namespace": "AWS/DynamoDB", ` + hour + `, "Period": 60, "Statistics": ["Sum"]}`, "400 MissingParameter"},
		{"no statistic", "GetMetricStatistics", `{` + orders + `, ` + hour + `, "Period": 60}`, "400 InvalidParameterCombination"},
		{"another statistic", "GetMetricStatistics", `{` + orders + `, ` + hour + `, "Period": 60, "Statistics": ["Median"]}`, "400 InvalidParameterValue"},
		{"seconds", "GetMetricStatistics", `{` + orders + `, ` + hour + `, "Period": 30, "Statistics": ["Sum"]}`, "400 InvalidParameterValue"},
		{"too many points", "GetMetricStatistics", `{` + orders + `, "StartTime": 0, "EndTime": ` + at(0) + `, "Period": 60, "Statistics": ["Sum"]}`, "400 InvalidParameterCombination"},
		{"no time", "GetMetricStatistics", `{` + orders + `, "StartTime": "soon", "EndTime": 5, "Period": 60, "Statistics": ["Sum"]}`, "400 InvalidParameterValue"},
		{"an expression of a hidden metric", "GetMetricData", `{` + hour + `, "ScanBy": "TimestampAscending", "MetricDataQueries": [{"Id": "e1", "Expression": "m1 / PERIOD(m1)"}, {"Id": "m1", "ReturnData": false, "MetricStat": {"Metric": {` + orders + `}, "Period": 300, "Stat": "Sum"}}]}`,
			`{"MetricDataResults": [{"Id": "e1", "Label": "e1", "Timestamps": [` + at(0) + `, ` + at(5) + `, ` + at(10) + `], "Values": [0.05, 0.13333333333333333, 0.07666666666666666], "StatusCode": "Complete"}], "Messages": []}`},
		{"an expression of an expression", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "e2", "Label": "most: ${MAX}", "Expression": "IF(e1 > 20, e1)"}, {"Id": "e1", "ReturnData": false, "Expression": "m1 - 1"}, {"Id": "m1", "ReturnData": false, "MetricStat": {"Metric": {` + orders + `}, "Period": 300, "Stat": "Sum"}}]}`,
			`{"MetricDataResults": [{"Id": "e2", "Label": "most: 39", "Timestamps": [` + at(10) + `, ` + at(5) + `], "Values": [22, 39], "StatusCode": "Complete"}], "Messages": []}`},
		{"values up to now", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "e1", "Expression": "FILL(m1, 7)"}, {"Id": "m1", "ReturnData": false, "MetricStat": {"Metric": {"Namespace": "AWS/DynamoDB", "MetricName": "UserErrors"}, "Period": 240, "Stat": "Sum"}}]}`,
			`{"MetricDataResults": [{"Id": "e1", "Label": "e1", "Timestamps": [` + at(8) + `, ` + at(4) + `, ` + at(0) + `], "Values": [7, 7, 7], "StatusCode": "Complete"}], "Messages": []}`},
		{"a search of Grafana", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "e1", "Expression": "REMOVE_EMPTY(SEARCH('{AWS/DynamoDB,\"TableName\"} MetricName=\"ConsumedReadCapacityUnits\" \"TableName\"=(\"Orders\" OR \"Carts\")', 'Maximum', 600))"}]}`,
			`{"MetricDataResults": [{"Id": "e1", "Label": "Orders ConsumedReadCapacityUnits", "Timestamps": [` + at(10) + `, ` + at(0) + `], "Values": [11, 9], "StatusCode": "Complete"}], "Messages": []}`},
		{"a search of all tables and indexes", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "e1", "Label": "${PROP('Dim.GlobalSecondaryIndexName')}: ${PROP('Stat')}", "Expression": "SEARCH('consumed NOT Carts', 'Sum', 3600)"}]}`,
			`{"MetricDataResults": [{"Id": "e1", "Label": ": Sum", "Timestamps": [` + at(0) + `], "Values": [78], "StatusCode": "Complete"}, {"Id": "e1", "Label": "by-day: Sum", "Timestamps": [` + at(0) + `], "Values": [1200], "StatusCode": "Complete"}], "Messages": []}`},
		{"a period of an expression", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "e1", "Period": 600, "Expression": "TIME_SERIES(2)"}]}`,
			`{"MetricDataResults": [{"Id": "e1", "Label": "e1", "Timestamps": [` + at(10) + `, ` + at(0) + `], "Values": [2, 2], "StatusCode": "Complete"}], "Messages": []}`},

		{"an expression without its metric", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Expression": "m1 / 60"}]}`, "400 ValidationError"},
		{"an expression of itself", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Expression": "b + 1"}, {"Id": "b", "Expression": "a + 1"}]}`, "400 ValidationError"},
		{"an expression that is a number", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Expression": "1 + 1"}]}`, "400 ValidationError"},
		{"an expression with a fault", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "ReturnData": false, "Expression": "1 +"}, {"Id": "m1", "MetricStat": {"Metric": {` + orders + `}, "Period": 600, "Stat": "Sum"}}]}`, "400 ValidationError"},
		{"an expression and a metric", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "m1", "Expression": "1", "MetricStat": {"Metric": {` + orders + `}, "Period": 600, "Stat": "Sum"}}]}`, "400 ValidationError"},
		{"the same id twice", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Expression": "TIME_SERIES(1)"}, {"Id": "a", "Expression": "TIME_SERIES(1)"}]}`, "400 ValidationError"},
		{"an id in upper case", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "A", "Expression": "TIME_SERIES(1)"}]}`, "400 ValidationError"},
		{"a label that is not supported", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Label": "${MAX_TIME}", "Expression": "TIME_SERIES(1)"}]}`, "400 ValidationError"},
		{"a search that is not valid", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Expression": "SEARCH('{AWS/DynamoDB', 'Sum', 60)"}]}`, "400 ValidationError"},
		{"a search of an unknown statistic", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Expression": "SEARCH('x', 'Median', 60)"}]}`, "400 InvalidParameterValue"},
		{"no period", "GetMetricData", `{` + hour + `, "MetricDataQueries": [{"Id": "a", "Expression": "TIME_SERIES(1)"}]}`, "400 ValidationError"},
		{"no queries", "GetMetricData", `{` + hour + `}`, "400 MissingParameter"},
		{"a false token", "ListMetrics", `{"NextToken": "x"}`, "400 InvalidNextToken"},
		{"an unknown rule", "GetInsightRuleReport", `{"RuleName": "none", ` + hour + `, "Period": 60}`, "404 ResourceNotFoundException"},
		{"another operation", "PutMetricData", `{}`, "400 InvalidAction"},
		{"a list in place of a structure", "ListMetrics", `{"Dimensions": ["x"]}`, "400 InvalidParameterValue"},
	} {
		for p, protocol := range map[string]Protocol{"JSON": JSON, "CBOR": CBOR, "query": Query} {
			t.Run(c.name+"/"+p, func(t *testing.T) {
				got := ask(t, s, protocol, c.operation, c.in)
				if !sameJSON(got, c.want) {
					t.Errorf("%s\nwant\n%s", got, c.want)
				}
			})
		}
	}
}

// Searches find metrics by the whole or a part of their names and values.
func TestSearch(t *testing.T) {
	m := foundMetric{"AWS/DynamoDB", "ConsumedReadCapacityUnits", []dimension{{"TableName", "Orders"}, {"GlobalSecondaryIndexName", "by-day"}}}
	for _, c := range []struct{ search, want string }{
		{"Consumed", "true"}, {"consumed ORDERS", "true"}, {"consumed AND Carts", "false"}, {"Carts OR Orders", "true"},
		{`"Consumed"`, "false"}, {`"Orders"`, "true"}, {`"orders"`, "false"}, {`"by-day"`, "true"}, {"by-day", "true"},
		{"MetricName=Read", "true"}, {`MetricName="Read"`, "false"}, {`TableName="Orders"`, "true"}, {`"TableName"=("Carts" OR "Orders")`, "true"}, {`TableName=("Carts" OR "Items")`, "false"},
		{`Namespace="AWS/DynamoDB" "TableName"`, "true"}, {`Namespace="AWS/DAX"`, "false"}, {`Operation="GetItem"`, "false"},
		{"{AWS/DynamoDB,TableName,GlobalSecondaryIndexName}", "true"}, {`{"AWS/DynamoDB","GlobalSecondaryIndexName","TableName"} Orders`, "true"},
		{"{AWS/DynamoDB,TableName}", "false"}, {"{AWS/DynamoDB}", "false"}, {"{AWS/DAX,TableName,GlobalSecondaryIndexName}", "false"},
		{"Orders NOT by-day", "false"}, {"Orders -Carts", "true"}, {"NOT (Carts OR Items)", "true"}, {"(Carts OR Orders) (day OR night)", "true"},
		{`"a \" quote"`, "false"},
		{"", "SEARCH: it is empty"}, {"{AWS/DynamoDB", "SEARCH: the names of the schema are separated by commas, and end with }"}, {"(a", "SEARCH: a parenthesis is not closed"},
		{`"a`, "SEARCH: a quote is not closed"}, {"a OR", "SEARCH: it ends too early"}, {"a = ", "SEARCH: it ends too early"}, {"a)", "SEARCH: ) is not expected"}, {"a=(b c)", "SEARCH: the values of a property are joined by OR"},
	} {
		matches, err := parseSearch(c.search)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(matches(m))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.search, got, c.want)
		}
	}
}

// A search has a bound, and says what it leaves out.
func TestSearchesAreBounded(t *testing.T) {
	s := open(t)
	for i := range maxFound + 1 {
		// Of a table that exists, without which the meter's loop would remove the series.
		s.from.DB.Meter().Series(meter.ID{Name: meter.ReturnedItems, Table: "Orders", Operation: fmt.Sprintf("Operation%04d", i)}).Add(1)
	}
	request := func(expressions ...string) string {
		queries := make([]string, len(expressions))
		for i, expression := range expressions {
			queries[i] = fmt.Sprintf(`{"Id": "e%d", "Expression": %q}`, i, expression)
		}
		return ask(t, s, JSON, "GetMetricData", fmt.Sprintf(`{"StartTime": %d, "EndTime": %d, "MetricDataQueries": [%s]}`, start.Unix(), start.Add(time.Hour).Unix(), strings.Join(queries, ", ")))
	}
	got := request("SEARCH('MetricName=ReturnedItemCount', 'Sum', 60)")
	if n := strings.Count(got, `"StatusCode"`); n != maxFound || !strings.Contains(got, fmt.Sprintf("A search finds %d metrics, of which the first %d are used.", maxFound+1, maxFound)) {
		t.Errorf("%d results: %.300s", n, got)
	}
	half := "FIRST(SEARCH('x','Sum',60))+(0" + strings.Repeat("+METRIC_COUNT(SEARCH('x','Sum',60))", maxSearches/2-1) + ")"
	if got := request("FIRST(SEARCH('x', 'Sum', 60))", half); !strings.Contains(got, "MetricDataResults") {
		t.Error(got)
	}
	if got := request("FIRST(SEARCH('x', 'Sum', 60))", half, half); got != "400 ValidationError" {
		t.Errorf("too many searches: %.300s", got)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return reflect.DeepEqual(x, y)
}

// Whatever the bytes, a request is answered.
func FuzzBodies(f *testing.F) {
	f.Add(0, []byte(`{"Dimensions": [{"Name": 5}]}`))
	f.Add(1, []byte("Action=ListMetrics&Dimensions.member.1.Name=TableName&Dimensions.member=x"))
	f.Add(2, []byte{0xa1, 0x61, 0x78, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	s := open(f)
	f.Fuzz(func(t *testing.T, p int, body []byte) {
		if p < 0 || p > 2 {
			t.Skip()
		}
		for operation := range operations {
			if r := s.Do(Protocol(p), operation, body, "id"); len(r.Body) == 0 || r.Status >= 500 {
				t.Errorf("%+v", r)
			}
		}
	})
}
