package stator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/console/workbench"
)

// consoleModel is a model whose title is secret.
const consoleModel = `model: 1
name: planted title
tables:
  shop: {key: {partition: id}}
entities:
  thing: {table: shop, attributes: {id: {format: uuid}}, count: 100}
patterns:
  - {name: read, get: thing, given: [id], rate: 100/s}
`

// consolePerson is somebody who has signed in to the console.
type consolePerson struct {
	s                  *accessServer
	fork, cookie, page string
}

// consoleRequest returns a request of the page.
func consoleRequest(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1/console/"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5000"
	r.Header.Set("X-Stator-Console", "read")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return r
}

// signIn signs in to the console of the server, or of a fork that is not empty.
func (s *accessServer) signIn(key testKey, fork string) *consolePerson {
	s.t.Helper()
	r := consoleRequest(http.MethodPost, "api/session", fmt.Sprintf(`{"accessKey":%q,"secret":%q}`, key.AccessKey, key.Secret))
	w := httptest.NewRecorder()
	s.db.Handler().ServeHTTP(w, onFork(r, fork))
	var reply struct{ Page string }
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || w.Code != http.StatusOK {
		s.t.Fatalf("signing in: %d %s", w.Code, w.Body)
	}
	cookie, _, _ := strings.Cut(w.Header().Get("Set-Cookie"), ";")
	return &consolePerson{s, fork, cookie, reply.Page}
}

func onFork(r *http.Request, fork string) *http.Request {
	if fork != "" {
		r.Header.Set("X-Stator-Fork", fork)
	}
	return r
}

// call sends a request of the page.
func (p *consolePerson) call(target, body string) *httptest.ResponseRecorder {
	p.s.t.Helper()
	r := consoleRequest(http.MethodPost, "api", body)
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("X-Stator-Session", p.page)
	r.Header.Set("Cookie", p.cookie)
	w := httptest.NewRecorder()
	p.s.db.Handler().ServeHTTP(w, onFork(r, p.fork))
	return w
}

// consoleModels are the requests for models, and what only they reply.
var consoleModels = func() map[string][2]string {
	text, err := json.Marshal(consoleModel)
	if err != nil {
		panic(err)
	}
	with := func(more string) string { return `{"Name":"a","Text":` + string(text) + more + `}` }
	return map[string][2]string{
		"Workbench.GetModel":       {`{}`, "planted title"},
		"Workbench.DescribeModel":  {with(""), "planted title"},
		"Workbench.GetForecast":    {with(`,"Seconds":1`), "throttled"},
		"Workbench.GetDrift":       {with(""), "patterns"},
		"Workbench.GetPatternBill": {with(`,"Seconds":60,"Traffic":{"shapes":[{"operation":"GetItem","table":"shop","requests":5}]}`), "Dollars"},
	}
}()

const billOfTables = `{"Seconds":60,"Resources":[{"Table":"shop","OnDemand":true,"Read":1000000}]}`

// openModelServer opens a server whose console has a model.
func openModelServer(t *testing.T, o Options) *accessServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.model.yaml")
	if err := os.WriteFile(file, []byte(consoleModel), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Console, o.ConsoleModels = ConsoleRead, workbench.New(file)
	return openAccessServer(t, o, rootFile(t))
}

