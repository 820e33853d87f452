package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/ingest"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
)

// freeTenant returns a tenant with the smallest plan.
func (s *system) freeTenant() (c *client, project, workflow string) {
	s.t.Helper()
	c, project, workflow = s.newTenant("acme", "ann@acme.example")
	if err := s.Store.SetPlan(s.t.Context(), tenantOf(s.t, c), "free"); err != nil {
		s.t.Fatal(err)
	}
	return c, project, workflow
}

func refusedByPlan(t *testing.T, what string, status int, text string) {
	t.Helper()
	if status != 403 || !strings.Contains(text, `"plan_limit"`) || !strings.Contains(text, "the plan free allows") {
		t.Errorf("%s: %d %s", what, status, text)
	}
}

// A plan limits documents a month, the size of files, projects and users; usage is
// shown, and a larger plan allows more at once.
func TestPlans(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.freeTenant()
	free := table.Plans[0]
	usage := func() table.Usage { t.Helper(); return must[table.Usage](c, "GET", "/v1/usage", nil) }

	for range free.Projects - 1 {
		must[object](c, "POST", "/v1/projects", object{"name": "more"})
	}
	status, text := c.request("POST", "/v1/projects", object{"name": "too many"})
	refusedByPlan(t, "projects", status, text)

	var codes []string
	for i := range free.Users { // one too many
		codes = append(codes, must[object](c, "POST", "/v1/invitations", object{"email": fmt.Sprintf("p%d@acme.example", i)}).str("invitation"))
	}
	var users []string
	for i, code := range codes {
		accept := object{"invitation": code, "name": "P"}
		if i < len(codes)-1 {
			users = append(users, must[object](&client{s: s}, "POST", "/v1/invitations/accept", accept).str("userId"))
			continue
		}
		status, text := (&client{s: s}).request("POST", "/v1/invitations/accept", accept)
		refusedByPlan(t, "users", status, text)
	}
	status, text = c.request("POST", "/v1/invitations", object{"email": "late@acme.example"})
	refusedByPlan(t, "invitations", status, text)
	must[object](c, "DELETE", "/v1/users/"+users[0], nil)
	must[object](&client{s: s}, "POST", "/v1/invitations/accept", object{"invitation": codes[len(codes)-1], "name": "P"})

	if status, text := c.request("POST", "/v1/uploads", make([]byte, free.FileBytes+1)); status != 413 || !strings.Contains(text, "plan free") {
		t.Errorf("a large file: %d %s", status, text)
	}
	upload := c.upload(bytes.Repeat([]byte("x"), 100))
	batch := func(n int) (int, string) {
		var documents []object
		for range n {
			documents = append(documents, object{"name": "a", "upload": upload})
		}
		return c.request("POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b", "documents": documents})
	}
	if status, text := batch(free.Documents - 1); status != 200 { // several transactions
		t.Fatalf("%d %s", status, text)
	}
	for _, n := range []int{2, table.InOne, table.InOne + 50, free.Documents + 1} {
		status, text := batch(n)
		refusedByPlan(t, fmt.Sprint(n, " documents"), status, text)
	}
	if got := usage(); got.Documents != free.Documents-1 || got.MaxDocuments != free.Documents || got.Projects != free.Projects || got.Users != free.Users {
		t.Errorf("%+v", got)
	}
	if status, text := batch(1); status != 200 {
		t.Errorf("the last document: %d %s", status, text)
	}
	if _, page := c.request("GET", "/", nil); !strings.Contains(page, fmt.Sprintf("%d of %d documents", free.Documents, free.Documents)) {
		t.Errorf("the overview does not show the usage: %s", page)
	}
	// A file of the inbox is rejected with the reason.
	s.drop(inbox(c, project, workflow, "late")+"a.txt", []byte("Total: 1"))
	s.passes()
	why, err := s.Bucket.ReadAll(t.Context(), ingest.Rejected+strings.TrimPrefix(inbox(c, project, workflow, "late"), ingest.Inbox)+"a.txt.why.txt")
	if err != nil || !strings.Contains(string(why), "documents a month") {
		t.Errorf("%q, %v", why, err)
	}
	// The next month begins at 0, and a larger plan allows more.
	now.Pass(31 * 24 * time.Hour)
	c.session = must[object](&client{s: s}, "POST", "/v1/sessions", object{"email": "ann@acme.example", "tenant": c.tenant}).str("session")
	if status, text := batch(1); status != 200 || usage().Documents != 1 {
		t.Errorf("the next month: %d %s, %+v", status, text, usage())
	}
	if err := s.Store.SetPlan(t.Context(), tenantOf(t, c), "enterprise"); err != nil {
		t.Fatal(err)
	}
	if status, text := batch(free.Documents + 1); status != 200 {
		t.Errorf("the largest plan: %d %s", status, text)
	}
}

