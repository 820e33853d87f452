package documents

import (
	"strings"
	"testing"
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
