package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/infer"
	"github.com/stator-db/stator/internal/model/match"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/workload"
)

// From the tables and the traffic of each of the four applications, without its model, every
// entity and every access pattern is found, with its rate, and the derived model passes check.
func TestModelInferApplications(t *testing.T) {
	files, err := filepath.Glob("../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "documents.model.yaml" {
			file = "../model/infer/testdata/documents.model.yaml" // without what is not derived
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readTestModel(t, file)
			sent := trafficOf(t, m)
			derived := inferFrom(t, m, sent, "")
			if len(derived.Entities) != len(m.Entities) {
				t.Errorf("%d entities are found, want %d", len(derived.Entities), len(m.Entities))
			}
			comparePatterns(t, m, derived, sent)
			compareRates(t, derived, sent)
			for _, f := range derived.Check(model.DefaultPrices()).Faults {
				t.Errorf("check reports %s", f)
			}
		})
	}
}

// An entity that is not in the items is not found, and the traffic about it is reported as such.
func TestModelInferMissingEntity(t *testing.T) {
	m := readTestModel(t, "../../apps/taskqueue/taskqueue.model.yaml")
	sent := trafficOf(t, m)
	r := infer.From(m.Name, "a test", readSamples(t, m, "slot"))
	r.AddTraffic(sent.report, sent.until)
	if len(r.Entities) != len(m.Entities)-1 || slices.ContainsFunc(r.Entities, func(e *infer.Entity) bool { return strings.Contains(e.Name, "slot") }) {
		t.Errorf("%d entities are found, want %d without slot", len(r.Entities), len(m.Entities)-1)
	}
	for _, want := range []string{"PutItem of tasks QUEUE# SLOT#", "DeleteItem of tasks QUEUE# SLOT#", "Query of tasks PK = ? AND begins_with(SK, ?) QUEUE# SLOT#"} {
		if !slices.ContainsFunc(r.Unmatched, func(text string) bool { return strings.HasPrefix(text, want+": no entity has such keys") }) {
			t.Errorf("%q is not among the unmatched traffic %q", want, r.Unmatched)
		}
	}
	text, err := r.Model()
	if err != nil || !strings.Contains(string(text), "# Not derived: PutItem of tasks QUEUE# SLOT#: no entity has such keys (1,728,000,000 requests)") {
		t.Errorf("%v, the model is\n%s", err, text)
	}
}

// inferFrom derives a model from the items and the traffic of another.
func inferFrom(t *testing.T, m *model.Model, sent *modelTraffic, except string) *model.Model {
	t.Helper()
	r := infer.From(m.Name, "a test", readSamples(t, m, except))
	r.AddTraffic(sent.report, sent.until)
	text, err := r.Model()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", text)
		}
	})
	for _, text := range r.Unmatched {
		t.Errorf("no pattern is derived from %s", text)
	}
	derived, err := model.Parse("derived", text)
	if err != nil {
		t.Fatal(err)
	}
	return derived
}

var attributeInTemplate = regexp.MustCompile(`\{[^}]*\}`)

// actionForm is what an action does to which entity, by the form of its keys.
func actionForm(a *model.Action) string {
	e := a.Entity()
	text := string(a.Verb()) + " " + e.TableOf().Name
	for _, k := range e.TableOf().Schema().Key.All() {
		f, _ := e.Field(k.Name)
		text += " " + attributeInTemplate.ReplaceAllString(f.Template(), "*")
	}
	return text
}

// comparePatterns checks that the requests of each pattern are those of a derived one, which does the
// same to the same entities.
func comparePatterns(t *testing.T, m, derived *model.Model, sent *modelTraffic) {
	t.Helper()
	matcher := match.New(derived)
	for _, p := range m.Patterns {
		for _, shape := range sent.shapes[p.Name] {
			found := matcher.Find(shape)
			if len(found) == 0 {
				near, differs := matcher.Nearest(shape)
				t.Errorf("no pattern sends the request of %q, %+v; the nearest is %+v, but %s", p.Name, shape, near, strings.Join(differs, ", "))
				continue
			}
			for _, a := range p.Actions() {
				does := func(r *match.Request) bool {
					return slices.ContainsFunc(r.Pattern.Actions(), func(x *model.Action) bool { return actionForm(x) == actionForm(a) })
				}
				// The requests of two entities with the same prefix are found as patterns of both.
				if !slices.ContainsFunc(found, does) {
					t.Errorf("%q is found as %q, which does not %s", p.Name, found[0].Pattern.Name, actionForm(a))
				}
			}
		}
	}
}

