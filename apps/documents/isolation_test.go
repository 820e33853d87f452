package documents

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/session"
	"github.com/stator-db/stator/apps/documents/table"
)

// probe is a request with placeholders for ids, written $name.
type probe struct {
	path string
	body string

	// lists are placeholders in which a foreign value is harmless: the reply is a
	// list of the own tenant.
	lists bool

	// works is the status of the reply if all ids belong to the own tenant.
	works int
}

const inProject = "/projects/$project"
const inBatch = inProject + "/batches/$batch"
const ofDocument = inBatch + "/documents/$document"

const definition = `{"name":"W","extraction":{"fields":[{"name":"a"}]},"confidenceThreshold":0.5,"reviewThreshold":0.6}`
const editedBody = "name=W&confidence=0.5&review=0.6&field.0.name=a&field.0.type=text"

// probes has probes of every endpoint and every page.
var probes = map[string][]probe{
	"POST /v1/tenants":            {{path: "/v1/tenants", body: `{"name":"New","email":"new@example.com","person":"New"}`, works: 200}},
	"POST /v1/sessions":           {{path: "/v1/sessions", body: `{"email":"$email","tenant":"$tenant"}`, works: 200}},
	"POST /v1/invitations/accept": {{path: "/v1/invitations/accept", body: `{"invitation":"$tenant.$secret","name":"Guest"}`, works: 200}},
	"GET /v1/session":             {{path: "/v1/session", works: 200}},
	"GET /v1/tenants/{tenant}":    {{path: "/v1/tenants/$tenant", works: 200}},
	"DELETE /v1/tenants/{tenant}": {{path: "/v1/tenants/$tenant?name=wrong", works: 400}}, // TestDeletion deletes one
	"GET /v1/usage":               {{path: "/v1/usage", works: 200}},
	"GET /v1/users": {
		{path: "/v1/users", works: 200},
		{path: "/v1/users?email=$email", works: 200},
		{path: "/v1/users?cursor=USER%23$user", lists: true, works: 200},
	},
	"GET /v1/users/{user}":    {{path: "/v1/users/$user", works: 200}},
	"DELETE /v1/users/{user}": {{path: "/v1/users/$second", works: 204}},
	"POST /v1/invitations":    {{path: "/v1/invitations", body: `{"email":"guest@example.com"}`, works: 200}},
	"GET /v1/projects": {
		{path: "/v1/projects", works: 200},
		{path: "/v1/projects?cursor=2026-11-15T09:00:00.000Z%7CPROJECT%23$project", lists: true, works: 200},
	},
	"POST /v1/projects":             {{path: "/v1/projects", body: `{"name":"Another"}`, works: 200}},
	"GET /v1/projects/{project}":    {{path: "/v1/projects/$project", works: 200}},
	"DELETE /v1/projects/{project}": {{path: "/v1/projects/$spare", works: 204}},
	"GET /v1/projects/{project}/workflows": {
		{path: "/v1" + inProject + "/workflows", works: 200},
	},
	"POST /v1/projects/{project}/workflows": {
		{path: "/v1" + inProject + "/workflows", body: definition, works: 200},
	},
	"GET /v1/projects/{project}/workflows/{workflow}": {{path: "/v1" + inProject + "/workflows/$workflow", works: 200}},
	"PUT /v1/projects/{project}/workflows/{workflow}": {
		{path: "/v1" + inProject + "/workflows/$workflow", body: definition, works: 200},
	},
	"DELETE /v1/projects/{project}/workflows/{workflow}": {{path: "/v1" + inProject + "/workflows/$spareworkflow", works: 204}},
	"POST /v1/projects/{project}/trials": {
		{path: "/v1" + inProject + "/trials", body: `{"workflow":` + definition + `,"sample":{"batchId":"$batch","documentId":"$document"},"page":1}`, works: 200},
		{path: "/v1" + inProject + "/trials", body: `{"workflow":` + definition + `,"sample":{"upload":"$upload","name":"a.txt"}}`, works: 200},
	},
	"POST /v1/uploads": {{path: "/v1/uploads", body: `{}`, works: 200}},
	"GET /v1/projects/{project}/batches": {
		{path: "/v1" + inProject + "/batches", works: 200},
		{path: "/v1" + inProject + "/batches?cursor=2026-11-15T09:00:00.000Z%7CBATCH%23$batch", lists: true, works: 200},
	},
	"POST /v1/projects/{project}/batches": {
		{path: "/v1" + inProject + "/batches", body: `{"workflowId":"$workflow","name":"B","key":"k","documents":[{"name":"a.txt","upload":"$upload"}]}`, works: 200},
	},
	"GET /v1/projects/{project}/batches/{batch}": {{path: "/v1" + inBatch, works: 200}},
	"GET /v1/batches":                               {{path: "/v1/batches?status=FAILED", works: 200}},
	"GET /v1/batches/{batch}":                       {{path: "/v1/batches/$batch", works: 200}},
	"DELETE /v1/projects/{project}/batches/{batch}": {{path: "/v1" + inProject + "/batches/$sparebatch", works: 204}},
	"DELETE /v1/projects/{project}/batches/{batch}/documents/{document}": {{path: "/v1" + inBatch + "/documents/$sparedocument", works: 204}},
	"GET /v1/projects/{project}/batches/{batch}/results": {
		{path: "/v1" + inBatch + "/results?format=csv", works: 200},
		{path: "/v1" + inBatch + "/results", works: 200},
	},
	"PUT /v1/projects/{project}/reporting": {{path: "/v1" + inProject + "/reporting", body: `{"webhook":"https://example.com/"}`, works: 200}},
	"GET /v1/projects/{project}/batches/{batch}/documents": {
		{path: "/v1" + inBatch + "/documents", works: 200},
		{path: "/v1" + inBatch + "/documents?status=REVIEW_REQUIRED", works: 200},
	},
	"POST /v1/projects/{project}/batches/{batch}/documents": {
		{path: "/v1" + inBatch + "/documents", body: `{"documents":[{"name":"a.txt","upload":"$upload"}]}`, works: 200},
	},
	"GET /v1/projects/{project}/batches/{batch}/documents/{document}":         {{path: "/v1" + ofDocument, works: 200}},
	"GET /v1/projects/{project}/batches/{batch}/documents/{document}/result":  {{path: "/v1" + ofDocument + "/result", works: 200}},
	"GET /v1/projects/{project}/batches/{batch}/documents/{document}/preview": {{path: "/v1" + ofDocument + "/preview", works: 200}},
	"GET /v1/projects/{project}/batches/{batch}/documents/{document}/file":    {{path: "/v1" + ofDocument + "/file", works: 200}},
	"POST /v1/projects/{project}/batches/{batch}/documents/{document}/review": {
		{path: "/v1" + ofDocument + "/review", body: `{"approve":true,"fields":{"total":"1.00"}}`, works: 204},
	},
	"POST /v1/projects/{project}/batches/{batch}/documents/{document}/retry": {
		{path: "/v1" + inBatch + "/documents/$failed/retry", body: `{}`, works: 204},
	},

	"GET /{$}":                              {{path: "/", works: 200}, {path: "/?cursor=2026-11-15T09:00:00.000Z%7CPROJECT%23$project", lists: true, works: 200}},
	"POST /projects":                        {{path: "/projects", body: "name=Another", works: 303}},
	"GET /projects/{project}":               {{path: inProject, works: 200}},
	"GET /projects/{project}/workflows/new": {{path: inProject + "/workflows/new", works: 200}},
	"POST /projects/{project}/workflows/try": {
		{path: inProject + "/workflows/try", body: editedBody + "&sample=$batch/$document", works: 200},
	},
	"POST /projects/{project}/workflows":           {{path: inProject + "/workflows", body: editedBody, works: 303}},
	"GET /projects/{project}/workflows/{workflow}": {{path: inProject + "/workflows/$workflow", works: 200}},
	"POST /projects/{project}/workflows/{workflow}/try": {
		{path: inProject + "/workflows/$workflow/try", body: editedBody + "&sample=$batch/$document", works: 200},
	},
	"POST /projects/{project}/workflows/{workflow}":                {{path: inProject + "/workflows/$workflow", body: editedBody + "&was=2026-11-15T09:00:00.000Z", works: 409}}, // TestEditor saves one
	"POST /projects/{project}/batches":                             {{path: inProject + "/batches", body: "name=x", works: 400}},                                                 // a form with files is in TestPages
	"GET /projects/{project}/batches/{batch}":                      {{path: inBatch, works: 200}, {path: inBatch + "?status=FAILED", works: 200}},
	"GET /projects/{project}/batches/{batch}/documents/{document}": {{path: ofDocument, works: 200}},
	"POST /projects/{project}/batches/{batch}/documents/{document}/review": {
		{path: inBatch + "/documents/$other/review", body: "decision=reject&reason=blurred", works: 303},
	},
	"POST /projects/{project}/batches/{batch}/documents/{document}/retry": {
		{path: inBatch + "/documents/$spoilt/retry", body: "x=y", works: 303},
	},
	"POST /projects/{project}/batches/{batch}/documents/{document}/delete": {{path: inBatch + "/documents/$sparedocumentb/delete", body: "x=y", works: 303}},
	"POST /projects/{project}/batches/{batch}/delete":                      {{path: inProject + "/batches/$sparebatchb/delete", body: "x=y", works: 303}},
	"POST /projects/{project}/workflows/{workflow}/delete":                 {{path: inProject + "/workflows/$spareworkflowb/delete", body: "x=y", works: 303}},
	"POST /projects/{project}/delete":                                      {{path: "/projects/$spareb/delete", body: "x=y", works: 303}},
	"POST /projects/{project}/reporting":                                   {{path: inProject + "/reporting", body: "webhook=", works: 303}},
	"POST /delete":                                                         {{path: "/delete", body: "name=wrong", works: 400}},
	"GET /people":                                                          {{path: "/people", works: 200}, {path: "/people?cursor=USER%23$user", lists: true, works: 200}},
	"POST /people/invite":                                                  {{path: "/people/invite", body: "email=guest@example.com&role=member", works: 200}},
	"POST /people/revoke":                                                  {{path: "/people/revoke", body: "invitation=$open", works: 303}},
	"POST /people/remove":                                                  {{path: "/people/remove", body: "user=$third", works: 303}},
	"GET /review":                                                          {{path: "/review", works: 200}},
	"GET /events":                                                          {{path: "/events", works: 200}},
}

