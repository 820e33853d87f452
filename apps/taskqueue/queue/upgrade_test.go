package queue

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

// earlier makes the claim of a task what a version with transactions stored: its key does not
// have the number of the event, and it cannot be marked as ended.
func (w *world) earlier(c task.Claim, worker string) {
	w.Helper()
	db, ctx := hometest.Examine(w.home.DB), context.Background()
	for _, i := range w.items("WORKER#" + worker) {
		_, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table.Name), Key: map[string]types.AttributeValue{"PK": i["PK"], "SK": i["SK"]}})
		w.good(err)
		i["SK"] = &types.AttributeValueMemberS{Value: "TASK#" + c.ID}
		delete(i, "ended")
		delete(i, "nonce")
		_, err = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table.Name), Item: i})
		w.good(err)
	}
	_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(table.Name), Key: key("TASK#"+c.ID, "META"), UpdateExpression: aws.String("REMOVE #last"),
		ExpressionAttributeNames: map[string]string{"#last": "last"},
	})
	w.good(err)
}

func key(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"PK": &types.AttributeValueMemberS{Value: pk}, "SK": &types.AttributeValueMemberS{Value: sk}}
}

// Servers of a version with transactions are replaced while a worker has a task. The
// worker goes on and completes it. A worker that has gone loses its task with its lease.
func TestUpgradeWithRunningTasks(t *testing.T) {
	for _, alive := range []bool{true, false} {
		inWorld(t, func(w *world) {
			s, stop := w.serverUntil(Options{})
			w.submit(s, "q", task.Submission{})
			c := w.claim(s, "q", "w")
			stop()
			w.earlier(c, "w")
			s = w.server(Options{})
			if alive {
				for range 5 {
					time.Sleep(span / 2)
					w.good(s.Heartbeat(w.Context(), c.ID, "w", c.Token))
				}
				w.good(s.Complete(w.Context(), c.ID, "w", c.Token, ""))
			} else {
				time.Sleep(span + time.Second)
				w.is(s, c.ID, task.Pending)
			}
			time.Sleep(span)
			w.refused(s.Heartbeat(w.Context(), c.ID, "w", c.Token), Conflict)
			if n := len(w.items("WORKER#w")); n != 0 {
				w.Errorf("%d claims are left", n)
			}
		})
	}
}

// A server of a version with transactions has continued a task of this version: the last event that
// the task contains is an earlier one. The history is not overwritten.
func TestEventOfAnEarlierVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		s, stop := w.serverUntil(Options{})
		in := w.submit(s, "q", task.Submission{})
		c := w.claim(s, "q", "w")
		stop()
		_, err := hometest.Examine(w.home.DB).UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
			TableName: aws.String(table.Name), Key: key("TASK#"+in.ID, "META"), UpdateExpression: aws.String("SET #last = :last"),
			ExpressionAttributeNames:  map[string]string{"#last": "last"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":last": &types.AttributeValueMemberS{Value: string(task.Submitted)}},
		})
		w.good(err)
		s = w.server(Options{})
		w.good(s.Complete(w.Context(), in.ID, "w", c.Token, ""))
		time.Sleep(time.Second)
		events, err := s.History(w.Context(), in.ID)
		w.good(err)
		if len(events) != 3 || events[1].Type != task.Claimed {
			w.Errorf("the history is %+v", events)
		}
	})
}
