package documents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gocloud.dev/pubsub"
	"gocloud.dev/pubsub/mempubsub"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/ingest"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// A document that needs review is corrected and approved; a failed one is retried
// after its workflow was fixed; the batch's status changes accordingly.
func TestReviewAndRetry(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	document := func(name string) string {
		return "/v1" + fill(inBatch, ids) + "/documents/" + ids[name]
	}
	batch := func() object { return must[object](c, "GET", "/v1"+fill(inBatch, ids), nil) }
	if b := batch(); b.str("status") != "FAILED" || b.str("review") != "2" || b.str("failed") != "2" {
		t.Fatalf("%v", b)
	}
	for _, wrong := range []object{
		{"approve": true, "fields": object{"colour": "red"}},
		{"approve": false, "fields": object{"total": "1"}},
		{"approve": true, "fields": object{"total": strings.Repeat("1", 20_000)}},
	} {
		if status, text := c.request("POST", document("document")+"/review", wrong); status != 400 {
			t.Errorf("%.80v: %d %s", wrong, status, text)
		}
	}
	must[object](c, "POST", document("document")+"/review", object{"approve": true, "fields": object{"total": "300.00"}})
	if status, text := c.request("POST", document("document")+"/review", object{"approve": true}); status != 409 {
		t.Errorf("reviewed twice: %d %s", status, text)
	}
	r := must[extract.Result](c, "GET", document("document")+"/result", nil)
	for _, f := range r.Fields {
		if f.Name == "total" && (f.Value != "300.00" || f.Source != "reviewer" || f.Confidence != 1) {
			t.Errorf("%+v", f)
		}
	}
	d := must[object](c, "GET", document("document"), nil)
	if d.str("status") != "SUCCEEDED" || d.str("reviewedBy") != ids["user"] {
		t.Errorf("%v", d)
	}
	must[object](c, "POST", document("other")+"/review", object{"approve": false, "reason": "blurred"})
	if b := batch(); b.str("succeeded") != "1" || b.str("failed") != "3" || b.str("review") != "0" {
		t.Errorf("%v", b)
	}
	// The workflow is changed to accept letters.
	must[object](c, "PUT", "/v1"+fill(inProject, ids)+"/workflows/"+ids["workflow"], object{
		"name": "Letters", "extraction": object{"fields": []object{{"name": "to", "labels": []string{"Dear"}, "required": true}}},
		"confidenceThreshold": 0.1, "reviewThreshold": 0.2,
	})
	for _, name := range []string{"failed", "spoilt"} {
		must[object](c, "POST", document(name)+"/retry", object{})
	}
	if b := batch(); b.str("status") != "PROCESSING" || b.str("processing") != "2" {
		t.Errorf("%v", b)
	}
	s.passes()
	if b := batch(); b.str("status") != "FAILED" || b.str("succeeded") != "3" || b.str("failed") != "1" {
		t.Errorf("%v", b)
	}
	if status, _ := c.request("POST", document("failed")+"/retry", object{}); status != 409 {
		t.Errorf("a succeeded document is retried: %d", status)
	}
	s.consistent(s.batchOf(ids["batch"]))
}

