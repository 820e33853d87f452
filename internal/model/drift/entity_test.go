package drift_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/drift"
	"github.com/stator-db/stator/internal/workload"
)

// chat is a table of several entities. Five queries have one form.
const chat = `
model: 1
tables:
  chat:
    key: {partition: PK, sort: SK}
entities:
  user: {table: chat, keys: {PK: "USER#{user}", SK: "PROFILE"}, attributes: {user: S, email: S, state: {values: [ON, OFF]}, version: N}}
  friend: {table: chat, keys: {PK: "USER#{user}", SK: "FRIEND#{friend}"}, attributes: {user: S, friend: S}}
  device: {table: chat, keys: {PK: "USER#{user}", SK: "DEVICE#{device}"}, attributes: {user: S, device: S}}
  member: {table: chat, keys: {PK: "ROOM#{room}", SK: "MEMBER#{user}"}, attributes: {room: S, user: S}}
  message: {table: chat, keys: {PK: "ROOM#{room}", SK: "MSG#{id}"}, attributes: {room: S, id: {format: ulid}, text: S}}
  pin: {table: chat, keys: {PK: "ROOM#{room}", SK: "PIN#{id}"}, attributes: {room: S, id: {format: ulid}}}
patterns:
  - {name: friends, query: friend, given: [user], matches: 3, rate: 1/s}
  - {name: devices, query: device, given: [user], matches: 3, rate: 1/s}
  - {name: members, query: member, given: [room], matches: 3, rate: 1/s}
  - {name: messages, query: message, given: [room], matches: 3, rate: 1/s}
  - {name: pins, query: pin, given: [room], matches: 3, rate: 1/s}
  - {name: profile, get: user, given: [user], rate: 1/s}
  - {name: address, get: user, given: [user], returns: [email], rate: 1/s}
  - {name: change address, update: user, given: [user], set: {email: "{email}"}, condition: attribute_exists(PK), rate: 1/s}
  - {name: disable, update: user, given: [user], set: {state: "OFF"}, condition: attribute_exists(PK), rate: 1/s}
  - {name: lock, update: user, given: [user], set: {state: "OFF"}, condition: "version = :version", rate: 1/s}
  - {name: touch, update: user, given: [user], add: {version: 1}, rate: 1/s}
  - {name: join, put: member, condition: attribute_not_exists(PK), rate: 1/s}
  - {name: send, put: message, rate: 1/s}
  - name: enter
    transact:
      - {put: member, condition: attribute_not_exists(PK)}
      - {update: user, given: [user], add: {version: 1}}
    rate: 1/s
  - name: load
    batch:
      - {get: user, given: [user]}
      - {get: member, given: [room, user]}
    rate: 1/s
`

