package cli

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model/rightsize"
)

// The load of a running stator is read from its CloudWatch, with its indexes.
func TestRightsizeServer(t *testing.T) {
	var now atomic.Int64
	begin := time.Now().UTC().Truncate(time.Minute).Add(-2 * time.Hour)
	now.Store(begin.UnixNano())
	d, err := stator.Open(t.Context(), stator.Options{Now: func() time.Time { return time.Unix(0, now.Load()).UTC() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	client := clientOf(server.URL, "us-east-1")
	send := func(operation, body string) {
		t.Helper()
		if _, err := client.Send(t.Context(), operation, json.RawMessage(body)); err != nil {
			t.Fatal(err)
		}
	}
	send("CreateTable", `{"TableName": "Orders", "ProvisionedThroughput": {"ReadCapacityUnits": 40, "WriteCapacityUnits": 20},
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "day", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
		"GlobalSecondaryIndexes": [{"IndexName": "by-day", "KeySchema": [{"AttributeName": "day", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"},
			"ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 5}}]}`)
	const minutes = 90
	for minute := range minutes {
		for i := range 2 {
			send("PutItem", fmt.Sprintf(`{"TableName": "Orders", "Item": {"id": {"S": "%d-%d"}, "day": {"S": "%d"}}}`, minute, i, minute))
		}
		send("GetItem", `{"TableName": "Orders", "Key": {"id": {"S": "0-0"}}, "ConsistentRead": true}`)
		now.Add(int64(time.Minute))
		if _, err := client.SendWatch(t.Context(), "ListMetrics", struct{}{}); err != nil { // ends the minute
			t.Fatal(err)
		}
	}
	until := begin.Add(minutes * time.Minute).Format(time.RFC3339)
	code, stdout, stderr := runStator(t, "model", "rightsize", "Orders", "--endpoint", server.URL, "--until", until, "--json")
	var r rightsize.Report
	if err := json.Unmarshal([]byte(stdout), &r); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	if !r.From.Equal(begin) || r.Days != minutes/1440.0 || r.Table != "Orders" {
		t.Errorf("%s from %v, %v days", r.Table, r.From, r.Days)
	}
	var got []string
	for _, d := range r.Dimensions {
		got = append(got, fmt.Sprintf("%s %s %v %d", d.Index, d.Kind, d.Consumed, d.Constant.Units))
	}
	if want := " read 90 1; write 180 1;by-day read 0 1;by-day write 180 1"; strings.Join(got, ";") != want {
		t.Errorf("the dimensions are %q, want %q", strings.Join(got, ";"), want)
	}
	// 40 + 5 read units and 20 + 5 write units for an hour and a half.
	if want := 1.5 * (45*0.00013 + 25*0.00065); r.Now == nil || r.Now.Dollars < want*0.999 || r.Now.Dollars > want*1.001 {
		t.Errorf("now it costs %+v, want %v", r.Now, want)
	}
	if r.Recommended != rightsize.OnDemand || r.Confidence != "low" {
		t.Errorf("%s is recommended with %s confidence", r.Recommended, r.Confidence)
	}

	code, stdout, stderr = runStator(t, "model", "rightsize", "Orders", "--endpoint", server.URL, "--until", until)
	for _, want := range []string{"recommended  on demand", "saves        ", "confidence   low", "by-day", "─", "as it is billed now", "prices of 2026-11 in us-east-1"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, without %q:\n%s%s", code, want, stdout, stderr)
		}
	}
	// Before the server was started.
	early := begin.Add(-time.Hour).Format(time.RFC3339)
	if code, _, stderr := runStator(t, "model", "rightsize", "Orders", "--endpoint", server.URL, "--until", early); code != 1 || !strings.Contains(stderr, "was created at") {
		t.Errorf("before the table was created: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := runStator(t, "model", "rightsize", "None", "--endpoint", server.URL); code != 1 || !strings.Contains(stderr, "describe the table None") {
		t.Errorf("a table that does not exist: exit code %d, %s", code, stderr)
	}
}

// A file is read as the AWS CLI writes it, with its queries.
func TestRightsizeExport(t *testing.T) {
	code, stdout, stderr := runStator(t, "model", "rightsize", "Orders", "--queries", "--index", "by-day", "--period", "5m")
	var queries []struct{ Id, Label string }
	if err := json.Unmarshal([]byte(stdout), &queries); code != 0 || err != nil || len(queries) != 12 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	var results []map[string]any
	for _, q := range queries {
		if !strings.HasSuffix(q.Label, " ConsumedReadCapacityUnits") {
			continue
		}
		times, values := []string{}, []float64{}
		for i := range 8 * 288 { // 8 days of 100 units a second, and 1 of the index
			times = append(times, time.Date(2026, 11, 1, 0, 5*i, 0, 0, time.UTC).Format(time.RFC3339))
			if value := 30_000.0; strings.Contains(q.Label, "by-day") {
				values = append(values, value/100)
			} else {
				values = append(values, value)
			}
		}
		results = append(results, map[string]any{"Id": q.Id, "Label": q.Label, "Timestamps": times, "Values": values, "StatusCode": "Complete"})
	}
	text, err := json.Marshal(map[string]any{"MetricDataResults": results})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "orders.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = runStator(t, "model", "rightsize", "--export", file, "--delay", "0s", "--plots", "1")
	for _, want := range []string{
		"Orders, 2026-11-01 00:00 to 2026-11-09 00:00 UTC: 8 days",
		"recommended  provisioned, 10.53 a month", // 101 × 0.00013 + 2 × 0.00065, for 730 hours
		"reads of Orders: 100 units constantly",
		"8 days are known by periods of 5m only",
	} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, without %q:\n%s%s", code, want, stdout, stderr)
		}
	}
}

func TestRightsizeUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "needs a table and --endpoint, or --export"},
		{[]string{"Orders"}, "--endpoint must name the server"},
		{[]string{"A", "B", "--endpoint", "http://x"}, "needs one table"},
		{[]string{"--endpoint", "http://x"}, "needs a table"},
		{[]string{"A", "--endpoint", "http://x", "--export", "y"}, "exclude each other"},
		{[]string{"A", "--endpoint", "http://x", "--target", "10"}, "--target is 10"},
		{[]string{"A", "--endpoint", "http://x", "--min", "5", "--max", "2"}, "--max not less than --min"},
		{[]string{"A", "--endpoint", "http://x", "--since", "1m"}, "--since is 1m0s"},
		{[]string{"A", "--endpoint", "http://x", "--until", "soon"}, `--until is "soon"`},
		{[]string{"A", "--endpoint", "http://x", "--until", "2999-01-01T00:00:00Z"}, "which is in the future"},
		{[]string{"A", "--endpoint", "http://x", "--target", "NaN"}, "--target is NaN"},
		{[]string{"A", "--endpoint", "http://x", "--throttled", "NaN"}, "--throttled is NaN"},
		{[]string{"A", "--endpoint", "http://x", "--index", "i"}, "--index is for --queries"},
		{[]string{"A", "--endpoint", "http://x", "--period", "5m"}, "--period is for --export and --queries"},
		{[]string{"A", "--export", file, "--since", "7d"}, "files are read as a whole"},
		{[]string{"A", "--export", "/does/not/exist"}, "cannot read --export"},
		{[]string{"A", "--export", "by-day=" + file}, "it has neither MetricDataResults"},
	} {
		if code, _, stderr := runStator(t, append([]string{"model", "rightsize"}, c.args...)...); code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit code %d, %s, want %q", c.args, code, stderr, c.want)
		}
	}
}

// A file of metrics that has no end is not read to it.
func TestExportIsBounded(t *testing.T) {
	if _, err := readExport("/dev/zero", 1<<20); err == nil || !strings.Contains(err.Error(), "more than 1 MB") {
		t.Error(err)
	}
}

// Requests are signed for the service that has their operation.
func TestSignedService(t *testing.T) {
	for target, want := range map[string]string{
		"GraniteServiceVersion20100801.GetMetricData":    "monitoring",
		"AnyScaleFrontendService.RegisterScalableTarget": "application-autoscaling",
		"DynamoDB_20120810.GetItem":                      "dynamodb",
		"DynamoDBStreams_20120810.GetRecords":            "dynamodb",
		"AmazonDAXV3.CreateCluster":                      "dax",
		"Stator.Backup":                                  "dynamodb",
		"":                                               "dynamodb",
	} {
		if got := signedService(target); got != want {
			t.Errorf("requests with the target %q are signed for %s, want %s", target, got, want)
		}
	}
}
