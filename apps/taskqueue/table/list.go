package table

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// listQueries is the number of concurrent queries of a list or a count.
const listQueries = 8

// shards calls a function for each shard of each queue, several at a time.
func shards(ctx context.Context, queues []string, do func(ctx context.Context, queue, shard string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listQueries)
	for _, q := range queues {
		for n := range Shards {
			group.Go(func() error { return do(ctx, q, strconv.Itoa(n)) })
		}
	}
	return group.Wait()
}

// List reads the ids of up to limit tasks of some queues with a status, newest
// first, from all shards of the index. before is where the previous page ended,
// and next where this one does, or "" on the last page.
func (t *Table) List(ctx context.Context, queues []string, s task.Status, before string, limit int) (ids []string, next string, err error) {
	var mutex sync.Mutex
	var places []string // of the newest tasks so far
	err = shards(ctx, queues, func(ctx context.Context, queue, shard string) error {
		in := &dynamodb.QueryInput{
			TableName: tableName(), IndexName: aws.String("GSI1"),
			KeyConditionExpression: aws.String(byCreation), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(int32(limit + 1)),
			ExpressionAttributeValues: item{":pk": text(statusPartition(s, queue, shard)), ":created": text("CREATED#")},
			ProjectionExpression:      aws.String("GSI1SK"),
		}
		if before != "" { // BETWEEN includes the task itself, which is left out
			in.KeyConditionExpression, in.Limit = aws.String("GSI1PK = :pk AND GSI1SK BETWEEN :created AND :before"), aws.Int32(int32(limit+2))
			in.ExpressionAttributeValues[":before"] = text("CREATED#" + before)
		}
		out, err := t.DB.Query(ctx, in)
		if err != nil {
			return fmt.Errorf("list the tasks of %s that are %s: %w", queue, s, err)
		}
		mutex.Lock()
		defer mutex.Unlock()
		for _, e := range out.Items {
			if p := after(of(e)("GSI1SK"), "CREATED#"); p != before {
				places = append(places, p)
			}
		}
		sort.Sort(sort.Reverse(sort.StringSlice(places)))
		places = places[:min(len(places), limit+1)]
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if len(places) > limit {
		places = places[:limit]
		next = places[limit-1]
	}
	for _, p := range places {
		ids = append(ids, p[strings.LastIndex(p, "#")+1:])
	}
	return ids, next, nil
}

// Place returns where a task is in a list: the parameter before of List for the
// tasks that follow it.
func Place(t *task.Task) string { return after(createdSort(task.Format(t.Created), t.ID), "CREATED#") }

// Count counts the tasks of a queue with a status in the index. It stops after most
// tasks, and more is then true. It reads as many units as a list of these tasks.
func (t *Table) Count(ctx context.Context, queue string, s task.Status, most int) (n int, more bool, err error) {
	var mutex sync.Mutex
	each := (most + Shards - 1) / Shards // tasks are spread evenly over the shards
	err = shards(ctx, []string{queue}, func(ctx context.Context, queue, shard string) error {
		in := &dynamodb.QueryInput{
			TableName: tableName(), IndexName: aws.String("GSI1"), ProjectionExpression: aws.String("GSI1SK"),
			KeyConditionExpression: aws.String(byCreation), ExpressionAttributeValues: item{":pk": text(statusPartition(s, queue, shard)), ":created": text("CREATED#")},
		}
		left := each + 1 // a query that stops at its limit does not say whether more tasks follow
		for {
			in.Limit = aws.Int32(int32(left))
			out, err := t.DB.Query(ctx, in)
			if err != nil {
				return fmt.Errorf("count the tasks of %s that are %s: %w", queue, s, err)
			}
			left -= int(out.Count)
			in.ExclusiveStartKey = out.LastEvaluatedKey
			if in.ExclusiveStartKey == nil || left == 0 {
				break
			}
		}
		mutex.Lock()
		defer mutex.Unlock()
		n += min(each, each+1-left)
		more = more || left == 0
		return nil
	})
	return n, more, err
}

// listed are the attributes of a task in a list: all but the payload, which may be
// large. Most of their names are reserved words.
var listed = []string{
	"taskId", "queue", "type", "status", "priority", "payloadHash", "createdAt", "updatedAt", "runAt", "until", "workerId", "slot",
	"attempts", "maxAttempts", "backoff", "seq", "reason", "result", "key", "expiresAt", "last", "lastWorker",
}

// maxBatchGet is the maximum number of keys of a BatchGetItem.
const maxBatchGet = 100

// Tasks reads tasks without their payloads, in the order of the ids. Tasks that do
// not exist are left out.
func (t *Table) Tasks(ctx context.Context, ids []string) ([]task.Task, error) {
	found := make(map[string]task.Task, len(ids))
	var mutex sync.Mutex
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(listQueries)
	for rest := ids; len(rest) > 0; {
		n := min(len(rest), maxBatchGet)
		part := rest[:n]
		rest = rest[n:]
		group.Go(func() error {
			return t.batch(inner, part, func(x task.Task) {
				mutex.Lock()
				defer mutex.Unlock()
				found[x.ID] = x
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	tasks := make([]task.Task, 0, len(found))
	for _, id := range ids {
		if x, ok := found[id]; ok {
			tasks = append(tasks, x)
		}
	}
	return tasks, nil
}

// batch reads up to maxBatchGet tasks. The server leaves keys unprocessed when the
// reply is too large or when it throttles.
func (t *Table) batch(ctx context.Context, ids []string, found func(task.Task)) error {
	want := types.KeysAndAttributes{ExpressionAttributeNames: make(map[string]string, len(listed))}
	names := make([]string, len(listed))
	for i, name := range listed {
		names[i] = "#" + name
		want.ExpressionAttributeNames[names[i]] = name
	}
	want.ProjectionExpression = aws.String(strings.Join(names, ", "))
	for _, id := range ids {
		want.Keys = append(want.Keys, metaKey(id))
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		out, err := t.DB.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{Name: want}})
		if err != nil {
			return fmt.Errorf("read %d tasks: %w", len(want.Keys), err)
		}
		for _, i := range out.Responses[Name] {
			found(readTask(of(i)))
		}
		rest := out.UnprocessedKeys[Name].Keys
		if len(rest) == 0 {
			return nil
		}
		if len(rest) == len(want.Keys) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
		want.Keys = rest
	}
}
