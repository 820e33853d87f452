package documents

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/documents/table"
)

// Documents of one upload have files of their own: after one of them is deleted, the
// others can be read, tried again and made into more documents. When the last one is
// deleted, nothing of the file is left.
func TestDocumentsOfOneUpload(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	const secret = "Total: EUR 12.50, of the only upload"
	upload := c.upload([]byte(secret))
	in := "/v1/projects/" + project + "/batches"
	create := func(name string, documents ...object) (batch string) {
		t.Helper()
		return must[object](c, "POST", in, object{"workflowId": workflow, "name": name, "key": name, "documents": documents}).str("batchId")
	}
	one := object{"name": "one.txt", "upload": upload}
	two := object{"name": "two.txt", "upload": upload}
	both, other := create("both", one, two), create("other", one)
	if again := create("both", one, two); again != both {
		t.Error("a repeated request makes another batch")
	}
	must[object](c, "POST", in+"/"+other+"/documents", object{"documents": []object{two}})
	s.passes()

	files := func() (n int) {
		t.Helper()
		for name := range s.traces(secret) {
			if strings.HasPrefix(name, "object ") {
				n++
			}
		}
		return n
	}
	if n := files(); n != 4 {
		t.Errorf("the bucket has %d files of four documents: %v", n, s.traces(secret))
	}
	documents := func(batch string) []table.Document { return s.documentsOf(s.batchOf(batch)) }
	remove := func(batch string, d table.Document) {
		t.Helper()
		if status, text := c.request("DELETE", in+"/"+batch+"/documents/"+d.ID.String()+"?name="+url.QueryEscape(d.Name), nil); status >= 300 {
			t.Fatalf("%d %s", status, text)
		}
		s.passes()
		now.Pass(s.Store.Grace + 1)
		s.passes()
	}
	readable := func(batch string) {
		t.Helper()
		for _, d := range documents(batch) {
			if status, text := c.request("GET", in+"/"+batch+"/documents/"+d.ID.String()+"/file", nil); status != 200 || text != secret {
				t.Errorf("the file of %s: %d %s", d.Name, status, text)
			}
		}
	}
	remove(both, documents(both)[0])
	readable(both)
	readable(other)
	third := create("third", one) // the upload still has documents
	readable(third)
	for _, batch := range []string{both, other, third} {
		for _, d := range documents(batch) {
			remove(batch, d)
		}
	}
	if n := files(); n != 0 {
		t.Errorf("the bucket has %d files of deleted documents: %v", n, s.traces(secret))
	}
	if status, text := c.request("POST", in, object{"workflowId": workflow, "name": "late", "documents": []object{one}}); status != 404 {
		t.Errorf("a document of an upload that is gone: %d %s", status, text)
	}
}

// A request that is refused leaves no files, and the upload can be used again.
func TestRefusedDocumentsLeaveNoFiles(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.freeTenant()
	const secret = "Total: EUR 12.50, refused"
	upload := c.upload([]byte(secret))
	in := "/v1/projects/" + project + "/batches"
	body := object{"workflowId": workflow, "name": "b", "documents": []object{{"name": "a", "upload": upload}}}
	many := make([]object, table.Plans[0].Documents+1)
	for i := range many {
		many[i] = object{"name": "a", "upload": upload}
	}
	status, text := c.request("POST", in, object{"workflowId": workflow, "name": "many", "documents": many})
	refusedByPlan(t, "documents", status, text)
	if found := s.traces(secret); len(found) != 1 {
		t.Errorf("the bucket has %v", found)
	}
	must[object](c, "POST", in, body)
	s.passes()
	if found := s.traces(secret); len(found) != 1 {
		t.Errorf("the bucket has %v", found)
	}
}
