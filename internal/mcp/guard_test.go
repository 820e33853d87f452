package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/protocol/effect"
	"github.com/stator-db/stator/internal/virtualtime"
)

// writingStatements write, whatever hides it.
var writingStatements = []string{
	"DELETE FROM Orders WHERE id = 'a' AND n = 1", "  delete\tFROM Orders WHERE id = 'a' AND n = 1",
	"INSERT INTO Orders VALUE {'id': 'z', 'n': 1}", "UPDATE Orders SET x = 1 WHERE id = 'a' AND n = 1", "/* SELECT */ DELETE FROM Orders WHERE id = 'a' AND n = 1",
	"-- SELECT\nDELETE FROM Orders WHERE id = 'a' AND n = 1", "SELECTED", "",
}

// argumentsOf makes arguments of a tool, some of which it accepts.
func argumentsOf(random *rand.Rand, tool string) map[string]any {
	pick := func(of ...any) any { return of[random.IntN(len(of))] }
	statement := pick("SELECT * FROM Orders", writingStatements[random.IntN(len(writingStatements))])
	operation := pick("PutItem", "DeleteItem", "UpdateItem", "BatchWriteItem", "TransactWriteItems", "ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction",
		"DeleteTable", "UpdateTable", "CreateTable", "Stator.UndoChanges", "Stator.Rewind", "Stator.CreateFork", "Stator.CreateAccessKey", "Stator.SetFaults", "GetItem", "Scan", "x.PutItem", "putitem", "")
	key := map[string]any{"id": map[string]any{"S": "a"}, "n": map[string]any{"N": "1"}}
	body := pick(map[string]any{"TableName": "Orders", "Key": key, "Item": key}, map[string]any{"Statement": statement},
		map[string]any{"Statements": []any{map[string]any{"Statement": "SELECT * FROM Orders"}, map[string]any{"Statement": statement}}},
		map[string]any{"TransactStatements": []any{map[string]any{"Statement": statement}}},
		map[string]any{"Statement": "SELECT * FROM Orders", "statement": statement},
		map[string]any{"TransactItems": []any{map[string]any{"Put": map[string]any{"TableName": "Orders", "Item": key}}}},
		map[string]any{"RequestItems": map[string]any{"Orders": []any{map[string]any{"PutRequest": map[string]any{"Item": key}}}}}, nil)
	all := map[string]any{
		"table": pick("Orders", "Orders", "None", "", 1), "key": pick(map[string]any{"id": "a", "n": 1}, map[string]any{"id": "a"}, nil, "a"),
		"where":      pick(map[string]any{"id": "a"}, map[string]any{"total": map[string]any{"<": 8}}, map[string]any{"customer": "ada", "placed": map[string]any{"between": []any{"1", "3"}}}, nil),
		"allow_scan": pick(true, false), "limit": pick(1, 50, 51, -1, nil), "at": pick("", "5m", "x"), "fork": pick("", "", "main", "../x", nil), "index": pick("", "byCustomer", "none"),
		"statement": pick(statement, statement, nil), "operation": operation, "body": body, "confirm": "x", "request_id": "x", "pattern": pick("", "order by id"), "text": pick("", "model: 1"),
		"actions": []any{map[string]any{"action": pick("put", "delete"), "table": "Orders", "item": map[string]any{"id": "q", "n": 1}}}, "dry_run": pick(true, false), "action": pick("create", "diff", "drop"),
		"from": "1h", "to": "1s",
	}
	names := toolArguments[tool]
	in := make(map[string]any)
	for _, name := range names {
		if random.IntN(4) > 0 {
			in[name] = all[name]
		}
	}
	if random.IntN(20) == 0 {
		in["unknown"] = 1
	}
	return in
}

