package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/documents/api"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/trial"
)

// objects returns the names of all objects of the bucket.
func (s *system) objects() string {
	s.t.Helper()
	var names []string
	for all := s.Bucket.List(new(blob.ListOptions)); ; {
		o, err := all.Next(s.t.Context())
		if errors.Is(err, io.EOF) {
			return strings.Join(names, "\n")
		}
		if err != nil {
			s.t.Fatal(err)
		}
		names = append(names, o.Key)
	}
}

// A trial predicts what becomes of each document: status, confidence, fields and
// reason, and shows where they are. It stores nothing.
func TestTrials(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	path := "/v1" + fill(inProject, ids) + "/trials"
	w := json.RawMessage(`{"name":"W","extraction":` + demoExtraction + `,"confidenceThreshold":0.55,"reviewThreshold":0.85}`)
	before, objects := state(s, c, ids), s.objects()
	for _, d := range s.documentsOf(s.batchOf(ids["batch"])) {
		o := must[trial.Outcome](c, "POST", path, object{"workflow": w, "sample": object{"batchId": ids["batch"], "documentId": d.ID}, "page": 1})
		if o.Status != d.Status || fmt.Sprintf("%.4g", o.Result.Confidence) != fmt.Sprintf("%.4g", d.Confidence) || d.Status == table.Failed && o.Reason != d.Reason || !strings.HasPrefix(o.Preview, "<svg") {
			t.Errorf("%s is %s %v (%s), but the trial says %+v", d.Name, d.Status, d.Confidence, d.Reason, o)
		}
	}
	good := "Invoice number: NW-1001\nDate: 2026-11-07\nCustomer: Initech\nTotal: EUR 12.50\n"
	for name, sample := range map[string]object{
		"text": {"text": good}, "content": {"name": "a.pdf", "content": pdfOf(good)}, "upload": {"name": "a.txt", "upload": ids["upload"]},
	} {
		o := must[trial.Outcome](c, "POST", path, object{"workflow": w, "sample": sample, "page": 1})
		if name != "upload" && (o.Status != table.Succeeded || !strings.Contains(o.Preview, `data-field="total"`) || o.Pages != 1) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	for name, x := range map[string]struct {
		sample object
		status int
	}{
		"none": {object{}, 400}, "two": {object{"text": "a", "upload": ids["upload"]}, 400}, "half": {object{"batchId": ids["batch"]}, 400},
		"no such document": {object{"batchId": ids["batch"], "documentId": ids["project"]}, 404}, "no such upload": {object{"upload": ids["project"]}, 404},
	} {
		if status, text := c.request("POST", path, object{"workflow": w, "sample": x.sample}); status != x.status {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if after := state(s, c, ids); after != before || s.objects() != objects {
		t.Errorf("a trial has stored something:\n%s\n%s\n%s", before, after, s.objects())
	}
}

// All problems of a workflow are in the reply, for a trial and for a change alike.
func TestProblemsOfWorkflows(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	in := "/v1/projects/" + project
	bad := object{"name": "", "confidenceThreshold": 2, "reviewThreshold": 0.5, "extraction": object{"fields": []object{{"name": "a", "pattern": "("}}}}
	for _, r := range []struct {
		method, path string
		body         object
	}{{"POST", in + "/trials", object{"workflow": bad, "sample": object{"text": "a: 1"}}}, {"POST", in + "/workflows", bad}, {"PUT", in + "/workflows/" + workflow, bad}} {
		status, text := c.request(r.method, r.path, r.body)
		for _, want := range []string{`"code":"bad_name"`, `"place":"name"`, `"place":"confidenceThreshold"`, `"place":"extraction.fields[0].pattern"`} {
			if status != 400 || !strings.Contains(text, want) {
				t.Errorf("%s %s has no %s: %d %s", r.method, r.path, want, status, text)
			}
		}
	}
}

// Trials are limited by the plan: their number in a minute, and the size of a sample.
func TestLimitsOfTrials(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.freeTenant()
	path := "/v1/projects/" + project + "/trials"
	ask := func(text string) (int, string) {
		return c.request("POST", path, object{"workflow": json.RawMessage(definition), "sample": object{"text": text}})
	}
	free := table.Plans[0]
	if status, text := ask(strings.Repeat("x", int(free.FileBytes)+1)); status != 413 {
		t.Errorf("%d %.200s", status, text)
	}
	if status, text := c.multipart("/projects/"+project+"/workflows/"+workflow+"/try", url.Values{"name": {"a"}}, bytes.Repeat([]byte("x"), int(free.FileBytes)+1)); status != 413 {
		t.Errorf("%d %.200s", status, text)
	}
	for i := range free.Trials {
		if status, text := ask("a: 1"); status != 200 {
			t.Fatalf("trial %d: %d %s", i+1, status, text)
		}
	}
	if status, text := ask("a: 1"); status != 429 || !strings.Contains(text, "too_many_trials") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := c.request("POST", "/projects/"+project+"/workflows/try", editedBody+"&text=a:+1"); status != 429 || !strings.Contains(text, "30 a minute") {
		t.Errorf("%d %s", status, text)
	}
	now.Pass(2 * time.Second)
	if status, text := ask("a: 1"); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// multipart sends a form with a file.
func (c *client) multipart(path string, form url.Values, file []byte) (int, string) {
	c.s.t.Helper()
	body := new(bytes.Buffer)
	for name, values := range form {
		for _, v := range values {
			fmt.Fprintf(body, "--xyz\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, v)
		}
	}
	fmt.Fprintf(body, "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.pdf\"\r\n\r\n%s\r\n--xyz--\r\n", file)
	return c.send("POST", path, "multipart/form-data; boundary=xyz", body)
}

var inputs = regexp.MustCompile(`(?s)<input[^>]* name="([^"]+)" value="([^"]*)"([^>]*)>|<textarea[^>]* name="([^"]+)"[^>]*>(.*?)</textarea>|<select name="([^"]+)">(.*?)</select>`)
var chosen = regexp.MustCompile(`<option(?: value="([^"]*)")? selected>([^<]*)`)

// formOf returns what a browser without a script would send of the editor's form.
func formOf(page string) url.Values {
	form := make(url.Values)
	page = page[strings.Index(page, `<form id="editor"`):]
	for _, m := range inputs.FindAllStringSubmatch(page, -1) {
		switch {
		case m[6] != "":
			if o := chosen.FindStringSubmatch(m[7]); o != nil && strings.Contains(o[0], "value=") {
				form.Set(m[6], o[1])
			} else if o != nil {
				form.Set(m[6], o[2])
			}
		case m[4] != "":
			form.Set(m[4], html.UnescapeString(m[5]))
		case !strings.Contains(m[0], "checkbox") || strings.Contains(m[3], "checked"):
			form.Set(m[1], html.UnescapeString(m[2]))
		}
	}
	return form
}

// Without a script a workflow is created, tried and changed by its form, or as JSON.
// Problems are at their fields, and nothing is stored before it is saved.
func TestEditor(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	in := fill(inProject, ids) + "/workflows"
	workflows := func() int {
		return len(must[object](c, "GET", "/v1"+in, nil)["items"].([]any))
	}
	post := func(path string, form url.Values, want int) string {
		t.Helper()
		status, page := c.request("POST", path, form.Encode())
		if status != want {
			t.Fatalf("%s: %d %s", path, status, page)
		}
		return page
	}
	has := func(page string, all ...string) {
		t.Helper()
		for _, want := range all {
			if !strings.Contains(page, want) {
				t.Fatalf("the page has no %q:\n%s", want, page)
			}
		}
	}
	_, page := c.request("GET", in+"/new", nil)
	has(page, "acme-0.txt", `name="field.2.labels"`)
	form := formOf(page)
	if form.Get("field.2.name") != "total" || form.Get("field.2.type") != "amount" || form.Get("field.2.required") != "yes" || form.Get("sample") == "" {
		t.Fatalf("%v\n%s", form, page)
	}

	// Fields are added, moved and removed.
	form.Set("action", "add")
	form = formOf(post(in+"/try", form, 200))
	form.Set("field.3.name", "number") // as the first one
	form.Set("field.3.pattern", "(")
	form.Set("review", "x")
	page = post(in+"/try", form, 200)
	has(page, `id="problem:extraction.fields[3].name">two fields have the name &#34;number&#34;`, `id="problem:extraction.fields[3].pattern">the pattern is not valid`,
		`id="problem:name">the name must have`, `id="problem:reviewThreshold">the threshold is &#34;x&#34;`, "4 problems")
	if page := post(in, form, 400); !strings.Contains(page, "4 problems") || workflows() != 1 {
		t.Errorf("a workflow with problems is saved:\n%s", page)
	}
	form.Set("action", "up:3")
	form = formOf(post(in+"/try", form, 200))
	form.Set("action", "remove:0")
	form = formOf(post(in+"/try", form, 200))
	if form.Get("field.1.pattern") != "(" || form.Get("field.2.name") != "total" || form.Has("field.3.name") {
		t.Fatalf("%v", form)
	}

	// A text and a file are tried; values, status and the marked page are shown.
	maps.Copy(form, url.Values{"name": {"Letters"}, "review": {"0,8"}, "confidence": {"0.5"}, "field.1.name": {"place"}, "field.1.labels": {"Place\r\n"}, "field.1.pattern": {""}, "field.2.maximum": {"100"}})
	text := "Date: 2026-11-07\nPlace: Rome\nTotal: 120.50\n"
	form.Set("text", text)
	page = post(in+"/try", form, 200)
	has(page, "review required", "Rome", "120.50 is above the maximum 100", `src="data:image/svg`, "0.80; lowest for &#34;total&#34;")
	form.Del("text")
	status, page := c.multipart(in+"/try", form, pdfOf(text))
	if status != 200 {
		t.Fatalf("%d %s", status, page)
	}
	has(page, "review required", "Rome")
	form.Set("sample", ids["batch"]+"/"+ids["project"])
	has(post(in+"/try", form, 404), `id="problem:sample">it does not exist`)

	// The same as JSON.
	form.Set("action", "json")
	form = formOf(post(in+"/try", form, 404))
	has(form.Get("json"), `"name": "Letters"`, `"maximum": "100"`)
	spoilt := maps.Clone(form)
	spoilt.Set("json", "{")
	spoilt.Set("action", "form")
	has(post(in+"/try", spoilt, 200), `value="json"`, "not JSON of the right form")
	spoilt.Set("json", strings.Replace(form.Get("json"), `"100"`, `"many"`, 1))
	has(post(in, spoilt, 400), "extraction.fields[2].maximum: the maximum is &#34;many&#34;")
	if workflows() != 1 {
		t.Error("a workflow is stored before it is saved")
	}
	form.Set("json", strings.Replace(form.Get("json"), "Letters", "Post", 1))
	post(in, form, 303)
	if workflows() != 2 {
		t.Error("the workflow is not saved")
	}
	var list struct {
		Items []struct {
			Name, WorkflowID, UpdatedAt string
		}
	}
	_, all := c.request("GET", "/v1"+in, nil)
	if err := json.Unmarshal([]byte(all), &list); err != nil || list.Items[0].Name != "Post" {
		t.Fatalf("%s, %v", all, err)
	}
	_, page = c.request("GET", in+"/"+list.Items[0].WorkflowID, nil)
	if form := formOf(page); form.Get("name") != "Post" || form.Get("review") != "0.8" || form.Get("field.2.maximum") != "100" || form.Get("was") != list.Items[0].UpdatedAt {
		t.Errorf("%v", form)
	}
	if _, page := c.request("GET", fill(inProject, ids), nil); !strings.Contains(page, ">Post</a></td>") || !strings.Contains(page, ">date, place, total</td>") {
		t.Errorf("%s", page)
	}
}

// Of two people that edit the same workflow, the second one does not overwrite the
// first one's change unless she wants to, on the page and by the API.
func TestEditorsDoNotOverwrite(t *testing.T) {
	now := new(clock) // all changes are in the same millisecond
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	path := "/projects/" + project + "/workflows/" + workflow
	_, page := c.request("GET", path, nil)
	ann, ben := formOf(page), formOf(page)
	ann.Set("name", "Ann's")
	ben.Set("name", "Ben's")
	if status, page := c.request("POST", path, ann.Encode()); status != 303 {
		t.Fatalf("%d %s", status, page)
	}
	status, page := c.request("POST", path, ben.Encode())
	if status != 409 || !strings.Contains(page, "Not saved") || !strings.Contains(page, `value="Ben&#39;s"`) {
		t.Errorf("%d %s", status, page)
	}
	if got := must[object](c, "GET", "/v1"+path, nil).str("name"); got != "Ann's" {
		t.Errorf("the workflow is %s", got)
	}
	over := regexp.MustCompile(`name="over" value="([^"]+)"`).FindStringSubmatch(page)
	if over == nil {
		t.Fatalf("%s", page)
	}
	ben.Set("over", over[1])
	if status, page := c.request("POST", path, ben.Encode()); status != 303 {
		t.Errorf("%d %s", status, page)
	}
	ben.Del("over")
	ben.Del("was")
	if status, page := c.request("POST", path, ben.Encode()); status != 400 {
		t.Errorf("%d %s", status, page)
	}

	w := must[object](c, "GET", "/v1"+path, nil)
	put := object{"name": "C", "extraction": w["extraction"], "reviewThreshold": 0.5, "updatedAt": w["updatedAt"]}
	must[object](c, "PUT", "/v1"+path, put)
	if status, text := c.request("PUT", "/v1"+path, put); status != 409 || !strings.Contains(text, `"changed"`) {
		t.Errorf("%d %s", status, text)
	}
	delete(put, "updatedAt")
	must[object](c, "PUT", "/v1"+path, put)
	must[object](c, "DELETE", "/v1"+path, nil)
	put["updatedAt"] = w["updatedAt"]
	if status, text := c.request("PUT", "/v1"+path, put); status != 404 {
		t.Errorf("%d %s", status, text)
	}
}

// In a browser the trial follows the typing, without a reload and without a click.
func TestEditorIsLive(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	s.API.Guests = []api.Guest{{Email: "ann@acme.example", Tenant: c.tenant, Of: "acme"}}
	url := s.serve()
	tab := openTab(t, url)
	tab.act("open the editor", chromedp.Navigate(url+fill(inProject, ids)+"/workflows/"+ids["workflow"]))
	tab.wait(`document.querySelector("#trial .status")?.innerText == "review required" && document.querySelector("#trial img").naturalWidth > 0 && (window.here = true)`)
	tab.wait(`(document.querySelector("[name=text]").value = "Invoice number: NW-2002\nDate: 2026-11-07\nCustomer: Initech\nTotal: 12.50", document.querySelector("[name=text]").dispatchEvent(new Event("input", {bubbles: true})))`)
	tab.wait(`document.querySelector("#trial .status")?.innerText == "succeeded" && document.querySelector("#trial").innerText.includes("NW-2002")`)
	tab.wait(`(document.querySelector("[name='field.0.pattern']").value = "(", document.querySelector("[name='field.0.pattern']").dispatchEvent(new Event("input", {bubbles: true})))`)
	tab.wait(`document.getElementById("problem:extraction.fields[0].pattern").innerText.includes("not valid")`)
	tab.act("add a field", chromedp.Click(chromedp.CSS(`button[value="add"]`)))
	tab.wait(`document.querySelectorAll("#definition fieldset").length == 6 && document.querySelector("[name='field.0.pattern']").value == "("`)
	tab.act("see the JSON", chromedp.Click(chromedp.CSS(`button[value="json"]`)))
	tab.wait(`document.querySelector("[name=json]").value.includes('"pattern": "("') && window.here`)
	tab.wait(`(document.querySelector("[name=json]").value = document.querySelector("[name=json]").value.replace('"("', '""').replace('"name": ""', '"name": "extra"'), true)`)
	tab.act("save", chromedp.Click(chromedp.CSS(`button[formaction]`)))
	tab.wait(`location.pathname == "` + fill(inProject, ids) + `" && document.body.innerText.includes("extra")`)
}

// The first sample of the editor is a document that can be read, and a file that cannot be
// read has no picture on its page.
func TestUnreadableDocuments(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	for name, data := range map[string]string{"a-broken.pdf": "%PDF-1.4\nno", "b-good.txt": "Total: EUR 12.50"} {
		s.drop(inbox(c, project, workflow, "files")+name, []byte(data))
	}
	s.passes()
	all := s.documentsOf(s.batchOf(inboxBatch(c, project, workflow, "files")))
	if len(all) != 2 || !all[0].Unreadable || all[1].Unreadable {
		t.Fatalf("%+v", all)
	}
	in := "/projects/" + project
	if _, page := c.request("GET", in+"/workflows/"+workflow, nil); !strings.Contains(page, "/"+all[1].ID.String()+`" selected`) || strings.Contains(page, "it is damaged") {
		t.Errorf("the editor: %s", page)
	}
	if _, page := c.request("GET", in+"/batches/"+all[0].Batch.String()+"/documents/"+all[0].ID.String(), nil); strings.Contains(page, "<img") || !strings.Contains(page, "cannot be shown") {
		t.Errorf("the document: %s", page)
	}
}
