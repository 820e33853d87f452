package table

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Get reads a task; ok is false if it does not exist.
func (t *Table) Get(ctx context.Context, id string) (found task.Task, ok bool, err error) {
	out, err := t.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: tableName(), Key: metaKey(id), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return task.Task{}, false, fmt.Errorf("read task %s: %w", id, err)
	}
	if out.Item == nil {
		return task.Task{}, false, nil
	}
	return readTask(of(out.Item)), true, nil
}

// WasStored reports whether a task that does not exist has existed. Its first event is
// stored before its second step, and kept for longer than the task.
func (t *Table) WasStored(ctx context.Context, id string) (bool, error) {
	out, err := t.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: tableName(), Key: eventKey(id, 1), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return false, fmt.Errorf("read the first event of task %s: %w", id, err)
	}
	return out.Item != nil, nil
}

// History reads the events of a task, oldest first. The last one may be in the task
// alone: then its item is written, later.
func (t *Table) History(ctx context.Context, id string) ([]task.Event, error) {
	// The task first: events that the query finds and the task does not know yet
	// are complete, since each is written before the one after the next.
	now, ok, err := t.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	var events []task.Event
	for i, err := range t.query(ctx, "TASK#"+id, "EVENT#") {
		if err != nil {
			return nil, fmt.Errorf("read the history of task %s: %w", id, err)
		}
		e, err := readEvent(of(i))
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	known := 0
	if len(events) > 0 {
		known = events[len(events)-1].Seq
	}
	if last := now.LastEvent(); ok && last.Type != "" && known == now.Seq-1 {
		events = append(events, last)
		if t.events.full(t.backlog()) == nil {
			t.writeEvent(id, &last)
		}
	}
	return events, nil
}

// ClaimOf reads a claim again; ok is false if it does not exist.
func (t *Table) ClaimOf(ctx context.Context, old Claim) (c Claim, ok bool, err error) {
	worker, id := old.Worker, old.Task
	out, err := t.DB.GetItem(ctx, &dynamodb.GetItemInput{TableName: tableName(), Key: claimKey(&old), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return Claim{}, false, fmt.Errorf("read the claim of %s on task %s: %w", worker, id, err)
	}
	if out.Item == nil {
		return Claim{}, false, nil
	}
	return readClaim(of(out.Item)), true, nil
}

// Same reports whether two claims were stored by the same request.
func (c *Claim) Same(other *Claim) bool { return c.nonce == other.nonce }

// Claims returns the claims of a worker.
func (t *Table) Claims(ctx context.Context, worker string) iter.Seq2[Claim, error] {
	return each(t.query(ctx, "WORKER#"+worker, "TASK#"), readClaim)
}

// Workers returns the workers that servers have seen lately.
func (t *Table) Workers(ctx context.Context) iter.Seq2[task.Worker, error] {
	return each(t.query(ctx, "WORKERS", "WORKER#"), func(f fields) task.Worker { return task.Worker{ID: f("workerId"), Seen: f.time("seenAt")} })
}

// Queues returns all queues.
func (t *Table) Queues(ctx context.Context) iter.Seq2[task.Queue, error] {
	return each(t.query(ctx, "QUEUES", "QUEUE#"), readQueue)
}

// Slots returns the taken slots of a queue, each as the claim that took it, with the
// attributes that identify that.
func (t *Table) Slots(ctx context.Context, queue string) iter.Seq2[Claim, error] {
	return each(t.query(ctx, "QUEUE#"+queue, "SLOT#"), func(f fields) Claim {
		n, _ := strconv.Atoi(after(f("SK"), "SLOT#"))
		return Claim{Worker: f("workerId"), Task: f("taskId"), Queue: queue, Seq: f.int("seq"), Slot: n}
	})
}

// Oldest reads the tasks of a queue with a status, shard by shard, each oldest
// first, with the attributes that the index projects.
func (t *Table) Oldest(ctx context.Context, queue string, s task.Status, shard int) iter.Seq2[task.Task, error] {
	return each(t.pages(ctx, &dynamodb.QueryInput{
		TableName: tableName(), IndexName: aws.String("GSI1"), KeyConditionExpression: aws.String(byCreation),
		ExpressionAttributeValues: item{":pk": text(statusPartition(s, queue, strconv.Itoa(shard))), ":created": text("CREATED#")},
		ProjectionExpression:      aws.String("taskId, #queue, #type, #status, createdAt, priority, attempts, seq"),
		ExpressionAttributeNames:  map[string]string{"#queue": "queue", "#type": "type", "#status": "status"},
	}), readTask)
}

// byCreation is the key condition of the tasks with a status.
const byCreation = "GSI1PK = :pk AND begins_with(GSI1SK, :created)"

// Due reads the delayed tasks of a queue that are due by a time, shard by shard,
// each in the order of their times.
func (t *Table) Due(ctx context.Context, queue string, until time.Time, shard int) iter.Seq2[task.Task, error] {
	return each(t.pages(ctx, &dynamodb.QueryInput{
		TableName: tableName(), IndexName: aws.String("GSI2"), KeyConditionExpression: aws.String("GSI2PK = :pk AND GSI2SK BETWEEN :first AND :until"),
		ExpressionAttributeValues: item{":pk": text(duePartition(queue, strconv.Itoa(shard))), ":first": text("RUNAT#"), ":until": text(dueSort(task.Format(until), "~"))},
		ProjectionExpression:      aws.String("taskId, #queue, runAt, seq"),
		ExpressionAttributeNames:  map[string]string{"#queue": "queue"},
	}), func(f fields) task.Task {
		t := readTask(f)
		t.Status = task.Delayed
		return t
	})
}

func (t *Table) query(ctx context.Context, partition, prefix string) iter.Seq2[item, error] {
	return t.pages(ctx, &dynamodb.QueryInput{
		TableName: tableName(), KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :sk)"), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: item{":pk": text(partition), ":sk": text(prefix)},
	})
}

// pages reads all pages of a query, as far as the caller iterates.
func (t *Table) pages(ctx context.Context, in *dynamodb.QueryInput) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for {
			out, err := t.DB.Query(ctx, in)
			if err != nil {
				yield(nil, fmt.Errorf("query table %s: %w", Name, err))
				return
			}
			for _, i := range out.Items {
				if !yield(i, nil) {
					return
				}
			}
			if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
				return
			}
		}
	}
}

// each decodes items.
func each[T any](items iter.Seq2[item, error], read func(fields) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i, err := range items {
			var v T
			if err == nil {
				v = read(of(i))
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