// Concurrent requests together do not exceed a limit, and files of the inbox fill the
// rest of the month exactly.
func TestPlansUnderConcurrency(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.freeTenant()
	tenant := tenantOf(t, c)
	w, err := s.Store.Workflow(t.Context(), tenant, parsed[keys.ProjectID](t, project), parsed[keys.WorkflowID](t, workflow))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for range 8 {
		go func() {
			n := table.NewBatch{ID: keys.NewID[keys.BatchID](), Workflow: w, Name: "b"}
			for range 40 {
				d := keys.NewID[keys.DocumentID]()
				n.Documents = append(n.Documents, table.NewDocument{ID: d, Name: "a", Object: tenant.File(n.ID, d)})
			}
			_, _, err := s.Store.CreateBatch(t.Context(), n)
			done <- err
		}()
	}
	created := 0
	for range 8 {
		if <-done == nil {
			created++
		}
	}
	if used, err := s.Store.Usage(t.Context(), tenant); err != nil || used.Documents != created*40 || created != table.Plans[0].Documents/40 {
		t.Errorf("%d batches, %+v, %v", created, used, err)
	}
	if err := s.Store.SetPlan(t.Context(), tenant, "team"); err != nil {
		t.Fatal(err)
	}
	if err := s.Store.SetPlan(t.Context(), keys.NewTenant(), "team"); err == nil {
		t.Error("the plan of a tenant that does not exist is changed")
	}
}

// What costs most is limited too: attempts of failed documents, uploads, and mails of
// invitations.
func TestPlansLimitEffort(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.freeTenant()
	free := table.Plans[0]
	for i := range free.Invitations() + 1 {
		status, text := c.request("POST", "/v1/invitations", object{"email": "p@acme.example"})
		if i < free.Invitations() {
			var code object
			if err := json.Unmarshal([]byte(text), &code); err != nil || status != 200 {
				t.Fatalf("invitation %d: %d %s", i, status, text)
			}
			continue
		}
		refusedByPlan(t, "invitations", status, text)
	}

	var upload string
	for range free.Uploads() {
		upload = c.upload([]byte{0})
	}
	status, text := c.request("POST", "/v1/uploads", []byte{0})
	refusedByPlan(t, "uploads", status, text)

	batch := must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b", "documents": []object{{"name": "a", "upload": upload}}}).str("batchId")
	s.passes()
	b := s.batchOf(batch)
	d := s.documentsOf(b)[0]
	if d.Status != table.Failed {
		t.Fatalf("the document is %s", d.Status)
	}
	retry := func() (int, string) {
		return c.request("POST", "/v1/projects/"+project+"/batches/"+batch+"/documents/"+d.ID.String()+"/retry", nil)
	}
	for i := range free.Documents - 1 {
		if status, text := retry(); status >= 300 {
			t.Fatalf("retry %d: %d %s", i, status, text)
		}
		s.passes()
	}
	status, text = retry()
	refusedByPlan(t, "retries", status, text)
	if status := s.documentsOf(b)[0].Status; status != table.Failed {
		t.Errorf("the document is %s", status)
	}
}

func parsed[T keys.ID[kind], kind any](t *testing.T, text string) T {
	t.Helper()
	id, err := keys.ParseID[T, kind](text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