// Requests are matched with the patterns of their entity: each case is traffic of one
// pattern, then traffic that differs from it in one respect.
func TestJoinEntities(t *testing.T) {
	m, err := model.Parse("chat.model.yaml", []byte(chat))
	if err != nil {
		t.Fatal(err)
	}
	const members = "PK = ? AND begins_with(SK, ?)"
	query := workload.Shape{Operation: "Query", Table: "chat", Form: members, Partition: "ROOM#", Sort: "MSG#"}
	update := workload.Shape{Operation: "UpdateItem", Table: "chat", Partition: "USER#", Sort: "PROFILE"}
	conditional := update
	conditional.Condition, conditional.ConditionText = true, "attribute_exists(PK)"
	with := func(s workload.Shape, set func(*workload.Shape)) workload.Shape { set(&s); return s }
	transaction := workload.Shape{Operation: "TransactWriteItems", Table: "chat", Form: "Put, Update", Actions: "Put ROOM# MEMBER# if; Update USER# PROFILE"}
	batch := workload.Shape{Operation: "BatchGetItem", Table: "chat", Actions: "Get ROOM# MEMBER#; Get USER# PROFILE"}
	for _, c := range []struct {
		name    string
		traffic workload.Shape
		want    string // the patterns that are not never, or "stray: " and the closest one
	}{
		{"one query of five", query, "messages ok"},
		{"a query by a shorter prefix", with(query, func(s *workload.Shape) { s.Sort = "MSG" }), "messages ok"},
		{"a query of no entity", with(query, func(s *workload.Shape) { s.Sort = "DRAFT#" }), "stray: members: its sort key begins with DRAFT#, not MEMBER#"},
		{"a query of another partition", with(query, func(s *workload.Shape) { s.Partition = "TEAM#" }), "stray: messages: its partition key begins with TEAM#, not ROOM#"},
		{"a query whose prefix is not counted", with(query, func(s *workload.Shape) { s.Sort = "?" }), "members shared; messages shared; pins shared"},
		{"an update", with(update, func(s *workload.Shape) { s.Changes = "version" }), "touch ok"},
		{"an update of more than the pattern lists", with(update, func(s *workload.Shape) { s.Changes = "seen, version" }), "touch ok"},
		{"an update of unknown attributes", with(update, func(s *workload.Shape) { s.Changes = "??" }), "touch ok"},
		{"an update without its condition", with(update, func(s *workload.Shape) { s.Changes = "email" }),
			"stray: change address: it has no condition (attribute_exists(PK))"},
		{"an update with a condition", with(conditional, func(s *workload.Shape) { s.Changes = "email" }), "change address ok"},
		{"another update with the condition", with(conditional, func(s *workload.Shape) { s.Changes = "state" }), "disable ok"},
		{"an update of more than any pattern lists", with(conditional, func(s *workload.Shape) { s.Changes = "email, state" }), "change address shared; disable shared"},
		{"an update with another condition", with(conditional, func(s *workload.Shape) { s.ConditionText, s.Changes = "version = ?", "state" }), "lock ok"},
		{"an update with a condition of no pattern", with(conditional, func(s *workload.Shape) { s.ConditionText, s.Changes = "email = ?", "state" }),
			"stray: disable: its condition is email = ?, not attribute_exists(PK)"},
		{"a get", workload.Shape{Operation: "GetItem", Table: "chat", Partition: "USER#", Sort: "PROFILE"}, "profile ok"},
		{"a projection", workload.Shape{Operation: "GetItem", Table: "chat", Partition: "USER#", Sort: "PROFILE", Projection: "email"}, "address ok"},
		{"another projection", workload.Shape{Operation: "GetItem", Table: "chat", Partition: "USER#", Sort: "PROFILE", Projection: "state"},
			"stray: profile: it has a projection (state)"},
		{"a get of another entity", workload.Shape{Operation: "GetItem", Table: "chat", Partition: "ROOM#", Sort: "PIN#"},
			"stray: profile: its partition key begins with ROOM#, not USER#, its sort key begins with PIN#, not PROFILE"},
		{"a put", workload.Shape{Operation: "PutItem", Table: "chat", Partition: "ROOM#", Sort: "MSG#"}, "send ok"},
		{"a put without its condition", workload.Shape{Operation: "PutItem", Table: "chat", Partition: "ROOM#", Sort: "MEMBER#"},
			"stray: join: it has no condition (attribute_not_exists(PK))"},
		{"an INSERT, which has the condition by itself", workload.Shape{Operation: "PutItem", Table: "chat", Partition: "ROOM#", Sort: "MEMBER#", Statement: true}, "join ok"},
		{"a SELECT", with(query, func(s *workload.Shape) { s.Statement = true }), "messages ok"},
		{"a transaction", transaction, "enter ok"},
		{"a transaction without a condition", with(transaction, func(s *workload.Shape) { s.Actions = "Put ROOM# MEMBER#; Update USER# PROFILE" }),
			"stray: enter: it contains Put ROOM# MEMBER#, it does not contain Put ROOM# MEMBER# if"},
		{"half a transaction", with(transaction, func(s *workload.Shape) { s.Actions = "Update USER# PROFILE" }), "stray: enter: it does not contain Put ROOM# MEMBER# if"},
		{"a batch", batch, "load ok"},
		{"a part of a batch", with(batch, func(s *workload.Shape) { s.Actions = "Get USER# PROFILE" }), "load ok"},
		{"a batch of another entity", with(batch, func(s *workload.Shape) { s.Actions = "Get ROOM# PIN#" }), "stray: load: it contains Get ROOM# PIN#"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := drift.Join(m, workload.Report{Shapes: []workload.ShapeCount{count(c.traffic, 10, 10, 10, 1)}})
			requireDrift(t, r, c.want)
		})
	}
}

