package documents

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// wrongly is an extractor with a bug: it reads 0 from every document, with full
// confidence.
type wrongly struct{}

func (wrongly) Extract(_ context.Context, _ extract.File, e extract.Extraction) (extract.Result, error) {
	r := extract.Result{Extractor: "builtin", Confidence: 0.99}
	for _, f := range e.Fields {
		r.Fields = append(r.Fields, extract.Field{Name: f.Name, Value: "0", Confidence: 0.99})
	}
	return r, nil
}

// A release of the pipeline has two bugs: it extracts wrong values, and it lacks the
// condition that a document must be in processing, so it processes all documents of
// the batch again. Point-in-time recovery restores the damaged documents, and does
// not change newer ones.
func TestRecovery(t *testing.T) {
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now = now.Now, now.Now })
	c, ids := furnished(s, "acme", "ann@acme.example")
	folder := inbox(c, ids["project"], ids["workflow"], "papers")
	for n := range 130 {
		name, data, _ := invoiceOf(1, n)
		s.drop(folder+name, data)
	}
	s.passes()
	batch := s.batchOf(inboxBatch(c, ids["project"], ids["workflow"], "papers"))
	review, err := s.Store.DocumentsIn(t.Context(), batch, table.ReviewRequired, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	in := "/v1/projects/" + ids["project"] + "/batches/" + batch.ID.String() + "/documents/"
	must[object](c, "POST", in+review.Items[0].ID.String()+"/review", object{"approve": true, "fields": object{"total": "42.00"}})
	batch = s.batchOf(batch.ID.String())
	good := s.items(batch)

	now.Pass(time.Hour)
	before := now.Now()
	now.Pass(time.Hour)

	s.spoil(batch)
	if spoilt := s.items(batch); same(good, spoilt) > 0 {
		t.Fatalf("the bug left %d documents unchanged: there is nothing to recover", same(good, spoilt))
	}
	now.Pass(time.Minute)
	// A document is added to the same batch, and another batch is created.
	name, data, _ := invoiceOf(1, 500)
	s.drop(folder+name, data)
	s.drop(inbox(c, ids["project"], ids["workflow"], "later")+name, data)
	s.passes()
	later := s.batchOf(inboxBatch(c, ids["project"], ids["workflow"], "later"))
	untouched := s.items(later)
	now.Pass(time.Minute)

	operator := *s.Store // the policy of the application does not allow to restore tables
	operator.DB = hometest.Administrator(s.Store.DB)
	old, err := operator.RestoreTo(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	r, err := operator.Recover(t.Context(), old, batch.ID, false)
	if err != nil || r.Documents != 130 || r.Differ != 130 || r.Since != 1 || r.Written != 0 {
		t.Errorf("compared: %+v, %v", r, err)
	}
	if same(good, s.items(batch)) > 0 {
		t.Error("comparing has changed something")
	}
	for _, want := range []int{130, 0} { // the second time there is nothing left to restore
		r, err = operator.Recover(t.Context(), old, batch.ID, true)
		if err != nil || r.Differ != want || r.Written != want {
			t.Errorf("recovered: %+v, %v", r, err)
		}
	}
	after := s.items(batch)
	if n := same(good, after); n != 130 || len(after) != 131 {
		t.Errorf("%d of 130 documents are restored, of %d", n, len(after))
	}
	if same(untouched, s.items(later)) != 1 {
		t.Error("the newer batch was changed")
	}
	now.Pass(time.Minute)
	s.passes()
	b := s.batchOf(batch.ID.String())
	s.consistent(b)
	want := batch.Counts
	want.Succeeded++ // the newer document
	if b.Counts != want || b.Documents != 131 || b.Status != table.Failed {
		t.Errorf("%+v, want %+v of 131", b, want)
	}
}

// spoil runs the release with the bugs on a batch.
func (s *system) spoil(b table.Batch) {
	s.t.Helper()
	store := *s.Store
	store.DB = dynamodb.New(hometest.Examine(s.Store.DB).Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("bug", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if in, ok := in.Parameters.(*dynamodb.TransactWriteItemsInput); ok {
					forget(in.TransactItems)
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		})
	})
	w, err := store.Workflow(s.t.Context(), b.Tenant, b.Project, b.Workflow)
	if err != nil {
		s.t.Fatal(err)
	}
	e, err := extract.ParseExtraction([]byte(w.Extraction))
	if err != nil {
		s.t.Fatal(err)
	}
	var outcomes []table.Outcome
	for _, d := range s.documentsOf(b) {
		result, _ := wrongly{}.Extract(s.t.Context(), extract.File{}, e)
		o := table.Outcome{Document: d, Status: b.Judge(result.Confidence), Attempts: 1, Confidence: result.Confidence}
		if err := s.Machine.Results.Keep(s.t.Context(), &o, result); err != nil {
			s.t.Fatal(err)
		}
		outcomes = append(outcomes, o)
	}
	if _, err := store.Settle(s.t.Context(), b, outcomes); err != nil {
		s.t.Fatal(err)
	}
}

// forget removes the condition on a document's status.
func forget(writes []types.TransactWriteItem) {
	for _, w := range writes {
		if w.Update != nil && aws.ToString(w.Update.ConditionExpression) == "#status = :was" {
			w.Update.ConditionExpression = nil
			w.Update.ExpressionAttributeValues = maps.Clone(w.Update.ExpressionAttributeValues)
			delete(w.Update.ExpressionAttributeValues, ":was")
		}
	}
}

// items returns the documents of a batch with all attributes.
func (s *system) items(b table.Batch) map[keys.DocumentID]string {
	s.t.Helper()
	all := make(map[keys.DocumentID]string)
	for _, d := range s.documentsOf(b) {
		all[d.ID] = fmt.Sprintf("%+v", d)
	}
	return all
}

// same returns the number of equal documents.
func same(a, b map[keys.DocumentID]string) int {
	n := 0
	for id, text := range a {
		if b[id] == text {
			n++
		}
	}
	return n
}
