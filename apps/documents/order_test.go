package documents

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// names returns the names in a list of the API, over all its pages.
func (c *client) names(path string) []string {
	c.s.t.Helper()
	var all []string
	for cursor := ""; ; {
		page := must[struct {
			Items []struct{ Name string }
			Next  string
		}](c, "GET", path+"?cursor="+url.QueryEscape(cursor), nil)
		for _, i := range page.Items {
			all = append(all, i.Name)
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// Projects and batches are listed newest first, over several pages, whether their ids
// are new, derived from a key, or from the inbox. Documents are in the order of their
// request, and those that were added later come first.
func TestNewestFirst(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	want := []string{"acme project"}
	for i := range 60 {
		now.Pass(time.Millisecond)
		want = append(want, fmt.Sprint("project ", i))
		must[object](c, "POST", "/v1/projects", object{"name": want[i+1]})
	}
	slices.Reverse(want)
	if got := c.names("/v1/projects"); !slices.Equal(got, want) {
		t.Errorf("projects are listed as %q", got)
	}
	var batches []string
	upload := c.upload([]byte("Total: 1"))
	for i := range 60 {
		now.Pass(time.Millisecond)
		name := fmt.Sprint("batch ", i)
		batches = append(batches, name)
		in := object{"workflowId": workflow, "name": name, "documents": []object{{"name": "a", "upload": upload}}}
		switch i % 3 {
		case 0:
			in["key"] = name
		case 1:
			s.drop(inbox(c, project, workflow, name)+"a.txt", []byte("Total: 1"))
			if err := s.Ingest.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		must[object](c, "POST", "/v1/projects/"+project+"/batches", in)
	}
	slices.Reverse(batches)
	if got := c.names("/v1/projects/" + project + "/batches"); !slices.Equal(got, batches) {
		t.Errorf("batches are listed as %q", got)
	}
	if _, page := c.request("GET", "/projects/"+project, nil); strings.Index(page, "batch 59") > strings.Index(page, "batch 58") {
		t.Error("the page does not list the newest batch first")
	}

	var documents []object
	var order []string
	for i := range 130 {
		order = append(order, fmt.Sprint("document ", i))
		documents = append(documents, object{"name": order[i], "upload": upload})
	}
	id := must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "many", "documents": documents}).str("batchId")
	in := "/v1/projects/" + project + "/batches/" + id + "/documents"
	for _, name := range []string{"added first", "added last"} {
		must[object](c, "POST", in, object{"documents": []object{{"name": name, "upload": c.upload([]byte("x"))}}})
		order = append([]string{name}, order...)
		time.Sleep(2 * time.Millisecond) // ids have the milliseconds of the real clock
	}
	if got := c.names(in); !slices.Equal(got, order) {
		t.Errorf("documents are listed as %q", got)
	}
}

// Items of an earlier version, which were not in these lists, are listed too: by
// their creation, and marked once.
func TestOldItemsAreListed(t *testing.T) {
	hometest.Unusual(t) // requests that are sent once after an upgrade, and are no pattern
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	b := must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b", "documents": []object{{"name": "a", "upload": c.upload([]byte("x"))}}}).str("batchId")
	tenant, p := tenantOf(t, c), parsed[keys.ProjectID](t, project)
	age := func(key keys.Key, expression string) {
		t.Helper()
		name := table.Name
		if _, err := hometest.Examine(s.Home.DB).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &name, Key: key.Attributes(), UpdateExpression: &expression}); err != nil {
			t.Fatal(err)
		}
	}
	age(tenant.Metadata(), "REMOVE listed, projectCount, userCount")
	age(tenant.Project(p), "REMOVE listed, GSI1PK, GSI1SK")
	age(tenant.Batch(p, parsed[keys.BatchID](t, b)), "REMOVE GSI1PK, GSI1SK")
	if got := c.names("/v1/projects"); !slices.Equal(got, []string{"acme project"}) {
		t.Errorf("projects: %q", got)
	}
	if got := c.names("/v1/projects/" + project + "/batches"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("batches: %q", got)
	}
	if u := must[table.Usage](c, "GET", "/v1/usage", nil); u.Projects != 1 || u.Users != 1 {
		t.Errorf("the counters of an old tenant: %+v", u)
	}
	got, err := s.Store.Tenant(t.Context(), tenant)
	project2, err2 := s.Store.Project(t.Context(), tenant, p)
	if err != nil || err2 != nil || !got.Listed || !project2.Listed {
		t.Errorf("%+v, %+v, %v, %v", got, project2, err, err2)
	}
}

// Documents of the inbox are listed by arrival, the last first, and by name if they arrived
// together, over all pages; also while others arrive between two pages. Documents of requests
// are at the time of their request.
func TestInboxInOrder(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	in := "/v1/projects/" + project + "/batches/" + inboxBatch(c, project, workflow, "files") + "/documents"
	var want []string
	arrive := func(names ...string) {
		t.Helper()
		for _, name := range names {
			s.drop(inbox(c, project, workflow, "files")+name, []byte("Total: 1"))
		}
		if err := s.Ingest.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		want = append(slices.Clone(names), want...)
		now.Pass(time.Hour)
	}
	ask := func(name string) {
		t.Helper()
		must[object](c, "POST", in, object{"documents": []object{{"name": name, "upload": c.upload([]byte("x"))}}})
		want = append([]string{name}, want...)
		now.Pass(time.Hour)
	}
	// The first pass is more than one transaction, and more than Ingest takes at once.
	for day, n := range []int{430, 60, 1} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("%03d of day %d.txt", i, day))
		}
		arrive(names...)
	}
	ask("by request")
	arrive("after the request.txt")
	if got := c.names(in); !slices.Equal(got, want) {
		t.Errorf("documents are listed as %q", got)
	}

	type page struct {
		Items []struct{ Name string }
		Next  string
	}
	first := must[page](c, "GET", in, nil)
	rest := want[len(first.Items):]
	arrive("between two pages.txt")
	var got []string
	for next := first.Next; next != ""; {
		p := must[page](c, "GET", in+"?cursor="+url.QueryEscape(next), nil)
		for _, i := range p.Items {
			got = append(got, i.Name)
		}
		next = p.Next
	}
	if !slices.Equal(got, rest) {
		t.Errorf("after the first page: %q", got)
	}
}

// Documents of the inbox that an earlier version has recorded, which were not in GSI1, are
// listed by their creation.
func TestOldInboxIsListed(t *testing.T) {
	hometest.Unusual(t)
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	id := inboxBatch(c, project, workflow, "files")
	names := []string{"b.txt", "c.txt", "a.txt"}
	for _, name := range names {
		s.drop(inbox(c, project, workflow, "files")+name, []byte("Total: 1"))
		if err := s.Ingest.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		now.Pass(time.Hour)
	}
	b := s.batchOf(id)
	name := table.Name
	age := func(key keys.Key, expression string) {
		t.Helper()
		if _, err := hometest.Examine(s.Home.DB).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: &name, Key: key.Attributes(), UpdateExpression: &expression}); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range s.documentsOf(b) {
		age(b.Tenant.Document(b.ID, d.ID), "REMOVE GSI1PK, GSI1SK")
	}
	age(b.Tenant.Batch(b.Project, b.ID), "REMOVE listed")
	path := "/v1/projects/" + project + "/batches/" + id + "/documents"
	for range 2 {
		if got := c.names(path); !slices.Equal(got, []string{"a.txt", "c.txt", "b.txt"}) {
			t.Errorf("documents are listed as %q", got)
		}
		if !s.batchOf(id).Listed {
			t.Error("the batch is not marked")
		}
	}
}
