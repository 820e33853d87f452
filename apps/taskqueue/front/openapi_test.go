package front

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/web"
	"github.com/stator-db/stator/apps/taskqueue/openapi"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

func described(t *testing.T) *openapi.Document {
	t.Helper()
	d, err := openapi.Parse(openapi.Text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every route of the API is described, and every described request has a route of
// its own.
func TestRoutesAreDescribed(t *testing.T) {
	d := described(t)
	f := new(Front)
	routes := map[string]bool{"GET /healthz": true, "GET /metrics": true, "GET /openapi.json": true}
	mux := http.NewServeMux()
	for pattern, h := range f.routes() {
		routes[pattern] = true
		mux.HandleFunc(pattern, h)
	}
	ids := make(map[string]bool)
	for _, path := range d.Paths.Names {
		for _, method := range d.Paths.Of[path].Names {
			o := d.Paths.Of[path].Of[method]
			pattern := strings.ToUpper(method) + " " + path
			if !routes[pattern] {
				t.Errorf("%s is described, but there is no such route", pattern)
			}
			delete(routes, pattern)
			if o.ID == "" || ids[o.ID] || o.Summary == "" {
				t.Errorf("%s has the operationId %q and the summary %q", pattern, o.ID, o.Summary)
			}
			ids[o.ID] = true
			checkParameters(t, d, pattern, path, o)
		}
	}
	for pattern := range routes {
		t.Errorf("%s is not described", pattern)
	}
}

// checkParameters compares the parameters of a request with its path.
func checkParameters(t *testing.T, d *openapi.Document, pattern, path string, o openapi.Operation) {
	t.Helper()
	for _, p := range o.Parameters {
		p = d.Parameter(p)
		if p.Name == "" || p.Description == "" || p.Schema == nil {
			t.Errorf("%s has the incomplete parameter %+v", pattern, p)
		}
		if p.In == "path" {
			if !strings.Contains(path, "{"+p.Name+"}") || !p.Required {
				t.Errorf("%s does not contain its parameter %s", pattern, p.Name)
			}
			path = strings.Replace(path, "{"+p.Name+"}", "", 1)
		}
	}
	if strings.Contains(path, "{") {
		t.Errorf("%s has a parameter that is not described", pattern)
	}
}

// The parameters of the query, which no type declares, are those that the handlers
// read.
func TestQueryParametersAreDescribed(t *testing.T) {
	want := map[string][]string{
		"GET /v1/tasks":                {"limit", "next", "olderThan", "queue", "reason", "status", "type"},
		"GET /v1/queues/{queue}/tasks": {"limit", "next", "olderThan", "reason", "status", "type"},
		"GET /v1/counts":               {"max", "queue", "status"},
	}
	d := described(t)
	for _, path := range d.Paths.Names {
		for method, o := range d.Paths.Of[path].Of {
			var got []string
			for _, p := range o.Parameters {
				if p = d.Parameter(p); p.In == "query" {
					got = append(got, p.Name)
				}
			}
			slices.Sort(got)
			if pattern := strings.ToUpper(method) + " " + path; !slices.Equal(got, want[pattern]) {
				t.Errorf("%s has the parameters %v, want %v", pattern, got, want[pattern])
			}
		}
	}
}

// types are the Go types of the described schemas. Members of requests are required
// only as far as the description says.
var (
	replyTypes = map[string]reflect.Type{
		"Task": reflect.TypeFor[task.Task](), "Claim": reflect.TypeFor[task.Claim](), "Event": reflect.TypeFor[task.Event](), "Born": reflect.TypeFor[task.Born](),
		"History": reflect.TypeFor[task.History](), "Page": reflect.TypeFor[task.Page](), "BulkReply": reflect.TypeFor[task.BulkReply](),
		"Counts": reflect.TypeFor[task.Counts](), "QueueCounts": reflect.TypeFor[task.QueueCounts](), "Queue": reflect.TypeFor[task.Queue](),
		"QueueView": reflect.TypeFor[task.QueueView](), "QueueList": reflect.TypeFor[task.QueueList](), "WorkerView": reflect.TypeFor[task.WorkerView](),
		"WorkerList": reflect.TypeFor[task.WorkerList](), "FailReply": reflect.TypeFor[task.FailReply](), "Fault": reflect.TypeFor[web.Fault](),
	}
	requestTypes = map[string]reflect.Type{
		"Submission": reflect.TypeFor[task.Submission](), "ClaimRequest": reflect.TypeFor[task.ClaimRequest](), "Report": reflect.TypeFor[task.Report](),
		"BulkRequest": reflect.TypeFor[task.BulkRequest](), "Limits": reflect.TypeFor[task.Limits](), "Cancellation": reflect.TypeFor[task.Cancellation](),
	}
	scalarSchemas = []string{"Status", "EventType", "Duration", "ErrorReply"}
)

// Every member of the types that are sent and received is described with its type,
// and every described member exists.
func TestFieldsAreDescribed(t *testing.T) {
	d := described(t)
	for _, name := range d.Components.Schemas.Names {
		s := d.Components.Schemas.Of[name]
		if s.Description == "" {
			t.Errorf("%s has no description", name)
		}
		kind, isReply := replyTypes[name]
		if !isReply {
			var ok bool
			if kind, ok = requestTypes[name]; !ok {
				if !slices.Contains(scalarSchemas, name) {
					t.Errorf("%s is described, but no type of the API", name)
				}
				continue
			}
		}
		members := make(map[string]bool)
		var required []string
		for _, f := range reflect.VisibleFields(kind) {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || tag == "-" || hidden(kind, f) {
				continue
			}
			members[tag] = true
			if options == "" {
				required = append(required, tag)
			}
			p := s.Properties.Of[tag]
			if p == nil {
				t.Errorf("%s.%s is not described", name, tag)
				continue
			}
			if got, want := schemaText(p), typeText(f.Type); got != want {
				t.Errorf("%s.%s is described as %s, but is %s", name, tag, got, want)
			}
			if p.Description == "" {
				t.Errorf("%s.%s has no description", name, tag)
			}
		}
		for _, p := range s.Properties.Names {
			if !members[p] {
				t.Errorf("%s.%s is described, but does not exist", name, p)
			}
		}
		if got := slices.Sorted(slices.Values(s.Required)); isReply && !slices.Equal(got, slices.Sorted(slices.Values(required))) {
			t.Errorf("%s always has %v, but is described with %v", name, required, got)
		}
	}
	for name := range replyTypes {
		if d.Components.Schemas.Of[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
	for name := range requestTypes {
		if d.Components.Schemas.Of[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
}

// hidden reports whether a field of an embedded struct is hidden by another one.
func hidden(kind reflect.Type, f reflect.StructField) bool {
	visible, ok := kind.FieldByName(f.Name)
	return !ok || !slices.Equal(visible.Index, f.Index)
}

func schemaText(s *openapi.Schema) string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case s.Type == "array":
		return "array of " + schemaText(s.Items)
	case s.Format == "date-time":
		return s.Format
	}
	return s.Type
}

func typeText(kind reflect.Type) string {
	switch kind {
	case reflect.TypeFor[time.Time]():
		return "date-time"
	case reflect.TypeFor[task.Duration](), reflect.TypeFor[task.Status](), reflect.TypeFor[task.EventType]():
		return kind.Name()
	case reflect.TypeFor[json.RawMessage]():
		return "" // any value
	}
	switch kind.Kind() {
	case reflect.Pointer:
		return typeText(kind.Elem())
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "array of " + typeText(kind.Elem())
	case reflect.Map:
		return "object"
	}
	return kind.Name()
}

// The statuses and events of the description are those of the code.
func TestEnumsAreDescribed(t *testing.T) {
	d := described(t)
	var statuses []string
	for _, s := range task.Statuses {
		statuses = append(statuses, string(s))
	}
	if got := d.Components.Schemas.Of["Status"].Enum; !slices.Equal(got, statuses) {
		t.Errorf("the statuses are described as %v, want %v", got, statuses)
	}
	events := d.Components.Schemas.Of["EventType"].Enum
	if len(events) != 11 {
		t.Errorf("%d events are described", len(events))
	}
	for _, e := range events {
		possible := task.EventType(e) == task.Submitted
		for _, s := range task.Statuses {
			possible = possible || task.Can(task.EventType(e), s)
		}
		if !possible {
			t.Errorf("the event %s is described, but is never possible", e)
		}
	}
}

// checking is a handler that compares all requests and replies with the
// description.
type checking struct {
	handler http.Handler
	doc     *openapi.Document

	mutex  sync.Mutex
	faults []string
	seen   map[string]bool // patterns and statuses
}

func (c *checking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	c.handler.ServeHTTP(answer, r)
	c.check(r, body, answer)
	for name, v := range answer.Header() {
		w.Header()[name] = v
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

func (c *checking) check(r *http.Request, body []byte, answer *httptest.ResponseRecorder) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	_, path, _ := strings.Cut(r.Pattern, " ")
	o, ok := c.doc.Paths.Of[path].Of[strings.ToLower(r.Method)]
	if !ok {
		return
	}
	fail := func(format string, args ...any) {
		c.faults = append(c.faults, r.Pattern+": "+fmt.Sprintf(format, args...))
	}
	c.seen[fmt.Sprintf("%s %d", r.Pattern, answer.Code)] = true
	if s := o.Body.JSON(); s != nil && answer.Code < 300 {
		if err := c.doc.Check(s, decoded(body)); err != nil {
			fail("the request %v: %s", err, body)
		}
	}
	code := fmt.Sprint(answer.Code)
	reply, ok := o.Responses.Of[code]
	switch {
	case !ok && answer.Code < 400:
		fail("the reply %s is not described", code)
	case !ok:
		if err := c.doc.Check(c.doc.Components.Schemas.Of["ErrorReply"], decoded(answer.Body.Bytes())); err != nil {
			fail("the error %v: %s", err, answer.Body)
		}
	case reply.JSON() == nil && answer.Body.Len() > 0 && strings.HasPrefix(path, "/v1/"):
		fail("the reply %s has a body", code)
	case reply.JSON() != nil:
		if err := c.doc.Check(reply.JSON(), decoded(answer.Body.Bytes())); err != nil {
			fail("the reply %v: %s", err, answer.Body)
		}
	}
}

func decoded(text []byte) (v any) {
	_ = json.Unmarshal(text, &v) // a value that is not JSON becomes nil, which no schema allows
	return v
}

// Every request gets each of its described replies, and all requests and replies
// are as described.
func TestRepliesAreAsDescribed(t *testing.T) {
	f, _ := newFront(t)
	check := &checking{handler: f.Handler(), doc: described(t), seen: make(map[string]bool)}
	server := httptest.NewServer(check)
	defer server.Close()
	life(t, server.URL)
	for _, f := range check.faults {
		t.Error(f)
	}
	for _, path := range check.doc.Paths.Names {
		for method, o := range check.doc.Paths.Of[path].Of {
			for _, code := range o.Responses.Names {
				pattern := strings.ToUpper(method) + " " + path
				if code != "default" && code != "503" && !check.seen[pattern+" "+code] {
					t.Errorf("%s was never answered with %s", pattern, code)
				}
			}
		}
	}
	// The control: replies that are not as described are found.
	check.doc.Components.Schemas.Of["Task"].Required = append(check.doc.Components.Schemas.Of["Task"].Required, "colour")
	send(t, "GET", server.URL+"/v1/tasks?status=CANCELLED", "")
	if len(check.faults) == 0 {
		t.Error("a task without a required member is not found")
	}
}

// life sends all requests of the API, so that each is answered in every way.
func life(t *testing.T, url string) {
	t.Helper()
	do := func(method, path, body string, want int) map[string]any {
		t.Helper()
		status, text := send(t, method, url+path, body)
		if status != want {
			t.Fatalf("%s %s is answered with %d %s, want %d", method, path, status, text, want)
		}
		m, _ := decoded([]byte(text)).(map[string]any)
		return m
	}
	submit := func(options string) string {
		t.Helper()
		return do("POST", "/v1/queues/q/tasks", `{"type":"t","payload":{"a":[1]}`+options+`}`, 201)["id"].(string)
	}
	claim := func(id string) string {
		t.Helper()
		return fmt.Sprintf(`"worker":"w","claim":%q`, do("POST", "/v1/tasks/"+id+"/claim", `{"worker":"w","lease":"1m"}`, 200)["claim"])
	}
	do("POST", "/v1/queues/q/claim", `{"worker":"w"}`, 204)
	submit(`,"key":"k","delay":"1h"`)
	do("POST", "/v1/queues/q/tasks", `{"type":"t","payload":{"a":[1]},"key":"k","delay":"1h"}`, 200)
	do("POST", "/v1/queues/q/tasks", `{"type":"u","key":"k"}`, 409)
	done := submit(`,"priority":9,"maxAttempts":3,"backoff":"2s"`)
	do("POST", "/v1/queues/q/claim", `{"worker":"w","wait":"20s"}`, 200)
	do("POST", "/v1/tasks/"+done+"/claim", `{"worker":"v"}`, 409)
	token := do("GET", "/v1/tasks/"+done, "", 200)
	report := fmt.Sprintf(`"worker":"w","claim":"%v.0.q"`, token["seq"])
	do("POST", "/v1/tasks/"+done+"/heartbeat", `{`+report+`}`, 204)
	do("GET", "/v1/workers", "", 200)
	do("GET", "/v1/tasks?status=PROCESSING&queue=q", "", 200)
	do("POST", "/v1/tasks/"+done+"/complete", `{`+report+`,"result":"r"}`, 204)
	retried := submit("")
	first := claim(retried)
	do("POST", "/v1/tasks/"+retried+"/fail", `{`+first+`,"reason":"no","after":"1h"}`, 200)
	do("POST", "/v1/tasks/"+retried+"/fail", `{`+first+`,"reason":"no","after":"1h"}`, 204)
	released := submit("")
	do("POST", "/v1/tasks/"+released+"/release", `{`+claim(released)+`}`, 204)
	do("POST", "/v1/tasks/"+released+"/cancel", `{"reason":"enough"}`, 200)
	failed := submit("")
	do("POST", "/v1/tasks/"+failed+"/fail", `{`+claim(failed)+`,"reason":"no","never":true}`, 200)
	do("POST", "/v1/tasks/requeue", `{"status":"FAILED","queue":"q","type":"t","reason":"no","olderThan":"1ns","dryRun":true}`, 200)
	do("POST", "/v1/tasks/"+failed+"/requeue", "", 200)
	do("POST", "/v1/tasks/cancel", `{"status":"PENDING","note":"bye"}`, 200)
	for _, id := range []string{done, retried, released, failed} {
		do("GET", "/v1/tasks/"+id+"/history", "", 200)
	}
	for _, status := range task.Statuses {
		do("GET", "/v1/queues/q/tasks?limit=1&status="+string(status), "", 200)
	}
	do("PUT", "/v1/queues/q", `{"maxRunning":3}`, 200)
	do("GET", "/v1/queues/q", "", 200)
	do("GET", "/v1/queues", "", 200)
	do("GET", "/v1/counts?status=DEAD&status=PENDING", "", 200)
	do("GET", "/v1/counts", "", 200)
	do("GET", "/healthz", "", 200)
	do("GET", "/metrics", "", 200)
	do("GET", "/openapi.json", "", 200)
	do("GET", "/v1/queues/unknown", "", 404)
}
