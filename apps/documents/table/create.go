package table

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/documents/keys"
)

// NewBatch describes a batch to create. Its id is derived from the tenant and from
// what identifies the batch, so that a repeated request gets the same batch, and no
// tenant can choose the id of another tenant's batch. A batch of more than InOne
// documents must have the same documents whenever it has the same id: an attempt
// continues where a previous one ended.
type NewBatch struct {
	ID        keys.BatchID
	Workflow  Workflow
	Name      string
	Documents []NewDocument
}

// NewDocument describes a document to create.
type NewDocument struct {
	ID     keys.DocumentID
	Name   string
	Object keys.Object

	// In a batch of the inbox: when it arrived, which defaults to now, and its place among
	// the documents that arrived at that time.
	Arrived time.Time
	Place   int
}

// InOne is how many documents one transaction can create with a batch, its project,
// its job, the usage of the tenant and the check that no batch of this id is being
// deleted.
const InOne = maxWrites - 5

// MaxDocuments is the maximum number of documents in a new batch.
const MaxDocuments = 10_000

// CreateBatch creates a batch and its documents, and counts it in its project,
// atomically as far as readers can see. An existing batch is returned unchanged;
// created reports which case it was.
//
// Up to InOne documents are created in one transaction. Of more, the first ones are
// written ahead, while there is no batch by which they could be read, each
// transaction under the condition that we own the job MAKE; the last transaction
// writes the batch and deletes the job. If it is never reached, the job becomes due
// and Discard removes the documents.
func (s *Store) CreateBatch(ctx context.Context, n NewBatch) (b Batch, created bool, err error) {
	w := n.Workflow
	plan, err := s.plan(ctx, w.Tenant)
	if err != nil {
		return Batch{}, false, err
	}
	now := s.Now()
	b = Batch{
		Tenant: w.Tenant, Project: w.Project, ID: n.ID, Workflow: w.ID, Name: n.Name, Status: Processing,
		ConfidenceThreshold: w.ConfidenceThreshold, ReviewThreshold: w.ReviewThreshold,
		Documents: len(n.Documents), Counts: Counts{Processing: len(n.Documents)},
		Listed:  n.Workflow.inbox(n.Name) == n.ID,
		Created: keys.Time(now), Updated: keys.Time(now),
	}
	last := []types.TransactWriteItem{
		s.fresh(whole(b, b.key(), b.Tenant.CreatedEntry(b.Project, now), b.Tenant.BatchEntry(string(Processing), now), keys.BatchIDEntry(b.ID))),
		{Update: &types.Update{
			TableName:                 &s.Table,
			Key:                       b.Tenant.Project(b.Project).Attributes(),
			UpdateExpression:          aws.String("ADD batchCount :one"),
			ConditionExpression:       aws.String("attribute_exists(PK)"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": num(1)},
		}},
		s.start(b, JobWork, now),
		s.use(plan, b.Tenant, len(n.Documents)),
		s.absent(deletionOfBatch(b.Tenant, b.ID)),
	}
	rest := n.Documents
	if len(last)+len(rest) > maxWrites {
		job, err := s.beginMaking(ctx, b)
		if err != nil {
			return Batch{}, false, err
		}
		// From here on no other request can create it; but it may exist already.
		if there, err := s.Batch(ctx, b.Tenant, b.Project, b.ID); !errors.Is(err, ErrNotFound) {
			return there, false, errors.Join(err, s.Drop(ctx, job))
		}
		// The deletion of an earlier batch of this id deletes what is written ahead.
		if deleted, err := s.there(ctx, deletionOfBatch(b.Tenant, b.ID)); err != nil || len(deleted) > 0 {
			return Batch{}, false, errors.Join(cmp.Or(err, errDeleting), s.Drop(ctx, job))
		}
		if err := s.allows(ctx, plan, b.Tenant, len(rest)); err != nil {
			return Batch{}, false, errors.Join(err, s.Drop(ctx, job))
		}
		if rest, err = s.makeAhead(ctx, b, job, rest); err != nil {
			return Batch{}, false, err
		}
		last = append(last, types.TransactWriteItem{Delete: &types.Delete{
			TableName:                 &s.Table,
			Key:                       job.key().Attributes(),
			ConditionExpression:       aws.String("#owner = :owner"),
			ExpressionAttributeNames:  map[string]string{"#owner": "owner"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":owner": str(job.Owner)},
		}})
	}
	for _, d := range rest {
		last = append(last, s.fresh(newDocumentItem(b, d, now)))
	}
	err = s.transact(ctx, last...)
	var no refused
	switch {
	case errors.As(err, &no) && no[0] == 0:
		b, err = s.Batch(ctx, b.Tenant, b.Project, b.ID)
		return b, false, err
	case errors.As(err, &no) && no[0] == 1:
		return Batch{}, false, ErrNotFound
	case errors.As(err, &no) && no[0] == 3:
		return Batch{}, false, s.tooMany(ctx, plan, b.Tenant)
	case errors.As(err, &no) && no[0] == 4:
		return Batch{}, false, errDeleting
	case errors.As(err, &no):
		return Batch{}, false, ErrMoved
	case err != nil:
		return Batch{}, false, fmt.Errorf("create the batch: %w", err)
	}
	return b, true, nil
}

// newDocumentItem returns the item of a new document. Those of one request have the same
// time.
func newDocumentItem(b Batch, n NewDocument, now time.Time) map[string]types.AttributeValue {
	arrived := n.Arrived
	if arrived.IsZero() {
		arrived = now
	}
	d := Document{
		Tenant: b.Tenant, Batch: b.ID, ID: n.ID, Name: n.Name, Status: Processing, Object: n.Object.String(),
		Created: keys.Time(arrived), Updated: keys.Time(now),
	}
	entries := []keys.Entry{b.Tenant.DocumentEntry(b.ID, string(Processing), now)}
	if b.inbox() {
		entries = append(entries, b.Tenant.ArrivalEntry(b.ID, arrived, n.Place))
	}
	return whole(d, b.Tenant.Document(b.ID, n.ID), entries...)
}

// makeAhead writes documents until the rest, which it returns, fits in the last
// transaction.
func (s *Store) makeAhead(ctx context.Context, b Batch, job Job, rest []NewDocument) ([]NewDocument, error) {
	for len(rest) > maxWrites-6 {
		due := s.Now().Add(s.Abandoned)
		writes := []types.TransactWriteItem{{Update: &types.Update{
			TableName:                &s.Table,
			Key:                      job.key().Attributes(),
			UpdateExpression:         aws.String("SET dueAt = :due, GSI3PK = :GSI3PK, GSI3SK = :GSI3SK"),
			ConditionExpression:      aws.String("#owner = :owner"),
			ExpressionAttributeNames: map[string]string{"#owner": "owner"},
			ExpressionAttributeValues: values(map[string]types.AttributeValue{
				":owner": str(job.Owner), ":due": str(keys.Time(due)),
			}, entryValues(keys.JobEntry(b.ID, due))),
		}}}
		n := min(maxWrites-1, len(rest)-(maxWrites-6))
		if err := s.writeAhead(ctx, b, writes, rest[:n]); err != nil {
			return nil, fmt.Errorf("create the batch: %w", err)
		}
		rest = rest[n:]
	}
	return rest, nil
}

// writeAhead writes documents, together with a write that checks that we own the
// job. Documents that a previous attempt wrote are not changed.
func (s *Store) writeAhead(ctx context.Context, b Batch, writes []types.TransactWriteItem, documents []NewDocument) error {
	now := s.Now()
	for _, d := range documents {
		writes = append(writes, s.fresh(newDocumentItem(b, d, now)))
	}
	for {
		err := s.transact(ctx, writes...)
		var there refused
		if !errors.As(err, &there) {
			return err
		}
		if there[0] == 0 {
			return fmt.Errorf("%w by another request for the same batch", ErrMoved)
		}
		for _, i := range slices.Backward(there) {
			writes = slices.Delete(writes, i, i+1)
		}
	}
}

// beginMaking takes ownership of the job MAKE, also if an earlier attempt left it;
// but not while Discard removes its documents.
func (s *Store) beginMaking(ctx context.Context, b Batch) (Job, error) {
	due := s.Now().Add(s.Abandoned)
	job := Job{Tenant: b.Tenant, Project: &b.Project, Batch: b.ID, Kind: JobMake, Due: keys.Time(due), Owner: uuid.NewString()}
	_, err := s.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:           &s.Table,
		Item:                whole(job, job.key(), keys.JobEntry(b.ID, due)),
		ConditionExpression: aws.String("attribute_not_exists(cleaning)"),
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return job, fmt.Errorf("create the batch: %w: the documents of an earlier attempt are being removed; retry in a minute", ErrBusy)
	}
	return job, err
}

