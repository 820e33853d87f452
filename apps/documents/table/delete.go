package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Deletion describes what a job DELETE deletes.
//
// A deletion begins with a transaction that deletes the item itself, so that nothing
// can be added to it, and creates the job, which deletes what belongs to the item.
// The job is repeated until it is done, whatever crashes.
type Deletion struct {
	What     string           `dynamodbav:"what"` // document, batch, project, tenant or user
	Project  *keys.ProjectID  `dynamodbav:"projectId,omitempty"`
	Batch    *keys.BatchID    `dynamodbav:"batchId,omitempty"`
	Document *keys.DocumentID `dynamodbav:"documentId,omitempty"`
	User     *keys.UserID     `dynamodbav:"userId,omitempty"`
	Object   string           `dynamodbav:"objectKey,omitempty"` // the document's file
	Swept    bool             `dynamodbav:"swept,omitempty"`     // the rest is deleted, but for late objects
}

// id returns the id of the job, which is derived, so that a repeated deletion is one
// job.
func (d Deletion) id(t keys.Tenant) keys.BatchID {
	parts := []string{"delete", d.What, t.String()}
	switch {
	case d.User != nil:
		parts = append(parts, d.User.String())
	case d.Document != nil:
		parts = append(parts, d.Batch.String(), d.Document.String())
	case d.Batch != nil:
		parts = append(parts, d.Batch.String())
	case d.Project != nil:
		parts = append(parts, d.Project.String())
	}
	return keys.DeriveID[keys.BatchID](parts...)
}

// startDeletion returns the write of a job DELETE. The profile of a person is deleted
// later, when the index has the person's other memberships.
func (s *Store) startDeletion(t keys.Tenant, d Deletion) types.TransactWriteItem {
	due := s.Now()
	if d.What == "user" {
		due = due.Add(s.Grace)
	}
	j := Job{Tenant: t, Batch: d.id(t), Kind: JobDelete, Due: keys.Time(due), Deletion: &d}
	return s.put(whole(j, j.key(), keys.JobEntry(j.Batch, due)))
}

// gone returns the deletion of an item that must exist.
func (s *Store) gone(key keys.Key) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &s.Table, Key: key.Attributes(), ConditionExpression: aws.String("attribute_exists(PK)")}}
}

// DeleteDocument deletes a document. Its batch no longer counts it; the plan of the
// tenant still does.
func (s *Store) DeleteDocument(ctx context.Context, seen Batch, id keys.DocumentID) error {
	for range 8 {
		before, err := s.Batch(ctx, seen.Tenant, seen.Project, seen.ID)
		if err != nil {
			return err
		}
		d, err := s.Document(ctx, before, id)
		if err != nil {
			return err
		}
		after := before
		*after.Of(d.Status)--
		after.Documents--
		var reports []types.TransactWriteItem
		if before.Status != Processing { // else Finish sets and reports it
			after.Status = after.Verdict()
		}
		if after.Status != before.Status {
			if reports, err = s.reports(ctx, after); err != nil {
				return err
			}
		}
		item := s.gone(d.Tenant.Document(d.Batch, d.ID))
		item.Delete.ConditionExpression = aws.String("#status = :was")
		item.Delete.ExpressionAttributeNames = map[string]string{"#status": "status"}
		item.Delete.ExpressionAttributeValues = map[string]types.AttributeValue{":was": str(string(d.Status))}
		err = s.transact(ctx, append(reports, item, s.become(before, after),
			s.startDeletion(d.Tenant, Deletion{What: "document", Batch: &d.Batch, Document: &d.ID, Object: d.Object}))...)
		var no refused
		if !errors.As(err, &no) {
			return err
		}
	}
	return ErrBusy
}

// DeleteWorkflow deletes a workflow. Documents of its batches that are still in
// processing fail.
func (s *Store) DeleteWorkflow(ctx context.Context, t keys.Tenant, p keys.ProjectID, w keys.WorkflowID) error {
	_, err := s.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &s.Table, Key: t.Workflow(p, w).Attributes(), ConditionExpression: aws.String("attribute_exists(PK)")})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return ErrNotFound
	}
	return err
}

// DeleteBatch deletes a batch with its documents.
func (s *Store) DeleteBatch(ctx context.Context, b Batch) error {
	err := s.transact(ctx, append(s.withoutBatch(b), types.TransactWriteItem{Update: &types.Update{
		TableName:                 &s.Table,
		Key:                       b.Tenant.Project(b.Project).Attributes(),
		UpdateExpression:          aws.String("ADD batchCount :less"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":less": num(-1)},
	}})...)
	var no refused
	if errors.As(err, &no) {
		return ErrNotFound
	}
	return err
}

