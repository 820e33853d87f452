package ledger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Jobs is the table of jobs.
type Jobs struct {
	DB  *dynamodb.Client
	Now func() time.Time
}

// Queue writes a new job as available. If its FileID exists, nothing is written and
// the existing job is returned, unless it is this very job, which was written by an attempt whose
// reply was lost.
func (t *Jobs) Queue(ctx context.Context, j Job) (there *Job, err error) {
	now := t.Now()
	j.Status = Available
	j.CreatedAt = stamp(now)
	j.StatusUpdatedAt = now.UnixMilli()
	j.SentAt = j.StatusUpdatedAt
	j.TTL = now.Add(keepJobs).Unix()
	item, err := attributevalue.MarshalMap(j)
	if err != nil {
		return nil, fmt.Errorf("write job %s: %w", j.FileID, err)
	}
	_, err = t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           aws.String(JobsTable),
		Item:                                item,
		ConditionExpression:                 aws.String("attribute_not_exists(FileID)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) && reflect.DeepEqual(failed.Item, item) {
		return nil, nil
	}
	if there, refused := refusal(err); refused {
		return there, nil
	}
	if err != nil {
		return nil, fmt.Errorf("write job %s: %w", j.FileID, err)
	}
	return nil, nil
}

// becameAvailable reports whether a job became available at a time, and has not changed since.
func (j *Job) becameAvailable(at int64) bool {
	return j.Status == Available && j.StatusUpdatedAt == at && j.SentAt == at
}

// TakeOver makes a failed job of an earlier batch, as it was read, available for another
// batch, with the upstream's current metadata.
func (t *Jobs) TakeOver(ctx context.Context, there *Job, j Job) error {
	if there.Status != Failed && there.Status != Error || there.BatchID == j.BatchID {
		return fmt.Errorf("take over job %s, which is %s for %s: %w", j.FileID, there.Status, there.BatchID, ErrLost)
	}
	now := t.Now()
	mine := func(there *Job) bool { return there.BatchID == j.BatchID && there.becameAvailable(now.UnixMilli()) }
	_, err := t.update(ctx, "take over", j.FileID, mine,
		expression.Set(name("Status"), expression.Value(Available)).
			Set(name("BatchID"), expression.Value(j.BatchID)).
			Set(name("PresignedURL"), expression.Value(j.PresignedURL)).
			Set(name("EncryptedAESKey"), expression.Value(j.EncryptedAESKey)).
			Set(name("EncodedAESIV"), expression.Value(j.EncodedAESIV)).
			Set(name("Size"), expression.Value(j.Size)).
			Set(name("SHA256"), expression.Value(j.SHA256)).
			Set(name("StatusUpdatedAt"), expression.Value(now.UnixMilli())).
			Set(name("SentAt"), expression.Value(now.UnixMilli())).
			Set(name("TTL"), expression.Value(now.Add(keepJobs).Unix())).
			Set(name("Tries"), expression.Value(1)).Remove(name("ErrorMessage")).Remove(name("Events")),
		name("Status").Equal(expression.Value(there.Status)).And(name("StatusUpdatedAt").Equal(expression.Value(there.StatusUpdatedAt))))
	return err
}

// Claim claims an available job: one of any number of callers succeeds. The others
// get ErrLost and the job.
func (t *Jobs) Claim(ctx context.Context, id, claim string) (*Job, error) {
	now := t.Now().UnixMilli()
	mine := func(there *Job) bool { return there.Status == Downloading && there.Claim == claim }
	return t.update(ctx, "claim", id, mine,
		expression.Set(name("Status"), expression.Value(Downloading)).
			Set(name("StatusUpdatedAt"), expression.Value(now)).
			Set(name("HeartbeatAt"), expression.Value(now)).
			Set(name("Claim"), expression.Value(claim)).
			Add(name("Tries"), expression.Value(1)).
			Remove(name("ErrorMessage")).Remove(name("Events")).Remove(name("Received")).Remove(name("SentAt")),
		name("Status").Equal(expression.Value(Available)))
}

