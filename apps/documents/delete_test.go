package documents

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// flatten returns all text of an item.
func flatten(t *testing.T, item map[string]types.AttributeValue) (text, key string) {
	t.Helper()
	var all map[string]any
	if err := attributevalue.UnmarshalMap(item, &all); err != nil {
		t.Fatal(err)
	}
	flat, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(flat), all["PK"].(string) + " " + all["SK"].(string)
}

// traces returns everything in the table, its indexes and the bucket that contains
// one of the texts, by reading all of it.
func (s *system) traces(texts ...string) map[string]bool {
	s.t.Helper()
	found := make(map[string]bool)
	examine := hometest.Examine(s.Home.DB) // the application itself must not scan
	name := table.Name
	for _, index := range []string{"", "GSI1", "GSI2", "GSI3"} {
		in := &dynamodb.ScanInput{TableName: &name}
		if index != "" {
			in.IndexName = &index
		}
		for {
			out, err := examine.Scan(s.t.Context(), in)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, item := range out.Items {
				flat, key := flatten(s.t, item)
				for _, text := range texts {
					if strings.Contains(flat, text) {
						found[index+" "+key] = true
					}
				}
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
				break
			}
		}
	}
	all := s.Bucket.List(nil)
	for {
		object, err := all.Next(s.t.Context())
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			s.t.Fatal(err)
		}
		data, err := s.Bucket.ReadAll(s.t.Context(), object.Key)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, text := range texts {
			if strings.Contains(object.Key, text) || strings.Contains(string(data), text) {
				found["object "+object.Key] = true
			}
		}
	}
}

// deletionWorld is a tenant with one of everything, large results, several batches and
// projects, and files in the inbox.
func deletionWorld(s *system, name string) (*client, map[string]string) {
	s.t.Helper()
	c, ids := furnished(s, name, "ann@"+name+".example")
	withSpares(s, name, c, ids)
	var large strings.Builder
	large.WriteString("Invoice number,Date,Customer,Total\n")
	for range 6000 {
		large.WriteString("NW-000001,2026-11-07,Customer number one of a long list " + name + ",1.50\n")
	}
	s.drop(inbox(c, ids["project"], ids["workflow"], "tables")+"large.csv", []byte(large.String()))
	s.Machine.Within = time.Hour
	s.passes()
	ids["large"] = inboxBatch(c, ids["project"], ids["workflow"], "tables")
	s.drop(inbox(c, ids["project"], ids["tenant"], "wrong")+"a.txt", []byte("rejected "+name))
	s.passes()
	return c, ids
}

// later does the work that is due, now and after the time in which late objects are
// looked for, and that of abandoned creations.
func (s *system) later(now *clock) {
	s.t.Helper()
	for range 4 {
		s.passes()
		now.Pass(s.Store.Grace + s.Store.Abandoned)
	}
}

