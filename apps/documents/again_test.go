package documents

import (
	"testing"
	"time"
)

// A batch of the inbox is deleted and its file is sent again while the deletion still
// looks for late objects. The file waits in the inbox until the deletion has ended, so
// the deletion cannot delete it.
func TestBatchIsSentAgain(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	folder := inbox(c, project, workflow, "november")
	name, data, _ := invoiceOf(1, 1)
	s.drop(folder+name, data)
	s.passes()
	id := inboxBatch(c, project, workflow, "november")
	path := "/v1/projects/" + project + "/batches/" + id
	must[object](c, "DELETE", path, nil)
	s.passes() // the first sweep
	now.Pass(time.Minute)
	s.drop(folder+name, data)
	s.passes()
	if status, _ := c.request("GET", path, nil); status != 404 {
		t.Errorf("the batch is created during its deletion: %d", status)
	}
	now.Pass(5 * time.Minute)
	s.passes() // the second sweep
	s.passes()
	now.Pass(5 * time.Minute)
	s.passes()
	b := s.batchOf(id)
	all := s.documentsOf(b)
	if b.Documents != 1 || len(all) != 1 {
		t.Fatalf("the batch counts %d documents and has %d", b.Documents, len(all))
	}
	if status, file := c.request("GET", path+"/documents/"+all[0].ID.String()+"/file", nil); status != 200 || file != string(data) {
		t.Errorf("the file: %d %.60q", status, file)
	}
}

// The same with one document. Other files of its batch do not wait.
func TestDocumentIsSentAgain(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	folder := inbox(c, project, workflow, "november")
	name, data, _ := invoiceOf(1, 1)
	s.drop(folder+name, data)
	s.passes()
	id := inboxBatch(c, project, workflow, "november")
	batch := "/v1/projects/" + project + "/batches/" + id
	path := batch + "/documents/" + s.documentsOf(s.batchOf(id))[0].ID.String()
	must[object](c, "DELETE", path, nil)
	s.passes()
	now.Pass(time.Minute)
	other, more, _ := invoiceOf(1, 2)
	s.drop(folder+name, data)
	s.drop(folder+other, more)
	s.passes()
	if all := s.documentsOf(s.batchOf(id)); len(all) != 1 || all[0].Name != other {
		t.Errorf("during the deletion the batch has %+v", all)
	}
	now.Pass(5 * time.Minute)
	s.passes()
	s.passes()
	now.Pass(5 * time.Minute)
	s.passes()
	if status, file := c.request("GET", path+"/file", nil); status != 200 || file != string(data) {
		t.Errorf("the file: %d %.60q", status, file)
	}
	s.consistent(s.batchOf(id))
}

// A request with a key is refused while the batch that it made is being deleted.
func TestKeyIsUsedAgain(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	in := object{"workflowId": workflow, "name": "b", "key": "k", "documents": []object{{"name": "a.txt", "upload": c.upload([]byte("Total: 1"))}}}
	path := "/v1/projects/" + project + "/batches"
	b := must[object](c, "POST", path, in).str("batchId")
	must[object](c, "DELETE", path+"/"+b, nil)
	if status, text := c.request("POST", path, in); status != 503 {
		t.Errorf("%d %s", status, text)
	}
	s.later(now)
}

// A file of the name of a recorded document is a duplicate, and does not replace the
// document's file.
func TestDuplicateDoesNotReplaceTheFile(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	folder := inbox(c, project, workflow, "november")
	name, data, _ := invoiceOf(1, 1)
	s.drop(folder+name, data)
	s.passes()
	id := inboxBatch(c, project, workflow, "november")
	path := "/v1/projects/" + project + "/batches/" + id + "/documents/" + s.documentsOf(s.batchOf(id))[0].ID.String()
	other, more, _ := invoiceOf(1, 2)
	for _, with := range []bool{false, true} {
		s.drop(folder+name, []byte("something else"))
		if with {
			s.drop(folder+other, more) // a new file at the same time
		}
		s.passes()
		if status, file := c.request("GET", path+"/file", nil); status != 200 || file != string(data) {
			t.Errorf("the file is now %d %.60q", status, file)
		}
		if left := s.left(nil, 0); left != 0 {
			t.Errorf("%d files are left in the inbox", left)
		}
	}
	b := s.batchOf(id)
	if b.Documents != 2 {
		t.Errorf("%+v", b)
	}
	s.consistent(b)
}