// mark is in every name and value of the tenant that must not be visible.
const mark = "globexsecret"

// furnished returns a tenant with one item of each kind, and all ids.
func furnished(s *system, name, email string) (*client, map[string]string) {
	s.t.Helper()
	c, project, workflow := s.newTenant(name, email)
	ids := map[string]string{"tenant": c.tenant, "email": email, "project": project, "workflow": workflow}
	ids["user"] = must[object](c, "GET", "/v1/session", nil).str("userId")
	for _, who := range []string{"second", "secret"} {
		code := must[object](c, "POST", "/v1/invitations", object{"email": name + who + "@example.com"}).str("invitation")
		if _, ids[who], _ = strings.Cut(code, "."); who == "second" {
			ids[who] = must[object](&client{s: s}, "POST", "/v1/invitations/accept", object{"invitation": code, "name": name + who}).str("userId")
		}
	}
	var documents []object
	for i, text := range []string{
		"Invoice no NW-1001\nDate\n7.11.2026\nCustomer " + name + "\nTotal\nabout three hundred\n",
		"Invoice no NW-1002\nDate\n8.11.2026\nCustomer " + name + "\nTotal\nabout four hundred\n",
		"Dear " + name + "\n", "Dear all of " + name + "\n",
	} {
		documents = append(documents, object{"name": fmt.Sprintf("%s-%d.txt", name, i), "upload": c.upload([]byte(text))})
	}
	ids["upload"] = c.upload([]byte("Total: 1 " + name))
	b := must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": name + " batch", "documents": documents})
	ids["batch"] = b.str("batchId")
	s.passes()
	all := s.documentsOf(s.batchOf(ids["batch"]))
	slices.SortFunc(all, func(a, b table.Document) int { return strings.Compare(a.Name, b.Name) })
	for i, want := range []table.Status{table.ReviewRequired, table.ReviewRequired, table.Failed, table.Failed} {
		if all[i].Status != want {
			s.t.Fatalf("%s is %s (%.2f, %s), want %s", all[i].Name, all[i].Status, all[i].Confidence, all[i].Reason, want)
		}
		ids[[]string{"document", "other", "failed", "spoilt"}[i]] = all[i].ID.String()
	}
	return c, ids
}

