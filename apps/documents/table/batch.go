package table

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Status is the processing status of a document or a batch.
type Status string

// A document that needs review was read; it has not failed. The status of a batch is
// that of its most urgent document, in this order.
const (
	Processing     Status = "PROCESSING"
	Failed         Status = "FAILED"
	ReviewRequired Status = "REVIEW_REQUIRED"
	Succeeded      Status = "SUCCEEDED"
)

// Interesting reports whether items with this status are listed by status. Only
// these are in GSI2.
func (s Status) Interesting() bool {
	return s == Processing || s == Failed || s == ReviewRequired
}

// Batch is a set of documents that were submitted together, with a copy of the
// thresholds of its workflow.
type Batch struct {
	Tenant              keys.Tenant     `dynamodbav:"tenantId" json:"tenantId"`
	Project             keys.ProjectID  `dynamodbav:"projectId" json:"projectId"`
	ID                  keys.BatchID    `dynamodbav:"batchId" json:"batchId"`
	Workflow            keys.WorkflowID `dynamodbav:"workflowId" json:"workflowId"`
	Name                string          `dynamodbav:"name" json:"name"`
	Status              Status          `dynamodbav:"status" json:"status"`
	ConfidenceThreshold float64         `dynamodbav:"confidenceThreshold" json:"confidenceThreshold"`
	ReviewThreshold     float64         `dynamodbav:"reviewThreshold" json:"reviewThreshold"`
	Documents           int             `dynamodbav:"documentCount" json:"documentCount"`
	Counts
	Created string `dynamodbav:"createdAt" json:"createdAt"`
	Updated string `dynamodbav:"updatedAt" json:"updatedAt"`

	// Listed reports whether all documents of a batch of the inbox are in GSI1.
	Listed bool `dynamodbav:"listed,omitempty" json:"-"`
}

// Counts are the numbers of a batch's documents in each status.
type Counts struct {
	Processing int `dynamodbav:"processing" json:"processing"`
	Succeeded  int `dynamodbav:"succeeded" json:"succeeded"`
	Failed     int `dynamodbav:"failed" json:"failed"`
	Review     int `dynamodbav:"review" json:"review"`
}

// Of returns the count of a status.
func (c *Counts) Of(s Status) *int {
	switch s {
	case Processing:
		return &c.Processing
	case Succeeded:
		return &c.Succeeded
	case Failed:
		return &c.Failed
	case ReviewRequired:
		return &c.Review
	}
	panic(fmt.Sprintf("%q is not a status", s))
}

// Verdict returns the status of a batch with these counts.
func (c Counts) Verdict() Status {
	switch {
	case c.Processing > 0:
		return Processing
	case c.Failed > 0:
		return Failed
	case c.Review > 0:
		return ReviewRequired
	}
	return Succeeded
}

// Judge returns the status of a document that was read with a confidence.
func (b Batch) Judge(confidence float64) Status {
	switch {
	case confidence < b.ConfidenceThreshold:
		return Failed
	case confidence < b.ReviewThreshold:
		return ReviewRequired
	}
	return Succeeded
}

// inbox reports whether the batch is of a folder in the inbox. Its documents are listed by
// GSI1, since the ids of files are derived from their names and have no order.
func (b Batch) inbox() bool {
	return Workflow{Tenant: b.Tenant, Project: b.Project, ID: b.Workflow}.inbox(b.Name) == b.ID
}

func (b Batch) key() keys.Key { return b.Tenant.Batch(b.Project, b.ID) }

// Batch reads a batch.
func (s *Store) Batch(ctx context.Context, t keys.Tenant, p keys.ProjectID, id keys.BatchID) (Batch, error) {
	return get[Batch](ctx, s, t.Batch(p, id), true)
}

// Batches lists the batches of a project, newest first.
func (s *Store) Batches(ctx context.Context, p Project, cursor string) (Page[Batch], error) {
	t := p.Tenant
	if !p.Listed {
		entry := func(created time.Time) keys.Entry { return t.CreatedEntry(p.ID, created) }
		if err := s.enlist(ctx, t.Batches(p.ID), entry, t.Project(p.ID)); err != nil {
			return Page[Batch]{}, err
		}
	}
	return list[Batch](ctx, s, t.NewestBatches(p.ID), cursor, 50, func(sk string) (keys.Key, error) {
		id, err := keys.IDOf[keys.BatchID]("BATCH#", sk)
		if err != nil {
			return keys.Key{}, err
		}
		return t.Batch(p.ID, id), nil
	})
}

// BatchesIn lists a tenant's batches with an interesting status, newest first.
func (s *Store) BatchesIn(ctx context.Context, t keys.Tenant, status Status) ([]Batch, error) {
	in := t.BatchesIn(string(status)).Query(s.Table)
	in.Limit = aws.Int32(100)
	out, err := s.DB.Query(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("list batches: %w", err)
	}
	found := []Batch{}
	if err := attributevalue.UnmarshalListOfMaps(out.Items, &found); err != nil {
		return nil, fmt.Errorf("decode a batch: %w", err)
	}
	return found, nil
}

// FindBatch reads a batch by its id alone. It may belong to any tenant: the caller
// must compare.
func (s *Store) FindBatch(ctx context.Context, id keys.BatchID) (Batch, error) {
	out, err := s.DB.Query(ctx, keys.BatchByID(id).Query(s.Table))
	if err != nil {
		return Batch{}, fmt.Errorf("find a batch by its id: %w", err)
	}
	switch len(out.Items) {
	case 0:
		return Batch{}, ErrNotFound
	case 1:
		var b Batch
		return b, read(out.Items[0], &b)
	}
	return Batch{}, fmt.Errorf("%d batches have the id %s", len(out.Items), id)
}

// become returns the write that changes a batch, on the condition that it is
// unchanged.
func (s *Store) become(before, after Batch) types.TransactWriteItem {
	set := "SET processing = :p, succeeded = :s, failed = :f, review = :r"
	v := map[string]types.AttributeValue{
		":p": num(after.Processing), ":s": num(after.Succeeded), ":f": num(after.Failed), ":r": num(after.Review),
		":wasP": num(before.Processing), ":wasS": num(before.Succeeded), ":wasF": num(before.Failed), ":wasR": num(before.Review),
		":was": str(string(before.Status)),
	}
	if after.Documents != before.Documents {
		set += ", documentCount = :n"
		v[":n"] = num(after.Documents)
	}
	if after.Status != before.Status {
		now := s.Now()
		set += ", #status = :status, updatedAt = :now"
		v[":status"], v[":now"] = str(string(after.Status)), str(keys.Time(now))
		if after.Status.Interesting() {
			set += ", GSI2PK = :GSI2PK, GSI2SK = :GSI2SK"
			v = values(v, entryValues(before.Tenant.BatchEntry(string(after.Status), now)))
		} else {
			set += " REMOVE GSI2PK, GSI2SK"
		}
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &s.Table,
		Key:                       before.key().Attributes(),
		UpdateExpression:          aws.String(set),
		ConditionExpression:       aws.String("#status = :was AND processing = :wasP AND succeeded = :wasS AND failed = :wasF AND review = :wasR"),
		ExpressionAttributeNames:  map[string]string{"#status": "status"},
		ExpressionAttributeValues: v,
	}}
}