// held is the condition of the owner of a claim.
func held(j *Job) expression.ConditionBuilder {
	return name("Status").Equal(expression.Value(Downloading)).And(name("Claim").Equal(expression.Value(j.Claim)))
}

// same is the condition that a time has not changed since the job was read. Records of
// earlier versions lack the time.
func same(attribute string, read int64) expression.ConditionBuilder {
	if read == 0 {
		return expression.AttributeNotExists(name(attribute))
	}
	return name(attribute).Equal(expression.Value(read))
}

// Beat writes a heartbeat of the job's claim, with the bytes received so far. The time
// always grows, even if the clock does not, so that a sweeper sees it change. When the
// job got its status does not change.
func (t *Jobs) Beat(ctx context.Context, j *Job, received int64) error {
	at := max(t.Now().UnixMilli(), j.HeartbeatAt+1)
	_, err := t.update(ctx, "keep", j.FileID, nil,
		expression.Set(name("HeartbeatAt"), expression.Value(at)).Set(name("Received"), expression.Value(received)), held(j))
	if err == nil {
		j.HeartbeatAt = at
	}
	return err
}

// Renew stores the upstream's current metadata of the file: another URL, perhaps
// another key. The job is changed accordingly.
func (t *Jobs) Renew(ctx context.Context, j *Job, fresh Job) error {
	after, err := t.update(ctx, "renew the URL of", j.FileID, nil,
		expression.Set(name("PresignedURL"), expression.Value(fresh.PresignedURL)).
			Set(name("EncryptedAESKey"), expression.Value(fresh.EncryptedAESKey)).
			Set(name("EncodedAESIV"), expression.Value(fresh.EncodedAESIV)).
			Set(name("Size"), expression.Value(fresh.Size)).
			Set(name("SHA256"), expression.Value(fresh.SHA256)),
		held(j))
	if err == nil {
		j.PresignedURL, j.EncryptedAESKey, j.EncodedAESIV, j.Size, j.SHA256 = after.PresignedURL, after.EncryptedAESKey, after.EncodedAESIV, after.Size, after.SHA256
	}
	return err
}

// Complete ends a job whose file is in the bucket.
func (t *Jobs) Complete(ctx context.Context, j *Job) error {
	now := t.Now()
	mine := func(there *Job) bool { return there.Status == Completed && there.Claim == j.Claim }
	change := expression.Set(name("Status"), expression.Value(Completed)).
		Set(name("StatusUpdatedAt"), expression.Value(now.UnixMilli())).
		Set(name("CompletedAt"), expression.Value(stamp(now))).
		Remove(name("HeartbeatAt")).Remove(name("Received"))
	_, err := t.update(ctx, "complete", j.FileID, mine, withEvents(change, j), held(j))
	return err
}

// Fail ends a job as Failed or as Error, with the reason. The file's metadata may be
// the cause, so it is removed and the next attempt asks the upstream again.
func (t *Jobs) Fail(ctx context.Context, j *Job, as Status, reason string) error {
	return t.fail(ctx, j, as, reason, held(j))
}

// Abandon ends a job as Error because its claims expired too often. A job that had a
// heartbeat since it was read is not changed.
func (t *Jobs) Abandon(ctx context.Context, j *Job, reason string) error {
	return t.fail(ctx, j, Error, reason, held(j).And(same("HeartbeatAt", j.HeartbeatAt)))
}

func (t *Jobs) fail(ctx context.Context, j *Job, as Status, reason string, condition expression.ConditionBuilder) error {
	if as != Failed && as != Error {
		panic(fmt.Sprintf("a job cannot fail as %q", as))
	}
	mine := func(there *Job) bool { return there.Status == as && there.Claim == j.Claim }
	change := expression.Set(name("Status"), expression.Value(as)).
		Set(name("StatusUpdatedAt"), expression.Value(t.Now().UnixMilli())).
		Set(name("ErrorMessage"), expression.Value(short(reason, 1000))).
		Remove(name("Size")).Remove(name("SHA256")).Remove(name("HeartbeatAt")).Remove(name("Received"))
	_, err := t.update(ctx, "fail", j.FileID, mine, withEvents(change, j), condition)
	return err
}

