package documents

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/documents/keys"
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

// repeating returns a client that sends each update twice, as the SDK does after a lost reply.
func repeating(db *dynamodb.Client) *dynamodb.Client {
	return dynamodb.New(db.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("repeating", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				out, m, err := next.HandleInitialize(ctx, in)
				if _, ok := in.Parameters.(*dynamodb.UpdateItemInput); ok && err == nil {
					return next.HandleInitialize(ctx, in)
				}
				return out, m, err
			}), middleware.Before)
		})
	})
}

// A claim of a job whose reply is lost is ours; the job does not wait until the claim expires.
func TestClaimThatHadNoReply(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	name, data, _ := invoiceOf(1, 1)
	s.drop(inbox(c, project, workflow, "november")+name, data)
	s.Store.DB = repeating(s.Home.DB)
	s.passes()
	if b := s.batchOf(inboxBatch(c, project, workflow, "november")); b.Status != table.Succeeded {
		t.Errorf("the batch is %+v", b)
	}
	job := table.Job{Tenant: tenantOf(t, c), Batch: keys.NewID[keys.BatchID](), Kind: table.JobWork}
	if ours, err := s.Store.Claim(t.Context(), &job, "me", 0); ours || err != nil {
		t.Errorf("a job that does not exist is ours: %v, %v", ours, err)
	}
}

// A document is tried again by the workflow as it was just changed.
func TestRetryAfterAChange(t *testing.T) {
	s := start(t, nil)
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	s.Store.DB = before(s.Home.DB)
	path := "/v1/projects/" + project + "/workflows/" + workflow
	must[object](c, "GET", path, nil)
	must[object](c, "PUT", path, object{
		"name": "letters", "extraction": object{"fields": []object{{"name": "to", "labels": []string{"Dear"}, "required": true}}},
		"confidenceThreshold": 0.1, "reviewThreshold": 0.2,
	})
	s.drop(inbox(c, project, workflow, "november")+"letter.txt", []byte("Dear all, the picnic is on Sunday.\n"))
	s.passes()
	b := s.batchOf(inboxBatch(c, project, workflow, "november"))
	if b.Status != table.Succeeded {
		t.Errorf("the batch is %+v, with the documents %+v", b, s.documentsOf(b))
	}
}

// before returns a client whose reads of single items return what the first read of the item did, unless
// they are consistent.
func before(db *dynamodb.Client) *dynamodb.Client {
	first := make(map[string]any)
	return dynamodb.New(db.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("before", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				out, m, err := next.HandleInitialize(ctx, in)
				get, ok := in.Parameters.(*dynamodb.GetItemInput)
				if !ok || err != nil || out.Result.(*dynamodb.GetItemOutput).Item == nil {
					return out, m, err
				}
				key := fmt.Sprint(get.Key["PK"], get.Key["SK"])
				if first[key] == nil {
					first[key] = out.Result
				}
				if !aws.ToBool(get.ConsistentRead) {
					out.Result = first[key]
				}
				return out, m, nil
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
