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

// Document is a file with its extracted fields.
type Document struct {
	Tenant       keys.Tenant     `dynamodbav:"tenantId" json:"tenantId"`
	Batch        keys.BatchID    `dynamodbav:"batchId" json:"batchId"`
	ID           keys.DocumentID `dynamodbav:"documentId" json:"documentId"`
	Name         string          `dynamodbav:"name" json:"name"`
	Status       Status          `dynamodbav:"status" json:"status"`
	Object       string          `dynamodbav:"objectKey" json:"-"`
	Attempts     int             `dynamodbav:"attempts" json:"attempts"`
	RetryAt      string          `dynamodbav:"retryAt,omitempty" json:"retryAt,omitempty"`
	Reason       string          `dynamodbav:"reason,omitempty" json:"reason,omitempty"`         // why it did not succeed
	Unreadable   bool            `dynamodbav:"unreadable,omitempty" json:"unreadable,omitempty"` // a retry fails in the same way
	Confidence   float64         `dynamodbav:"confidence" json:"confidence"`
	Result       string          `dynamodbav:"result,omitempty" json:"-"`       // JSON; empty if it is too large
	ResultObject string          `dynamodbav:"resultObject,omitempty" json:"-"` // the object of a large result
	ReviewedBy   string          `dynamodbav:"reviewedBy,omitempty" json:"reviewedBy,omitempty"`
	Created      string          `dynamodbav:"createdAt" json:"createdAt"`
	Updated      string          `dynamodbav:"updatedAt" json:"updatedAt"`
}

// Document reads a document. It takes the batch, not just its id, because documents
// of a batch that is still being created must not be visible.
func (s *Store) Document(ctx context.Context, b Batch, id keys.DocumentID) (Document, error) {
	return get[Document](ctx, s, b.Tenant.Document(b.ID, id), true)
}

// Documents lists the documents of a batch, newest first, and those that were added together
// in their order; files of the inbox that arrived together by their names.
func (s *Store) Documents(ctx context.Context, b Batch, cursor string, limit int32) (Page[Document], error) {
	if !b.inbox() {
		return list[Document](ctx, s, b.Tenant.Documents(b.ID), cursor, limit, nil)
	}
	if !b.Listed {
		entry := func(created time.Time) keys.Entry { return b.Tenant.ArrivalEntry(b.ID, created, 0) }
		if err := s.enlist(ctx, b.Tenant.Documents(b.ID), entry, b.key()); err != nil {
			return Page[Document]{}, err
		}
	}
	return documentsIn(ctx, s, b, b.Tenant.NewestArrivals(b.ID), cursor, limit)
}

// DocumentsIn lists the documents of a batch with an interesting status, oldest
// first.
func (s *Store) DocumentsIn(ctx context.Context, b Batch, status Status, cursor string, limit int32) (Page[Document], error) {
	if !status.Interesting() {
		return Page[Document]{}, fmt.Errorf("%w: documents are not listed by the status %q", ErrNotFound, status)
	}
	return documentsIn(ctx, s, b, b.Tenant.DocumentsIn(b.ID, string(status)), cursor, limit)
}

// NewestIn is DocumentsIn, newest first.
func (s *Store) NewestIn(ctx context.Context, b Batch, status Status, cursor string, limit int32) (Page[Document], error) {
	if !status.Interesting() {
		return Page[Document]{}, fmt.Errorf("%w: documents are not listed by the status %q", ErrNotFound, status)
	}
	return documentsIn(ctx, s, b, b.Tenant.NewestIn(b.ID, string(status)), cursor, limit)
}

func documentsIn(ctx context.Context, s *Store, b Batch, r keys.Range, cursor string, limit int32) (Page[Document], error) {
	return list[Document](ctx, s, r, cursor, limit, func(sk string) (keys.Key, error) {
		id, err := keys.IDOf[keys.DocumentID]("DOCUMENT#", sk)
		if err != nil {
			return keys.Key{}, err
		}
		return b.Tenant.Document(b.ID, id), nil
	})
}

// Outcome is the result of processing or reviewing a document.
type Outcome struct {
	Document     Document // before
	Status       Status
	Attempts     int
	Confidence   float64
	Reason       string
	Result       string
	ResultObject string
	ReviewedBy   string
	Unreadable   bool
}

// size returns the approximate size of the write of an outcome.
func (o *Outcome) size() int { return len(o.Result) + len(o.Reason) + 1000 }

// settle returns the write of an outcome, on the condition that the document's
// status is unchanged.
func (s *Store) settle(o Outcome) types.TransactWriteItem {
	now := s.Now()
	set := "SET #status = :status, updatedAt = :now, attempts = :attempts, confidence = :confidence"
	remove := " REMOVE retryAt"
	v := map[string]types.AttributeValue{
		":was": str(string(o.Document.Status)), ":status": str(string(o.Status)), ":now": str(keys.Time(now)),
		":attempts": num(o.Attempts), ":confidence": &types.AttributeValueMemberN{Value: fmt.Sprintf("%.4g", o.Confidence)},
	}
	names := map[string]string{"#status": "status"}
	for name, value := range map[string]string{"reason": o.Reason, "result": o.Result, "resultObject": o.ResultObject, "reviewedBy": o.ReviewedBy} {
		names["#"+name] = name
		if value == "" {
			remove += ", #" + name
			continue
		}
		set += ", #" + name + " = :" + name
		v[":"+name] = str(value)
	}
	if o.Unreadable {
		set += ", unreadable = :unreadable"
		v[":unreadable"] = &types.AttributeValueMemberBOOL{Value: true}
	} else {
		remove += ", unreadable"
	}
	if o.Status.Interesting() {
		set += ", GSI2PK = :GSI2PK, GSI2SK = :GSI2SK"
		v = values(v, entryValues(o.Document.Tenant.DocumentEntry(o.Document.Batch, string(o.Status), now)))
	} else {
		remove += ", GSI2PK, GSI2SK"
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &s.Table,
		Key:                       o.Document.Tenant.Document(o.Document.Batch, o.Document.ID).Attributes(),
		UpdateExpression:          aws.String(set + remove),
		ConditionExpression:       aws.String("#status = :was"),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: v,
	}}
}

// countsOf counts a list of documents; for checks.
func countsOf(items []map[string]types.AttributeValue) (Counts, error) {
	var c Counts
	var found []struct {
		Status Status `dynamodbav:"status"`
	}
	if err := attributevalue.UnmarshalListOfMaps(items, &found); err != nil {
		return c, err
	}
	for _, d := range found {
		*c.Of(d.Status)++
	}
	return c, nil
}

// Recount counts the documents of a batch one by one, for comparison.
func (s *Store) Recount(ctx context.Context, b Batch) (Counts, error) {
	in := b.Tenant.Documents(b.ID).Query(s.Table)
	in.ProjectionExpression = aws.String("#status")
	in.ExpressionAttributeNames = map[string]string{"#status": "status"}
	in.ConsistentRead = aws.Bool(true)
	var sum Counts
	for {
		out, err := s.DB.Query(ctx, in)
		if err != nil {
			return sum, fmt.Errorf("count the documents: %w", err)
		}
		c, err := countsOf(out.Items)
		if err != nil {
			return sum, fmt.Errorf("count the documents: %w", err)
		}
		sum.Processing += c.Processing
		sum.Succeeded += c.Succeeded
		sum.Failed += c.Failed
		sum.Review += c.Review
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return sum, nil
		}
	}
}
