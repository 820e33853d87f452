package server_test

import (
	"context"
	"encoding/xml"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/smithy-go/encoding/cbor"

	"github.com/stator-db/stator/internal/audit"
	"github.com/stator-db/stator/internal/cloudwatch"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// failingEngine fails to update and to read when it is told to.
type failingEngine struct {
	store.Engine
	failure atomic.Pointer[error]
}

func (e *failingEngine) fail(err error) { e.failure.Store(&err) }

// errPanic makes the engine panic.
var errPanic = errors.New("a bug")

func (e *failingEngine) err() error {
	if err := e.failure.Load(); err != nil {
		if *err == errPanic {
			panic(errPanic)
		}
		return *err
	}
	return nil
}

func (e *failingEngine) Update(ctx context.Context, keys [][]byte, fn func(store.Tx) error) error {
	if err := e.err(); err != nil {
		return err
	}
	return e.Engine.Update(ctx, keys, fn)
}

func (e *failingEngine) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	if err := e.err(); err != nil && !errors.Is(err, store.ErrFull) {
		return nil, err
	}
	return e.Engine.Get(ctx, c, keys...)
}

// newFailing returns a handler whose engine can be made to fail.
func newFailing(t *testing.T) (*server.Handler, *failingEngine) {
	t.Helper()
	memory, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	engine := &failingEngine{Engine: memory}
	d, err := db.Open(t.Context(), engine, db.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		engine.fail(nil)
		if err := errors.Join(d.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return server.New(ops.New(ops.Parts{DB: d}), slog.New(slog.DiscardHandler), 0), engine
}

// Requests that fail because of the server are counted by table and operation.
func TestSystemErrors(t *testing.T) {
	h, engine := newFailing(t)
	post := func(operation, body string) *httptest.ResponseRecorder {
		return send(h, "POST", "/", signed("DynamoDB_20120810."+operation), strings.NewReader(body))
	}
	for _, table := range []string{"One", "Two"} {
		if w := post("CreateTable", `{"TableName":"`+table+`","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}]}`); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	engine.fail(errors.New("the disk is gone"))
	item, put := `{"a":{"S":"x"}}`, `[{"PutRequest":{"Item":{"a":{"S":"x"}}}}]`
	for _, r := range [][2]string{
		{"PutItem", `{"TableName":"One","Item":` + item + `}`},
		{"GetItem", `{"TableName":"arn:aws:dynamodb:us-east-1:000000000000:table/One","Key":` + item + `}`},
		{"BatchWriteItem", `{"RequestItems":{"One":` + put + `,"Two":` + put + `}}`},
		{"TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"Two","Key":` + item + `}},{"Put":{"TableName":"One","Item":` + item + `}}]}`},
		{"ExecuteStatement", `{"Statement":"INSERT INTO Two VALUE {'a':'y'}"}`},
	} {
		if w := post(r[0], r[1]); w.Code != 500 {
			t.Errorf("%s: %d %s", r[0], w.Code, w.Body)
		}
	}
	text := send(h, "GET", "/metrics", nil, nil).Body.String()
	for _, want := range []string{
		`dynamodb_system_errors_total{table="One",operation="PutItem"} 1`,
		`dynamodb_system_errors_total{table="One",operation="GetItem"} 1`,
		`dynamodb_system_errors_total{table="One",operation="BatchWriteItem"} 1`,
		`dynamodb_system_errors_total{table="Two",operation="BatchWriteItem"} 1`,
		`dynamodb_system_errors_total{table="One",operation="TransactWriteItems"} 1`,
		`dynamodb_system_errors_total{table="Two",operation="TransactWriteItems"} 1`,
		`dynamodb_system_errors_total{table="Two",operation="ExecuteStatement"} 1`,
		`dynamodb_system_errors_total 0`,
		`dynamodb_user_errors_total 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
}

// A panic is an error of the server: it has its table and operation, and its span ends with
// the answer.
func TestPanicsAreSystemErrors(t *testing.T) {
	h, engine := newFailing(t)
	spans := traceAll(t, h, 1)
	post := func(operation, body string) *httptest.ResponseRecorder {
		return send(h, "POST", "/", signed("DynamoDB_20120810."+operation), strings.NewReader(body))
	}
	if w := post("CreateTable", `{"TableName":"One","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}]}`); w.Code != 200 {
		t.Fatal(w.Body)
	}
	engine.fail(errPanic)
	if w := post("PutItem", `{"TableName":"One","Item":{"a":{"S":"x"}}}`); w.Code != 500 || !strings.Contains(w.Body.String(), "InternalServerError") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	engine.fail(nil)
	if text := send(h, "GET", "/metrics", nil, nil).Body.String(); !strings.Contains(text, `dynamodb_system_errors_total{table="One",operation="PutItem"} 1`) {
		t.Errorf("it is not counted with its table:\n%s", text)
	}
	got := spans()
	if len(got) != 2 {
		t.Fatalf("%d spans: %s", len(got), got)
	}
	for _, want := range []string{`{"key":"error.type","value":{"stringValue":"InternalServerError"}}`, `{"key":"http.response.status_code","value":{"intValue":"500"}}`, `"status":{"code":2,"message":"InternalServerError"}`, `{"key":"db.collection.name","value":{"stringValue":"One"}}`} {
		if !strings.Contains(got[1], want) {
			t.Errorf("no %s in %s", want, got[1])
		}
	}
}

// Reports of the server are no requests of the API: their errors are not counted as such.
func TestErrorsOfReportsAreNotCounted(t *testing.T) {
	h, _ := newFailing(t)
	for _, path := range []string{"/shapes", "/backups"} {
		if w := send(h, "GET", path, nil, nil); w.Code != 400 {
			t.Errorf("%s without a signature: %d %s", path, w.Code, w.Body)
		}
	}
	if text := send(h, "GET", "/metrics", nil, nil).Body.String(); !strings.Contains(text, "dynamodb_user_errors_total 0\n") {
		t.Errorf("they are counted:\n%s", text)
	}
}

// A request to CloudWatch that is rejected before its operation is known gets an error of
// its protocol, and is no error of a request to DynamoDB.
func TestCloudWatchRejections(t *testing.T) {
	h := newHandler(t)
	large := strings.Repeat("x", cloudwatch.MaxBody+1)
	for _, c := range []struct {
		name         string
		path         string
		header       http.Header
		unsigned     bool
		body         string
		status       int
		content      string
		code, detail string // in XML, and in the other protocols
	}{
		{"CBOR without a signature", cloudwatch.Path + "ListMetrics", http.Header{"Content-Type": {"application/cbor"}, "Smithy-Protocol": {"rpc-v2-cbor"}}, true, "", 400, "application/cbor", "", "MissingAuthenticationTokenException"},
		{"CBOR that is too large", cloudwatch.Path + "ListMetrics", http.Header{"Content-Type": {"application/cbor"}}, false, large, 413, "application/cbor", "", "RequestEntityTooLargeException"},
		{"a form without a signature", "/", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, true, "Action=ListMetrics", 400, "text/xml", "MissingAuthenticationToken", ""},
		{"a form that is too large", "/", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, false, large, 413, "text/xml", "RequestEntityTooLarge", ""},
		{"JSON without a signature", "/", http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amz-Target": {cloudwatch.Target + "ListMetrics"}}, true, "{}", 400, "application/x-amz-json-1.0", "", "MissingAuthenticationTokenException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := c.header.Clone()
			if !c.unsigned {
				header.Set("Authorization", signed("")["Authorization"][0])
				header.Set("X-Amz-Date", signed("")["X-Amz-Date"][0])
			}
			w := send(h, "POST", c.path, header, strings.NewReader(c.body))
			if w.Code != c.status || w.Header().Get("Content-Type") != c.content {
				t.Fatalf("%d %s %q", w.Code, w.Header().Get("Content-Type"), w.Body)
			}
			switch c.content {
			case "application/cbor":
				v, err := cbor.Decode(w.Body.Bytes())
				fault, _ := v.(cbor.Map)
				if kind, _ := fault["__type"].(cbor.String); err != nil || !strings.HasSuffix(string(kind), "#"+c.detail) {
					t.Errorf("%v, %v", v, err)
				}
				if w.Header().Get("Smithy-Protocol") != "rpc-v2-cbor" {
					t.Errorf("headers %v", w.Header())
				}
			case "text/xml":
				var fault struct {
					Error     struct{ Type, Code, Message string }
					RequestId string
				}
				if err := xml.Unmarshal(w.Body.Bytes(), &fault); err != nil || fault.Error.Code != c.code || fault.Error.Type != "Sender" || fault.RequestId == "" {
					t.Errorf("%+v, %v", fault, err)
				}
			default:
				if !strings.Contains(w.Body.String(), "#"+c.detail) {
					t.Errorf("%s", w.Body)
				}
			}
		})
	}
	if text := send(h, "GET", "/metrics", nil, nil).Body.String(); !strings.Contains(text, "dynamodb_user_errors_total 0\n") {
		t.Errorf("they are counted:\n%s", text)
	}
}

// A panic in a report, or in a request to CloudWatch, is answered and written down as an error of
// the server.
func TestPanicsAreAudited(t *testing.T) {
	h, engine := newFailing(t)
	path := filepath.Join(t.TempDir(), "audit")
	log, err := audit.Open(audit.Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h.Audit(log)
	h.PanicInReports()
	engine.fail(errPanic)
	for _, c := range []struct {
		method, path string
		header       http.Header
	}{
		{"GET", "/shapes", signed("")},
		{"POST", "/", signed("GraniteServiceVersion20100801.ListMetrics")},
	} {
		if w := send(h, c.method, c.path, c.header, strings.NewReader("{}")); w.Code != 500 || !strings.Contains(w.Body.String(), "Internal server error") {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(written), `"errorCode":"InternalServerError"`); n != 2 || strings.Contains(string(written), "Disconnected") {
		t.Errorf("%d errors are written down:\n%s", n, written)
	}
}
