package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/prove"
)

var rewrite = flag.Bool("rewrite", false, "update the expected lists of tools")

// toolRig is a database in memory with a recorder before it, and a client of its tools.
type toolRig struct {
	t      *testing.T
	server *Server
	client *sdk.ClientSession
	own    *apply.Endpoint // that is not recorded
	log    *syncBuffer

	mutex    sync.Mutex
	recorded []recordedRequest
	now      time.Time
}

// recordedRequest is a request that has reached the database.
type recordedRequest struct {
	method, path, operation string
	body                    []byte
}

type syncBuffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}

const ordersModel = `model: 1
tables:
  Orders:
    key: {partition: id, sort: n}
    types: {n: N}
    stream: NEW_AND_OLD_IMAGES
    indexes:
      byCustomer: {partition: customer, sort: placed}
entities:
  order:
    attributes: {id: {size: 8}, n: {type: N, digits: 4}, customer: {size: 8}, placed: {size: 10}}
    count: 1000
patterns:
  - name: order by id
    get: order
    given: [id, n]
    rate: 10/s
  - name: place an order
    put: order
    condition: attribute_not_exists(id)
    rate: 1/s
  - name: orders of a customer
    query: order
    given: [customer]
    matches: 5
    rate: 1/s
`

// private opens a database in memory behind HTTP.
func private(ctx context.Context, before func(http.Handler) http.Handler) (*apply.Endpoint, func() error, error) {
	db, err := stator.Open(ctx, stator.Options{Forks: &stator.ForkOptions{}})
	if err != nil {
		return nil, nil, err
	}
	web := httptest.NewServer(before(db.Handler()))
	unsigned := func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		return nil
	}
	return &apply.Endpoint{URL: web.URL, Client: web.Client(), Sign: unsigned}, func() error { web.Close(); return db.Close() }, nil
}

func unchanged(h http.Handler) http.Handler { return h }

func (r *toolRig) record(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		_, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
		r.mutex.Lock()
		r.recorded = append(r.recorded, recordedRequest{req.Method, req.URL.Path, operation, body})
		r.mutex.Unlock()
		h.ServeHTTP(w, req)
	})
}

// newRig opens a database with a table Orders, and connects a client to its tools.
func newRig(t *testing.T, client *sdk.ClientOptions, allow ...Group) *toolRig {
	t.Helper()
	r := &toolRig{t: t, log: new(syncBuffer), now: time.Now()}
	endpoint, stop, err := private(t.Context(), r.record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	r.own = endpoint
	r.send("CreateTable", `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"},
		"AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"},{"AttributeName":"n","AttributeType":"N"},{"AttributeName":"customer","AttributeType":"S"},{"AttributeName":"placed","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"id","KeyType":"HASH"},{"AttributeName":"n","KeyType":"RANGE"}],
		"GlobalSecondaryIndexes":[{"IndexName":"byCustomer","KeySchema":[{"AttributeName":"customer","KeyType":"HASH"},{"AttributeName":"placed","KeyType":"RANGE"}],"Projection":{"ProjectionType":"ALL"}}]}`)
	for _, it := range []string{
		`{"id":{"S":"a"},"n":{"N":"1"},"customer":{"S":"ada"},"placed":{"S":"2026-01-02"},"total":{"N":"12345678901234567890"},"tags":{"SS":["x","y"]}}`,
		`{"id":{"S":"a"},"n":{"N":"2"},"customer":{"S":"ada"},"placed":{"S":"2026-02-03"},"total":{"N":"7"}}`,
		`{"id":{"S":"b"},"n":{"N":"1"},"customer":{"S":"bob"},"placed":{"S":"2025-12-31"},"total":{"N":"9"}}`,
	} {
		r.send("PutItem", `{"TableName":"Orders","Item":`+it+`}`)
	}
	r.server = New(Options{
		Endpoint: endpoint, Allow: allow, Version: "test", Now: r.clock, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		ReadModel: func() (*model.Model, error) { return model.Parse("orders.model.yaml", []byte(ordersModel)) },
		Private:   func(ctx context.Context) (*apply.Endpoint, func() error, error) { return private(ctx, unchanged) },
		Prove: func(ctx context.Context, m *model.Model) (*prove.Report, error) {
			e, stop, err := private(ctx, unchanged)
			if err != nil {
				return nil, err
			}
			defer func() { _ = stop() }()
			if err := prove.Create(ctx, e.Send, m, false, apply.Waiting{Every: time.Millisecond}); err != nil {
				return nil, err
			}
			return prove.Run(ctx, e.Send, m, prove.Options{})
		},
		Activity: func(context.Context, *apply.Endpoint) (any, error) { return map[string]int{"tables": 1}, nil },
	})
	r.server.asks = true
	ours, theirs := sdk.NewInMemoryTransports()
	session, err := r.server.sdk.Connect(t.Context(), ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.client, err = sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, client).Connect(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.client.Close()
		_ = session.Wait()
	})
	r.mutex.Lock()
	r.recorded = nil
	r.mutex.Unlock()
	return r
}

func (r *toolRig) clock() time.Time {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.now
}

func (r *toolRig) advance(d time.Duration) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.now = r.now.Add(d)
}

func (r *toolRig) send(operation, body string) string {
	r.t.Helper()
	reply, err := r.own.Send(r.t.Context(), operation, json.RawMessage(body))
	if err != nil {
		r.t.Fatalf("%s: %v", operation, err)
	}
	return string(reply)
}

// call calls a tool, and returns the text of its answer.
func (r *toolRig) call(tool, arguments string) (text string, isError bool) {
	r.t.Helper()
	result, err := r.client.CallTool(r.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range result.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			text += t.Text
		}
	}
	return text, result.IsError
}

// want calls a tool and checks that its answer contains texts; an error if the first begins
// with an exclamation mark.
func (r *toolRig) want(tool, arguments string, want ...string) string {
	r.t.Helper()
	text, isError := r.call(tool, arguments)
	for _, w := range want {
		w, fails := strings.CutPrefix(w, "!")
		if isError != fails || !strings.Contains(text, w) {
			r.t.Errorf("%s %s returns (error: %v) %s\nwithout %s", tool, arguments, isError, text, w)
		}
	}
	return text
}

// member returns a member of an answer.
func member[T any](t *testing.T, text, name string) (v T) {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if err := json.Unmarshal(all[name], &v); err != nil {
		t.Fatalf("%s of %s: %v", name, text, err)
	}
	return v
}

// operations returns the operations that have reached the database itself, and not a fork.
func (r *toolRig) operations() (all []recordedRequest) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return append(all, r.recorded...)
}