// toolArguments are the arguments of tools that may be given.
var toolArguments = map[string][]string{
	"overview": {"table", "fork"}, "get": {"table", "key", "at", "fork"}, "query": {"table", "where", "allow_scan", "limit", "at", "fork", "index"}, "sample": {"table", "fork"},
	"explain": {"statement", "operation", "body"}, "history": {"table", "key", "limit", "fork"}, "traffic": {"table", "limit"}, "why_denied": {"request_id"},
	"request": {"operation", "body", "fork"}, "model_check": {"text", "pattern"}, "model_cost": {"text", "pattern"}, "model_drift": {}, "table_plan": {"fork"},
}

// changes returns the requests that have reached the database and may change something.
func (r *toolRig) changes() (all []string) {
	for _, q := range r.operations() {
		if q.method != http.MethodGet && effect.Of(q.operation, q.body) != effect.Nothing {
			all = append(all, fmt.Sprintf("%s%s %s", q.path, q.operation, q.body))
		}
	}
	return all
}

// Whatever an agent calls, nothing that writes reaches the database unless that is allowed.
func TestReadsOnly(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	r := newRig(t, nil)
	before := r.send("Scan", `{"TableName":"Orders"}`)
	listed, err := r.client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		runs := 40
		switch tool.Name {
		case "request":
			runs = 400
		case "explain":
			runs = 20 // each opens a database
		case "model_prove":
			runs = 1
		}
		for range runs {
			in := argumentsOf(random, tool.Name)
			text, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			var plan struct{ Confirm string }
			if answer, _ := r.call(tool.Name, string(text)); json.Unmarshal([]byte(answer), &plan) == nil && plan.Confirm != "" {
				in["confirm"] = plan.Confirm
				if text, err = json.Marshal(in); err != nil {
					t.Fatal(err)
				}
				r.call(tool.Name, string(text))
			}
		}
	}
	// Tools that are not listed cannot be called by their names.
	for _, tool := range []string{"write", "undo", "fork", "table_apply"} {
		if text, isError := r.call(tool, `{"action":"create"}`); !isError {
			t.Errorf("%s is answered: %s", tool, text)
		}
	}
	if found := r.changes(); len(found) > 0 {
		t.Errorf("%d requests change something: %.2000q", len(found), found)
	}
	if len(r.operations()) < 200 {
		t.Errorf("%d requests were sent: the arguments do not fit", len(r.operations()))
	}
	if after := r.send("Scan", `{"TableName":"Orders"}`); after != before {
		t.Errorf("the items were %s, and are %s", before, after)
	}
}

// The control: the recorder sees the writes that are allowed.
func TestRecorderSeesWrites(t *testing.T) {
	r := newRig(t, nil, Write)
	answer := r.want("request", `{"operation":"ExecuteStatement","body":{"Statement":"DELETE FROM Orders WHERE id = 'a' AND n = 1"}}`, `"done":false`)
	if found := r.changes(); len(found) > 0 {
		t.Errorf("before it is confirmed, %q", found)
	}
	r.want("request", `{"operation":"ExecuteStatement","body":{"Statement":"DELETE FROM Orders WHERE id = 'a' AND n = 1"},"confirm":"`+member[string](t, answer, "confirm")+`"}`, `"reply"`)
	if found := r.changes(); len(found) != 1 || !strings.Contains(found[0], "DELETE FROM") {
		t.Errorf("the requests that change something are %q", found)
	}
	r.want("request", `{"operation":"DeleteTable","body":{"TableName":"Orders"}}`, "!DeleteTable needs the group tables")
}