// Models need a permission of their own, which nobody has without a policy. What tables have consumed is known
// from their metrics, and its prices need none.
func TestModelsOfTheConsoleNeedAPermission(t *testing.T) {
	s := openModelServer(t, Options{Dir: t.TempDir()})
	defer s.close()
	for _, c := range []struct {
		user, actions string
		allowed       bool
	}{
		{"nothing", "", false},
		{"tables", `"dynamodb:*","cloudwatch:*","stator:GetShapes","stator:GetMetrics"`, false},
		{"model", `"stator:GetModel"`, true},
		{"getter", `"stator:Get*"`, true},
		{"all", `"*"`, true},
	} {
		t.Run(c.user, func(t *testing.T) {
			if c.actions != "" {
				s.must(rootKey, "PutPrincipal", allowing(c.user, c.actions, ""))
			}
			p := s.signIn(s.newKey(rootKey, c.user), "")
			for target, request := range consoleModels {
				checkModelReply(t, p.call(target, request[0]), target, c.user, request[1], c.allowed)
			}
			if w := p.call("Workbench.GetBill", billOfTables); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"Dollars":0.`) {
				t.Errorf("the bill of tables is %d %s", w.Code, w.Body)
			}
			want := "UnknownOperationException"
			if !c.allowed {
				want = "stator:GetModel"
			}
			if w := p.call("Workbench.PutModel", `{}`); !strings.Contains(w.Body.String(), "ConsoleReadOnly") {
				t.Errorf("an operation that changes something: %d %s", w.Code, w.Body)
			}
			if w := p.call("Workbench.GetOther", `{}`); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
				t.Errorf("an operation that does not exist: %d %s, want %s", w.Code, w.Body, want)
			}
		})
	}
}

func checkModelReply(t *testing.T, w *httptest.ResponseRecorder, target, user, secret string, allowed bool) {
	t.Helper()
	body := w.Body.String()
	if allowed {
		if w.Code != http.StatusOK || !strings.Contains(body, secret) {
			t.Errorf("%s: %d %s", target, w.Code, body)
		}
		return
	}
	want := "User: " + userARN(user) + " is not authorized to perform: stator:GetModel on resource: * because no identity-based policy allows the stator:GetModel action"
	if w.Code != http.StatusBadRequest || !strings.Contains(body, "AccessDeniedException") || !strings.Contains(body, want) || strings.Contains(body, "planted") {
		t.Errorf("%s: %d %s, want %s", target, w.Code, body, want)
	}
}

// A Deny of a permission that was granted counts at once, also on forks, is explained by its request ID, and is written down.
func TestDeniedModelsOfTheConsole(t *testing.T) {
	audit := filepath.Join(t.TempDir(), "audit")
	s := openModelServer(t, Options{Dir: t.TempDir(), Audit: audit, Forks: &ForkOptions{}})
	s.must(rootKey, "CreateFork", `{"ForkName":"branch"}`)
	s.must(rootKey, "PutPrincipal", allowing("ada", `"stator:*"`, ""))
	key := s.newKey(rootKey, "ada")
	p := s.signIn(key, "")
	if w := p.call("Workbench.GetModel", "{}"); w.Code != http.StatusOK {
		t.Fatalf("the model: %d %s", w.Code, w.Body)
	}
	s.must(rootKey, "PutPrincipal", strings.Replace(allowing("ada", `"stator:*"`, ""), `"Policies":[`,
		`"Policies":[{"Name":"no.json","Document":"{\"Version\":\"2012-10-17\",\"Statement\":{\"Sid\":\"NoModel\",\"Effect\":\"Deny\",\"Action\":\"stator:GetModel\",\"Resource\":\"*\"}}"},`, 1))
	w := p.call("Workbench.GetModel", "{}")
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "with an explicit deny in an identity-based policy") {
		t.Errorf("the model: %d %s", w.Code, w.Body)
	}
	id := w.Header().Get("X-Amzn-Requestid")
	if reply := s.must(key, "ExplainDenial", `{"RequestId":"`+id+`"}`); !strings.Contains(reply, "NoModel") || !strings.Contains(reply, `"Action":"stator:GetModel"`) {
		t.Errorf("the denial of %s is explained with %s", id, reply)
	}
	forked := s.signIn(key, "branch")
	if w := forked.call("Workbench.GetModel", "{}"); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "stator:GetModel") {
		t.Errorf("the model of a fork: %d %s", w.Code, w.Body)
	}
	// Whoever has no key any more has signed out, also from what needs no permission.
	s.must(rootKey, "DeleteAccessKey", `{"AccessKey":"`+key.AccessKey+`"}`)
	if w := p.call("Workbench.GetBill", billOfTables); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "ConsoleSignedOut") {
		t.Errorf("a bill with a revoked key: %d %s", w.Code, w.Body)
	}
	s.close()
	var got []string
	_, records := readAudit(t, audit)
	for _, r := range records {
		if r.EventName == "GetModel" {
			got = append(got, strings.Join([]string{r.EventSource, r.ErrorCode, r.UserIdentity.Arn, r.SourceIPAddress, r.AdditionalEventData.Fork}, " "))
			if !strings.Contains(r.ErrorMessage, "stator:GetModel") {
				t.Errorf("the record is %+v", r)
			}
		}
	}
	if one := "stator AccessDeniedException " + userARN("ada") + " 127.0.0.1 "; strings.Join(got, "\n") != one+"\n"+one+"branch" {
		t.Errorf("the records of denied models are\n%s", strings.Join(got, "\n"))
	}
}
