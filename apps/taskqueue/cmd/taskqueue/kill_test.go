package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

var kills = flag.Int("kills", 12, "how often TestKill kills: two of three times a worker, else the server with the database in it, the other server, or both")

// submitTwice submits a task with a key, and sometimes again to the other server,
// which must return the same task.
func submitTwice(ctx context.Context, first, second *client.Client) (task.Task, error) {
	in := task.Submission{Type: "t", Key: fmt.Sprintf("key-%x", rand.Uint64()), MaxAttempts: 100, Backoff: task.Duration(50 * time.Millisecond)}
	t, err := first.Submit(ctx, "q", in)
	if err != nil || rand.IntN(4) > 0 {
		return t, err
	}
	again, err := second.Submit(ctx, "q", in)
	if err == nil && again.ID != t.ID {
		err = fmt.Errorf("key %s has the tasks %s and %s", in.Key, t.ID, again.ID)
	}
	return t, err
}

// nothingLeft waits until no claim is left, which takes a lease after a crash. Then
// every event of every task must have its item: a crash that loses the last event of a
// task leaves its claim, and the server that ends the claim writes the event.
func nothingLeft(t *testing.T, url string, workers int, ids []string) {
	t.Helper()
	db := hometest.Examine(dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String(url), Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")}))
	count := func(partition, prefix string) (n int) {
		out, err := db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: aws.String(table.Name), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("PK = :pk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: partition}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range out.Items {
			if sk, ok := i["SK"].(*types.AttributeValueMemberS); ok && strings.HasPrefix(sk.Value, prefix) {
				n++
			}
		}
		return n
	}
	for n := range workers {
		partition := fmt.Sprint("WORKER#w", n)
		for until := time.Now().Add(30 * time.Second); count(partition, "TASK#") > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d claims of worker w%d are left", count(partition, "TASK#"), n)
			}
		}
	}
	reader := &table.Table{DB: db}
	for _, id := range ids {
		now, ok, err := reader.Get(t.Context(), id)
		if err != nil || !ok {
			t.Fatalf("task %s: found %v, %v", id, ok, err)
		}
		if n := count("TASK#"+id, "EVENT#"); n != now.Seq {
			t.Errorf("task %s has %d events and is at %d", id, n, now.Seq)
		}
	}
}
