package docs

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// board is a dashboard of Grafana, as far as it has queries.
type board struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// A Prometheus that collects the metrics of a server answers each query of the
// dashboard, with values.
func TestDashboard(t *testing.T) {
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed")
	}
	text, err := os.ReadFile("grafana/stator.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard board
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	api := startPrometheus(t, prometheus, startWatched(t))
	queries := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			expr := strings.NewReplacer("$__rate_interval", "1m", "$table", ".*").Replace(target.Expr)
			// Rates need two samples, so the first answers may be empty.
			if !eventually(t, func() bool { return answers(t, api, expr) > 0 }) {
				t.Errorf("%s: no values of %s", p.Title, expr)
			}
		}
	}
	if queries < 12 {
		t.Errorf("the dashboard has %d queries", queries)
	}
	if n := answers(t, api, `rate(dynamodb_no_such_metric_total[1m])`); n != 0 {
		t.Errorf("a metric that does not exist has %d values", n)
	}
}

// startWatched starts a server with a table that has had requests of each kind, and
// returns its address.
func startWatched(t *testing.T) string {
	t.Helper()
	d, err := stator.Open(t.Context(), stator.Options{Dir: t.TempDir(), AllowOtherFiles: true, Throttle: true, Cache: stator.NewCache(stator.CacheDAX)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	send := func(operation, body string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=b")
		r.Header.Set("X-Amz-Date", "20261101T000000Z")
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
	}
	send("CreateTable", `{"TableName": "Orders", "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`)
	for range 5 {
		send("PutItem", `{"TableName": "Orders", "Item": {"id": {"S": "1"}}}`)
		send("GetItem", `{"TableName": "Orders", "ConsistentRead": true, "Key": {"id": {"S": "1"}}}`)
	}
	send("GetItem", `{"TableName": "Nowhere", "Key": {"id": {"S": "1"}}}`)
	return strings.TrimPrefix(server.URL, "http://")
}

// startPrometheus starts a Prometheus that collects the metrics of a server, and returns
// the URL of its API.
func startPrometheus(t *testing.T, program, server string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: stator\n  static_configs: [{targets: [%q]}]\n", server), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+addr)
	log := new(strings.Builder)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	return "http://" + addr + "/api/v1/query"
}

// answers returns how many values a query has; 0 if Prometheus does not answer yet.
func answers(t *testing.T, api, expr string) int {
	t.Helper()
	reply, err := http.Get(api + "?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0
	}
	defer reply.Body.Close()
	var got struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.NewDecoder(reply.Body).Decode(&got); err != nil {
		return 0 // it is starting
	}
	if got.Status == "error" {
		t.Fatalf("%s: %s", expr, got.Error)
	}
	return len(got.Data.Result)
}

// eventually waits until a condition holds, at most two minutes.
func eventually(t *testing.T, holds func() bool) bool {
	t.Helper()
	for range 600 {
		if holds() {
			return true
		}
		time.Sleep(200 * time.Millisecond)
	}
	return false
}
