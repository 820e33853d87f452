package documents

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/documents/table"
)

// stale returns a client whose reads of single items find nothing unless they are consistent, as
// if all items had been written a moment ago.
func stale(db *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(db.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("stale", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				out, m, err := next.HandleInitialize(ctx, in)
				if get, ok := in.Parameters.(*dynamodb.GetItemInput); ok && err == nil && !aws.ToBool(get.ConsistentRead) {
					out.Result = new(dynamodb.GetItemOutput)
				}
				return out, m, err
			}), middleware.Before)
		})
	})
}

// What was created a moment ago exists: its creator is a member, no file of its inbox is
// rejected, and no document fails as one of a deleted workflow.
func TestJustCreated(t *testing.T) {
	s := start(t, nil)
	s.Store.DB = stale(s.Home.DB)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	name, data, _ := invoiceOf(1, 1)
	s.drop(inbox(c, project, workflow, "november")+name, data)
	s.passes()
	b := s.batchOf(inboxBatch(c, project, workflow, "november"))
	if b.Status != table.Succeeded || b.Succeeded != 1 {
		t.Errorf("the batch is %+v, with the documents %+v", b, s.documentsOf(b))
	}
}