// withoutBatch returns the writes that delete a batch and its jobs, and start the
// deletion of its documents.
func (s *Store) withoutBatch(b Batch) []types.TransactWriteItem {
	writes := []types.TransactWriteItem{s.gone(b.key()), s.startDeletion(b.Tenant, Deletion{What: "batch", Batch: &b.ID})}
	for _, kind := range jobsOfBatch {
		writes = append(writes, s.end(b, kind))
	}
	return writes
}

// jobsOfBatch are the kinds of jobs that end with their batch. MAKE is for a batch
// that does not exist.
var jobsOfBatch = []string{JobWork, JobHide, JobHook, JobMail}

// DeleteProject deletes a project with its workflows and batches.
func (s *Store) DeleteProject(ctx context.Context, p Project) error {
	if _, err := s.counted(ctx, p.Tenant); err != nil {
		return err
	}
	err := s.transact(ctx, s.gone(p.Tenant.Project(p.ID)), s.step(p.Tenant, projectCount, -1, 0),
		s.startDeletion(p.Tenant, Deletion{What: "project", Project: &p.ID}))
	var no refused
	if errors.As(err, &no) {
		return ErrNotFound
	}
	return err
}

// DeleteTenant deletes a tenant with everything that belongs to it. Persons that are
// members of no other tenant are deleted too.
func (s *Store) DeleteTenant(ctx context.Context, t keys.Tenant) error {
	err := s.transact(ctx, s.gone(t.Metadata()), s.startDeletion(t, Deletion{What: "tenant"}))
	var no refused
	if errors.As(err, &no) {
		return ErrNotFound
	}
	return err
}

// Bucket deletes objects of a deletion.
type Bucket interface {
	// DeleteObjects deletes the objects with these names, and all whose names begin
	// with them if they end with a slash. Missing ones are no error.
	DeleteObjects(ctx context.Context, names ...string) error
}

// Delete does the work of a job DELETE that the caller has claimed. It returns when
// to continue, or the zero time if the job is done and dropped.
func (s *Store) Delete(ctx context.Context, j Job, bucket Bucket) (time.Time, error) {
	d, t := *j.Deletion, j.Tenant
	var err error
	switch d.What {
	case "document":
		err = s.deleteObjects(ctx, t, bucket, d)
	case "batch":
		if err = s.deleteDocuments(ctx, t, *d.Batch, bucket); err == nil {
			err = bucket.DeleteObjects(ctx, t.FoldersOf(*d.Batch)...)
		}
	case "project":
		if err = s.deleteInProject(ctx, t, *d.Project); err == nil {
			err = bucket.DeleteObjects(ctx, t.FoldersIn(*d.Project)...)
		}
	case "tenant":
		if err = s.deleteInTenant(ctx, t); err == nil {
			err = bucket.DeleteObjects(ctx, t.Folders()...)
		}
	case "user":
		if err = s.deletePerson(ctx, *d.User); err == nil {
			err = s.Drop(ctx, j)
		}
		return time.Time{}, err
	default:
		err = fmt.Errorf("a deletion has the unknown kind %q", d.What)
	}
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("delete what belongs to a %s: %w", d.What, err)
	case d.Swept:
		return time.Time{}, s.Drop(ctx, j)
	}
	_, err = s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.Table,
		Key:                       j.key().Attributes(),
		UpdateExpression:          aws.String("SET deletion.swept = :yes"),
		ConditionExpression:       aws.String("attribute_exists(PK)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":yes": &types.AttributeValueMemberBOOL{Value: true}},
	})
	return s.Now().Add(s.Grace), err
}

func (s *Store) deleteObjects(ctx context.Context, t keys.Tenant, bucket Bucket, d Deletion) error {
	names := t.ObjectsOf(*d.Batch, *d.Document)
	if own, err := t.Own(d.Object); err == nil {
		names = append(names, t.FilesOf(own)...)
	}
	return bucket.DeleteObjects(ctx, names...)
}

// deleteDocuments deletes the documents of a batch that does not exist any more.
// Their files are deleted first, since the items have the names.
func (s *Store) deleteDocuments(ctx context.Context, t keys.Tenant, b keys.BatchID, bucket Bucket) error {
	return s.deleteRange(ctx, t.Documents(b), "PK, SK, objectKey", func(items []map[string]types.AttributeValue) error {
		var files []struct {
			Object string `dynamodbav:"objectKey"`
		}
		if err := attributevalue.UnmarshalListOfMaps(items, &files); err != nil {
			return fmt.Errorf("decode a document: %w", err)
		}
		var names []string
		for _, f := range files {
			if own, err := t.Own(f.Object); err == nil {
				names = append(names, t.FilesOf(own)...)
			}
		}
		return bucket.DeleteObjects(ctx, names...)
	})
}