// A cost that was not measured is unknown, and not zero.
func TestJoinUnmeasured(t *testing.T) {
	m, err := model.Parse("chat.model.yaml", []byte(chat))
	if err != nil {
		t.Fatal(err)
	}
	get := workload.ShapeCount{Shape: workload.Shape{Operation: "GetItem", Table: "chat", Partition: "USER#", Sort: "PROFILE"}, Requests: 3, Returned: 3, Scanned: 3}
	for measured, want := range map[int64]string{0: `"status":"unmeasured","requests":3,"returned":3,"scanned":3,"units":null`, 1: `"status":"ok","requests":3,"returned":3,"scanned":3,"units":0.5`} {
		get.Measured, get.Units = measured, 1.5*float64(measured)
		r := drift.Join(m, workload.Report{Shapes: []workload.ShapeCount{get}})
		text, err := json.Marshal(r)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("with %d measured the report is %s, %v", measured, text, err)
		}
		if !r.OK(drift.Allowed{Unused: true}) || r.OK(drift.Allowed{}) {
			t.Errorf("with %d measured the report is %t, and with unused patterns %t", measured, r.OK(drift.Allowed{}), r.OK(drift.Allowed{Unused: true}))
		}
	}
}

// Ten runs of one query on a server mark one pattern, although four others have its form;
// an update without its condition is a stray, and with it the pattern is ok.
func TestDriftOfOneQuery(t *testing.T) {
	m, err := model.Parse("chat.model.yaml", []byte(chat))
	if err != nil {
		t.Fatal(err)
	}
	e := server(t, m)
	send := func(operation, body string) {
		t.Helper()
		if _, err := e.Send(t.Context(), operation, json.RawMessage(body)); err != nil {
			t.Fatal(err)
		}
	}
	const user = `{"PK":{"S":"USER#ada"},"SK":{"S":"PROFILE"}}`
	for range 10 {
		send("Query", `{"TableName":"chat","KeyConditionExpression":"PK = :p AND begins_with(SK, :s)","ExpressionAttributeValues":{":p":{"S":"ROOM#1"},":s":{"S":"MSG#"}}}`)
	}
	requireDrift(t, drift.Join(m, shapes(t, e)), "messages ok")
	const change = `"TableName":"chat","Key":` + user + `,"UpdateExpression":"SET email = :e","ExpressionAttributeValues":{":e":{"S":"a@example.org"}}`
	send("UpdateItem", `{`+change+`}`)
	requireDrift(t, drift.Join(m, shapes(t, e)), "messages ok; stray: change address: it has no condition (attribute_exists(PK))")
	if _, err := e.Delete(t.Context(), "/shapes"); err != nil {
		t.Fatal(err)
	}
	send("UpdateItem", `{`+change+`,"ConditionExpression":"attribute_exists(PK)"}`)
	requireDrift(t, drift.Join(m, shapes(t, e)), "change address ok")
}

// requireDrift compares the patterns that were requested, and the strays.
func requireDrift(t *testing.T, r *drift.Report, want string) {
	t.Helper()
	var got []string
	for _, p := range r.Patterns {
		if p.Status != drift.Never {
			got = append(got, p.Name+" "+p.Status)
		}
	}
	for _, s := range r.Strays {
		got = append(got, "stray: "+s.Near+": "+s.Differs)
	}
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("it is %q, want %q", text, want)
	}
}
