package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/store/pebble"

	"log/slog"
)

func newHandler(t *testing.T) *server.Handler {
	t.Helper()
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), engine, db.Options{})
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
	return server.New(ops.New(ops.Parts{DB: d}), slog.New(slog.DiscardHandler), 0)
}

// signed returns the headers of an ordinary request.
func signed(target string) http.Header {
	return http.Header{
		"Content-Type":  {"application/x-amz-json-1.0"},
		"X-Amz-Target":  {target},
		"X-Amz-Date":    {"20260101T000000Z"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=any/20260101/eu-west-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any"},
	}
}

const listTables = "DynamoDB_20120810.ListTables"

func send(h http.Handler, method, path string, header http.Header, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Every reply of the API has its length, its checksum and a unique id.
func TestReplyHeaders(t *testing.T) {
	h := newHandler(t)
	ids := map[string]bool{}
	for range 10 {
		w := send(h, "POST", "/", signed(listTables), strings.NewReader("{}"))
		if w.Code != 200 || w.Body.String() != `{"TableNames":[]}` {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if got, want := w.Header().Get("x-amz-crc32"), fmt.Sprint(crc32.ChecksumIEEE(w.Body.Bytes())); got != want {
			t.Errorf("checksum %s, want %s", got, want)
		}
		if w.Header().Get("Content-Type") != "application/x-amz-json-1.0" || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
			t.Errorf("headers %v", w.Header())
		}
		id := w.Header().Get("x-amzn-RequestId")
		if len(id) != 52 || ids[id] {
			t.Errorf("request id %q", id)
		}
		ids[id] = true
	}
}

// Requests that are not of the API get the same replies as from DynamoDB.
func TestOtherRequests(t *testing.T) {
	h := newHandler(t)
	without := func(name string) http.Header {
		header := signed(listTables)
		header.Del(name)
		return header
	}
	with := func(name, value string) http.Header {
		header := signed(listTables)
		header.Set(name, value)
		return header
	}
	for _, c := range []struct {
		name         string
		method, path string
		header       http.Header
		body         string
		code         int
		want         string
	}{
		{"a browser gets a greeting", "GET", "/", nil, "", 200, "healthy: dynamodb\n"},
		{"another path", "POST", "/other", signed(listTables), "{}", 404, "<UnknownOperationException/>\n"},
		{"another method", "DELETE", "/", signed(listTables), "{}", 404, "<UnknownOperationException/>\n"},
		{"another media type", "POST", "/", with("Content-Type", "text/plain"), "{}", 404, "<UnknownOperationException/>\n"},
		{"the media type of another service", "POST", "/", with("Content-Type", "application/x-amz-json-1.1"), "{}", 404, "<UnknownOperationException/>\n"},
		{"no target", "POST", "/", without("X-Amz-Target"), "{}", 400, `{"__type":"com.amazon.coral.service#UnknownOperationException"}`},
		{"an unknown target", "POST", "/", signed("DynamoDB_20120810.MakeCoffee"), "{}", 400, `{"__type":"com.amazon.coral.service#UnknownOperationException"}`},
		{"an operation of the other service", "POST", "/", signed("DynamoDBStreams_20120810.ListTables"), "{}", 400, `{"__type":"com.amazon.coral.service#UnknownOperationException"}`},
		{"no signature", "POST", "/", without("Authorization"), "{}", 400, `{"__type":"com.amazon.coral.service#MissingAuthenticationTokenException","message":"Request is missing Authentication Token"}`},
		{"no body", "POST", "/", signed(listTables), "", 400, `{"__type":"com.amazon.coral.service#SerializationException"}`},
		{"not JSON", "POST", "/", signed(listTables), "{", 400, `{"__type":"com.amazon.coral.service#SerializationException"}`},
		{"plain JSON gets plain JSON", "POST", "/", with("Content-Type", "application/json; charset=utf-8"), "{}", 200, `{"TableNames":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := send(h, c.method, c.path, c.header, strings.NewReader(c.body))
			if w.Code != c.code || w.Body.String() != c.want {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, c.code, c.want)
			}
		})
	}
}

// Requests of Application Auto Scaling and of the control plane of DAX have a media type of their own, and get
// replies of it.
func TestMediaTypeOfAutoScaling(t *testing.T) {
	h := newHandler(t)
	for _, c := range []struct {
		target string
		want   string
	}{
		{"AnyScaleFrontendService.DescribeScalableTargets", `{"__type":"com.amazon.coral.validate#ValidationException","message":"1 validation error detected: Value null at 'serviceNamespace' failed to satisfy constraint: Member must not be null"}`},
		{"AmazonDAXV3.DeleteCluster", `{"__type":"com.amazon.coral.validate#ValidationException","message":"1 validation error detected: Value null at 'clusterName' failed to satisfy constraint: Member must not be null"}`},
		{"AnyScaleFrontendService.MakeCoffee", `{"__type":"com.amazon.coral.service#UnknownOperationException"}`},
	} {
		header := signed(c.target)
		header.Set("Content-Type", "application/x-amz-json-1.1")
		w := send(h, "POST", "/", header, strings.NewReader("{}"))
		if got := w.Header().Get("Content-Type"); got != "application/x-amz-json-1.1" || w.Code != 400 || w.Body.String() != c.want {
			t.Errorf("%s: %s %d %s, want %s", c.target, got, w.Code, w.Body, c.want)
		}
	}
}

// The largest body has 16 MiB, with and without a Content-Length.
func TestBodyLimit(t *testing.T) {
	h := newHandler(t)
	const limit = 16 << 20
	body := func(size int) []byte {
		b := bytes.Repeat([]byte(" "), size)
		copy(b, "{}")
		return b
	}
	for _, c := range []struct {
		name string
		size int
		hide bool
		code int
	}{
		{"at the limit", limit, false, 200},
		{"one past it", limit + 1, false, 413},
		{"at the limit, in chunks", limit, true, 200},
		{"one past it, in chunks", limit + 1, true, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r io.Reader = bytes.NewReader(body(c.size))
			if c.hide {
				r = io.MultiReader(r) // hides its length
			}
			if w := send(h, "POST", "/", signed(listTables), r); w.Code != c.code {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, c.code)
			}
		})
	}
}

// A request gets the same reply whether the door or net/http reads it. Requests
// with a query are read by net/http.
func TestBothReaders(t *testing.T) {
	h := newHandler(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingDoorHandler{Handler: h}
	s := door.New(counted, &http.Server{Handler: h}, slog.New(slog.DiscardHandler))
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	defer func() { s.Close(); <-served }()
	ask := func(uri string, header http.Header, body string) string {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		host := l.Addr().String()
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", uri, host, len(body))
		header.Write(c)
		fmt.Fprintf(c, "\r\n%s", body)
		reply, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		if id := reply.Header.Get("x-amzn-RequestId"); len(id) != 52 {
			t.Errorf("request id %q", id)
		}
		reply.Header.Del("x-amzn-RequestId")
		reply.Header.Del("Date")
		return fmt.Sprintf("%s %v %q", reply.Status, reply.Header, text)
	}
	cases := map[string]struct {
		name, value, body, want string
	}{
		"a request":                     {"X-Other", "", "{}", "200 OK"},
		"no target":                     {"X-Amz-Target", "", "{}", "400 Bad Request"},
		"an unknown operation":          {"X-Amz-Target", "DynamoDB_20120810.MakeCoffee", "{}", "400 Bad Request"},
		"no signature":                  {"Authorization", "", "{}", "400 Bad Request"},
		"half a signature":              {"Authorization", "AWS4-HMAC-SHA256 Credential=a", "{}", "400 Bad Request"},
		"no date":                       {"X-Amz-Date", "", "{}", "400 Bad Request"},
		"not JSON":                      {"X-Other", "", "{", "400 Bad Request"},
		"no body":                       {"X-Other", "", "", "400 Bad Request"},
		"another type":                  {"Content-Type", "text/plain", "{}", "404 Not Found"},
		"no type":                       {"Content-Type", "", "{}", "404 Not Found"},
		"plain JSON":                    {"Content-Type", "application/json", "{}", "200 OK"},
		"a page of another site":        {"Origin", "https://evil.example", "{}", "403 Forbidden"},
		"a page of this server":         {"Origin", "http://" + l.Addr().String(), "{}", "200 OK"},
		"a body larger than the buffer": {"X-Other", "", "{}" + strings.Repeat(" ", 1<<20), "200 OK"},
	}
	for name, c := range cases {
		header := signed(listTables)
		header.Del(c.name)
		if c.value != "" {
			header.Set(c.name, c.value)
		}
		direct, web := ask("/", header, c.body), ask("/?", header, c.body)
		if direct != web || !strings.HasPrefix(direct, c.want) {
			t.Errorf("%s: the reply is\n%s through the door,\n%s through net/http, want %s", name, direct, web, c.want)
		}
	}
	if int(counted.answered.Load()) != len(cases) {
		t.Errorf("the door read %d requests, want %d", counted.answered.Load(), len(cases))
	}

	// A request that is answered with a stream is left to net/http.
	header := signed(server.TargetBackup)
	header.Del("Authorization")
	if got := ask("/", header, "{}"); !strings.Contains(got, "MissingAuthenticationToken") {
		t.Errorf("a backup without a signature gets %s", got)
	}
	if int(counted.answered.Load()) != len(cases) {
		t.Error("the door read the request for a backup")
	}
}

// countingDoorHandler counts the requests that the door has read.
type countingDoorHandler struct {
	door.Handler
	answered atomic.Int64
}

func (c *countingDoorHandler) Answer(ctx context.Context, r *door.Request, a *door.Reply) {
	c.answered.Add(1)
	c.Handler.Answer(ctx, r, a)
}

// A truncated body is not answered with success.
func TestBrokenBody(t *testing.T) {
	h := newHandler(t)
	w := send(h, "POST", "/", signed(listTables), io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if w.Code != 400 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// A page of another site cannot use the browser to reach the server, even when its
// name resolves to this machine.
func TestForeignPages(t *testing.T) {
	h := newHandler(t)
	for _, c := range []struct {
		host, origin string
		code         int
	}{
		{"127.0.0.1:8000", "", 200},
		{"stator:8000", "", 200}, // not a browser: any name is accepted
		{"127.0.0.1:8000", "http://127.0.0.1:8000", 200},
		{"localhost:8000", "http://localhost:8000", 200},
		{"[::1]:8000", "http://[::1]:8000", 200},
		{"127.0.0.1:8000", "https://evil.example", 403},
		{"127.0.0.1:8000", "http://127.0.0.1:9000", 403},
		{"127.0.0.1:8000", "null", 403},
		{"evil.example:8000", "http://evil.example:8000", 403},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
		r.Header = signed(listTables)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("host %s, origin %q: %d, want %d", c.host, c.origin, w.Code, c.code)
		}
	}
}

// No body crashes the server or is answered with a 500.
func FuzzPost(f *testing.F) {
	f.Add("PutItem", `{"TableName": "Orders", "Item": {"id": {"S": "1"}}}`)
	f.Add("Query", `{"TableName": "Orders", "KeyConditionExpression": "id = :v", "ExpressionAttributeValues": {":v": {"S": "1"}}}`)
	f.Add("UpdateItem", `{"TableName": "Orders", "Key": {"id": {"S": "1"}}, "UpdateExpression": "SET a.b[0] = :v"}`)
	f.Add("ExecuteStatement", `{"Statement": "SELECT * FROM Orders WHERE id = '1'"}`)
	f.Add("TransactWriteItems", `{"TransactItems": [{"Put": {"TableName": "Orders", "Item": {"id": {"S": "1"}}}}]}`)
	engine, err := pebble.Open(pebble.InMemory())
	if err != nil {
		f.Fatal(err)
	}
	d, err := db.Open(f.Context(), engine, db.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close(); engine.Close() })
	h := server.New(ops.New(ops.Parts{DB: d}), slog.New(slog.DiscardHandler), 0)
	send(h, "POST", "/", signed("DynamoDB_20120810.CreateTable"), strings.NewReader(`{"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}`))
	f.Fuzz(func(t *testing.T, operation, body string) {
		if operation == "DeleteTable" || !ops.Known(operation) {
			return
		}
		w := send(h, "POST", "/", signed("DynamoDB_20120810."+operation), strings.NewReader(body))
		if w.Code >= 500 {
			t.Errorf("%s %s: %d %s", operation, body, w.Code, w.Body)
		}
	})
}