func withEvents(change expression.UpdateBuilder, j *Job) expression.UpdateBuilder {
	if j.Events == "" {
		return change
	}
	return change.Set(name("Events"), expression.Value(short(j.Events, 100)))
}

// Release makes a job that is being downloaded available again, because its claim has
// expired. A job that had a heartbeat since it was read is not changed.
func (t *Jobs) Release(ctx context.Context, j *Job) error {
	return t.release(ctx, j, held(j).And(same("HeartbeatAt", j.HeartbeatAt)))
}

// GiveUp makes a job available again whose claim is the caller's. Its heartbeats do not
// matter: one may have been written although it was cancelled.
func (t *Jobs) GiveUp(ctx context.Context, j *Job) error { return t.release(ctx, j, held(j)) }

func (t *Jobs) release(ctx context.Context, j *Job, condition expression.ConditionBuilder) error {
	now := t.Now().UnixMilli()
	mine := func(there *Job) bool { return there.Claim == j.Claim && there.becameAvailable(now) }
	_, err := t.update(ctx, "release", j.FileID, mine,
		expression.Set(name("Status"), expression.Value(Available)).
			Set(name("StatusUpdatedAt"), expression.Value(now)).
			Set(name("SentAt"), expression.Value(now)).
			Remove(name("HeartbeatAt")).Remove(name("Received")),
		condition)
	return err
}

// Requeue makes a failed or stuck job available again, for an operator. It returns the
// job as it is now. A job that changed since it was read is not changed, and a completed
// one never is. A job that is available stays so, since when it has been. Unless live is
// set, a heartbeat is a change too.
func (t *Jobs) Requeue(ctx context.Context, j *Job, live bool) (*Job, error) {
	now := t.Now()
	switch j.Status {
	case Available:
		at := max(now.UnixMilli(), j.SentAt+1)
		return t.touch(ctx, j, at, func(there *Job) bool { return there.Status == Available && there.SentAt == at })
	case Completed:
		return j, fmt.Errorf("requeue job %s, which is %s: %w", j.FileID, j.Status, ErrLost)
	}
	mine := func(there *Job) bool { return there.BatchID == j.BatchID && there.becameAvailable(now.UnixMilli()) }
	condition := name("Status").Equal(expression.Value(j.Status)).And(name("StatusUpdatedAt").Equal(expression.Value(j.StatusUpdatedAt)))
	if j.Status == Downloading && !live {
		condition = condition.And(same("HeartbeatAt", j.HeartbeatAt))
	}
	return t.update(ctx, "requeue", j.FileID, mine,
		expression.Set(name("Status"), expression.Value(Available)).
			Set(name("StatusUpdatedAt"), expression.Value(now.UnixMilli())).
			Set(name("SentAt"), expression.Value(now.UnixMilli())).
			Set(name("TTL"), expression.Value(now.Add(keepJobs).Unix())).
			Set(name("Tries"), expression.Value(1)).
			Remove(name("ErrorMessage")).Remove(name("Events")).Remove(name("HeartbeatAt")).Remove(name("Received")),
		condition)
}

// Touch records that the message of an available job is sent again now. Of several
// concurrent callers one succeeds.
func (t *Jobs) Touch(ctx context.Context, j *Job) (*Job, error) {
	return t.touch(ctx, j, max(t.Now().UnixMilli(), j.SentAt+1), nil)
}

func (t *Jobs) touch(ctx context.Context, j *Job, at int64, mine func(*Job) bool) (*Job, error) {
	return t.update(ctx, "touch", j.FileID, mine, expression.Set(name("SentAt"), expression.Value(at)),
		name("Status").Equal(expression.Value(Available)).And(same("SentAt", j.SentAt)))
}

// Get reads a job with a consistent read.
func (t *Jobs) Get(ctx context.Context, id string) (*Job, error) {
	answer, err := t.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(JobsTable), Key: key("FileID", id), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, fmt.Errorf("read job %s: %w", id, err)
	}
	if answer.Item == nil {
		return nil, fmt.Errorf("job %.80q: %w", id, ErrUnknown)
	}
	return read(answer.Item), nil
}