// A token is good for a minute, one call and its arguments.
func TestConfirmation(t *testing.T) {
	r := newRig(t, nil, Write)
	arguments := `"actions":[{"action":"delete","table":"Orders","key":{"id":"b","n":1}}]`
	token := func() string {
		return member[string](t, r.want("write", "{"+arguments+"}", `"done":false`, `"total":[9,null]`), "confirm")
	}
	with := func(arguments, token string) string { return "{" + arguments + `,"confirm":"` + token + `"}` }
	r.want("write", with(arguments, "none"), "!the token is not known")
	r.want("write", with(strings.Replace(arguments, `"b"`, `"a"`, 1), token()), "!the token is for other arguments")
	late := token()
	r.advance(tokenLife + time.Second)
	r.want("write", with(arguments, late), "!the token is not known")
	changed := token()
	r.send("UpdateItem", `{"TableName":"Orders","Key":{"id":{"S":"b"},"n":{"N":"1"}},"UpdateExpression":"SET x = :x","ExpressionAttributeValues":{":x":{"N":"1"}}}`)
	r.want("write", with(arguments, changed), "!the items have changed since the plan")
	used := token()
	r.want("write", with(arguments, used), `"done":true`)
	r.want("write", with(arguments, used), `"done":true`) // there is no item any more, so nothing to confirm
	r.send("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"b"},"n":{"N":"1"}}}`)
	r.want("write", with(arguments, used), "!the token is not known")
}

// A call ends in time, and others wait for room no longer than that.
func TestTimeLimit(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := New(Options{Endpoint: new(apply.Endpoint)})
		req := &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{}}
		waits := func(ctx context.Context, _ *call) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		begun := time.Now()
		for range maxCalls {
			go s.call(t.Context(), &tool{name: "waits", long: true}, req, waits)
		}
		synctest.Wait()
		text, _ := json.Marshal(s.call(t.Context(), &tool{name: "one more"}, req, waits))
		if took := time.Since(begun); took != callTime || !strings.Contains(string(text), "8 calls are in progress") {
			t.Errorf("after %v it ends with %s", took, text)
		}
		synctest.Wait()
		time.Sleep(longCallTime)
		text, _ = json.Marshal(s.call(t.Context(), &tool{name: "waits"}, req, waits))
		if !strings.Contains(string(text), "the call was ended after 10s: ask for less") {
			t.Errorf("it ends with %s", text)
		}
	})
}

// Nobody is asked to confirm changes that are not allowed.
func TestNotAllowedIsNotConfirmed(t *testing.T) {
	for _, group := range []Group{Forks, Write} {
		t.Run(string(group), func(t *testing.T) {
			r := newRig(t, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, q *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				t.Errorf("the user is asked %q", q.Params.Message)
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"agree": true}}, nil
			}}, group)
			r.send("DeleteTable", `{"TableName":"Orders"}`)
			r.want("table_apply", `{}`, "!CreateTable needs the group tables")
			name := r.fork("")
			r.want("table_apply", `{"fork":"`+name+`"}`, `"done":true`)
			r.want("table_plan", `{"fork":"`+name+`"}`, `"changes":[]`)
		})
	}
}

// A write of a new item fails if the item is there meanwhile.
func TestNewItemsOnly(t *testing.T) {
	r := newRig(t, nil, Write)
	c := &call{server: r.server, request: &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{}}, tool: &tool{name: "write"}}
	writes, err := c.prepare(t.Context(), []writeAction{{Action: "put", Table: "Orders", Item: map[string]any{"id": "new", "n": json.Number("1")}, If: map[string]any{"x": map[string]any{"exists": false}}}})
	if err != nil {
		t.Fatal(err)
	}
	writes[0].requireAbsent()
	r.send("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"new"},"n":{"N":"1"}}}`)
	if _, err := c.send(t.Context(), "TransactWriteItems", writes.body("t")); err == nil || !strings.Contains(err.Error(), "ConditionalCheckFailed") {
		t.Errorf("the write ends with %v", err)
	}
}

// A client that can ask its person does so.
func TestElicitation(t *testing.T) {
	for _, c := range []struct {
		name, want string
		result     *sdk.ElicitResult
	}{
		{"agrees", `"done":true`, &sdk.ElicitResult{Action: "accept", Content: map[string]any{"agree": true}}},
		{"does not agree", "!the user has not agreed", &sdk.ElicitResult{Action: "accept", Content: map[string]any{"agree": false}}},
		{"declines", "!the user has not agreed", &sdk.ElicitResult{Action: "decline"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := ""
			r := newRig(t, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, q *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				asked = q.Params.Message
				return c.result, nil
			}}, Write)
			r.want("write", `{"actions":[{"action":"delete","table":"Orders","key":{"id":"b","n":1}}]}`, c.want)
			if !strings.Contains(asked, `delete {"id":{"S":"b"},"n":{"N":"1"}} of table Orders`) {
				t.Errorf("the question is %q", asked)
			}
		})
	}
}