// withSpares adds what the probes of deletions delete.
func withSpares(s *system, name string, c *client, ids map[string]string) {
	s.t.Helper()
	code := must[object](c, "POST", "/v1/invitations", object{"email": name + "third@example.com"}).str("invitation")
	ids["third"] = must[object](&client{s: s}, "POST", "/v1/invitations/accept", object{"invitation": code, "name": name + "third"}).str("userId")
	must[object](c, "POST", "/v1/invitations", object{"email": name + "open@example.com"})
	open, err := s.Store.Invitations(s.t.Context(), tenantOf(s.t, c))
	if err != nil {
		s.t.Fatal(err)
	}
	ids["open"] = open[0].Token.String()
	for _, n := range []string{"", "b"} {
		ids["spare"+n] = must[object](c, "POST", "/v1/projects", object{"name": name + " spare"}).str("projectId")
		ids["spareworkflow"+n] = must[object](c, "POST", "/v1"+fill(inProject, ids)+"/workflows", object{
			"name": name, "extraction": object{"fields": []object{{"name": "total"}}}, "reviewThreshold": 0.8,
		}).str("workflowId")
		document := []object{{"name": "spare" + n, "upload": c.upload([]byte("Total: 1 " + name))}}
		ids["sparebatch"+n] = must[object](c, "POST", "/v1"+fill(inProject, ids)+"/batches", object{"workflowId": ids["workflow"], "name": name, "documents": document}).str("batchId")
		document[0]["upload"] = c.upload([]byte("Total: 2 " + name))
		must[object](c, "POST", "/v1"+fill(inBatch, ids)+"/documents", object{"documents": document})
		s.passes()
		for _, d := range s.documentsOf(s.batchOf(ids["batch"])) {
			if d.Name == "spare"+n {
				ids["sparedocument"+n] = d.ID.String()
			}
		}
	}
}