// ByStatus reads the jobs with a status, the one that has had it longest first.
func (t *Jobs) ByStatus(ctx context.Context, s Status) iter.Seq2[*Job, error] {
	return t.query(ctx, StatusIndex, expression.Key("Status").Equal(expression.Value(s)))
}

// Since reads the jobs that got a status at a time or before, and still have it, the
// oldest first.
func (t *Jobs) Since(ctx context.Context, s Status, until time.Time) iter.Seq2[*Job, error] {
	return t.query(ctx, StatusIndex, expression.Key("Status").Equal(expression.Value(s)).
		And(expression.Key("StatusUpdatedAt").LessThanEqual(expression.Value(until.UnixMilli()))))
}

// OfBatch reads the jobs of a batch: all, or those with a status.
func (t *Jobs) OfBatch(ctx context.Context, batch string, s Status) iter.Seq2[*Job, error] {
	of := expression.Key("BatchID").Equal(expression.Value(batch))
	if s != "" {
		of = of.And(expression.Key("Status").Equal(expression.Value(s)))
	}
	return t.query(ctx, BatchIndex, of)
}

// Any reports whether a batch has jobs with a status: a query that reads one item.
func (t *Jobs) Any(ctx context.Context, batch string, s Status) (bool, error) {
	n, err := t.count(ctx, BatchIndex, expression.Key("BatchID").Equal(expression.Value(batch)).And(expression.Key("Status").Equal(expression.Value(s))), 1)
	if err != nil {
		return false, fmt.Errorf("count the %s jobs of batch %s: %w", s, batch, err)
	}
	return n > 0, nil
}

// Count counts the jobs with a status, of all batches.
func (t *Jobs) Count(ctx context.Context, s Status) (int, error) {
	n, err := t.count(ctx, StatusIndex, expression.Key("Status").Equal(expression.Value(s)), math.MaxInt32)
	if err != nil {
		return 0, fmt.Errorf("count the %s jobs: %w", s, err)
	}
	return n, nil
}

// Oldest returns since when the job that has had a status longest has it; the zero time
// if there is none.
func (t *Jobs) Oldest(ctx context.Context, s Status) (time.Time, error) {
	e, err := expression.NewBuilder().WithKeyCondition(expression.Key("Status").Equal(expression.Value(s))).Build()
	if err != nil {
		return time.Time{}, err
	}
	answer, err := t.DB.Query(ctx, &dynamodb.QueryInput{
		TableName: aws.String(JobsTable), IndexName: aws.String(StatusIndex), Limit: aws.Int32(1),
		KeyConditionExpression: e.KeyCondition(), ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the oldest %s job: %w", s, err)
	}
	if len(answer.Items) == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(read(answer.Items[0]).StatusUpdatedAt), nil
}

// Cursor is where a count continues; nil is the beginning, and the end.
type Cursor map[string]types.AttributeValue

// CountSome counts jobs with a status, of all batches, up to 1 MB of them from a cursor.
func (t *Jobs) CountSome(ctx context.Context, s Status, from Cursor) (n int, next Cursor, err error) {
	n, next, err = t.countPage(ctx, StatusIndex, expression.Key("Status").Equal(expression.Value(s)), math.MaxInt32, from)
	if err != nil {
		return 0, from, fmt.Errorf("count the %s jobs: %w", s, err)
	}
	return n, next, nil
}

func (t *Jobs) count(ctx context.Context, index string, condition expression.KeyConditionBuilder, most int32) (sum int, err error) {
	for from := Cursor(nil); ; {
		n, next, err := t.countPage(ctx, index, condition, most, from)
		if err != nil {
			return 0, err
		}
		sum += n
		if from = next; from == nil || sum >= int(most) {
			return sum, nil
		}
	}
}

func (t *Jobs) countPage(ctx context.Context, index string, condition expression.KeyConditionBuilder, most int32, from Cursor) (int, Cursor, error) {
	of, err := expression.NewBuilder().WithKeyCondition(condition).Build()
	if err != nil {
		return 0, nil, err
	}
	in := &dynamodb.QueryInput{
		TableName: aws.String(JobsTable), IndexName: aws.String(index), Select: types.SelectCount, ExclusiveStartKey: from,
		KeyConditionExpression: of.KeyCondition(), ExpressionAttributeNames: of.Names(), ExpressionAttributeValues: of.Values(),
	}
	if most < math.MaxInt32 {
		in.Limit = aws.Int32(most)
	}
	answer, err := t.DB.Query(ctx, in)
	if err != nil {
		return 0, nil, err
	}
	return int(answer.Count), answer.LastEvaluatedKey, nil
}

func (t *Jobs) query(ctx context.Context, index string, condition expression.KeyConditionBuilder) iter.Seq2[*Job, error] {
	return func(yield func(*Job, error) bool) {
		e, err := expression.NewBuilder().WithKeyCondition(condition).Build()
		if err != nil {
			yield(nil, err)
			return
		}
		pages := dynamodb.NewQueryPaginator(t.DB, &dynamodb.QueryInput{
			TableName: aws.String(JobsTable), IndexName: aws.String(index),
			KeyConditionExpression: e.KeyCondition(), ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, fmt.Errorf("query jobs by %s: %w", index, err))
				return
			}
			for _, item := range page.Items {
				if !yield(read(item), nil) {
					return
				}
			}
		}
	}
}

