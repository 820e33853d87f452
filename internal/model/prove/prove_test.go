package prove

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// server opens a database with a model's tables.
func server(t *testing.T, m *model.Model) *apply.Endpoint {
	t.Helper()
	s, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e := &apply.Endpoint{URL: "http://stator.invalid", Client: s.Client(), Sign: func(r *http.Request, _ []byte) error {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		return nil
	}}
	if err := Create(t.Context(), e.Send, m, false, apply.Waiting{Every: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return e
}

func readModel(t testing.TB, file string) *model.Model {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func models(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	examples, err := filepath.Glob("../../../examples/models/*.model.yaml")
	if err != nil || len(examples) < 2 {
		t.Fatalf("found the examples %v, %v", examples, err)
	}
	return append(append(files, examples...), "../testdata/shapes.model.yaml")
}

// empty checks that the tables are empty.
func empty(t *testing.T, send apply.Send, m *model.Model) {
	t.Helper()
	for _, table := range m.Tables {
		text, err := send(t.Context(), "Scan", map[string]any{"TableName": table.Name})
		if err != nil {
			t.Fatal(err)
		}
		var o requestResult
		if _, err := o.add(text); err != nil || o.scanned > 0 {
			t.Errorf("%d items are left in %s, %v", o.scanned, table.Name, err)
		}
	}
}

// The server charges what the models predict, and no item remains.
func TestProveModels(t *testing.T) {
	for _, file := range models(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readModel(t, file)
			restore := PrefixTables(m, "p-")
			defer restore()
			e := server(t, m)
			report, err := Run(t.Context(), e.Send, m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Patterns) != len(m.Patterns) || !report.OK() {
				for _, p := range report.Patterns {
					if !p.OK() {
						t.Errorf("%s: %s %+v", p.Name, p.Error, p.Differences)
					}
				}
			}
			for _, p := range report.Patterns {
				if p.Runs < 3 || p.Requests < 3 || p.Total() == 0 {
					t.Errorf("%s: %d runs with %d requests cost %v", p.Name, p.Runs, p.Requests, p.Total())
				}
				if p.Operation == "Query" && (p.Returned == 0 || p.Scanned == 0 || p.Pages == 0) {
					t.Errorf("%s returns %d of %d on %d pages", p.Name, p.Returned, p.Scanned, p.Pages)
				}
			}
			empty(t, e.Send, m)
		})
	}
}

// Each kind of wrong prediction is found.
func TestProveFindsWrongPredictions(t *testing.T) {
	const file = "../../../apps/taskqueue/taskqueue.model.yaml"
	for _, c := range []struct {
		name, pattern string
		plant         func(*model.Want)
		want          Difference
	}{
		{"items returned", "get task history", func(w *model.Want) { w.Count++ }, Difference{2, 1, "items returned", "4", "3"}},
		{"items scanned", "get task history", func(w *model.Want) { w.Scanned-- }, Difference{2, 1, "items scanned", "2", "3"}},
		{"pages", "get task history", func(w *model.Want) { w.Pages = 2 }, Difference{2, 1, "pages", "2", "1"}},
		{"units of a table", "get task metadata", func(w *model.Want) { w.Read[0].Consumed.Table = 2 }, Difference{2, 1, "units of tasks", "2", "1"}},
		{"units of an index", "submit task", func(w *model.Want) { w.Write[0].Indexes = nil }, Difference{2, 1, "units of tasks.GSI1", "0", "1"}},
		{"units of an index that is not written", "note claim", func(w *model.Want) { w.Write[0].Charge("GSI1", true, 1) }, Difference{2, 1, "units of tasks.GSI1", "1", "0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := readModel(t, file)
			e := server(t, m)
			planted := Options{scenario: func(p *model.Plan, g model.Generator, run, state int) (*model.Scenario, error) {
				s, err := m.ScenarioIn(p, g, run, state)
				if err == nil && p.Pattern.Name == c.pattern && run == 1 {
					c.plant(&s.Calls[0].Want)
				}
				return s, err
			}}
			report, err := Run(t.Context(), e.Send, m, planted)
			if err != nil {
				t.Fatal(err)
			}
			if report.Wrong() != 1 {
				t.Errorf("%d patterns are wrong, want 1", report.Wrong())
			}
			for _, p := range report.Patterns {
				if p.Name == c.pattern && !slices.Contains(p.Differences, c.want) {
					t.Errorf("the differences are %+v, want %+v", p.Differences, c.want)
				}
			}
		})
	}
}

// A server that behaves differently is detected.
func TestProveDetectsDifferences(t *testing.T) {
	const file = "../../../apps/taskqueue/taskqueue.model.yaml"
	replaced := func(operation, old, instead string) func(apply.Send) apply.Send {
		return func(send apply.Send) apply.Send {
			return func(ctx context.Context, op string, body any) ([]byte, error) {
				reply, err := send(ctx, op, body)
				if op == operation {
					reply = bytes.ReplaceAll(reply, []byte(old), []byte(instead))
				}
				return reply, err
			}
		}
	}
	for _, c := range []struct {
		name  string
		other func(apply.Send) apply.Send
		want  string // in the report as JSON
	}{
		{"one that charges more", replaced("GetItem", `"Table":{"CapacityUnits":1.0}`, `"Table":{"CapacityUnits":2.0}`), `"what":"units of tasks","predicted":"1","actual":"2"`},
		{"one that returns less", replaced("Query", `"Count":3`, `"Count":2`), `"what":"items returned","predicted":"3","actual":"2"`},
		{"one that uses another index", replaced("Query", `"GSI1":{`, `"GSI2":{`), `"what":"index used","predicted":"GSI1","actual":"GSI2"`},
		{"one that never ends", func(send apply.Send) apply.Send {
			return func(ctx context.Context, op string, body any) ([]byte, error) {
				reply, err := send(ctx, op, body)
				if op == "Query" {
					reply = bytes.Replace(reply, []byte("{"), []byte(`{"LastEvaluatedKey":{"PK":{"S":"`+"TASK#x"+`"},"SK":{"S":"EVENT#0001"}},`), 1)
					var b map[string]any
					text, _ := json.Marshal(body)
					_ = json.Unmarshal(text, &b)
					if b["ExclusiveStartKey"] != nil {
						reply, err = []byte(`{"Count":0,"ScannedCount":0,"LastEvaluatedKey":{"PK":{"S":"x"}},"ConsumedCapacity":{"TableName":"tasks"}}`), nil
					}
				}
				return reply, err
			}
		}, `"what":"pages","predicted":"1","actual":"13"`},
		{"one that rejects", func(send apply.Send) apply.Send {
			return func(ctx context.Context, op string, body any) ([]byte, error) {
				if op == "UpdateItem" {
					return nil, apierror.Validation("no")
				}
				return send(ctx, op, body)
			}
		}, `"error":"ValidationException: no"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := readModel(t, file)
			e := server(t, m)
			report, err := Run(t.Context(), c.other(e.Send), m, Options{Runs: 1})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(report)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK() || !strings.Contains(string(text), c.want) {
				t.Errorf("the report is\n%s\nwithout %s", text, c.want)
			}
			empty(t, e.Send, m)
		})
	}
}

// With a consistency timeout, a stale read is repeated; without, it is a
// difference.
func TestProveConsistencyTimeout(t *testing.T) {
	m := readModel(t, "../../../apps/taskqueue/taskqueue.model.yaml")
	e := server(t, m)
	for _, c := range []struct {
		timeout time.Duration
		ok      bool
	}{{0, false}, {time.Minute, true}} {
		late := 1
		report, err := Run(t.Context(), func(ctx context.Context, op string, body any) ([]byte, error) {
			if op == "Query" && late > 0 {
				late--
				return []byte(`{"Count":0,"ScannedCount":0}`), nil
			}
			return e.Send(ctx, op, body)
		}, m, Options{Runs: 1, ConsistencyTimeout: c.timeout})
		if err != nil || report.OK() != c.ok {
			t.Errorf("with the timeout %v OK is %v, %v", c.timeout, report.OK(), err)
		}
	}
}

// A pattern that nothing serves cannot be proved, and a broken connection is an
// error.
func TestProveCannot(t *testing.T) {
	m := readModel(t, "../testdata/faults/no-index.model.yaml")
	e := server(t, m)
	report, err := Run(t.Context(), e.Send, m, Options{})
	if err != nil || report.Wrong() != 1 || !strings.Contains(report.Patterns[1].Error, "no key or index serves it") {
		t.Errorf("the report is %+v, %v", report, err)
	}
	dead := func(context.Context, string, any) ([]byte, error) { return nil, context.DeadlineExceeded }
	if _, err := Run(t.Context(), dead, m, Options{}); err == nil {
		t.Error("a broken connection is not an error")
	}
}
