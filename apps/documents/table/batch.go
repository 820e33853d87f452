package table

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Status is where a document or a batch is on its way.
type Status string

// A document that needs review was read; it is not a failed one. The status of a
// batch is that of its most pressing document, in this order.
const (
	Processing     Status = "PROCESSING"
	Failed         Status = "FAILED"
	ReviewRequired Status = "REVIEW_REQUIRED"
	Succeeded      Status = "SUCCEEDED"
)

// Interesting tells whether somebody may look for things in this status. Only
// those stand in GSI2.
func (s Status) Interesting() bool {
	return s == Processing || s == Failed || s == ReviewRequired
}

// Batch is a set of documents that came together, with the thresholds of its
// workflow as they were then.
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
}

// Counts are how many documents of a batch are in each status.
type Counts struct {
	Processing int `dynamodbav:"processing" json:"processing"`
	Succeeded  int `dynamodbav:"succeeded" json:"succeeded"`
	Failed     int `dynamodbav:"failed" json:"failed"`
	Review     int `dynamodbav:"review" json:"review"`
}

// Of is the count of a status.
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
	panic(fmt.Sprintf("%q is no status", s))
}

// Verdict is the status of a batch with these counts.
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

// Judge is the status of a document that was read with a confidence.
func (b Batch) Judge(confidence float64) Status {
	switch {
	case confidence < b.ConfidenceThreshold:
		return Failed
	case confidence < b.ReviewThreshold:
		return ReviewRequired
	}
	return Succeeded
}

func (b Batch) key() keys.Key { return b.Tenant.Batch(b.Project, b.ID) }

// Batch reads a batch as it is now.
func (s *Store) Batch(ctx context.Context, t keys.Tenant, p keys.ProjectID, id keys.BatchID) (Batch, error) {
	return get[Batch](ctx, s, t.Batch(p, id), true)
}

// Batches lists those of a project.
func (s *Store) Batches(ctx context.Context, t keys.Tenant, p keys.ProjectID, cursor string) (Page[Batch], error) {
	return list[Batch](ctx, s, t.Batches(p), cursor, 50, nil)
}

// BatchesIn lists a tenant's batches in an interesting status, the newest first.
func (s *Store) BatchesIn(ctx context.Context, t keys.Tenant, status Status) ([]Batch, error) {
	in := t.BatchesIn(string(status)).Query(s.Table)
	in.Limit = aws.Int32(100)
	out, err := s.DB.Query(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("look for batches: %w", err)
	}
	found := []Batch{}
	if err := attributevalue.UnmarshalListOfMaps(out.Items, &found); err != nil {
		return nil, fmt.Errorf("a batch is not what it should be: %w", err)
	}
	return found, nil
}

// FindBatch reads a batch of which nothing but the id is known. It is whoever's:
// who asks for a tenant compares.
func (s *Store) FindBatch(ctx context.Context, id keys.BatchID) (Batch, error) {
	out, err := s.DB.Query(ctx, keys.BatchByID(id).Query(s.Table))
	if err != nil {
		return Batch{}, fmt.Errorf("look for a batch by its id: %w", err)
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

// become is the write that makes a batch what it is to be, if it is what was
// seen.
func (s *Store) become(before, after Batch) types.TransactWriteItem {
	set := "SET processing = :p, succeeded = :s, failed = :f, review = :r"
	v := map[string]types.AttributeValue{
		":p": num(after.Processing), ":s": num(after.Succeeded), ":f": num(after.Failed), ":r": num(after.Review),
		":wasP": num(before.Processing), ":wasS": num(before.Succeeded), ":wasF": num(before.Failed), ":wasR": num(before.Review),
		":was": str(string(before.Status)),
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