// update changes a job if the condition holds, and returns the new job. If it does
// not hold, mine reports whether the stored job is the result of this very change,
// which was applied by an attempt whose reply was lost.
func (t *Jobs) update(ctx context.Context, verb, id string, mine func(*Job) bool, change expression.UpdateBuilder, condition expression.ConditionBuilder) (*Job, error) {
	e, err := expression.NewBuilder().WithUpdate(change).WithCondition(condition).Build()
	if err != nil {
		return nil, fmt.Errorf("%s job %s: %w", verb, id, err)
	}
	answer, err := t.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           aws.String(JobsTable),
		Key:                                 key("FileID", id),
		UpdateExpression:                    e.Update(),
		ConditionExpression:                 e.Condition(),
		ExpressionAttributeNames:            e.Names(),
		ExpressionAttributeValues:           e.Values(),
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if there, refused := refusal(err); refused {
		switch {
		case there == nil:
			return nil, fmt.Errorf("%s job %.80q: %w", verb, id, ErrUnknown)
		case mine != nil && mine(there):
			return there, nil
		}
		return there, fmt.Errorf("%s job %s, which is %s: %w", verb, id, there.Status, ErrLost)
	}
	if err != nil {
		return nil, fmt.Errorf("%s job %.80q: %w", verb, id, err)
	}
	return read(answer.Attributes), nil
}

// refusal reports whether a condition failed, and returns the stored item.
func refusal(err error) (*Job, bool) {
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return nil, false
	}
	if failed.Item == nil {
		return nil, true
	}
	return read(failed.Item), true
}

// read decodes a job. An invalid record gets the fields that are needed to end it,
// and Broken.
func read(item map[string]types.AttributeValue) *Job {
	j := new(Job)
	if err := attributevalue.UnmarshalMap(item, j); err == nil {
		return j
	} else {
		j = &Job{Broken: err}
	}
	for attribute, field := range map[string]any{"FileID": &j.FileID, "BatchID": &j.BatchID, "Status": &j.Status, "Claim": &j.Claim, "StatusUpdatedAt": &j.StatusUpdatedAt, "Tries": &j.Tries, "HeartbeatAt": &j.HeartbeatAt, "SentAt": &j.SentAt, "Entity": &j.Entity, "DownloadDate": &j.DownloadDate, "ErrorMessage": &j.ErrorMessage} {
		_ = attributevalue.Unmarshal(item[attribute], field) // stays empty
	}
	return j
}

func name(attribute string) expression.NameBuilder { return expression.Name(attribute) }

func key(attribute, value string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{attribute: &types.AttributeValueMemberS{Value: value}}
}
