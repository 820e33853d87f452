package server_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/trace"
)

// spanReceiver keeps what is exported.
type spanReceiver struct {
	mu   sync.Mutex
	text []string
}

func (r *spanReceiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = append(r.text, string(body))
	return &http.Response{StatusCode: 200, Body: http.NoBody}, err
}

// traceAll makes a handler trace all requests, and returns their spans when it is called.
func traceAll(t *testing.T, h *server.Handler, sample float64) (spans func() []string) {
	t.Helper()
	r := new(spanReceiver)
	tracer, err := trace.New(trace.Options{Endpoint: "http://receiver", Sample: sample, Transport: r})
	if err != nil {
		t.Fatal(err)
	}
	h.Trace(tracer)
	return func() []string {
		tracer.Close(t.Context())
		_, all, _ := strings.Cut(strings.Join(r.text, ""), `"spans":[`)
		return strings.Split(all, `{"traceId":`)[1:]
	}
}

// A span has the operation, the tables, what was consumed and how the request ended.
func TestSpansOfRequests(t *testing.T) {
	h, engine := newFailing(t)
	spans := traceAll(t, h, 1)
	const table = `"BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}]}`
	text := func(key, value string) string {
		return fmt.Sprintf(`{"key":"%s","value":{"stringValue":"%s"}}`, key, value)
	}
	units := func(table, units string) string {
		return fmt.Sprintf(`{\"TableName\":\"%s\",\"CapacityUnits\":%s,\"Table\":{\"CapacityUnits\":%s}}`, table, units, units)
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	requests := []struct {
		target, body string
		status       int
		want         []string
	}{
		{"DynamoDB_20120810.CreateTable", `{"TableName":"One",` + table, 200, []string{`"name":"DynamoDB.CreateTable"`, text("db.system.name", "aws.dynamodb"), text("db.operation.name", "CreateTable"), text("db.collection.name", "One"), `"0af7651916cd43dd8448eb211c80319c"`, `"parentSpanId":"b7ad6b7169203331"`, `{"key":"http.response.status_code","value":{"intValue":"200"}}`}},
		{"DynamoDB_20120810.CreateTable", `{"TableName":"Two",` + table, 200, nil},
		{"DynamoDB_20120810.PutItem", `{"TableName":"One","Item":{"a":{"S":"x"}}}`, 200, []string{`"name":"DynamoDB.PutItem"`, units("One", "1.0"), `"aws.request_id"`}},
		{"DynamoDB_20120810.GetItem", `{"TableName":"One","Key":{"a":{"S":"x"}}}`, 200, []string{units("One", "0.5")}},
		{"DynamoDB_20120810.BatchGetItem", `{"RequestItems":{"One":{"Keys":[{"a":{"S":"x"}}]},"Two":{"ConsistentRead":true,"Keys":[{"a":{"S":"x"}}]}}}`, 200, []string{units("One", "0.5"), units("Two", "1.0"), `{"key":"aws.dynamodb.table_names","value":{"arrayValue":{"values":[{"stringValue":"One"},{"stringValue":"Two"}]}}}`}},
		{"DynamoDB_20120810.PutItem", `{"TableName":"One","Item":{"a":{"S":"x"}},"ConditionExpression":"attribute_not_exists(a)"}`, 400, []string{text("error.type", "ConditionalCheckFailedException"), `{"intValue":"400"}`}},
		{"DynamoDB_20120810.GetItem", `{"TableName":"None","Key":{"a":{"S":"x"}}}`, 400, []string{text("error.type", "ResourceNotFoundException"), text("db.collection.name", "None")}},
		{"DynamoDB_20120810.GetItem", `{`, 400, []string{text("error.type", "SerializationException")}},
		{"DynamoDBStreams_20120810.ListStreams", `{}`, 200, []string{`"name":"DynamoDBStreams.ListStreams"`}},
		{"DynamoDB_20120810.PutItem", `{"TableName":"One","Item":{"a":{"S":"fails"}}}`, 500, []string{text("error.type", "InternalServerError"), `"status":{"code":2,"message":"InternalServerError"}`}},
	}
	for _, r := range requests {
		header := signed(r.target)
		header.Set("Traceparent", parent)
		if r.status == 500 {
			engine.fail(errors.New("the disk is gone"))
		}
		if w := send(h, "POST", "/", header, strings.NewReader(r.body)); w.Code != r.status {
			t.Fatalf("%s: %d %s", r.body, w.Code, w.Body)
		}
	}
	got := spans()
	if len(got) != len(requests) {
		t.Fatalf("%d spans of %d requests: %s", len(got), len(requests), got)
	}
	for i, r := range requests {
		for _, want := range r.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s %s: no %s in %s", r.target, r.body, want, got[i])
			}
		}
		if r.status < 500 && strings.Contains(got[i], `"status":`) || strings.Contains(got[i], `"S"`) {
			t.Errorf("%s: %s", r.body, got[i])
		}
	}
	if metrics := send(h, "GET", "/metrics", nil, nil).Body.String(); !strings.Contains(metrics, "stator_trace_spans_exported_total 10\n") {
		t.Errorf("the metrics are\n%s", metrics)
	}
}

// The span of a request whose body cannot be decompressed has the error that is the answer.
func TestSpansOfUnreadableBodies(t *testing.T) {
	h := newHandler(t)
	spans := traceAll(t, h, 1)
	var large bytes.Buffer
	w := gzip.NewWriter(&large)
	if _, err := w.Write(bytes.Repeat([]byte(" "), 17<<20)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	bodies := []struct {
		body   string
		status int
		want   string
	}{
		{large.String(), 413, "RequestEntityTooLargeException"},
		{"not compressed", 500, "InternalServerError"},
	}
	for _, c := range bodies {
		header := signed(listTables)
		header.Set("Content-Encoding", "gzip")
		if w := send(h, "POST", "/", header, strings.NewReader(c.body)); w.Code != c.status {
			t.Fatalf("%d %s, want %d", w.Code, w.Body, c.status)
		}
	}
	got := spans()
	for i, c := range bodies {
		if want := `{"key":"error.type","value":{"stringValue":"` + c.want + `"}}`; !strings.Contains(got[i], want) {
			t.Errorf("no %s in %s", want, got[i])
		}
	}
}

// Requests that are not sampled, and health checks, have no span.
func TestUntracedRequests(t *testing.T) {
	h := newHandler(t)
	spans := traceAll(t, h, 0)
	for range 3 {
		if w := send(h, "POST", "/", signed(listTables), strings.NewReader("{}")); w.Code != 200 {
			t.Fatal(w.Body)
		}
		send(h, "GET", "/healthz", nil, nil)
	}
	if got := spans(); len(got) != 0 {
		t.Errorf("the spans are %s", got)
	}
}
