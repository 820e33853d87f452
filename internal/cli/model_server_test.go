package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// The model predicts the server's page size.
func TestModelPageSize(t *testing.T) {
	if model.MaxPageBytes != db.MaxPageBytes {
		t.Errorf("a page of the model has %d bytes, and one of the server %d", model.MaxPageBytes, db.MaxPageBytes)
	}
}

// The server replies and charges as predicted for each pattern of the four models,
// and for kinds of patterns that none of them has.
func TestModelServerAgrees(t *testing.T) {
	files, err := filepath.Glob("../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	for _, file := range append(files, "../model/testdata/shapes.model.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readTestModel(t, file)
			for _, p := range m.Patterns {
				t.Run(p.Name, func(t *testing.T) {
					plan := m.Plan(p)
					for _, run := range []int{0, 7} {
						runScenario(t, m, plan, run)
					}
				})
			}
		})
	}
}

func readTestModel(t *testing.T, file string) *model.Model {
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

// runScenario executes a scenario on a server of its own.
func runScenario(t *testing.T, m *model.Model, plan *model.Plan, run int) {
	t.Helper()
	scenario, err := m.Scenario(plan, model.Generator{Seed: 1}, run)
	if err != nil {
		t.Fatal(err)
	}
	s := openServer(t, m)
	for _, stored := range scenario.Before {
		s.send("PutItem", map[string]any{"TableName": stored.Table, "Item": json.RawMessage(wire.AppendItem(nil, stored.Item))})
	}
	for _, call := range scenario.Calls {
		got := s.call(call)
		want := wantText(call.Want)
		if got != want {
			t.Errorf("run %d: %s returned\n%s, predicted was\n%s", run, call.Operation, got, want)
		}
	}
}

// wantText formats the predicted reply of a call.
func wantText(w model.Want) string {
	text := fmt.Sprintf("count %d scanned %d;", w.Count, w.Scanned)
	units := append(w.Read, w.Write...)
	slices.SortFunc(units, func(a, b model.TableUnits) int { return strings.Compare(a.Table, b.Table) })
	for _, u := range units {
		text += fmt.Sprintf(" %s %v:", u.Table, u.Consumed.Table)
		sum := map[string]float64{}
		for _, x := range u.Indexes {
			sum[x.Name] += x.Units
		}
		text += fmt.Sprint(sum)
	}
	return text
}

type modelServer struct {
	t       *testing.T
	handler http.Handler
}

func openServer(t *testing.T, m *model.Model) *modelServer {
	t.Helper()
	s, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	v := &modelServer{t, s.Handler()}
	for _, table := range m.Tables {
		v.send("CreateTable", createTable(table.Schema()))
	}
	return v
}

func createTable(t *schema.Table) map[string]any {
	var attributes, global, local []any
	for _, a := range t.Attributes {
		attributes = append(attributes, map[string]any{"AttributeName": a.Name, "AttributeType": a.Type.String()})
	}
	body := map[string]any{"TableName": t.Name, "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": attributes, "KeySchema": keySchema(t.Key)}
	for _, x := range t.Indexes {
		projection := map[string]any{"ProjectionType": x.Projection.Kind}
		if x.Projection.Names != nil {
			projection["NonKeyAttributes"] = x.Projection.Names
		}
		part := map[string]any{"IndexName": x.Name, "KeySchema": keySchema(x.Key), "Projection": projection}
		if x.Global {
			global = append(global, part)
		} else {
			local = append(local, part)
		}
	}
	if global != nil {
		body["GlobalSecondaryIndexes"] = global
	}
	if local != nil {
		body["LocalSecondaryIndexes"] = local
	}
	return body
}

func keySchema(k schema.Key) (parts []any) {
	for _, a := range k.Partition {
		parts = append(parts, map[string]any{"AttributeName": a.Name, "KeyType": "HASH"})
	}
	for _, a := range k.Sort {
		parts = append(parts, map[string]any{"AttributeName": a.Name, "KeyType": "RANGE"})
	}
	return parts
}

// modelReply is the reply to a request of any operation.
type modelReply struct {
	Count, ScannedCount int
	LastEvaluatedKey    json.RawMessage
	Item                json.RawMessage
	Responses           json.RawMessage
	ConsumedCapacity    json.RawMessage
}

type consumedUnits struct {
	TableName                                     string
	Table                                         struct{ CapacityUnits float64 }
	GlobalSecondaryIndexes, LocalSecondaryIndexes map[string]struct{ CapacityUnits float64 }
}

func (s *modelServer) send(operation string, body any) modelReply {
	s.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", bytes.NewReader(text))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00")
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	answer, _ := io.ReadAll(w.Body)
	if w.Code != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", operation, text, w.Code, answer)
	}
	var got modelReply
	if err := json.Unmarshal(answer, &got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// call sends a request, and those for further pages, and sums the replies.
func (s *modelServer) call(c model.Call) string {
	s.t.Helper()
	var sum model.Want
	sums := map[string]*model.TableUnits{}
	var order []string
	for {
		got := s.send(c.Operation, c.Body)
		sum.Pages++
		sum.Count += got.Count
		sum.Scanned += got.ScannedCount
		sum.Count += itemsOf(got)
		for _, k := range capacities(s.t, got.ConsumedCapacity) {
			u := sums[k.TableName]
			if u == nil {
				u = &model.TableUnits{Table: k.TableName}
				sums[k.TableName] = u
				order = append(order, k.TableName)
			}
			u.Consumed.Table += k.Table.CapacityUnits
			for name, x := range k.GlobalSecondaryIndexes {
				u.Charge(name, true, x.CapacityUnits)
			}
			for name, x := range k.LocalSecondaryIndexes {
				u.Charge(name, false, x.CapacityUnits)
			}
		}
		if !c.Follow || got.LastEvaluatedKey == nil {
			break
		}
		c.Body["ExclusiveStartKey"] = got.LastEvaluatedKey
	}
	if c.Follow && sum.Pages != c.Want.Pages {
		s.t.Errorf("%s returned %d pages, want %d", c.Operation, sum.Pages, c.Want.Pages)
	}
	for _, name := range order {
		sum.Read = append(sum.Read, *sums[name])
	}
	return wantText(sum)
}

// itemsOf counts the items that gets return.
func itemsOf(got modelReply) int {
	if got.Item != nil {
		return 1
	}
	var tables map[string][]json.RawMessage
	if json.Unmarshal(got.Responses, &tables) == nil {
		n := 0
		for _, items := range tables {
			n += len(items)
		}
		return n
	}
	var list []json.RawMessage
	if json.Unmarshal(got.Responses, &list) == nil {
		return len(list)
	}
	return 0
}

func capacities(t *testing.T, text json.RawMessage) (list []consumedUnits) {
	t.Helper()
	if json.Unmarshal(text, &list) == nil {
		return list
	}
	var one consumedUnits
	if err := json.Unmarshal(text, &one); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return []consumedUnits{one}
}

// Of randomly generated patterns, many are invalid: none makes the checker panic,
// and the server executes and charges the valid ones as predicted.
func TestModelServerAgreesAtRandom(t *testing.T) {
	const seed = 20261115
	shapes, err := os.ReadFile("../model/testdata/shapes.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(shapes), "patterns:\n")
	executed := 0
	for i := range 700 {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		text := head + "patterns:\n  - " + randomPattern(r) + "\n"
		m, err := model.Parse("x", []byte(text))
		if err != nil {
			continue
		}
		m.Check(model.DefaultPrices())
		plan := m.Plan(m.Patterns[0])
		if !plan.Served() {
			continue
		}
		if _, err := m.Scenario(plan, model.Generator{}, 0); err != nil {
			continue
		}
		executed++
		if !t.Run(fmt.Sprint("seed ", seed, " pattern ", i), func(t *testing.T) { runScenario(t, m, plan, r.IntN(5)) }) {
			t.Logf("the pattern is %s", text[len(head):])
		}
	}
	if executed < 100 {
		t.Errorf("only %d of the patterns could be executed", executed)
	}
}

// randomPattern returns a random pattern of the entity order, in one line.
func randomPattern(r *rand.Rand) string {
	attributes := []string{"customerId", "orderId", "day", "placedAt", "status", "amount", "region", "kind", "month", "tags", "gift"}
	some := func(least, most int) string {
		n := least + r.IntN(most-least+1)
		var list []string
		for _, i := range r.Perm(len(attributes))[:n] {
			list = append(list, attributes[i])
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	given := some(0, 4)
	if r.IntN(2) == 0 {
		given = []string{"[customerId]", "[customerId, placedAt]", "[customerId, placedAt, orderId]", "[day]", "[region, month]"}[r.IntN(5)]
	}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	members := []string{"name: p", "rate: 1/s", "given: " + given}
	maybe := func(text string) {
		if r.IntN(3) == 0 {
			members = append(members, text)
		}
	}
	status := func() string { return pick("OPEN", "PAID", "SHIPPED") }
	condition := func() {
		maybe(pick("condition: attribute_exists(PK)", `condition: "#status = :status"`, `condition: "amount >= :amount AND size(tags) > :one", values: {":one": 1}`))
	}
	switch verb := pick("get", "query", "query", "query", "put", "update", "update", "delete"); verb {
	case "query":
		members = append(members, "query: order", fmt.Sprintf("matches: %d", 1+r.IntN(12)))
		maybe("where: {" + pick("status: "+status(), "kind: web", "kind: phone, status: PAID", "region: r-west", "gift: true") + "}")
		maybe(fmt.Sprintf("range: {attribute: %s, is: %s}", pick("placedAt", "amount", "month", "day", "orderId"), pick("before", "after", "from", "until", "between", "begins")))
		maybe("order: " + pick("placedAt", "amount desc", "placedAt desc", "month", "orderId desc"))
		maybe("index: " + pick("byAmount", "byDay", "byParts"))
		maybe("consistent: true")
		maybe(fmt.Sprintf("page: %d", 1+r.IntN(6)))
		maybe(fmt.Sprintf("reads: %d", 12+r.IntN(6)))
		maybe("returns: " + some(1, 3))
	case "get":
		members = append(members, "get: order")
		maybe("consistent: true")
		maybe("returns: " + some(1, 4))
	case "put":
		members = append(members, "put: order")
		maybe("set: {status: " + status() + "}")
		maybe("replaces: true")
	case "update":
		members = append(members, "update: order")
		maybe("from: {status: " + status() + "}")
		maybe("set: {" + pick("status: "+status(), `day: "{day}", month: "{month}"`, `amount: "{amount}", status: `+status(), `region: "{region}"`) + "}")
		maybe("add: {" + pick("amount: 1", "tags: [x, y]", "flags: [5]") + "}")
		maybe("append: {lines: [a, {b: 1}]}")
		maybe("remove: " + pick("[gift]", "[month]", "[amount]", "[nothing, blob]"))
		maybe("creates: true")
		condition()
	case "delete":
		members = append(members, "delete: order")
		maybe("from: {status: " + status() + "}")
		condition()
	}
	return "{" + strings.Join(members, ", ") + "}"
}
