package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
)

// Batch is one run for one day.
type Batch struct {
	BatchID        string
	PollingDate    string
	Status         Status
	StartTime      string
	ExpectedFiles  []string `dynamodbav:",stringset,omitempty"`
	CompletedFiles []string `dynamodbav:",stringset,omitempty"`
	FailedFiles    []string `dynamodbav:",stringset,omitempty"`
	CreatedAt      string
	UpdatedAt      string
	TimeoutAt      string `dynamodbav:",omitempty"`
	TTL            int64  // epoch s

	ErrorMessage string `dynamodbav:",omitempty"` // why it failed
	ReopenedAt   string `dynamodbav:",omitempty"` // when a batch that had ended was continued
}

// Outstanding returns the expected files that have neither completed nor failed.
func (b *Batch) Outstanding() []string {
	ended := make(map[string]bool, len(b.CompletedFiles)+len(b.FailedFiles))
	for _, id := range slices.Concat(b.CompletedFiles, b.FailedFiles) {
		ended[id] = true
	}
	return slices.DeleteFunc(slices.Clone(b.ExpectedFiles), func(id string) bool { return ended[id] })
}

// Over reports whether the batch has ended.
func (b *Batch) Over() bool { return b.Status != Initiated && b.Status != Queued }

// MaxIDBytes is the maximum total length of the ids of a batch's files. An id is in
// ExpectedFiles and, at the end, in one of the other two sets, so twice this, with
// all other attributes at their longest, stays below the 400 KB of an item.
const MaxIDBytes = 200_000

// IDBytes returns the length of ids that counts against MaxIDBytes.
func IDBytes(ids []string) int {
	sum := 0
	for _, id := range ids {
		sum += len(id)
	}
	return sum
}

// Batches is the table of batches.
type Batches struct {
	DB  *dynamodb.Client
	Now func() time.Time
}

// ScheduledID returns the id of a day's scheduled batch. It depends on the day alone,
// so that a batch started twice is one batch.
func ScheduledID(date string) string {
	sum := sha256.Sum256([]byte("scheduled batch of " + date))
	return "batch-" + date + "-" + hex.EncodeToString(sum[:4])
}

// NewID returns the id of a triggered batch.
func NewID(date string) string {
	return "batch-" + date + "-" + uuid.NewString()[:8]
}

// Create writes a batch's record and returns it. The error is ErrLost if the id exists,
// unless it is this very record, which was written by an attempt whose reply was lost.
func (t *Batches) Create(ctx context.Context, id, date string) (*Batch, error) {
	now := t.Now()
	b := &Batch{
		BatchID: id, PollingDate: date, Status: Initiated,
		StartTime: stamp(now), CreatedAt: stamp(now), UpdatedAt: stamp(now),
		TTL: now.Add(keepBatches).Unix(),
	}
	item, err := attributevalue.MarshalMap(b)
	if err != nil {
		return nil, fmt.Errorf("create batch %s: %w", id, err)
	}
	_, err = t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(BatchesTable), Item: item, ConditionExpression: aws.String("attribute_not_exists(BatchID)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) && reflect.DeepEqual(failed.Item, item) {
		return b, nil
	}
	if err := describe("create", id, err); err != nil {
		return nil, err
	}
	return b, nil
}

// Expect records the files of a batch, whose jobs have been written, and makes it
// queued. If there are none, reason says why. Like all updates it returns the batch as
// it is now.
func (t *Batches) Expect(ctx context.Context, id string, files []string, reason string) (*Batch, error) {
	change := expression.Set(name("Status"), expression.Value(Queued)).Set(name("UpdatedAt"), expression.Value(stamp(t.Now())))
	return t.update(ctx, "queue", id, Initiated, withReason(withSet(change, "ExpectedFiles", files), reason))
}

// ExpectMore adds files to a queued batch.
func (t *Batches) ExpectMore(ctx context.Context, id string, files []string) (*Batch, error) {
	change := expression.Set(name("UpdatedAt"), expression.Value(stamp(t.Now())))
	return t.update(ctx, "extend", id, Queued, withSet(change, "ExpectedFiles", files))
}

// Finish ends a queued batch as Completed, Failed or Timeout and records how its
// files ended.
func (t *Batches) Finish(ctx context.Context, id string, as Status, completed, failed []string, reason string) (*Batch, error) {
	if as != Completed && as != Failed && as != Timeout {
		panic(fmt.Sprintf("a batch cannot end as %q", as))
	}
	now := stamp(t.Now())
	change := expression.Set(name("Status"), expression.Value(as)).Set(name("UpdatedAt"), expression.Value(now))
	if as == Timeout {
		change = change.Set(name("TimeoutAt"), expression.Value(now))
	}
	change = withSet(withSet(change, "CompletedFiles", completed), "FailedFiles", failed)
	return t.update(ctx, "end", id, Queued, withReason(change, reason))
}

// Late records how files of a batch ended after it had timed out.
func (t *Batches) Late(ctx context.Context, id string, completed, failed []string) (*Batch, error) {
	change := expression.Set(name("UpdatedAt"), expression.Value(stamp(t.Now())))
	return t.update(ctx, "add late files to", id, Timeout, withSet(withSet(change, "CompletedFiles", completed), "FailedFiles", failed))
}