// A failed document keeps what was read of it: it can be looked at, corrected and
// accepted. A file that cannot be read has empty fields to fill in, and a rejected
// document and a retry that fails keep the result.
func TestFailedDocumentsKeepTheirResults(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	var documents []object
	for name, text := range map[string]string{
		"half.txt": "Invoice no NW-1001\nTotal: EUR 12.50\n", "broken.pdf": "%PDF-1.4\nno PDF", "review.txt": "Invoice no NW-1001\nDate\n7.11.2026\nCustomer Ann\nTotal\nabout three hundred\n",
	} {
		documents = append(documents, object{"name": name, "upload": c.upload([]byte(text))})
	}
	b := s.batchOf(must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b", "documents": documents}).str("batchId"))
	s.passes()
	in := "/projects/" + project + "/batches/" + b.ID.String() + "/documents/"
	paths := make(map[string]string)
	for _, d := range s.documentsOf(b) {
		paths[d.Name] = in + d.ID.String()
		if want := d.Name == "broken.pdf"; d.Unreadable != want {
			t.Errorf("%s: unreadable is %v", d.Name, d.Unreadable)
		}
	}
	value := func(name, field string) string {
		t.Helper()
		for _, f := range must[extract.Result](c, "GET", "/v1"+paths[name]+"/result", nil).Fields {
			if f.Name == field {
				return f.Value
			}
		}
		return "no field"
	}
	status := func(name, want string) {
		t.Helper()
		if d := must[object](c, "GET", "/v1"+paths[name], nil); d.str("status") != want {
			t.Errorf("%s is %v, want %s", name, d, want)
		}
	}
	status("half.txt", "FAILED")
	if got := value("half.txt", "total"); got != "12.50" {
		t.Errorf("the total that was read is %q", got)
	}
	if _, page := c.request("GET", paths["half.txt"], nil); !strings.Contains(page, `value="12.50"`) || !strings.Contains(page, "Accept") || !strings.Contains(page, ">Retry<") {
		t.Errorf("the page of a failed document: %s", page)
	}
	if _, page := c.request("GET", paths["broken.pdf"], nil); !strings.Contains(page, `name="field:total"`) || strings.Contains(page, ">Retry<") {
		t.Errorf("the page of an unreadable document: %s", page)
	}
	must[object](c, "POST", "/v1"+paths["half.txt"]+"/retry", object{})
	if got := value("half.txt", "total"); got != "12.50" {
		t.Errorf("during a retry the total is %q", got)
	}
	s.passes()
	status("half.txt", "FAILED")
	for _, wrong := range []object{{"approve": false}, {"approve": true, "fields": object{"colour": "red"}}} {
		if code, text := c.request("POST", "/v1"+paths["half.txt"]+"/review", wrong); code < 400 {
			t.Errorf("%v: %d %s", wrong, code, text)
		}
	}
	if code, text := c.request("POST", "/v1"+paths["broken.pdf"]+"/review", object{"approve": true}); code != 400 {
		t.Errorf("a document without values is approved: %d %s", code, text)
	}
	must[object](c, "POST", "/v1"+paths["half.txt"]+"/review", object{"approve": true, "fields": object{"customer": "Initech"}})
	if code, _ := c.request("POST", paths["broken.pdf"]+"/review", "decision=approve&field%3Atotal=77.00"); code != 303 {
		t.Errorf("accepted by the form: %d", code)
	}
	if value("half.txt", "customer") != "Initech" || value("half.txt", "total") != "12.50" || value("broken.pdf", "total") != "77.00" {
		t.Errorf("%q, %q, %q", value("half.txt", "customer"), value("half.txt", "total"), value("broken.pdf", "total"))
	}
	status("half.txt", "SUCCEEDED")
	status("broken.pdf", "SUCCEEDED")
	must[object](c, "POST", "/v1"+paths["review.txt"]+"/review", object{"approve": false})
	if got := value("review.txt", "customer"); got != "Ann" {
		t.Errorf("a rejected document keeps %q", got)
	}
	s.consistent(s.batchOf(b.ID.String()))
}

// A batch is found by its id alone.
func TestBatchByIDAlone(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	b := s.batchOf(ids["batch"])
	if b.Tenant.String() != c.tenant || b.Project.String() != ids["project"] || b.Workflow.String() != ids["workflow"] || b.ConfidenceThreshold != 0.55 || b.ReviewThreshold != 0.85 {
		t.Errorf("%+v", b)
	}
	if again, err := s.Machine.Run(t.Context(), b.ID); err != nil || !again.IsZero() {
		t.Errorf("a run of a finished batch: %v, %v", again, err)
	}
}

// A result that is too large for an item is in the bucket, and the item has its
// name; all others are on the item.
func TestLargeResults(t *testing.T) {
	hometest.Unusual(t)
	s := start(t, nil)
	s.Machine.Within = time.Hour // the machine may be slow
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	table400 := func(rows int) []byte {
		var csv bytes.Buffer
		csv.WriteString("Invoice number,Date,Customer,Total\n")
		for i := range rows {
			fmt.Fprintf(&csv, "NW-%06d,2026-11-07,Customer number %d of a long list,%d.50\n", i, i, i)
		}
		return csv.Bytes()
	}
	for name, rows := range map[string]int{"small.csv": 10, "fits.csv": 4700, "over.csv": 5000, "large.csv": 20_000} {
		s.drop(inbox(c, project, workflow, "tables")+name, table400(rows))
	}
	s.passes()
	b := s.batchOf(inboxBatch(c, project, workflow, "tables"))
	if b.Status != table.Succeeded || b.Succeeded != 4 {
		t.Fatalf("%+v", b)
	}
	for _, d := range s.documentsOf(b) {
		large := d.Name == "over.csv" || d.Name == "large.csv"
		if (d.ResultObject != "") != large || (d.Result == "") != large {
			t.Errorf("%s: %d bytes on the item, object %q", d.Name, len(d.Result), d.ResultObject)
		}
		r := must[extract.Result](c, "GET", "/v1/projects/"+project+"/batches/"+b.ID.String()+"/documents/"+d.ID.String()+"/result", nil)
		want := map[string]int{"small.csv": 10, "fits.csv": 4700, "over.csv": 5000, "large.csv": 20_000}[d.Name]
		if len(r.Fields[0].Values) != want || r.Fields[3].Values[want-1] != fmt.Sprintf("%d.50", want-1) {
			t.Errorf("%s: %d rows", d.Name, len(r.Fields[0].Values))
		}
		t.Logf("%s: %d bytes on the item", d.Name, len(d.Result))
	}
	// The control: an item cannot hold it.
	o := table.Outcome{Document: s.documentsOf(b)[0], Status: table.Succeeded, Result: strings.Repeat("x", 410_000)}
	o.Document.Status = table.Succeeded
	if _, err := s.Store.Settle(t.Context(), b, []table.Outcome{o}); err == nil {
		t.Error("an item of more than 400 KB is accepted")
	}
}

// A failing service is called again with increasing delays, until the document
// fails; if the service recovers in time, the document succeeds.
func TestServiceRetries(t *testing.T) {
	var down atomic.Bool
	var asked atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `{"fields":[{"name":"total","value":"12.00","confidence":0.99}]}`)
	}))
	defer service.Close()
	now := new(clock)
	s := start(t, func(o *Options) {
		o.ModelService, o.Now, o.Home.Now = service.URL, now.Now, now.Now
	})
	c, project, _ := s.newTenant("acme", "ann@acme.example")
	w := must[object](c, "POST", "/v1/projects/"+project+"/workflows", object{
		"name": "Model", "extraction": object{"extractor": "service", "fields": []object{{"name": "total", "required": true}}}, "confidenceThreshold": 0.5, "reviewThreshold": 0.8,
	}).str("workflowId")
	send := func(name string) string {
		return must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": w, "name": name, "documents": []object{{"name": "a.txt", "upload": c.upload([]byte("x"))}}}).str("batchId")
	}
	down.Store(true)
	one, two := send("recovers"), send("keeps failing")
	s.passes()
	if b := s.batchOf(one); b.Status != table.Processing || s.documentsOf(b)[0].Attempts != 1 {
		t.Errorf("%+v", b)
	}
	before := asked.Load()
	s.passes()
	if asked.Load() != before {
		t.Error("the service is called again at once")
	}
	down.Store(false)
	now.Pass(time.Minute)
	s.passes()
	for _, id := range []string{one, two} {
		if b := s.batchOf(id); b.Status != table.Succeeded {
			t.Errorf("%+v", b)
		}
	}
	down.Store(true)
	three := send("never")
	for range s.o.Attempts + 2 {
		s.passes()
		now.Pass(10 * time.Minute)
	}
	b := s.batchOf(three)
	if d := s.documentsOf(b)[0]; b.Status != table.Failed || d.Attempts != s.o.Attempts || !strings.Contains(d.Reason, "503") {
		t.Errorf("%+v, %+v", b, d)
	}
}

