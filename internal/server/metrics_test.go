package server_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/server"
)

// Metrics need no signature, and pages of other sites are rejected.
func TestMetrics(t *testing.T) {
	h := newHandler(t)
	h.Expose(func() []metrics.Metric {
		return []metrics.Metric{{Name: "stator_test", Help: "A test.", Type: metrics.Gauge, Samples: metrics.Value(42)}}
	})
	for _, c := range []struct {
		name, method, origin string
		status               int
		want                 string
	}{
		{"of the server", http.MethodGet, "", 200, "stator_requests_in_progress 0\n"},
		{"of a part", http.MethodGet, "", 200, "# TYPE stator_test gauge\nstator_test 42\n"},
		{"of the engine", http.MethodGet, "", 200, "# TYPE stator_wal_sync_seconds histogram\n"},
		{"of caches", http.MethodGet, "", 200, "stator_cache_hits_total{cache=\"values\"} "},
		{"of waiting requests", http.MethodGet, "", 200, "stator_requests_waiting 0\n"},
		{"another page", http.MethodGet, "http://elsewhere.example", 403, "rejected"},
		{"posted", http.MethodPost, "", 404, "UnknownOperation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://localhost/metrics", nil)
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("the reply is %d %s, want %d with %s", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}

// Prometheus' own checker accepts the metrics.
func TestMetricsAreWellFormed(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	h := newHandler(t)
	for target, body := range map[string]string{"ListTables": "{}", "DescribeTable": `{"TableName": "none"}`} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
		r.Header = signed("DynamoDB_20120810." + target)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics", "--extended")
	check.Stdin = w.Body
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
}

// A verification is answered with its reports, and an invalid rate with a fault.
func TestVerifyRequests(t *testing.T) {
	h := newHandler(t)
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"default rate", "{}", 200, `{"reports":[`},
		{"no body", "", 200, `{"reports":[`},
		{"rate", `{"rate": 5}`, 200, `{"reports":[`},
		{"no rate", `{"rate": 0}`, 400, "ValidationException"},
		{"not JSON", `rate`, 400, "ValidationException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(c.body))
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			r.Header.Set("X-Amz-Target", server.TargetVerify)
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
			r.Header.Set("X-Amz-Date", "20260101T000000Z")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("the reply is %d %s, want %d with %s", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}