// compareRates checks that the rate of each derived pattern is that of its requests, within 10 %.
func compareRates(t *testing.T, m *model.Model, sent *modelTraffic) {
	t.Helper()
	matcher := match.New(m)
	requests := make(map[string]float64)
	for _, c := range sent.report.Shapes {
		found := matcher.Find(c.Shape)
		for _, r := range found {
			requests[r.Pattern.Name] += float64(c.Requests) / float64(len(found))
		}
	}
	checked := m.Check(model.DefaultPrices())
	for i, p := range m.Patterns {
		tables := max(1, len(matcher.Requests(p)))
		want := requests[p.Name] / float64(max(1, checked.Patterns[i].Requests)) / float64(tables) / sent.until.Sub(sent.report.Since).Seconds()
		if got := p.Rate.PerSecond; math.Abs(got-want) > 0.1*want || want == 0 {
			t.Errorf("the rate of %q is %s (%v/s), want %v/s", p.Name, p.Rate, got, want)
		}
	}
}

// modelTraffic is the traffic of all patterns of a model.
type modelTraffic struct {
	report workload.Report
	until  time.Time
	shapes map[string][]workload.Shape // by pattern
}

// trafficOf runs each pattern of a model once, on a server of its own, and returns the shapes of
// its requests with the counts that its rate gives over a thousand days.
func trafficOf(t *testing.T, m *model.Model) *modelTraffic {
	t.Helper()
	const seconds = 1000 * 86400
	sent := &modelTraffic{shapes: make(map[string][]workload.Shape)}
	sent.report.Since = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sent.until = sent.report.Since.Add(seconds * time.Second)
	sum := make(map[workload.Shape]*workload.ShapeCount)
	for _, p := range m.Patterns {
		scenario, err := m.Scenario(m.Plan(p), model.Generator{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := openServer(t, m)
		for _, stored := range scenario.Before {
			s.send("PutItem", map[string]any{"TableName": stored.Table, "Item": json.RawMessage(wire.AppendItem(nil, stored.Item))})
		}
		before := make(map[workload.Shape]workload.ShapeCount)
		for _, c := range shapesOf(t, s.handler) {
			before[c.Shape] = c
		}
		for _, call := range scenario.Calls {
			s.call(call)
		}
		if len(scenario.Calls) == 0 {
			t.Fatalf("%q sends no request", p.Name)
		}
		runs := int64(math.Round(p.Rate.PerSecond * seconds))
		for _, c := range shapesOf(t, s.handler) {
			if c.Requests == before[c.Shape].Requests {
				continue
			}
			sent.shapes[p.Name] = append(sent.shapes[p.Name], c.Shape)
			if sum[c.Shape] == nil {
				sum[c.Shape] = &workload.ShapeCount{Shape: c.Shape}
			}
			sum[c.Shape].Requests += runs * (c.Requests - before[c.Shape].Requests)
			sum[c.Shape].Returned += runs * (c.Returned - before[c.Shape].Returned)
			sum[c.Shape].Scanned += runs * (c.Scanned - before[c.Shape].Scanned)
		}
	}
	for _, c := range sum {
		sent.report.Shapes = append(sent.report.Shapes, *c)
	}
	slices.SortFunc(sent.report.Shapes, func(a, b workload.ShapeCount) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return sent
}

func shapesOf(t *testing.T, handler http.Handler) []workload.ShapeCount {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/shapes", nil)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	handler.ServeHTTP(w, r)
	var report workload.Report
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return report.Shapes
}

// readSamples stores items of all entities but one, and those that the patterns read, which have all
// states, and reads a sample of them.
func readSamples(t *testing.T, m *model.Model, except string) []*infer.TableSample {
	t.Helper()
	s := openServer(t, m)
	put := func(table string, it []byte) {
		s.send("PutItem", map[string]any{"TableName": table, "Item": json.RawMessage(it)})
	}
	for _, e := range m.Entities {
		for i := range 60 {
			if e.Name == except {
				break
			}
			put(e.TableOf().Name, wire.AppendItem(nil, model.Generator{}.Item(e, 1_000_000+i)))
		}
	}
	for i, p := range m.Patterns {
		if slices.ContainsFunc(p.Actions(), func(a *model.Action) bool { return a.Entity().Name == except }) {
			continue
		}
		for run := range 3 {
			scenario, err := m.Scenario(m.Plan(p), model.Generator{}, 1000*i+run)
			if err != nil {
				t.Fatal(err)
			}
			for _, stored := range scenario.Before {
				put(stored.Table, wire.AppendItem(nil, stored.Item))
			}
		}
	}
	server := httptest.NewServer(s.handler)
	defer server.Close()
	send := apply.Send(func(ctx context.Context, operation string, body any) ([]byte, error) {
		return clientOf(server.URL, "us-east-1").Send(ctx, operation, body)
	})
	samples, err := infer.ReadServer(t.Context(), send, infer.Options{Units: 10_000, Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}