// Reopen makes a batch that failed or timed out queued again, because files of it were
// queued again. Which files failed is found out again; its time starts now.
func (t *Batches) Reopen(ctx context.Context, b *Batch) (*Batch, error) {
	if b.Status != Failed && b.Status != Timeout {
		return nil, fmt.Errorf("reopen batch %s, which is %s: %w", b.BatchID, b.Status, ErrLost)
	}
	now := stamp(t.Now())
	change := expression.Set(name("Status"), expression.Value(Queued)).Set(name("UpdatedAt"), expression.Value(now)).Set(name("ReopenedAt"), expression.Value(now)).
		Remove(name("FailedFiles")).Remove(name("TimeoutAt"))
	if !slices.ContainsFunc(b.ExpectedFiles, Refused) { // of those the message has the reasons
		change = change.Remove(name("ErrorMessage"))
	}
	return t.update(ctx, "reopen", b.BatchID, b.Status, change)
}

// withSet adds to a set. DynamoDB has no empty sets, so an empty one is no change.
func withSet(change expression.UpdateBuilder, attribute string, ids []string) expression.UpdateBuilder {
	if len(ids) == 0 {
		return change
	}
	return change.Add(name(attribute), expression.Value(&types.AttributeValueMemberSS{Value: ids}))
}

func withReason(change expression.UpdateBuilder, reason string) expression.UpdateBuilder {
	if reason == "" {
		return change
	}
	return change.Set(name("ErrorMessage"), expression.Value(short(reason, 2000)))
}

func (t *Batches) update(ctx context.Context, verb, id string, from Status, change expression.UpdateBuilder) (*Batch, error) {
	e, err := expression.NewBuilder().WithUpdate(change).WithCondition(name("Status").Equal(expression.Value(from))).Build()
	if err != nil {
		return nil, fmt.Errorf("%s batch %s: %w", verb, id, err)
	}
	answer, err := t.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(BatchesTable), Key: key("BatchID", id),
		UpdateExpression: e.Update(), ConditionExpression: e.Condition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
		ReturnValues: types.ReturnValueAllNew,
	})
	if err := describe(verb, id, err); err != nil {
		return nil, err
	}
	return readBatch(id, answer.Attributes)
}

func readBatch(id string, item map[string]types.AttributeValue) (*Batch, error) {
	b := new(Batch)
	if err := attributevalue.UnmarshalMap(item, b); err != nil {
		return nil, fmt.Errorf("read batch %s: %w", id, err)
	}
	return b, nil
}

func describe(verb, id string, err error) error {
	var failed *types.ConditionalCheckFailedException
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return fmt.Errorf("%s batch %s: %w", verb, id, ErrLost)
	}
	return fmt.Errorf("%s batch %s: %w", verb, id, err)
}

// Get reads a batch with a consistent read.
func (t *Batches) Get(ctx context.Context, id string) (*Batch, error) {
	answer, err := t.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(BatchesTable), Key: key("BatchID", id), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("read batch %s: %w", id, err)
	}
	if answer.Item == nil {
		return nil, fmt.Errorf("batch %.80q: %w", id, ErrUnknown)
	}
	return readBatch(id, answer.Item)
}

// OfDay reads the batches of a day, earliest first: all, or those with a status.
func (t *Batches) OfDay(ctx context.Context, date string, s Status) ([]*Batch, error) {
	of := expression.Key("PollingDate").Equal(expression.Value(date))
	if s != "" {
		of = of.And(expression.Key("Status").Equal(expression.Value(s)))
	}
	e, err := expression.NewBuilder().WithKeyCondition(of).Build()
	if err != nil {
		return nil, err
	}
	var found []*Batch
	pages := dynamodb.NewQueryPaginator(t.DB, &dynamodb.QueryInput{
		TableName: aws.String(BatchesTable), IndexName: aws.String(PollingDateIndex),
		KeyConditionExpression: e.KeyCondition(), ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the batches of %s: %w", date, err)
		}
		var some []*Batch
		if err := attributevalue.UnmarshalListOfMaps(page.Items, &some); err != nil {
			return nil, fmt.Errorf("read the batches of %s: %w", date, err)
		}
		found = append(found, some...)
	}
	slices.SortStableFunc(found, func(a, b *Batch) int {
		if a.StartTime != b.StartTime {
			return cmp.Compare(a.StartTime, b.StartTime)
		}
		return cmp.Compare(a.BatchID, b.BatchID)
	})
	for _, b := range found {
		slices.Sort(b.ExpectedFiles)
		slices.Sort(b.CompletedFiles)
		slices.Sort(b.FailedFiles)
	}
	return found, nil
}

// Triggerable checks that a batch can be started for a day: it must be one of the
// days that are searched for unfinished batches.
func (t *Batches) Triggerable(date string) error {
	if err := CheckDate(date); err != nil {
		return err
	}
	day, _ := time.Parse(time.DateOnly, date)
	now := t.Now().UTC()
	if day.After(now.AddDate(0, 0, 1)) || day.Before(now.AddDate(0, 0, -KeepDays)) {
		return fmt.Errorf("%s is in the future or more than %d days ago, beyond the retention of batches", date, KeepDays)
	}
	return nil
}
