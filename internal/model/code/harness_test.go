package code

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/prove"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// runCase is one run of a pattern: the generated function is called with the
// arguments and must send the requests of the scenario.
type runCase struct {
	pattern   *codePattern
	arguments []model.Arguments
	scenario  *model.Scenario
}

// step returns the arguments of the i-th step.
func (c *runCase) step(s *codeStep) (all []model.Arguments) {
	for _, a := range c.arguments {
		if a.Request.Step.Action == s.Step.Action {
			all = append(all, a)
		}
	}
	return all
}

// testModels returns the models that the generated code is run for: the small
// ones with all kinds of patterns, and with make model-code also those of the
// applications and the examples.
func testModels(t *testing.T) (files []string) {
	t.Helper()
	globs := []string{"testdata/*.model.yaml", "../testdata/shapes.model.yaml"}
	if os.Getenv(allModels) != "" {
		globs = append(globs, "../../../apps/*/*.model.yaml", "../testdata/examples/*.model.yaml", "../../../docs/*/*.model.yaml")
	}
	for _, glob := range globs {
		found, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// allModels is set if the generated code is run for all models.
const allModels = "STATOR_MODEL_CODE"

// readServed reads a model without the patterns that are not served as they
// should be.
func readServed(t *testing.T, file string) *model.Model {
	t.Helper()
	m := parseModel(t, file)
	faulty := make(map[string]bool)
	for _, err := range patternFaults(m) {
		var f *model.Fault
		if errors.As(err, &f) {
			faulty[f.Pattern] = true
		}
	}
	m.Patterns = slices.DeleteFunc(m.Patterns, func(p *model.Pattern) bool { return faulty[p.Name] })
	return m
}

// casesOf returns runs of each pattern.
func casesOf(t *testing.T, s *codeSpec, runs ...int) (cases []*runCase) {
	t.Helper()
	for _, p := range s.patterns {
		for _, run := range runs {
			plan := s.model.Plan(p.Pattern)
			for state := range plan.States() {
				scenario, err := s.model.ScenarioIn(plan, model.Generator{}, run, state)
				if err != nil {
					t.Fatal(err)
				}
				arguments, err := s.model.Arguments(plan, model.Generator{}, run, state)
				if err != nil {
					t.Fatal(err)
				}
				cases = append(cases, &runCase{p, arguments, scenario})
			}
		}
	}
	return cases
}

// caseResult is what a generated program did in one case.
type caseResult struct {
	calls   []caseCall
	decoded []any // the items of the replies, as the generated code decoded and encoded them
}

type caseCall struct {
	operation   string
	body, reply map[string]any
}

// caseServer is a server that records what a program sends. A program announces
// each case with POST /case/N, which starts an empty database with the items of the case,
// and puts the items that it decoded into the table "decoded", which does not exist.
type caseServer struct {
	t     *testing.T
	model *model.Model
	cases []*runCase

	mu      sync.Mutex
	seen    []caseResult
	current int
	close   func()
	handler http.Handler
}

func newCaseServer(t *testing.T, m *model.Model, cases []*runCase) (o *caseServer, url string) {
	o = &caseServer{t: t, model: m, cases: cases, seen: make([]caseResult, len(cases)), close: func() {}}
	server := httptest.NewServer(o)
	t.Cleanup(func() {
		server.Close()
		o.close()
	})
	return o, server.URL
}

func (o *caseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n, ok := strings.CutPrefix(r.URL.Path, "/case/"); ok {
		o.current, _ = strconv.Atoi(n)
		if err := o.prepare(r.Context()); err != nil {
			o.t.Errorf("case %s: %v", n, err)
			w.WriteHeader(http.StatusTeapot)
		}
		return
	}
	text, _ := io.ReadAll(r.Body)
	call := caseCall{operation: r.Header.Get("X-Amz-Target"), body: parseJSON(text)}
	if call.body["TableName"] == "decoded" {
		o.seen[o.current].decoded = append(o.seen[o.current].decoded, call.body["Item"])
		_, _ = io.WriteString(w, "{}")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	reply := httptest.NewRecorder()
	o.handler.ServeHTTP(reply, r)
	call.reply = parseJSON(reply.Body.Bytes())
	o.seen[o.current].calls = append(o.seen[o.current].calls, call)
	for name, values := range reply.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(reply.Code)
	_, _ = w.Write(reply.Body.Bytes())
}

func parseJSON(text []byte) (v map[string]any) {
	_ = json.Unmarshal(text, &v)
	return v
}

// prepare starts a database with the tables of the model and the items of the
// current case.
func (o *caseServer) prepare(ctx context.Context) error {
	o.close()
	s, send, err := openModel(ctx, o.model)
	if err != nil {
		return err
	}
	o.close, o.handler = func() { _ = s.Close() }, s.Handler()
	for _, stored := range o.cases[o.current].scenario.Before {
		body := map[string]any{"TableName": stored.Table, "Item": json.RawMessage(wire.AppendItem(nil, stored.Item))}
		if _, err := send(ctx, "PutItem", body); err != nil {
			return err
		}
	}
	return nil
}

// openModel starts a database with the tables of a model. send sends it a request.
func openModel(ctx context.Context, m *model.Model) (s *stator.DB, send func(context.Context, string, any) ([]byte, error), err error) {
	s, err = stator.Open(context.WithoutCancel(ctx), stator.Options{})
	if err != nil {
		return nil, nil, err
	}
	send = func(ctx context.Context, operation string, body any) ([]byte, error) {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", bytes.NewReader(text))
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		reply := httptest.NewRecorder()
		s.Handler().ServeHTTP(reply, r)
		if reply.Code != http.StatusOK {
			return nil, fmt.Errorf("%s %s: %s", operation, text, reply.Body)
		}
		return reply.Body.Bytes(), nil
	}
	return s, send, prove.Create(ctx, send, m, false, apply.Waiting{Every: time.Millisecond})
}

// testKeys runs the program of a language in testdata/keys and compares its output, which
// is the same in all languages. run returns the output for a server's URL.
func testKeys(t *testing.T, run func(m *model.Model, url string, program []byte) string, program string) {
	t.Helper()
	m := parseModel(t, "testdata/keys.model.yaml")
	s, _, err := openModel(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		server.Close()
		_ = s.Close()
	})
	text, err := os.ReadFile("testdata/keys/" + program)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/keys/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := run(m, server.URL, text); got != string(want) {
		t.Errorf("the output differs: %s", difference(got, string(want)))
	}
}

// compare checks what a program did in all cases.
func (o *caseServer) compare(t *testing.T) {
	t.Helper()
	for i, c := range o.cases {
		t.Run(c.pattern.Name, func(t *testing.T) { o.compareCase(t, c, o.seen[i]) })
	}
}

func (o *caseServer) compareCase(t *testing.T, c *runCase, seen caseResult) {
	var returned []any
	calls := byRequest(seen.calls)
	for _, want := range c.scenario.Calls {
		pages, count := 0, 0
		body := map[string]any{}
		for len(calls) > 0 && (pages == 0 || calls[0].body["ExclusiveStartKey"] != nil) {
			got := calls[0]
			calls = calls[1:]
			pages++
			delete(got.body, "ExclusiveStartKey")
			delete(got.body, "ClientRequestToken") // SDKs add one
			body = got.body
			if got.operation != "DynamoDB_20120810."+want.Operation {
				t.Errorf("sent %s, want %s", got.operation, want.Operation)
			}
			items := itemsOfReply(got.reply)
			count += len(items)
			returned = append(returned, items...)
		}
		text, err := json.Marshal(want.Body)
		if err != nil {
			t.Fatal(err)
		}
		wanted := parseJSON(text)
		delete(wanted, "ReturnConsumedCapacity")
		if !reflect.DeepEqual(canonical(body), canonical(wanted)) {
			t.Errorf("sent another request: %s", difference(show(body), show(wanted)))
		}
		if count != want.Want.Count || want.Follow && pages != want.Want.Pages {
			t.Errorf("%d items in %d pages, want %d in %d", count, pages, want.Want.Count, want.Want.Pages)
		}
	}
	if len(calls) > 0 {
		t.Errorf("sent %d more requests: %s", len(calls), show(calls[0].body))
	}
	if got, want := show(sorted(seen.decoded)), show(sorted(returned)); got != want {
		t.Errorf("decoded other items: %s", difference(got, want))
	}
}

// byRequest puts the pages of each request together: a query over shards reads a page of
// each shard in turn.
func byRequest(calls []caseCall) []caseCall {
	var order []string
	id := func(c caseCall) int {
		body := maps.Clone(c.body)
		delete(body, "ExclusiveStartKey")
		delete(body, "ClientRequestToken")
		text, _ := json.Marshal(body)
		if !slices.Contains(order, string(text)) {
			order = append(order, string(text))
		}
		return slices.Index(order, string(text))
	}
	for _, c := range calls {
		id(c)
	}
	slices.SortStableFunc(calls, func(a, b caseCall) int { return id(a) - id(b) })
	return calls
}

// itemsOfReply returns the items of a reply of any operation.
func itemsOfReply(reply map[string]any) (all []any) {
	if it, ok := reply["Item"]; ok {
		all = append(all, it)
	}
	if items, ok := reply["Items"].([]any); ok {
		all = append(all, items...)
	}
	switch responses := reply["Responses"].(type) {
	case []any:
		for _, r := range responses {
			if it, ok := r.(map[string]any)["Item"]; ok {
				all = append(all, it)
			}
		}
	case map[string]any:
		for _, items := range responses {
			all = append(all, items.([]any)...)
		}
	}
	return all
}

// canonical orders the members of sets, and removes the attribute that pads an item.
func canonical(v any) any {
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = canonical(x[i])
		}
	case map[string]any:
		delete(x, "_") // pads an item to its size
		for name, value := range x {
			x[name] = canonical(value)
			if set, ok := value.([]any); ok && (name == "SS" || name == "NS" || name == "BS") {
				sort.Slice(set, func(i, j int) bool { return set[i].(string) < set[j].(string) })
			}
		}
	}
	return v
}

func sorted(items []any) []any {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(show(a), show(b)) })
	return items
}

func show(v any) string {
	text, _ := json.Marshal(canonical(v))
	return string(text)
}

// difference shows where two texts begin to differ.
func difference(got, want string) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	around := func(text string) string { return text[max(0, n-200):min(len(text), n+200)] }
	return fmt.Sprintf("got\n%s\nwant\n%s", around(got), around(want))
}
