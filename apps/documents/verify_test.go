package documents

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/table"
)

// A workflow that is verified by a language model sends a document to review in
// which the two differ, although the first extractor is sure.
func TestVerifiedByModel(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, _ := io.ReadAll(r.Body)
		total := "12.50"
		if strings.Contains(string(q), "Discount: 3.00") {
			total = "3.00"
		}
		io.WriteString(w, `{"choices":[{"message":{"content":"{\"fields\":[{\"name\":\"total\",\"value\":\"`+total+`\",\"confidence\":0.9}]}"}}]}`)
	}))
	defer model.Close()
	s := start(t, func(o *Options) { o.Model = LanguageModel{API: "openai", URL: model.URL, Name: "small"} })
	c, project, _ := s.newTenant("acme", "ann@acme.example")
	w := must[object](c, "POST", "/v1/projects/"+project+"/workflows", object{
		"name": "Verified", "confidenceThreshold": 0.3, "reviewThreshold": 0.85,
		"extraction": object{"verify": "model", "fields": []object{{"name": "total", "type": "amount", "labels": []string{"Total"}, "required": true}}},
	})
	var documents []object
	for _, text := range []string{"Total: 12.50\n", "Discount: 3.00\nTotal: 12.50\n"} {
		documents = append(documents, object{"name": "a.txt", "upload": c.upload([]byte(text))})
	}
	b := must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": w.str("workflowId"), "name": "b", "documents": documents})
	s.passes()
	batch := s.batchOf(b.str("batchId"))
	if batch.Succeeded != 1 || batch.Review != 1 {
		t.Fatalf("%+v", batch)
	}
	for _, d := range s.documentsOf(batch) {
		r := must[extract.Result](c, "GET", "/v1/projects/"+project+"/batches/"+batch.ID.String()+"/documents/"+d.ID.String()+"/result", nil)
		f := r.Fields[0]
		if r.Verifier != "model" || f.Value != "12.50" || f.Check == nil || f.Check.Agrees != (d.Status == table.Succeeded) {
			t.Errorf("%s: %+v, %+v", d.Status, r, f.Check)
		}
	}
	if status, text := c.request("POST", "/v1/projects/"+project+"/workflows", object{
		"name": "Other", "confidenceThreshold": 0.3, "reviewThreshold": 0.85,
		"extraction": object{"verify": "service", "fields": []object{{"name": "total"}}},
	}); status != http.StatusBadRequest {
		t.Errorf("a verifier that is not configured: %d %s", status, text)
	}
}