// Files in the inbox that belong to no tenant are rejected with a reason; files of a
// tenant are ingested once, however many notices there are.
func TestInbox(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	other, theirs, _ := s.newTenant("globex", "gil@globex.example")
	good := inbox(c, project, workflow, "a")
	wrong := []string{
		"inbox/readme.txt",
		"inbox/not-a-tenant/" + project + "/" + workflow + "/a/b.txt",
		inbox(c, theirs, workflow, "a") + "b.txt",          // another tenant's project
		inbox(other, project, workflow, "a") + "b.txt",     // another tenant's project and workflow
		inbox(c, project, workflow, "a") + "deep/er/b.txt", // too deep
		inbox(c, project, workflow, strings.Repeat("x", 201)) + "b.txt",
	}
	for _, name := range wrong {
		s.drop(name, []byte("Total: 1"))
	}
	s.drop(good+"b.txt", []byte("Total: 1"))
	topic := mempubsub.NewTopic()
	notices := mempubsub.NewSubscription(topic, time.Minute)
	bodies := []string{
		`{"key":"` + good + `b.txt"}`,
		`{"key":"` + good + `b.txt"}`,
		`{"Records":[{"s3":{"object":{"key":"` + strings.ReplaceAll(good, "/", "%2F") + `b.txt"}}}]}`,
		`not JSON`, `{"key":"tenants/` + c.tenant + `/uploads/x"}`, `{}`, `{"key":"inbox/gone.txt"}`,
	}
	for _, body := range bodies {
		if err := topic.Send(t.Context(), &pubsub.Message{Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	s.listen(notices, good+"b.txt")
	for range 2 { // a second notice, after the file was ingested
		if err := s.Ingest.Take(t.Context(), []string{good + "b.txt"}); err != nil {
			t.Error(err)
		}
	}
	s.passes()
	s.drop(good+"b.txt", []byte("Total: 1")) // the same file again
	s.passes()
	b := s.batchOf(inboxBatch(c, project, workflow, "a"))
	if b.Documents != 1 {
		t.Errorf("%+v", b)
	}
	s.consistent(b)
	for _, name := range wrong {
		why, err := s.Bucket.ReadAll(t.Context(), ingest.Rejected+strings.TrimPrefix(name, ingest.Inbox)+".why.txt")
		if err != nil || len(why) < 10 {
			t.Errorf("%s: %q, %v", name, why, err)
		}
	}
	if left := s.left(nil, 0); left != 0 {
		t.Errorf("%d files are left in the inbox", left)
	}
	// A bucket in a folder has such names while a file is written.
	s.drop(good+"c.txt.1878.tmp", []byte("Tot"))
	s.passes()
	if b := s.batchOf(b.ID.String()); b.Documents != 1 {
		t.Errorf("a file that is still being written is ingested: %+v", b)
	}
}

// listen handles notices until a file is removed from the inbox.
func (s *system) listen(notices *pubsub.Subscription, file string) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Ingest.Listen(ctx, notices) }()
	for there := true; there; time.Sleep(5 * time.Millisecond) {
		var err error
		if there, err = s.Bucket.Exists(ctx, file); err != nil {
			s.t.Fatal(err)
		}
	}
	stop()
	if err := <-done; err != nil {
		s.t.Error(err)
	}
}

// Invalid and oversized bodies are rejected.
func TestBadBodies(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	in := "/v1" + fill(inProject, ids)
	upload := object{"name": "a", "upload": ids["upload"]}
	many := make([]object, table.MaxDocuments+1)
	for i := range many {
		many[i] = upload
	}
	for name, r := range map[string]struct {
		path string
		body any
		want int
	}{
		"no JSON":            {"/v1/projects", "{", 400},
		"unknown member":     {"/v1/projects", object{"name": "a", "tenantId": ids["tenant"]}, 400},
		"no name":            {"/v1/projects", object{"name": " "}, 400},
		"long name":          {"/v1/projects", object{"name": strings.Repeat("a", 300)}, 400},
		"huge body":          {"/v1/projects", object{"name": strings.Repeat("a", 300_000)}, 413},
		"huge upload":        {"/v1/uploads", make([]byte, extract.MaxFile+1), 413},
		"thresholds crossed": {in + "/workflows", object{"name": "a", "extraction": object{"fields": []object{{"name": "a"}}}, "confidenceThreshold": 0.9, "reviewThreshold": 0.5}, 400},
		"no service":         {in + "/workflows", object{"name": "a", "extraction": object{"extractor": "service", "fields": []object{{"name": "a"}}}, "reviewThreshold": 0.5}, 400},
		"no documents":       {in + "/batches", object{"workflowId": ids["workflow"], "name": "a"}, 400},
		"many documents":     {in + "/batches", object{"workflowId": ids["workflow"], "name": "a", "documents": many}, 400},
		"no workflow":        {in + "/batches", object{"name": "a", "documents": []object{upload}}, 400},
		"no id":              {in + "/batches", object{"workflowId": "x", "name": "a", "documents": []object{upload}}, 400},
		"no email":           {"/v1/invitations", object{"email": "nobody"}, 400},
		"other role":         {"/v1/invitations", object{"email": "a@example.com", "role": "owner"}, 400},
		"other plan":         {"/v1/tenants", object{"name": "a", "email": "a@example.com", "person": "a", "plan": "gold"}, 400},
	} {
		if status, text := c.request("POST", r.path, r.body); status != r.want || !strings.Contains(text, `"message"`) {
			t.Errorf("%s: %d %.200s, want %d", name, status, text, r.want)
		}
	}
	for _, path := range []string{"/v1/batches?status=SUCCEEDED", "/v1/batches", "/v1" + fill(inBatch, ids) + "/documents?status=x"} {
		if status, _ := c.request("GET", path, nil); status != 400 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := c.request("GET", "/v1"+fill(inBatch, ids)+"/documents?cursor=nonsense", nil); status != 404 {
		t.Errorf("a cursor of nonsense: %d", status)
	}
}

// The pages do by forms what the API does.
func TestPages(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	w.WriteField("name", "<b>by form</b>")
	w.WriteField("workflow", ids["workflow"])
	for i := range 3 {
		part, err := w.CreateFormFile("file", fmt.Sprintf("%d.txt", i))
		if err != nil {
			t.Fatal(err)
		}
		_, data, _ := invoiceOf(1, i)
		part.Write(data)
	}
	w.Close()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+fill(inProject, ids)+"/batches", &form)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", w.FormDataContentType())
	r.AddCookie(&http.Cookie{Name: "session", Value: c.session})
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode != 200 || !strings.Contains(string(text), "&lt;b&gt;by form") || strings.Contains(string(text), "<b>by form") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
	s.passes()
	if _, page := c.request("GET", "/review", nil); !strings.Contains(page, "acme-0.txt") {
		t.Errorf("%s", page)
	}
	if status, _ := c.request("POST", fill(ofDocument, ids)+"/review", "decision=approve&field%3Atotal=77.00"); status != 303 {
		t.Errorf("approved by the form: %d", status)
	}
	if r := must[json.RawMessage](c, "GET", "/v1"+fill(ofDocument, ids)+"/result", nil); !strings.Contains(string(r), `"77.00"`) {
		t.Errorf("%s", r)
	}
	if status, page := c.request("GET", "/projects/"+ids["tenant"], nil); status != 404 || !strings.Contains(page, "does not exist in this tenant") {
		t.Errorf("%d %s", status, page)
	}
}

// Failed items are removed from GSI2 after the retention time, and the documents of
// a batch whose creation was abandoned are removed.
func TestCleaning(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	_, ids := furnished(s, "acme", "ann@acme.example")
	if got := s.entries("GSI2"); got != 5 {
		t.Fatalf("GSI2 has %d entries, want two failed, two to review, and the batch", got)
	}
	now.Pass(s.o.Retention - time.Minute)
	s.passes()
	if got := s.entries("GSI2"); got != 5 {
		t.Errorf("before the time GSI2 has %d entries", got)
	}
	now.Pass(2 * time.Minute)
	s.passes()
	if got := s.entries("GSI2"); got != 2 {
		t.Errorf("after the time GSI2 has %d entries, want the two to review", got)
	}
	if got := s.entries("GSI3"); got != 1 {
		t.Errorf("GSI3 has %d entries, want the batch alone", got)
	}

	w, err := s.Store.Workflow(t.Context(), s.batchOf(ids["batch"]).Tenant, s.batchOf(ids["batch"]).Project, s.batchOf(ids["batch"]).Workflow)
	if err != nil {
		t.Fatal(err)
	}
	n := table.NewBatch{ID: keys.NewID[keys.BatchID](), Workflow: w, Name: "half"}
	for i := range 250 {
		d := keys.DeriveID[keys.DocumentID](fmt.Sprint(i))
		n.Documents = append(n.Documents, table.NewDocument{ID: d, Name: "a", Object: w.Tenant.File(n.ID, d)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	dying := *s.Store
	reads := 0
	dying.Now = func() time.Time { // crashes after some of its documents
		if reads++; reads == 7 { // of the second update
			cancel()
		}
		return now.Now()
	}
	if _, _, err := dying.CreateBatch(ctx, n); err == nil {
		t.Fatal("it did not crash")
	}
	if got := s.entries("GSI2"); got != 2+99 {
		t.Errorf("GSI2 has %d entries, want 99 documents of a batch that does not exist", got)
	}
	now.Pass(s.Store.Abandoned + time.Second)
	s.passes()
	if got := s.entries("GSI2"); got != 2 {
		t.Errorf("GSI2 has %d entries, want the two to review", got)
	}
}

// Files that are too large or invalid fail with a reason; the other documents of
// their batch are processed.
func TestHostileFilesFail(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	_, good, _ := invoiceOf(1, 0)
	says := map[string]string{"huge.txt": "16777216", "no.pdf": "PDF", "zip.txt": "neither", "empty.csv": "empty", "good.txt": ""}
	for name, data := range map[string][]byte{
		"huge.txt": make([]byte, extract.MaxFile+1), "no.pdf": []byte("%PDF-1.7"), "zip.txt": []byte("PK\x03\x04\x00"), "empty.csv": {}, "good.txt": good,
	} {
		s.drop(inbox(c, project, workflow, "a")+name, data)
	}
	s.passes()
	b := s.batchOf(inboxBatch(c, project, workflow, "a"))
	if b.Status != table.Failed || b.Failed != 4 || b.Succeeded != 1 {
		t.Errorf("%+v", b)
	}
	for _, d := range s.documentsOf(b) {
		if !strings.Contains(d.Reason, says[d.Name]) || (d.Reason == "") != (d.Name == "good.txt") {
			t.Errorf("%s: %q", d.Name, d.Reason)
		}
	}
}
