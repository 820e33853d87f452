package documents

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// The page of a PDF is shown with the found fields marked, and the document's page
// shows it.
func TestPreview(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	data := pdfOf("Northwind Supplies\nInvoice number: NW-1001\nDate: 2026-11-07\nCustomer: Initech\nTotal: EUR 12.50\n")
	b := s.batchOf(must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b", "documents": []object{
		{"name": "a.pdf", "upload": c.upload(data)}, {"name": "broken.pdf", "upload": c.upload([]byte("%PDF-1.4\nno"))},
	}}).str("batchId"))
	s.passes()
	in := "/projects/" + project + "/batches/" + b.ID.String() + "/documents/"
	all := s.documentsOf(b)
	status, picture := c.request("GET", "/v1"+in+all[0].ID.String()+"/preview", nil)
	if status != 200 || !strings.HasPrefix(picture, "<svg") || !strings.Contains(picture, `data-field="total"`) || !strings.Contains(picture, "12.50") {
		t.Errorf("%d %.500s", status, picture)
	}
	if _, page := c.request("GET", in+all[0].ID.String(), nil); !strings.Contains(page, "/preview") {
		t.Errorf("%s", page)
	}
	for _, path := range []string{all[0].ID.String() + "/preview?page=2", all[0].ID.String() + "/preview?page=x", all[1].ID.String() + "/preview"} {
		if status, text := c.request("GET", "/v1"+in+path, nil); status != 404 {
			t.Errorf("%s: %d %.100s", path, status, text)
		}
	}
}

// The pages of a document are reachable by links, and a field links the page on which
// it is.
func TestPagesOfPreview(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	data, err := os.ReadFile("extract/testdata/corpus/chromium-pages.pdf")
	if err != nil {
		t.Fatal(err)
	}
	b := s.batchOf(must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b", "documents": []object{
		{"name": "a.pdf", "upload": c.upload(data)}, {"name": "broken.pdf", "upload": c.upload([]byte("%PDF-1.4\nno"))},
	}}).str("batchId"))
	s.passes()
	in := "/projects/" + project + "/batches/" + b.ID.String() + "/documents/"
	all := s.documentsOf(b)
	for path, c2 := range map[string]struct{ has, hasNot []string }{
		"":        {[]string{"Page 1 of 3", `href="?page=2">Next`, "preview?page=1"}, []string{"Previous"}},
		"?page=2": {[]string{"Page 2 of 3", `href="?page=3">Next`, `href="?page=1">Previous`, "preview?page=2", `<a href="?page=1">page 1</a>`}, nil},
		"?page=3": {[]string{"Page 3 of 3", `href="?page=2">Previous`}, []string{"Next"}},
		"?page=9": {[]string{"Page 3 of 3"}, nil},
	} {
		status, page := c.request("GET", in+all[0].ID.String()+path, nil)
		for _, want := range c2.has {
			if status != 200 || !strings.Contains(page, want) {
				t.Errorf("%q has no %q: %d %s", path, want, status, page)
			}
		}
		for _, no := range c2.hasNot {
			if strings.Contains(page, no) {
				t.Errorf("%q has %q: %s", path, no, page)
			}
		}
	}
	for _, n := range []string{"1", "2", "3"} {
		if status, picture := c.request("GET", "/v1"+in+all[0].ID.String()+"/preview?page="+n, nil); status != 200 || !strings.Contains(picture, "page "+n+" of 3") {
			t.Errorf("%s: %d %.200s", n, status, picture)
		}
	}
	if status, page := c.request("GET", in+all[1].ID.String(), nil); status != 200 || strings.Contains(page, "Next page") {
		t.Errorf("%d %s", status, page)
	}
	for _, n := range []string{"0", "-1", "x"} {
		if status, _ := c.request("GET", in+all[0].ID.String()+"?page="+n, nil); status != 404 {
			t.Errorf("page %s: %d", n, status)
		}
	}
}

// heldReader reads files when it is released.
type heldReader struct {
	begun   chan string   // names of files
	release chan struct{} // closed to read all
}

func (h *heldReader) Read(ctx context.Context, f extract.File) (layout.Document, error) {
	h.begun <- string(f.Data)
	select {
	case <-h.release:
	case <-ctx.Done():
		return layout.Document{}, ctx.Err()
	}
	return layout.FromText(string(f.Data)), nil
}

// A tenant has two previews made at the same time, further requests wait, and more than 32
// are rejected. Those of another tenant do not wait for them.
func TestPreviewsAtOnce(t *testing.T) {
	s := start(t, nil)
	held := &heldReader{begun: make(chan string, 100), release: make(chan struct{})}
	s.API.Reader = held
	path := func(name string) (*client, string) {
		c, project, workflow := s.newTenant(name, "ann@"+name+".example")
		id := must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b",
			"documents": []object{{"name": "a.txt", "upload": c.upload([]byte("Total: 1 of " + name))}}}).str("batchId")
		document := s.documentsOf(s.batchOf(id))[0].ID.String()
		return c, "/v1/projects/" + project + "/batches/" + id + "/documents/" + document + "/preview"
	}
	acme, ofAcme := path("acme")
	globex, ofGlobex := path("globex")
	statuses := make(chan int, 100)
	ask := func(c *client, path string) {
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+path, nil)
			if err != nil {
				panic(err)
			}
			r.Header.Set("Authorization", "Bearer "+c.session)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				statuses <- 0
				return
			}
			answer.Body.Close()
			statuses <- answer.StatusCode
		}()
	}
	for range 40 {
		ask(acme, ofAcme)
	}
	for range 8 { // those that are too many
		if status := <-statuses; status != http.StatusTooManyRequests {
			t.Errorf("a preview of too many: %d", status)
		}
	}
	ask(globex, ofGlobex)
	begun := map[string]int{}
	for range 3 {
		begun[<-held.begun]++
	}
	if begun["Total: 1 of acme"] != 2 || begun["Total: 1 of globex"] != 1 || len(held.begun) != 0 {
		t.Errorf("previews were begun of %v and %d more", begun, len(held.begun))
	}
	close(held.release)
	for range 33 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a preview that has waited: %d", status)
		}
	}
}