// With forks allowed, forks are written to, and nothing else is.
func TestForksOnly(t *testing.T) {
	r := newRig(t, nil, Forks)
	put := `"actions":[{"action":"put","table":"Orders","item":{"id":"f","n":1}}]`
	r.want("write", "{"+put+"}", "!TransactWriteItems needs the group write")
	r.want("write", "{"+put+`,"fork":"other"}`, "!there is no fork")
	r.own.SendOwn(t.Context(), "CreateFork", map[string]string{"ForkName": "other"})
	r.want("write", "{"+put+`,"fork":"other"}`, "!there is no fork") // of somebody else
	r.want("write", "{"+put+`,"dry_run":true}`, `"id":[null,"f"]`)
	name := member[string](t, r.want("fork", `{"action":"create"}`, `"expires"`), "fork")
	on := `,"fork":"` + name + `"}`
	r.want("write", "{"+put+on, `"done":true`)
	r.want("request", `{"operation":"PutItem","body":{"TableName":"Orders","Item":{"id":{"S":"a"},"n":{"N":"1"},"total":{"N":"1"}}}`+on, `"reply"`)
	r.want("request", `{"operation":"UpdateTimeToLive","body":{"TableName":"Orders","TimeToLiveSpecification":{"Enabled":true,"AttributeName":"e"}}`+on, `"reply"`)
	r.want("request", `{"operation":"Stator.Rewind","body":{"SnapshotName":"x"}`+on, "!not for agents")
	r.want("fork", `{"action":"diff","name":"`+name+`"}`, `{"table":"Orders","key":{"id":"f","n":1},"change":"added"`, `"total":[{"$n":"12345678901234567890"},1]`, `"complete":true`)
	r.want("get", `{"table":"Orders","key":{"id":"f","n":1}}`, `"found":false`)
	for _, found := range r.changes() {
		if !strings.HasPrefix(found, "/fork/") && !strings.HasPrefix(found, "/CreateFork") && !strings.HasPrefix(found, "/DeleteFork") {
			t.Errorf("%s has reached the base", found)
		}
	}
	if err := r.server.Close(); err != nil {
		t.Error(err)
	}
	r.want("request", `{"operation":"Stator.ListForks"}`, `{"reply":{"Forks":[{"ForkName":"other"`)
}

// Arguments of any form are answered, with bounded answers.
func FuzzArguments(f *testing.F) {
	for tool := range toolArguments {
		random := rand.New(rand.NewPCG(1, 2))
		for range 3 {
			text, err := json.Marshal(argumentsOf(random, tool))
			if err != nil {
				f.Fatal(err)
			}
			if tool != "explain" {
				f.Add(tool, text)
			}
		}
	}
	f.Add("query", []byte(`{"table":"Orders","where":{"id":{"$b":7}}}`))
	f.Add("write", []byte(`{"actions":[{"action":"put","table":"Orders","item":{"id":"a","n":{"$n":{}}}}]}`))
	f.Add("get", []byte(`{"table":"Orders","key":`+strings.Repeat(`{"a":`, 100)+`1`+strings.Repeat(`}`, 100)+`}`))
	var r *toolRig
	f.Fuzz(func(t *testing.T, tool string, arguments []byte) {
		if r == nil || r.t.Context().Err() != nil {
			r = newRig(t, nil, Groups...)
		}
		r.t = t
		if tool == "explain" || tool == "model_prove" || !json.Valid(arguments) {
			return
		}
		if text, _ := r.call(tool, string(arguments)); len(text) > maxAnswerSize {
			t.Errorf("the answer has %d bytes", len(text))
		}
	})
}
