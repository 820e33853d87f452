package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/documents/keys"
)

// The kinds of jobs.
const (
	JobWork = "WORK" // a batch has documents in processing
	JobMake = "MAKE" // a large batch is being created; when the job is due, that was abandoned
	JobHide = "HIDE" // removes a failed batch from GSI2

	// JobDelete deletes what belongs to something that was deleted.
	JobDelete = "DELETE"

	// JobHook and JobMail report a finished batch to the webhook of its project and
	// to people.
	JobHook = "HOOK"
	JobMail = "MAIL"
)

// Job is work to be done for a batch at a time. A claim moves that time, so that
// the job is due again if its owner crashes.
type Job struct {
	Tenant   keys.Tenant     `dynamodbav:"tenantId"`
	Project  *keys.ProjectID `dynamodbav:"projectId,omitempty"` // of MAKE, HOOK and MAIL
	Batch    keys.BatchID    `dynamodbav:"batchId"`
	Kind     string          `dynamodbav:"kind"`
	Due      string          `dynamodbav:"dueAt"`
	Owner    string          `dynamodbav:"owner,omitempty"`
	Cleaning bool            `dynamodbav:"cleaning,omitempty"` // MAKE was abandoned

	Deletion *Deletion `dynamodbav:"deletion,omitempty"` // of DELETE

	// Of HOOK and MAIL: when the batch changed, and the attempts since.
	Changed  string `dynamodbav:"changedAt,omitempty"`
	Attempts int    `dynamodbav:"attempts,omitempty"`

	// Of MAIL: the users that need no further attempt.
	Mailed []string `dynamodbav:"mailed,stringset,omitempty"`
}

func (j Job) key() keys.Key { return j.Tenant.Job(j.Batch, j.Kind) }

// start returns the write that creates a job if it does not exist.
func (s *Store) start(b Batch, kind string, due time.Time) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.Table,
		Key:       b.Tenant.Job(b.ID, kind).Attributes(),
		UpdateExpression: aws.String("SET tenantId = :tenant, batchId = :batch, kind = :kind, dueAt = if_not_exists(dueAt, :due), " +
			"GSI3PK = if_not_exists(GSI3PK, :GSI3PK), GSI3SK = if_not_exists(GSI3SK, :GSI3SK)"),
		ExpressionAttributeValues: values(map[string]types.AttributeValue{
			":tenant": str(b.Tenant.String()), ":batch": str(b.ID.String()), ":kind": str(kind), ":due": str(keys.Time(due)),
		}, entryValues(keys.JobEntry(b.ID, due))),
	}}
}

// end returns the write that deletes a job.
func (s *Store) end(b Batch, kind string) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &s.Table, Key: b.Tenant.Job(b.ID, kind).Attributes()}}
}

// DueJobs returns some of the jobs of a shard that are due.
func (s *Store) DueJobs(ctx context.Context, shard int) ([]Job, error) {
	in := keys.JobsUntil(shard, s.Now()).Query(s.Table)
	in.Limit = aws.Int32(20)
	out, err := s.DB.Query(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("look for work: %w", err)
	}
	var found []Job
	if err := attributevalue.UnmarshalListOfMaps(out.Items, &found); err != nil {
		return nil, fmt.Errorf("decode a job: %w", err)
	}
	return found, nil
}

// Claim claims a job for an owner and a time, unless another process was faster.
// Claiming again restarts the time. A claim whose reply was lost is repeated by the SDK; the
// condition then fails, but the job is ours.
func (s *Store) Claim(ctx context.Context, j *Job, owner string, lease time.Duration) (bool, error) {
	due := s.Now().Add(lease)
	_, err := s.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &s.Table,
		Key:                      j.key().Attributes(),
		UpdateExpression:         aws.String("SET #owner = :owner, dueAt = :due, GSI3SK = :GSI3SK"),
		ConditionExpression:      aws.String("dueAt = :seen"),
		ExpressionAttributeNames: map[string]string{"#owner": "owner"},
		ExpressionAttributeValues: values(map[string]types.AttributeValue{
			":seen": str(j.Due), ":owner": str(owner), ":due": str(keys.Time(due)),
		}, sortValue(keys.JobEntry(j.Batch, due))),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		var there Job
		if failed.Item != nil {
			if err := read(failed.Item, &there); err != nil {
				return false, err
			}
		}
		if there.Owner != owner || there.Due != keys.Time(due) {
			return false, nil
		}
	} else if err != nil {
		return false, fmt.Errorf("claim a job: %w", err)
	}
	j.Owner, j.Due = owner, keys.Time(due)
	return true, nil
}

// Drop deletes a job that the owner has claimed.
func (s *Store) Drop(ctx context.Context, j Job) error {
	_, err := s.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                 &s.Table,
		Key:                       j.key().Attributes(),
		ConditionExpression:       aws.String("#owner = :owner"),
		ExpressionAttributeNames:  map[string]string{"#owner": "owner"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":owner": str(j.Owner)},
	})
	if err = moved(err); errors.Is(err, ErrMoved) {
		return nil
	}
	return err
}