// deleteRange deletes the items of a range of the table, after a function was called
// with some attributes of them.
func (s *Store) deleteRange(ctx context.Context, r keys.Range, attributes string, before func([]map[string]types.AttributeValue) error) error {
	in := r.Query(s.Table)
	in.ProjectionExpression = aws.String(attributes)
	in.ConsistentRead = aws.Bool(true)
	in.Limit = aws.Int32(maxWrites)
	for {
		out, err := s.DB.Query(ctx, in)
		if err != nil {
			return fmt.Errorf("list what to delete: %w", err)
		}
		if len(out.Items) == 0 {
			return nil
		}
		if before != nil {
			if err := before(out.Items); err != nil {
				return err
			}
		}
		var only []map[string]types.AttributeValue
		for _, item := range out.Items {
			only = append(only, map[string]types.AttributeValue{"PK": item["PK"], "SK": item["SK"]})
		}
		for group := range slices.Chunk(only, 25) {
			if err := s.deleteAll(ctx, group); err != nil {
				return err
			}
		}
	}
}

// deleteInProject deletes the workflows of a project that does not exist any more, so
// that no file is ingested for them, and starts the deletion of its batches.
func (s *Store) deleteInProject(ctx context.Context, t keys.Tenant, p keys.ProjectID) error {
	if err := s.deleteRange(ctx, t.AllWorkflows(p), "PK, SK", nil); err != nil {
		return err
	}
	return each(ctx, s, t.Batches(p), func(b Batch) error { return s.transact(ctx, s.withoutBatch(b)...) })
}

// deleteInTenant ends the memberships of a tenant that does not exist any more,
// starts the deletion of its projects, and deletes the rest of its items.
func (s *Store) deleteInTenant(ctx context.Context, t keys.Tenant) error {
	if err := each(ctx, s, t.Members(), func(m Member) error {
		return s.transact(ctx, s.gone(t.Member(m.User)), s.startDeletion(t, Deletion{What: "user", User: &m.User}))
	}); err != nil {
		return err
	}
	if err := each(ctx, s, t.Projects(), func(p Project) error {
		return s.transact(ctx, s.gone(t.Project(p.ID)), s.startDeletion(t, Deletion{What: "project", Project: &p.ID}))
	}); err != nil {
		return err
	}
	if err := each(ctx, s, t.Invitations(), func(i Invitation) error {
		return s.transact(ctx, types.TransactWriteItem{Delete: &types.Delete{TableName: &s.Table, Key: t.Token(i.Token).Attributes()}})
	}); err != nil {
		return err
	}
	return s.deleteRange(ctx, t.Usages(), "PK, SK", nil)
}

// each calls a function with each item of a range, which it may delete. A failed
// condition means that another process was faster.
func each[T any](ctx context.Context, s *Store, r keys.Range, do func(T) error) error {
	in := r.Query(s.Table)
	for {
		out, err := s.DB.Query(ctx, in)
		if err != nil {
			return fmt.Errorf("list what to delete: %w", err)
		}
		var some []T
		if err := attributevalue.UnmarshalListOfMaps(out.Items, &some); err != nil {
			return fmt.Errorf("decode an item: %w", err)
		}
		for _, v := range some {
			var no refused
			if err := do(v); err != nil && !errors.As(err, &no) {
				return err
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return nil
		}
	}
}

// deletePerson deletes a person without memberships. A person of an earlier version,
// whose memberships may not be in the index, remains.
func (s *Store) deletePerson(ctx context.Context, id keys.UserID) error {
	u, err := get[User](ctx, s, keys.User(id), true)
	if errors.Is(err, ErrNotFound) || err == nil && !u.Indexed {
		return nil
	}
	if err != nil {
		return err
	}
	// The index may not have the membership of somebody who has joined meanwhile.
	if joined, err := keys.ParseTime(u.Joined); err == nil && s.Now().Sub(joined) < s.Grace {
		return nil
	}
	if member, err := s.TenantsOf(ctx, id); err != nil || len(member) > 0 {
		return err
	}
	_, err = s.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                 &s.Table,
		Key:                       keys.User(id).Attributes(),
		ConditionExpression:       aws.String("joinedAt = :joined"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":joined": str(u.Joined)},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil // the person joins another tenant
	}
	return err
}
