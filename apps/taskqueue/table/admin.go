package table

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// NoteWorker stores that a worker was seen. The item does not expire: servers find the
// claims of a worker by it, and delete it when there are none.
func (t *Table) NoteWorker(ctx context.Context, worker string, now time.Time) error {
	i := workerKey(worker)
	i["workerId"], i["seenAt"] = text(worker), text(task.Format(now))
	if _, err := t.DB.PutItem(ctx, &dynamodb.PutItemInput{TableName: tableName(), Item: i}); err != nil {
		return fmt.Errorf("store worker %s: %w", worker, err)
	}
	return nil
}

// ForgetWorker deletes a worker, unless it was seen since.
func (t *Table) ForgetWorker(ctx context.Context, w task.Worker) error {
	_, err := t.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: tableName(), Key: workerKey(w.ID),
		ConditionExpression: aws.String("seenAt = :seen"), ExpressionAttributeValues: item{":seen": text(task.Format(w.Seen))},
	})
	var seen *types.ConditionalCheckFailedException
	if err != nil && !errors.As(err, &seen) {
		return fmt.Errorf("delete worker %s: %w", w.ID, err)
	}
	return nil
}

// PutQueue stores a queue's limits. With create it does so only if the queue does
// not exist.
func (t *Table) PutQueue(ctx context.Context, q task.Queue, create bool) error {
	in := &dynamodb.PutItemInput{TableName: tableName(), Item: queueItem(&q)}
	if create {
		in.ConditionExpression = aws.String("attribute_not_exists(PK)")
	}
	_, err := t.DB.PutItem(ctx, in)
	var there *types.ConditionalCheckFailedException
	if err != nil && !errors.As(err, &there) {
		return fmt.Errorf("store queue %s: %w", q.Name, err)
	}
	return nil
}

// KeepEvents extends the expiry of the events of a task.
func (t *Table) KeepEvents(ctx context.Context, of task.Task, expires int64) error {
	if err := t.settle(ctx, &of); err != nil {
		return err
	}
	events, err := t.History(ctx, of.ID)
	if err != nil {
		return err
	}
	for _, e := range events {
		_, err := t.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: tableName(), Key: eventKey(of.ID, e.Seq),
			UpdateExpression: aws.String("SET expiresAt = :e"), ConditionExpression: aws.String("attribute_exists(PK)"),
			ExpressionAttributeValues: item{":e": number(expires)},
		})
		if err != nil {
			return fmt.Errorf("keep event %d of task %s: %w", e.Seq, of.ID, err)
		}
	}
	return nil
}