// Discard removes the documents of a batch whose creation was abandoned. The caller
// must have claimed the job.
func (s *Store) Discard(ctx context.Context, j Job) error {
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      j.key().Attributes(),
		UpdateExpression:         aws.String("SET cleaning = :yes"),
		ConditionExpression:      aws.String("#owner = :owner"),
		ExpressionAttributeNames: map[string]string{"#owner": "owner"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":owner": str(j.Owner), ":yes": &types.AttributeValueMemberBOOL{Value: true},
		},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil // its creation continues
	}
	if err != nil {
		return err
	}
	// The batch exists: only a second request for it was abandoned.
	if _, err := s.Batch(ctx, j.Tenant, *j.Project, j.Batch); !errors.Is(err, ErrNotFound) {
		if err != nil {
			return err
		}
		return s.Drop(ctx, j)
	}
	in := j.Tenant.Documents(j.Batch).Query(s.Table)
	in.ProjectionExpression = aws.String("PK, SK")
	in.ConsistentRead = aws.Bool(true)
	in.Limit = aws.Int32(maxWrites)
	for {
		out, err := s.DB.Query(ctx, in)
		if err != nil {
			return fmt.Errorf("list the documents of an unfinished batch: %w", err)
		}
		if len(out.Items) == 0 {
			return s.Drop(ctx, j)
		}
		for group := range slices.Chunk(out.Items, 25) {
			if err := s.deleteAll(ctx, group); err != nil {
				return fmt.Errorf("remove the documents of an unfinished batch: %w", err)
			}
		}
	}
}

