package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/virtualtime"
)

// server opens a database whose tables take a while to change, in virtual time.
func server(t *testing.T) *apply.Endpoint {
	t.Helper()
	s, err := stator.Open(t.Context(), stator.Options{TableDelay: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &apply.Endpoint{URL: "http://stator.invalid", Client: s.Client(), Sign: sign}
}

// inVirtualTime runs a test in which waiting takes no time.
func inVirtualTime(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { virtualtime.Test(t, test) })
}

func sign(r *http.Request, _ []byte) error {
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	return nil
}

const rest = `
entities:
  order: {keys: {PK: "C#{customer}", SK: "O#{order}"}, attributes: {customer: S, order: S, day: S, amount: N}}
patterns:
  - {name: get, get: order, given: [customer, order], rate: 1/s}
`

// tableModel returns a model with one table, which is given as YAML.
func tableModel(t *testing.T, table string) *model.Model {
	t.Helper()
	m, err := model.Parse("test.model.yaml", []byte("model: 1\ntables:\n  shop: "+table+rest))
	if err != nil {
		t.Fatalf("%s: %v", table, err)
	}
	return m
}

// kinds returns the kinds of a plan's changes.
func kinds(p *apply.Plan) (all []string) {
	for _, c := range p.Changes {
		all = append(all, c.Kind)
	}
	return all
}

// applied applies a model and returns the plan.
func applied(t *testing.T, e *apply.Endpoint, m *model.Model) *apply.Plan {
	t.Helper()
	plan, err := apply.Make(t.Context(), e.Send, m)
	if err != nil {
		t.Fatal(err)
	}
	waited, done := 0, 0
	err = apply.Do(t.Context(), e.Send, plan, apply.Waiting{Every: time.Second, Progress: func(_ *apply.Change, state string) {
		if state == "" {
			done++
		} else {
			waited++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if done != len(plan.Changes) {
		t.Errorf("%d of %d changes were reported", done, len(plan.Changes))
	}
	if slices.Contains(kinds(plan), apply.CreateTable) && waited == 0 {
		t.Error("the table takes a while, but Do did not wait")
	}
	again, err := apply.Make(t.Context(), e.Send, m)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Changes)+len(again.Faults) > 0 {
		t.Errorf("a second run would make the changes %v, with the faults %v", texts(again), faults(again))
	}
	return plan
}

func texts(p *apply.Plan) (all []string) {
	for _, c := range p.Changes {
		all = append(all, c.Text)
	}
	return all
}

func faults(p *apply.Plan) (all []string) {
	for _, f := range p.Faults {
		all = append(all, f.Message)
	}
	return all
}

const key = "key: {partition: PK, sort: SK}"

// Each kind of change is planned, made, waited for, and not repeated.
func TestApplyChanges(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{"a new table", "", "{" + key + ", indexes: {byDay: {partition: day}}, ttl: expires, stream: NEW_IMAGE, recovery: true}",
			[]string{apply.CreateTable, apply.TimeToLive, apply.Recovery}},
		{"a provisioned one", "", "{" + key + ", indexes: {byDay: {partition: day}}, billing: provisioned, read: {units: 3}, write: {units: 4}}",
			[]string{apply.CreateTable}},
		{"with a local index", "", "{" + key + ", indexes: {byAmount: {local: true, sort: amount, projection: [day]}}, types: {amount: N}}",
			[]string{apply.CreateTable}},
		{"nothing", "{" + key + "}", "{" + key + "}", nil},
		{"an index is added", "{" + key + "}", "{" + key + ", indexes: {byDay: {partition: day, projection: KEYS_ONLY}}}", []string{apply.AddIndex}},
		{"two are added, one at a time", "{" + key + "}", "{" + key + ", indexes: {byDay: {partition: day}, byOrder: {partition: order, sort: day}}}",
			[]string{apply.AddIndex, apply.AddIndex}},
		{"an index is removed", "{" + key + ", indexes: {byDay: {partition: day}}}", "{" + key + "}", []string{apply.RemoveIndex}},
		{"an index gets another key", "{" + key + ", indexes: {byDay: {partition: day}}}", "{" + key + ", indexes: {byDay: {partition: day, sort: order}}}",
			[]string{apply.RemoveIndex, apply.AddIndex}},
		{"an index gets another projection", "{" + key + ", indexes: {byDay: {partition: day, projection: [a, b]}}}", "{" + key + ", indexes: {byDay: {partition: day, projection: [a, c]}}}",
			[]string{apply.RemoveIndex, apply.AddIndex}},
		{"the order of projected attributes does not matter", "{" + key + ", indexes: {byDay: {partition: day, projection: [a, b]}}}", "{" + key + ", indexes: {byDay: {partition: day, projection: [b, a]}}}", nil},
		{"an index key gets another type", "{" + key + ", indexes: {byAmount: {partition: amount}}, types: {amount: N}}", "{" + key + ", indexes: {byAmount: {partition: day, sort: amount}}, types: {amount: N}}",
			[]string{apply.RemoveIndex, apply.AddIndex}},
		{"to provisioned", "{" + key + ", indexes: {byDay: {partition: day}}}", "{" + key + ", indexes: {byDay: {partition: day, read: {units: 9}}}, billing: provisioned, read: {units: 3}, write: {units: 4}}",
			[]string{apply.Billing}},
		{"to on-demand", "{" + key + ", billing: provisioned, read: {units: 3}, write: {units: 4}}", "{" + key + "}", []string{apply.Billing}},
		{"other units", "{" + key + ", indexes: {byDay: {partition: day}}, billing: provisioned, read: {units: 3}, write: {units: 4}}",
			"{" + key + ", indexes: {byDay: {partition: day, write: {units: 9}}}, billing: provisioned, read: {units: 5}, write: {units: 4}}", []string{apply.Units}},
		{"units within the bounds of scaling", "{" + key + ", billing: provisioned, read: {units: 7}, write: {units: 4}}",
			"{" + key + ", billing: provisioned, read: {units: 5, min: 5, max: 10}, write: {units: 4}}", []string{apply.Scaling, apply.Scaling}},
		{"a stream starts", "{" + key + "}", "{" + key + ", stream: KEYS_ONLY}", []string{apply.Stream}},
		{"a stream ends", "{" + key + ", stream: KEYS_ONLY}", "{" + key + "}", []string{apply.Stream}},
		{"a stream with another view type", "{" + key + ", stream: KEYS_ONLY}", "{" + key + ", stream: NEW_IMAGE}", []string{apply.Stream, apply.Stream}},
		{"items expire", "{" + key + "}", "{" + key + ", ttl: expires}", []string{apply.TimeToLive}},
		{"items no longer expire", "{" + key + ", ttl: expires}", "{" + key + "}", []string{apply.TimeToLive}},
		{"recovery is enabled", "{" + key + "}", "{" + key + ", recovery: true}", []string{apply.Recovery}},
		{"recovery is disabled", "{" + key + ", recovery: true}", "{" + key + "}", []string{apply.Recovery}},
		{"many changes at once", "{" + key + ", indexes: {byDay: {partition: day}}, stream: KEYS_ONLY}",
			"{" + key + ", indexes: {byOrder: {partition: order}}, billing: provisioned, read: {units: 1}, write: {units: 1}, ttl: expires, recovery: true}",
			[]string{apply.RemoveIndex, apply.Billing, apply.AddIndex, apply.Stream, apply.TimeToLive, apply.Recovery}},
	} {
		inVirtualTime(t, c.name, func(t *testing.T) {
			e := server(t)
			if c.before != "" {
				applied(t, e, tableModel(t, c.before))
			}
			plan := applied(t, e, tableModel(t, c.after))
			if got := kinds(plan); !slices.Equal(got, c.want) {
				t.Errorf("the changes are %q, want %q", texts(plan), c.want)
			}
		})
	}
}

// Differences that cannot be resolved are reported, and nothing is changed.
func TestApplyCannot(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"another key", "{" + key + "}", "{key: {partition: PK}}", "its key is PK S HASH, SK S RANGE, but the model's is PK S HASH: a table's key cannot be changed"},
		{"an additional local index", "{" + key + "}", "{" + key + ", indexes: {byDay: {local: true, sort: day}}, stream: KEYS_ONLY}", "it lacks the local index byDay"},
		{"a missing local index", "{" + key + ", indexes: {byDay: {local: true, sort: day}}}", "{" + key + "}", "it has the local index byDay, which the model does not have"},
		{"another local index", "{" + key + ", indexes: {byDay: {local: true, sort: day}}}", "{" + key + ", indexes: {byDay: {local: true, sort: order}}}", "its local index byDay differs"},
	} {
		inVirtualTime(t, c.name, func(t *testing.T) {
			e := server(t)
			applied(t, e, tableModel(t, c.before))
			m, err := model.Parse("x", []byte("model: 1\ntables:\n  shop: "+c.after+strings.ReplaceAll(rest, `, SK: "O#{order}"`, "")))
			if err != nil {
				m = tableModel(t, c.after)
			}
			sent := 0
			plan, err := apply.Make(t.Context(), e.Send, m)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(faults(plan), "; "); !strings.Contains(got, c.want) {
				t.Errorf("the faults are %q, want %q", got, c.want)
			}
			err = apply.Do(t.Context(), func(context.Context, string, any) ([]byte, error) { sent++; return nil, nil }, plan, apply.Waiting{})
			if err == nil || sent > 0 {
				t.Errorf("%d requests were sent, %v", sent, err)
			}
		})
	}
}

// A server may lack recovery if the model does not ask for it; a failure of the
// server does not count as lacking it.
func TestApplyWithoutRecovery(t *testing.T) { virtualtime.Test(t, testApplyWithoutRecovery) }

func testApplyWithoutRecovery(t *testing.T) {
	e := server(t)
	applied(t, e, tableModel(t, "{"+key+"}"))
	with := func(fault error) apply.Send {
		return func(ctx context.Context, operation string, body any) ([]byte, error) {
			if operation == "DescribeContinuousBackups" {
				return nil, fault
			}
			return e.Send(ctx, operation, body)
		}
	}
	unknown := with(apierror.UnknownOperation())
	plan, err := apply.Make(t.Context(), unknown, tableModel(t, "{"+key+"}"))
	if err != nil || len(plan.Faults)+len(plan.Changes) > 0 {
		t.Errorf("without recovery the plan is %+v, %v", plan, err)
	}
	plan, err = apply.Make(t.Context(), unknown, tableModel(t, "{"+key+", recovery: true}"))
	if err != nil || len(plan.Faults) != 1 {
		t.Errorf("with recovery the plan is %+v, %v", plan, err)
	}
	broken := errors.New("connection reset")
	if _, err = apply.Make(t.Context(), with(broken), tableModel(t, "{"+key+"}")); !errors.Is(err, broken) {
		t.Errorf("a broken connection returns %v", err)
	}
}

// Waiting ends when the context ends.
func TestApplyGivesUp(t *testing.T) { virtualtime.Test(t, testApplyGivesUp) }

func testApplyGivesUp(t *testing.T) {
	e := server(t)
	plan, err := apply.Make(t.Context(), e.Send, tableModel(t, "{"+key+"}"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = apply.Do(ctx, e.Send, plan, apply.Waiting{Every: time.Hour, Progress: func(*apply.Change, string) { cancel() }})
	if !errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), "still CREATING") {
		t.Errorf("it ends with %v", err)
	}
}

// A plan can be encoded as JSON.
func TestPlanAsJSON(t *testing.T) { virtualtime.Test(t, testPlanAsJSON) }

func testPlanAsJSON(t *testing.T) {
	e := server(t)
	plan, err := apply.Make(t.Context(), e.Send, tableModel(t, "{"+key+", billing: provisioned, read: {min: 5, max: 10}, write: {units: 4}}"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"table":"shop"`, `"kind":"create table"`, `"request":{"operation":"CreateTable","body":{`, `"ReadCapacityUnits":5`,
		`"kind":"auto scaling","text":"scale the reads between 5 and 10 units","request":{"operation":"RegisterScalableTarget","body":{"MaxCapacity":10,"MinCapacity":5,"ResourceId":"table/shop","ScalableDimension":"dynamodb:table:ReadCapacityUnits","ServiceNamespace":"dynamodb"}}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s has no %s", text, want)
		}
	}
}
