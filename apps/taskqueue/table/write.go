package table

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Exists is returned for a submission whose key was used before.
type Exists struct {
	TaskID, Hash string
}

func (e *Exists) Error() string { return "the key belongs to task " + e.TaskID }

// Moved is returned for an event that is no longer possible, because the task has
// changed. Now is the task's state, or nil if the task does not exist.
type Moved struct {
	Now *task.Task
}

func (m *Moved) Error() string {
	if m.Now == nil {
		return "the task does not exist"
	}
	return fmt.Sprintf("task %s is now %s", m.Now.ID, m.Now.Status)
}

// ErrSlotTaken is returned for a claim whose slot was taken by another claim, and
// ErrClaimGone when the claim to end has changed.
var (
	ErrSlotTaken = errors.New("the slot is taken")
	ErrClaimGone = errors.New("the claim has changed")
)

// Submit stores a new task with its first event and its key, atomically. The key
// expires at keyExpires, the event at eventsExpire.
func (t *Table) Submit(ctx context.Context, now task.Task, e task.Event, hash string, keyExpires, eventsExpire int64) error {
	event, err := eventItem(now.ID, &e, eventsExpire)
	if err != nil {
		return err
	}
	writes := []types.TransactWriteItem{
		{Put: &types.Put{TableName: tableName(), Item: metaItem(&now), ConditionExpression: aws.String("attribute_not_exists(PK)")}},
		{Put: &types.Put{TableName: tableName(), Item: event}},
	}
	if now.Key != "" {
		i := idemKey(now.Key)
		i["clientKey"], i["taskId"], i["contentHash"], i["expiresAt"] = text(now.Key), text(now.ID), text(hash), number(keyExpires)
		writes = append(writes, types.TransactWriteItem{Put: &types.Put{
			TableName: tableName(), Item: i,
			ConditionExpression:                 aws.String("attribute_not_exists(PK) OR expiresAt < :now"),
			ExpressionAttributeValues:           item{":now": number(e.At.Unix())},
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}})
	}
	reasons, err := t.transact(ctx, writes)
	if err != nil {
		return err
	}
	if len(reasons) == 3 && failed(reasons[2]) {
		f := of(reasons[2].Item)
		return &Exists{f("taskId"), f("contentHash")}
	}
	if reasons != nil {
		return fmt.Errorf("submit task %s: its id is in use", now.ID)
	}
	return nil
}

// With is the change of a claim that an event causes.
type With struct {
	Take *Claim // the event creates this claim, and takes its slot if it has one
	Drop *Claim // the event ends this claim, and frees its slot if it has one

	// Still requires that there was no heartbeat since: the dropped claim's
	// beat must be unchanged.
	Still bool
}

// Append appends an event: it updates the task, writes the event and creates or
// deletes the claim, atomically. Unknown fields of the task before may be zero,
// except id, queue, status and seq; the worker is compared if it is set.
func (t *Table) Append(ctx context.Context, before task.Task, e task.Event, expires int64, with With) (task.Task, error) {
	now, err := before.After(e)
	if err != nil {
		return before, err
	}
	event, err := eventItem(before.ID, &e, expires)
	if err != nil {
		return before, err
	}
	writes := []types.TransactWriteItem{
		{Update: update(&before, &now)},
		{Put: &types.Put{TableName: tableName(), Item: event}},
	}
	claim, slot := -1, -1
	if c := with.Take; c != nil {
		writes = append(writes, types.TransactWriteItem{Put: &types.Put{TableName: tableName(), Item: claimItem(c)}})
		if c.Slot != 0 {
			slot = len(writes)
			i := slotKey(c.Queue, c.Slot)
			i["queue"], i["taskId"] = text(c.Queue), text(c.Task)
			writes = append(writes, types.TransactWriteItem{Put: &types.Put{TableName: tableName(), Item: i, ConditionExpression: aws.String("attribute_not_exists(PK)")}})
		}
	}
	if c := with.Drop; c != nil {
		claim = len(writes)
		writes = append(writes, types.TransactWriteItem{Delete: dropped(c, with.Still)})
		if c.Slot != 0 {
			writes = append(writes, types.TransactWriteItem{Delete: &types.Delete{TableName: tableName(), Key: slotKey(c.Queue, c.Slot),
				ConditionExpression: aws.String("attribute_not_exists(PK) OR taskId = :id"), ExpressionAttributeValues: item{":id": text(c.Task)}}})
		}
	}
	reasons, err := t.transact(ctx, writes)
	switch {
	case err != nil:
		return before, err
	case reasons == nil:
		return now, nil
	case failed(reasons[0]):
		moved := new(Moved)
		if reasons[0].Item != nil {
			found := readTask(of(reasons[0].Item))
			moved.Now = &found
		}
		return before, moved
	case slot >= 0 && failed(reasons[slot]):
		return before, ErrSlotTaken
	case claim >= 0 && failed(reasons[claim]):
		return before, ErrClaimGone
	}
	return before, fmt.Errorf("the transaction that appends %s to task %s was refused", e.Type, before.ID)
}