// state returns all data of a tenant, to detect changes.
func state(s *system, c *client, ids map[string]string) string {
	s.t.Helper()
	b := s.batchOf(ids["batch"])
	projects, err := s.Store.Projects(s.t.Context(), tenantOf(s.t, c), "")
	if err != nil {
		s.t.Fatal(err)
	}
	members, err := s.Store.Members(s.t.Context(), tenantOf(s.t, c), "")
	if err != nil {
		s.t.Fatal(err)
	}
	workflows, err := s.Store.Workflows(s.t.Context(), b.Tenant, b.Project, "")
	if err != nil {
		s.t.Fatal(err)
	}
	project, err := s.Store.Project(s.t.Context(), b.Tenant, b.Project)
	if err != nil {
		s.t.Fatal(err)
	}
	batches, err := s.Store.Batches(s.t.Context(), project, "")
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := json.Marshal([]any{projects, members, workflows, batches, s.documentsOf(b)})
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

var place = regexp.MustCompile(`\$[a-z]+`)

// fill replaces placeholders with ids.
func fill(text string, ids map[string]string) string {
	return place.ReplaceAllStringFunc(text, func(p string) string {
		v, ok := ids[p[1:]]
		if !ok {
			panic("no id for " + p)
		}
		return v
	})
}

// With the session of one tenant, ids of another give no access: in every position
// of every request, alone and together. Nothing is disclosed, and nothing changes.
func TestTenantsCannotCross(t *testing.T) {
	s := start(t, nil)
	own, mine := furnished(s, "acme", "ann@acme.example")
	foreign, theirs := furnished(s, mark, mark+"@globex.example")
	withSpares(s, "acme", own, mine)
	withSpares(s, mark, foreign, theirs)
	before := state(s, foreign, theirs)
	patterns := make(map[string]bool)
	for _, e := range append(s.API.Endpoints(), s.API.Pages()...) {
		patterns[e.Pattern] = true
		if len(probes[e.Pattern]) == 0 {
			t.Errorf("%s is not probed", e.Pattern)
		}
	}
	tried := 0
	for pattern, all := range probes {
		if !patterns[pattern] {
			t.Errorf("%s is probed, but does not exist", pattern)
		}
		method, _, _ := strings.Cut(pattern, " ")
		for _, p := range all {
			for name, ids := range crossings(p, mine, theirs) {
				tried++
				status, text := own.request(method, fill(p.path, ids), bodyOf(fill(p.body, ids)))
				if (status < 400 || status >= 500) && !p.lists {
					t.Errorf("%s %s with %s: %d %.200s", method, p.path, name, status, text)
				}
				leaks(t, pattern+" with "+name, text, ids, theirs)
			}
		}
	}
	t.Logf("%d requests with foreign ids", tried)
	if tried < 60 {
		t.Errorf("only %d requests with foreign ids", tried)
	}
	if after := state(s, foreign, theirs); after != before {
		t.Errorf("the other tenant was changed:\n%s\n%s", before, after)
	}

	// The control: the same requests with own ids succeed, and disclose nothing of
	// the other tenant either. Reads first, then writes.
	for _, changing := range []bool{false, true} {
		for pattern, all := range probes {
			method, _, _ := strings.Cut(pattern, " ")
			if (method != "GET") != changing {
				continue
			}
			for _, p := range all {
				status, text := own.request(method, fill(p.path, mine), bodyOf(fill(p.body, mine)))
				if status != p.works {
					t.Errorf("%s %s with own ids: %d %.300s, want %d", method, p.path, status, text, p.works)
				}
				leaks(t, pattern, text, mine, theirs)
			}
		}
	}
	if after := state(s, foreign, theirs); after != before {
		t.Error("the other tenant was changed by requests with own ids")
	}
}

func bodyOf(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// crossings returns the ways to put foreign ids into a request's placeholders: each
// alone, and all together.
func crossings(p probe, mine, theirs map[string]string) map[string]map[string]string {
	places := slices.Compact(slices.Sorted(slices.Values(place.FindAllString(p.path+p.body, -1))))
	all := make(map[string]map[string]string)
	together := maps.Clone(mine)
	for _, pl := range places {
		one := maps.Clone(mine)
		one[pl[1:]], together[pl[1:]] = theirs[pl[1:]], theirs[pl[1:]]
		all[pl] = one
	}
	// A whole foreign invitation, or email and tenant, is a credential of the
	// built-in issuer, so using it is not a violation.
	open := strings.Contains(p.body, "$secret") || strings.Contains(p.body, "$email")
	if len(places) > 1 && !open {
		all["all of them"] = together
	}
	return all
}

// leaks fails the test if a reply contains data of the other tenant.
func leaks(t *testing.T, what, answer string, sent, theirs map[string]string) {
	t.Helper()
	for _, l := range leaked(answer, sent, theirs) {
		t.Errorf("%s: the reply has the other tenant's %s: %.300s", what, l, answer)
	}
}

// leaked returns the other tenant's data in a reply: names, values, and ids that
// were not in the request.
func leaked(answer string, sent, theirs map[string]string) []string {
	var all []string
	for name, id := range theirs {
		if strings.Contains(answer, id) && sent[name] != id {
			all = append(all, name)
		}
	}
	if strings.Contains(strings.ReplaceAll(answer, sent["email"], ""), mark) {
		all = append(all, "names")
	}
	return all
}

// The control: the test would find a handler that does not compare the tenant of a
// batch that it found by its id alone.
func TestLeaksAreNoticed(t *testing.T) {
	s := start(t, nil)
	_, mine := furnished(s, "acme", "ann@acme.example")
	_, theirs := furnished(s, mark, mark+"@globex.example")
	sent := maps.Clone(mine)
	sent["batch"] = theirs["batch"]
	text, err := json.Marshal(s.batchOf(theirs["batch"]))
	if err != nil || len(leaked(string(text), sent, theirs)) < 2 {
		t.Errorf("a leak is not found: %v, %v", leaked(string(text), sent, theirs), err)
	}
}

// Without a valid session for the tenant, only signing in is possible.
func TestSessionsAreNeeded(t *testing.T) {
	s := start(t, nil)
	own, mine := furnished(s, "acme", "ann@acme.example")
	withSpares(s, "acme", own, mine)
	other, _, _ := s.newTenant("Globex", "gil@globex.example")
	person := s.API.Issuer.Person("ann@acme.example", "Ann")
	stranger, err := session.NewIssuer("", s.o.Now)
	if err != nil {
		t.Fatal(err)
	}
	tenant, foreign := tenantOf(t, own), tenantOf(t, other)
	issue := func(i *session.Issuer, p session.Person, t2 *keys.Tenant) string {
		text, err := i.Issue(p, t2)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, c := range map[string]struct {
		session string
		want    int
	}{
		"none":                    {"", 401},
		"nonsense":                {"a.b.c", 401},
		"of another issuer's key": {issue(stranger, person, &tenant), 401},
		"for no tenant":           {issue(s.API.Issuer, person, nil), 401},
		// Correctly signed, for a tenant of which the person is not a member.
		"for another tenant": {issue(s.API.Issuer, person, &foreign), 403},
	} {
		caller := &client{s: s, session: c.session}
		for _, e := range append(s.API.Endpoints(), s.API.Pages()...) {
			if e.Access == 0 {
				continue
			}
			method, _, _ := strings.Cut(e.Pattern, " ")
			p := probes[e.Pattern][0]
			status, text := caller.request(method, fill(p.path, mine), bodyOf(fill(p.body, mine)))
			toSignIn := status == 303 && !strings.Contains(p.path, "/v1") && method == "GET"
			if status != c.want && !(toSignIn && c.want == 401) {
				t.Errorf("session %s, %s: %d %.200s, want %d", name, e.Pattern, status, text, c.want)
			}
		}
	}
	// A removed member loses access at once, though the session is still valid.
	second := must[object](own, "POST", "/v1/invitations", object{"email": "ben@acme.example"}).str("invitation")
	ben := must[object](&client{s: s}, "POST", "/v1/invitations/accept", object{"invitation": second, "name": "Ben"})
	his := &client{s: s, session: ben.str("session")}
	if status, _ := his.request("GET", "/v1/projects", nil); status != 200 {
		t.Errorf("a member is rejected: %d", status)
	}
	if status, _ := his.request("DELETE", "/v1/users/"+mine["user"], nil); status != 403 {
		t.Errorf("a member who is not an admin removes another: %d", status)
	}
	must[object](own, "DELETE", "/v1/users/"+ben.str("userId"), nil)
	if status, _ := his.request("GET", "/v1/projects", nil); status != 403 {
		t.Errorf("a removed member has access: %d", status)
	}
}

// With an identity provider its tokens are sessions, its persons are invited by
// email, and the built-in sign-in and sign-up are disabled.
func TestIdentityProvider(t *testing.T) {
	provider, err := session.NewIssuer("", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	jwks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(provider.KeySet()) }))
	defer jwks.Close()
	s := start(t, func(o *Options) { o.JWKS, o.Issuer = jwks.URL, "documents" })
	issue := func(p session.Person, tenant *keys.Tenant) *client {
		text, err := provider.Issue(p, tenant)
		if err != nil {
			t.Fatal(err)
		}
		return &client{s: s, session: text}
	}
	in := object{"name": "Acme", "email": "ann@acme.example", "person": "Ann"}
	ann, eve := provider.Person("ann@acme.example", "Ann"), provider.Person("eve@example.com", "Eve")
	for name, c := range map[string]*client{"nobody": {s: s}, "somebody": issue(eve, nil)} {
		if status, _ := c.request("POST", "/v1/tenants", in); status != 401 && status != 403 {
			t.Errorf("%s creates a tenant: %d", name, status)
		}
	}
	if status, _ := (&client{s: s}).request("POST", "/v1/sessions", object{"email": "ann@acme.example", "tenant": "x"}); status != 404 {
		t.Errorf("the built-in issuer answers: %d", status)
	}
	operator := provider.Person("op@example.com", "Op")
	operator.Operator = true
	made := must[object](issue(operator, nil), "POST", "/v1/tenants", in)
	tenant, err := keys.ParseTenant(made.str("tenantId"))
	if err != nil {
		t.Fatal(err)
	}
	accept := object{"invitation": made.str("invitation"), "name": "Ann"}
	for name, c := range map[string]*client{"nobody": {s: s}, "another": issue(eve, nil)} {
		if status, _ := c.request("POST", "/v1/invitations/accept", accept); status != 401 && status != 403 {
			t.Errorf("%s accepts an invitation: %d", name, status)
		}
	}
	must[object](issue(ann, nil), "POST", "/v1/invitations/accept", accept)
	if who := must[object](issue(ann, &tenant), "GET", "/v1/session", nil); who.str("role") != "admin" {
		t.Errorf("%v", who)
	}
	for name, p := range map[string]session.Person{"the operator": operator, "a stranger": eve} {
		if status, _ := issue(p, &tenant).request("GET", "/v1/projects", nil); status != 403 {
			t.Errorf("%s has access to the tenant: %d", name, status)
		}
	}
	if status, _ := (&client{s: s}).request("POST", "/signin", "token="+issue(ann, &tenant).session); status != 303 {
		t.Errorf("the page rejects a valid token: %d", status)
	}
	if status, _ := (&client{s: s}).request("POST", "/signin", "token=x"); status != 401 {
		t.Errorf("the page accepts an invalid token: %d", status)
	}
}