func (s *Store) deleteAll(ctx context.Context, group []map[string]types.AttributeValue) error {
	var deletes []types.WriteRequest
	for _, key := range group {
		deletes = append(deletes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}})
	}
	for try := 0; len(deletes) > 0; try++ {
		out, err := s.DB.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.Table: deletes}})
		if err != nil {
			return err
		}
		if deletes = out.UnprocessedItems[s.Table]; len(deletes) > 0 {
			if err := pause(ctx, min(try, 10)); err != nil {
				return err
			}
		}
	}
	return nil
}

// AddDocuments adds documents to an existing batch and returns the new ones.
// Documents that the batch already has are skipped.
func (s *Store) AddDocuments(ctx context.Context, b Batch, all []NewDocument) ([]NewDocument, error) {
	var added []NewDocument
	plan, err := s.plan(ctx, b.Tenant)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	for some := range slices.Chunk(all, (maxWrites-3)/2) {
		group := slices.Clone(some)
		for len(group) > 0 {
			err := s.addGroup(ctx, plan, b, group, now)
			var there refused
			if !errors.As(err, &there) {
				if err != nil {
					return added, fmt.Errorf("add documents to batch %s: %w", b.ID, err)
				}
				added = append(added, group...)
				break
			}
			if slices.Contains(there, len(group)) {
				return added, ErrNotFound
			}
			if there[len(there)-1] >= len(group)+3 {
				return added, errDeleting
			}
			if there[0] > len(group) {
				return added, s.tooMany(ctx, plan, b.Tenant)
			}
			for _, i := range slices.Backward(there) {
				if i < len(group) {
					group = slices.Delete(group, i, i+1)
				}
			}
		}
	}
	return added, nil
}

func (s *Store) addGroup(ctx context.Context, plan Plan, b Batch, group []NewDocument, now time.Time) error {
	writes := make([]types.TransactWriteItem, 0, 2*len(group)+3)
	for _, d := range group {
		writes = append(writes, s.fresh(newDocumentItem(b, d, now)))
	}
	writes = append(writes, types.TransactWriteItem{Update: &types.Update{
		TableName:                &s.Table,
		Key:                      b.key().Attributes(),
		UpdateExpression:         aws.String("SET #status = :status, updatedAt = :now, GSI2PK = :GSI2PK, GSI2SK = :GSI2SK ADD documentCount :n, processing :n"),
		ConditionExpression:      aws.String("attribute_exists(PK)"),
		ExpressionAttributeNames: map[string]string{"#status": "status"},
		ExpressionAttributeValues: values(map[string]types.AttributeValue{
			":status": str(string(Processing)), ":now": str(keys.Time(now)), ":n": num(len(group)),
		}, entryValues(b.Tenant.BatchEntry(string(Processing), now))),
	}}, s.start(b, JobWork, now), s.use(plan, b.Tenant, len(group)))
	for _, d := range group {
		writes = append(writes, s.absent(deletionOfDocument(b.Tenant, b.ID, d.ID)))
	}
	return s.transact(ctx, writes...)
}