// A deleted document, batch, project or tenant leaves nothing: no item, no index
// entry, no file, no result. What belongs to others stays.
func TestDeletion(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, ids := deletionWorld(s, "acme")
	_, theirs := deletionWorld(s, "globex")
	others := s.traces(theirs["tenant"], "globex")
	gone := func(what string, texts ...string) {
		t.Helper()
		s.later(now)
		for trace := range s.traces(texts...) {
			t.Errorf("after the deletion of a %s there is %s", what, trace)
		}
		if after := s.traces(theirs["tenant"], "globex"); !maps.Equal(after, others) {
			t.Errorf("the deletion of a %s has changed another tenant: %v, %v", what, others, after)
		}
	}
	session := func() { // the clock has passed the session
		c.session = must[object](&client{s: s}, "POST", "/v1/sessions", object{"email": ids["email"], "tenant": c.tenant}).str("session")
	}

	b := s.batchOf(ids["batch"])
	d, err := s.Store.Document(t.Context(), b, parsed[keys.DocumentID](t, ids["failed"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.traces(d.ID.String(), d.Object)) < 2 {
		t.Error("the control finds no document")
	}
	must[object](c, "DELETE", "/v1"+fill(inBatch, ids)+"/documents/"+ids["failed"], nil)
	gone("document", d.ID.String(), d.Object)
	after := s.batchOf(ids["batch"])
	if after.Documents != b.Documents-1 || after.Failed != b.Failed-1 {
		t.Errorf("%+v, %+v", b, after)
	}
	s.consistent(after)

	session()
	if len(s.traces(ids["large"])) < 4 {
		t.Error("the control finds no batch with a result in the bucket")
	}
	must[object](c, "DELETE", "/v1"+fill(inProject, ids)+"/batches/"+ids["large"], nil)
	if status, _ := c.request("GET", "/v1/batches/"+ids["large"], nil); status != 404 {
		t.Errorf("a deleted batch is found: %d", status)
	}
	gone("batch", ids["large"])
	session()
	count := must[object](c, "GET", "/v1"+fill(inProject, ids), nil).str("batchCount")
	if want := len(c.names("/v1" + fill(inProject, ids) + "/batches")); count != "3" || want != 3 {
		t.Errorf("the project counts %s batches, and has %d", count, want)
	}

	must[object](c, "DELETE", "/v1"+fill(inProject, ids), nil)
	gone("project", ids["project"], ids["workflow"], ids["batch"])
	session()
	if u := must[table.Usage](c, "GET", "/v1/usage", nil); u.Projects != 2 {
		t.Errorf("%+v", u)
	}

	if status, text := c.request("DELETE", "/v1/tenants/"+ids["tenant"]+"?name=other", nil); status != 400 || !strings.Contains(text, "acme") {
		t.Errorf("a tenant is deleted without its name: %d %s", status, text)
	}
	must[object](c, "DELETE", "/v1/tenants/"+ids["tenant"]+"?name=acme", nil)
	s.passes()
	if status, _ := c.request("GET", "/v1/projects", nil); status != 403 {
		t.Errorf("a deleted tenant has projects: %d", status)
	}
	gone("tenant", ids["tenant"], ids["user"], "acme")
}

// A person with another membership remains when a tenant is deleted.
func TestPersonOfTwoTenants(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	one, _, _ := s.newTenant("acme", "ann@acme.example")
	two, _, _ := s.newTenant("globex", "gil@globex.example")
	code := must[object](two, "POST", "/v1/invitations", object{"email": "ann@acme.example"}).str("invitation")
	must[object](&client{s: s}, "POST", "/v1/invitations/accept", object{"invitation": code, "name": "Ann"})
	must[object](one, "DELETE", "/v1/tenants/"+one.tenant+"?name=acme", nil)
	s.later(now)
	two.session = must[object](&client{s: s}, "POST", "/v1/sessions", object{"email": "ann@acme.example", "tenant": two.tenant}).str("session")
	if who := must[object](two, "GET", "/v1/session", nil); who.str("role") != "member" {
		t.Errorf("%v", who)
	}
}

// A workflow is deleted while documents wait for it: they fail with the reason.
func TestWorkflowIsDeletedWhileNeeded(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	b := must[object](c, "POST", "/v1/projects/"+project+"/batches", object{"workflowId": workflow, "name": "b", "documents": []object{{"name": "a", "upload": c.upload([]byte("x"))}}}).str("batchId")
	must[object](c, "DELETE", "/v1/projects/"+project+"/workflows/"+workflow, nil)
	s.passes()
	got := s.batchOf(b)
	if d := s.documentsOf(got)[0]; got.Status != table.Failed || !strings.Contains(d.Reason, "workflow was deleted") {
		t.Errorf("%+v, %+v", got, d)
	}
}

var errCrash = errors.New("crash")

// dying returns a runner all of whose writes fail after a number of them, as those of
// a process that crashes do.
func (s *system) dying(after int64, writes *atomic.Int64) *pipeline.Runner {
	store := *s.Store
	store.DB = dynamodb.New(s.Home.DB.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("test", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				switch in.Parameters.(type) {
				case *dynamodb.TransactWriteItemsInput, *dynamodb.BatchWriteItemInput, *dynamodb.DeleteItemInput, *dynamodb.UpdateItemInput:
					if writes.Add(1) > after {
						return middleware.InitializeOutput{}, middleware.Metadata{}, errCrash
					}
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		})
	})
	machine := *s.Machine
	machine.Store = &store
	return &pipeline.Runner{Store: &store, Machine: &machine, AtOnce: 1, Lease: s.Runner.Lease, Every: s.Runner.Every, Metrics: s.Runner.Metrics, Log: slog.New(slog.DiscardHandler)}
}

// Whichever write of the deletion of a tenant is the last before a crash, other
// processors complete it.
func TestDeletionIsResumed(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	for after := int64(0); ; after++ {
		c, ids := furnished(s, "acme", "ann@acme.example")
		if err := s.Store.DeleteTenant(t.Context(), tenantOf(t, c)); err != nil {
			t.Fatal(err)
		}
		var writes atomic.Int64
		runner := s.dying(after, &writes)
		for range 6 { // a pass ends with the error of a claim
			_, err := runner.Pass(t.Context())
			if err != nil && !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			now.Pass(s.Store.Grace + time.Second)
		}
		s.later(now)
		for trace := range s.traces(ids["tenant"], "acme") {
			t.Errorf("after a crash at write %d there is %s", after+1, trace)
		}
		if writes.Load() <= after {
			t.Logf("%d writes", writes.Load())
			return
		}
	}
}

// A file of the inbox that is ingested while its project is deleted leaves no copy.
func TestRefusedFilesLeaveNoCopy(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, ids := furnished(s, "acme", "ann@acme.example")
	file := inbox(c, ids["project"], ids["workflow"], "late") + "a.txt"
	s.drop(file, []byte("Total: 77 PRIVATE"))
	if status, body := c.request("DELETE", "/v1/projects/"+ids["project"], nil); status != 204 {
		t.Fatal(status, body)
	}
	if err := s.Ingest.Pass(t.Context()); !errors.Is(err, table.ErrNotFound) {
		t.Errorf("before the workflows are deleted: %v", err)
	}
	if _, err := s.Runner.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.later(now)
	for trace := range s.traces("PRIVATE") {
		t.Errorf("%s is left", trace)
	}
}
