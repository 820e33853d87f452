package cli

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

func TestTopRates(t *testing.T) {
	scrapes := [2]*scraped{}
	for i, text := range []string{`# HELP x y
dynamodb_consumed_read_capacity_units_total{table="T"} 10
dynamodb_consumed_read_capacity_units_total{table="T",index="by-day"} 0
dynamodb_consumed_write_capacity_units_total{table="T"} 4
dynamodb_provisioned_read_capacity_units{table="T"} 5
dynamodb_write_throttle_events_total{table="T",index="by-day"} 100
dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="0.001"} 5
dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="0.01"} 5
dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="+Inf"} 5
dynamodb_successful_request_latency_seconds_count{operation="GetItem"} 5
dynamodb_successful_request_latency_seconds_count{operation="Scan"} 7
not a metric
`, `dynamodb_consumed_read_capacity_units_total{table="T"} 30
dynamodb_consumed_read_capacity_units_total{table="T",index="by-day"} 1
dynamodb_consumed_write_capacity_units_total{table="T"} 2
dynamodb_provisioned_read_capacity_units{table="T"} 5
dynamodb_write_throttle_events_total{table="T",index="by-day"} 120
dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="0.001"} 15
dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="0.01"} 25
dynamodb_successful_request_latency_seconds_bucket{operation="GetItem",le="+Inf"} 25
dynamodb_successful_request_latency_seconds_count{operation="GetItem"} 25
dynamodb_successful_request_latency_seconds_count{operation="Scan"} 7
stator_requests_waiting 3
dax_item_cache_hits_total 30
dax_item_cache_misses_total 10
stator_dax_cache_served_age_seconds_sum 60
stator_dax_cache_served_age_seconds_count 30
stator_dax_cache_bytes 1048576
stator_dax_cache_capacity_bytes 2097152
stator_dax_cache_entries 7
`} {
		scrapes[i] = &scraped{time.Unix(int64(10*i), 0), parseMetrics(text)}
	}
	v := viewOf(scrapes[0], scrapes[1])
	want := []topTable{
		{Table: "T", Index: "by-day", Read: 0.1, Throttled: 2},
		{Table: "T", Read: 2, Write: 0.2, ProvisionedRead: 5}, // the server was started again: 2 writes since
	}
	if len(v.Tables) != 2 || v.Tables[0] != want[0] || v.Tables[1] != want[1] || v.Waiting != 3 {
		t.Errorf("tables are %+v, want %+v", v.Tables, want)
	}
	if len(v.Operations) != 1 || v.Operations[0] != (topOperation{"GetItem", 2, 1, 10}) {
		t.Errorf("operations are %+v", v.Operations)
	}
	if want := (topCache{Items: topLookups{3, 1}, AgeSeconds: 2, Bytes: 1 << 20, Capacity: 2 << 20, Entries: 7}); v.Cache == nil || *v.Cache != want {
		t.Errorf("the cache is %+v, want %+v", v.Cache, want)
	}
	for _, want := range []string{"items      3.0     1.0       75 %", "7 entries, 1.0 of 2.0 MB, 0.0 kB/s evicted, hits are 2.0 s old"} {
		if text := v.text(1); !strings.Contains(text, want) {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	if text := v.text(1); !strings.Contains(text, "… 1 more") || !strings.Contains(text, "GetItem    2.0         ≤ 1 ms  ≤ 10 ms") {
		t.Errorf("the view is\n%s", text)
	}
}

// Of a running server, top shows tables, operations and the hottest key.
func TestTop(t *testing.T) {
	d, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	client := clientOf(server.URL, "us-east-1")
	for _, r := range []struct {
		operation string
		body      string
	}{
		{"CreateTable", `{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`},
		{"UpdateContributorInsights", `{"TableName": "Orders", "ContributorInsightsAction": "ENABLE"}`},
		{"PutItem", `{"TableName": "Orders", "Item": {"id": {"S": "hot"}}}`},
	} {
		if _, err := client.Send(t.Context(), r.operation, json.RawMessage(r.body)); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := runStator(t, "top", "--endpoint", server.URL, "--once", "--every", "100ms")
	for _, want := range []string{"Orders", `"hot"`, "accessed", "100 %"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, without %s:\n%s%s", code, want, stdout, stderr)
		}
	}
	code, stdout, _ = runStator(t, "top", "--endpoint", server.URL, "--once", "--every", "100ms", "--json")
	var v topView
	if err := json.Unmarshal([]byte(stdout), &v); code != 0 || err != nil || len(v.Keys) != 1 || v.Keys[0].Value != 3 {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
	if code, _, stderr := runStator(t, "top", "--endpoint", server.URL, "--every", "1ms"); code != 2 || !strings.Contains(stderr, "--every") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