func dropped(c *Claim, still bool) *types.Delete {
	d := &types.Delete{TableName: tableName(), Key: claimKey(c.Worker, c.Task)}
	if still {
		d.ConditionExpression = aws.String("seq = :seq AND beat = :beat")
		d.ExpressionAttributeValues = item{":seq": number(c.Seq), ":beat": number(c.Beat)}
	}
	return d
}

// update writes the attributes that differ between before and after, on the
// condition that the task is unchanged.
func update(before, after *task.Task) *types.Update {
	names, values := map[string]string{"#status": "status"}, item{":was": number(before.Seq), ":from": text(string(before.Status)), ":queue": text(before.Queue)}
	condition := "seq = :was AND #status = :from AND #queue = :queue"
	names["#queue"] = "queue"
	if before.Worker != "" {
		condition += " AND workerId = :worker"
		values[":worker"] = text(before.Worker)
	}
	was, is := state(before), state(after)
	var set, remove []string
	for name, v := range is {
		if w, ok := was[name]; !ok || !same(v, w) {
			names["#"+name], values[":"+name] = name, v
			set = append(set, "#"+name+" = :"+name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			names["#"+name] = name
			remove = append(remove, "#"+name)
		}
	}
	sort.Strings(set) // map order is random; the same kind of event always gives the same expression
	sort.Strings(remove)
	expression := "SET " + strings.Join(set, ", ")
	if remove != nil {
		expression += " REMOVE " + strings.Join(remove, ", ")
	}
	return &types.Update{
		TableName: tableName(), Key: metaKey(before.ID), UpdateExpression: &expression, ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

func same(a, b value) bool {
	switch a := a.(type) {
	case *types.AttributeValueMemberS:
		b, ok := b.(*types.AttributeValueMemberS)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberN:
		b, ok := b.(*types.AttributeValueMemberN)
		return ok && a.Value == b.Value
	}
	return false
}

// Beat counts a heartbeat. It returns false if the claim no longer exists.
func (t *Table) Beat(ctx context.Context, worker, id string, seq int) (bool, error) {
	_, err := t.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: tableName(), Key: claimKey(worker, id),
		UpdateExpression: aws.String("ADD beat :one"), ConditionExpression: aws.String("seq = :seq"),
		ExpressionAttributeValues: item{":one": number(1), ":seq": number(seq)},
	})
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("extend the claim of %s on task %s: %w", worker, id, err)
	}
	return true, nil
}

// NoteWorker stores that a worker was seen.
func (t *Table) NoteWorker(ctx context.Context, worker string, now time.Time) error {
	i := workerKey(worker)
	i["workerId"], i["seenAt"], i["expiresAt"] = text(worker), text(task.Format(now)), number(now.Add(2*task.MaxLease).Unix())
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
func (t *Table) KeepEvents(ctx context.Context, id string, events []task.Event, expires int64) error {
	for _, e := range events {
		_, err := t.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: tableName(), Key: key("TASK#"+id, "EVENT#"+task.Number(e.Seq)),
			UpdateExpression: aws.String("SET expiresAt = :e"), ConditionExpression: aws.String("attribute_exists(PK)"),
			ExpressionAttributeValues: item{":e": number(expires)},
		})
		if err != nil {
			return fmt.Errorf("keep event %d of task %s: %w", e.Seq, id, err)
		}
	}
	return nil
}
