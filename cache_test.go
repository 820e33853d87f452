package stator_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// cachedServer is the handler of a database with a cache, and its time.
type cachedServer struct {
	*testing.T
	handler http.Handler
	now     *atomic.Int64 // in nanoseconds
}

func newCachedServer(t *testing.T, c *stator.Cache) *cachedServer {
	t.Helper()
	s := &cachedServer{T: t, now: new(atomic.Int64)}
	s.now.Store(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	d, err := stator.Open(t.Context(), stator.Options{Cache: c, Now: func() time.Time { return time.Unix(0, s.now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	s.handler = d.Handler()
	s.send("DynamoDB_20120810.CreateTable", `{"TableName":"Items","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]}`)
	return s
}

// send returns the body of a reply, and its header X-Stator-Cache.
func (s *cachedServer) send(target, body string, header ...string) (reply, use string) {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Body)
	if err != nil {
		s.Fatal(err)
	}
	return string(text), w.Header().Get("X-Stator-Cache")
}

const (
	putOne = `{"TableName":"Items","Item":{"pk":{"S":"one"}}}`
	getOne = `{"TableName":"Items","Key":{"pk":{"S":"one"}}}`
)

// Replies say how the cache was used, metrics and CloudWatch count it.
func TestCacheOverHTTP(t *testing.T) {
	s := newCachedServer(t, stator.NewCache(stator.CacheDAX))
	for i, step := range []struct{ target, body, use, reply string }{
		{"GetItem", getOne, "miss", "{}"},
		{"GetItem", getOne, "hit", "{}"},
		{"PutItem", putOne, "pass", "{}"},
		{"GetItem", getOne, "hit", `{"Item":{"pk":{"S":"one"}}}`},
		{"Scan", `{"TableName":"Items"}`, "miss", `"Count":1`},
		{"Scan", `{"TableName":"Items"}`, "hit", `"Count":1`},
		{"GetItem", `{"TableName":"Items","Key":{}}`, "pass", "ValidationException"},
		{"ListTables", `{}`, "pass", "Items"},
	} {
		s.now.Add(int64(time.Second))
		reply, use := s.send("DynamoDB_20120810."+step.target, step.body)
		if use != step.use || !strings.Contains(reply, step.reply) {
			t.Errorf("%d %s: %s %s, want %s %s", i, step.target, use, reply, step.use, step.reply)
		}
	}
	s.send("DynamoDB_20120810.PutItem", `{"TableName":"Items","Item":{"pk":{"S":"large"},"text":{"S":"`+strings.Repeat("large ", 2000)+`"}}}`)
	if _, use := s.send("DynamoDB_20120810.GetItem", `{"TableName":"Items","Key":{"pk":{"S":"large"}}}`, "Accept-Encoding", "gzip"); use != "hit" {
		t.Errorf("a compressed reply has the use %q", use)
	}
	s.now.Add(int64(time.Minute))
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		"dax_item_cache_hits_total 3\n", "dax_item_cache_misses_total 1\n", "dax_query_cache_hits_total 1\n", "dax_query_cache_misses_total 1\n",
		"dax_total_request_count_total 11\n", "dax_error_request_count_total 1\n", "dax_fault_request_count_total 0\n", "dax_evicted_size_total 0\n",
		"stator_dax_cache_entries 3\n", `stator_dax_cache_served_age_seconds_bucket{le="1"} 4` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %q", want)
		}
	}
	watch := func(operation, body string) string {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		r.Header.Set("X-Amz-Target", "GraniteServiceVersion20100801."+operation)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/eu-west-1/monitoring/aws4_request, SignedHeaders=host, Signature=any")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	listed := watch("ListMetrics", `{"Namespace":"AWS/DAX"}`)
	for _, want := range []string{`"ItemCacheHits"`, `"QueryCacheMisses"`, `"ServedAge"`, `"Namespace":"AWS/DAX"`, `"Name":"ClusterId","Value":"stator"`} {
		if !strings.Contains(listed, want) || strings.Contains(listed, "AWS/DynamoDB") {
			t.Errorf("%s has no %s", listed, want)
		}
	}
	if listed := watch("ListMetrics", `{"Namespace":"AWS/DynamoDB"}`); strings.Contains(listed, "Cache") || !strings.Contains(listed, "SuccessfulRequestLatency") {
		t.Errorf("AWS/DynamoDB has %s", listed)
	}
	for dimensions, want := range map[string]string{
		`[{"Name":"ClusterId","Value":"stator"}]`: `"Sum":3`,
		`[{"Name":"ClusterId","Value":"other"}]`:  `"Datapoints":[]`,
		`[{"Name":"TableName","Value":"Items"}]`:  `"Datapoints":[]`,
		`[]`:                                      `"Datapoints":[]`,
	} {
		if got := watch("GetMetricStatistics", `{"Namespace":"AWS/DAX","MetricName":"ItemCacheHits","Dimensions":`+dimensions+`,"StartTime":1793491200,"EndTime":1793491800,"Period":600,"Statistics":["Sum"]}`); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", dimensions, got, want)
		}
	}
}

// Without a cache, or with one that is not for HTTP, requests are as ever.
func TestNoCacheOverHTTP(t *testing.T) {
	other := stator.NewCache(stator.CacheDAX)
	other.HTTP = false
	for _, c := range []*stator.Cache{nil, other} {
		s := newCachedServer(t, c)
		s.send("DynamoDB_20120810.GetItem", getOne)
		s.send("DynamoDB_20120810.PutItem", putOne)
		if reply, use := s.send("DynamoDB_20120810.GetItem", getOne); use != "" || !strings.Contains(reply, "one") {
			t.Errorf("%q, %s", use, reply)
		}
	}
}

// A cache that cannot be is rejected.
func TestCacheOptions(t *testing.T) {
	for name, o := range map[string]stator.Options{
		"not a mode":           {Cache: stator.NewCache("on")},
		"must not be negative": {Cache: &stator.Cache{Mode: stator.CacheDAX, ItemTTL: -1}},
	} {
		if _, err := stator.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}
