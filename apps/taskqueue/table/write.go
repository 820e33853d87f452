package table

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
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

// Claiming is returned for a claim of a task that the same worker is claiming already:
// through another server, or by a request that failed between the claim and the task.
type Claiming struct {
	Claim Claim // the stored one
}

func (e *Claiming) Error() string {
	return fmt.Sprintf("worker %s has a claim of task %s that is not decided", e.Claim.Worker, e.Claim.Task)
}

const absent = "attribute_not_exists(PK)"

// Reserve stores which task a key belongs to, until a second. It returns Exists if
// the key belongs to another task and has not expired.
func (t *Table) Reserve(ctx context.Context, key, id, hash string, now time.Time, expires int64) error {
	i := idemKey(key)
	i["clientKey"], i["taskId"], i["contentHash"], i["expiresAt"] = text(key), text(id), text(hash), number(expires)
	_, err := t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: tableName(), Item: i,
		ConditionExpression:                 aws.String(absent + " OR expiresAt < :now"),
		ExpressionAttributeValues:           item{":now": number(now.Unix())},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if old, ok := refused(err); ok {
		f := of(old)
		if f("taskId") == id {
			return nil // this request, which the SDK has repeated
		}
		return &Exists{f("taskId"), f("contentHash")}
	}
	if err != nil {
		return fmt.Errorf("store key %q: %w", key, err)
	}
	return nil
}

// Create stores a new task. If a task with the id exists, it returns that.
func (t *Table) Create(ctx context.Context, now task.Task) (stored task.Task, created bool, err error) {
	if err := t.space(ctx); err != nil {
		return now, false, err
	}
	_, err = t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: tableName(), Item: metaItem(&now), ConditionExpression: aws.String(absent),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if old, ok := refused(err); ok {
		return readTask(of(old)), false, nil
	}
	if err != nil {
		return now, false, fmt.Errorf("store task %s: %w", now.ID, err)
	}
	e := now.LastEvent()
	t.writeEvent(now.ID, &e)
	return now, true, nil
}

// With is the change of a claim that an event causes.
type With struct {
	Take *Claim // the event creates this claim, and takes its slot if it has one
	Drop *Claim // the event ends this claim, and frees its slot if it has one

	// Still requires that there was no heartbeat since: the dropped claim's
	// beat must be unchanged.
	Still bool

	// Unread means that the task before was not read: its slot is what a worker
	// says, and is compared as well.
	Unread bool
}

// Append appends an event. The condition of one update of the task decides; the
// writes before and after it can be separated from it by a crash:
//
//   - The event before is in the table before the task forgets it (settle).
//   - A claim and its slot are stored before the task, so that no task is in
//     PROCESSING without a claim that expires. If the task is not updated, they are
//     deleted, or expire.
//   - The event's own item follows, then the deletion of the claim that has ended.
//     Until then the task contains the event, and the server that finds the claim ends it.
//
// Unknown fields of the task before may be zero, except id, queue, status and seq;
// the worker is compared if it is set.
func (t *Table) Append(ctx context.Context, before task.Task, e task.Event, with With) (task.Task, error) {
	now, err := before.After(e)
	if err != nil {
		return before, err
	}
	if err := t.space(ctx); err != nil {
		return before, err
	}
	if err := t.settle(ctx, &before); err != nil {
		return before, err
	}
	if with.Still {
		if err := t.endBeats(ctx, with.Drop); err != nil {
			return before, err
		}
	}
	if with.Take != nil {
		if err := t.intend(ctx, with.Take); err != nil {
			return before, err
		}
	}
	if err := t.update(ctx, &before, &now, &e, with.Unread); err != nil {
		var moved *Moved
		if errors.As(err, &moved) && with.Take != nil {
			return before, errors.Join(err, t.drop(ctx, with.Take))
		}
		return before, err
	}
	t.writeEvent(before.ID, &e, t.dropAfter(ctx, with.Drop)...)
	return now, nil
}

// settle makes sure that the last event of a task is in the table. Usually this
// server has written it or has read it from the stream.
func (t *Table) settle(ctx context.Context, before *task.Task) error {
	if t.durable.has(before.ID, before.Seq) {
		return nil
	}
	if w := t.events.find(eventName(before.ID, before.Seq)); w != nil {
		return w.wait(ctx)
	}
	// Another server has just written the task, so it writes the event as well.
	if time.Since(before.Updated) < time.Second && t.durable.wait(ctx, before.ID, before.Seq, settleWait) {
		return nil
	}
	now, ok, err := t.Get(ctx, before.ID)
	switch {
	case err != nil:
		return err
	case !ok:
		return new(Moved)
	case now.Seq != before.Seq:
		return &Moved{&now}
	}
	return t.repair(ctx, &now)
}

// settleWait is how long a server waits for the event that another server writes.
const settleWait = 100 * time.Millisecond

// repair stores the last event of a task, unless it is in the table. It does not
// overwrite: if a server of an earlier version, which stores events together with their
// tasks, has continued the task, Last is not of the last event.
func (t *Table) repair(ctx context.Context, now *task.Task) error {
	e := now.LastEvent()
	if e.Type == "" || t.durable.has(now.ID, now.Seq) { // without a type it was stored by an earlier version
		return nil
	}
	if w := t.events.find(eventName(now.ID, now.Seq)); w != nil {
		return w.wait(ctx)
	}
	_, err := t.DB.PutItem(ctx, &dynamodb.PutItemInput{TableName: tableName(), Item: t.eventItem(now.ID, &e), ConditionExpression: aws.String(absent)})
	if _, exists := refused(err); err != nil && !exists {
		return fmt.Errorf("store event %d of task %s: %w", e.Seq, now.ID, err)
	}
	t.durable.mark(now.ID, now.Seq)
	return nil
}

// intend stores a claim and takes its slot before the task is updated.
func (t *Table) intend(ctx context.Context, c *Claim) error {
	c.nonce = rand.Text()
	_, err := t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: tableName(), Item: claimItem(c), ConditionExpression: aws.String(absent),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if old, ok := refused(err); ok {
		if of(old)("nonce") != c.nonce { // not this request, repeated by the SDK
			return t.claiming(ctx, readClaim(of(old)))
		}
	} else if err != nil {
		return fmt.Errorf("store the claim of %s on task %s: %w", c.Worker, c.Task, err)
	}
	if c.Slot == 0 {
		return nil
	}
	i := slotKey(c.Queue, c.Slot)
	i["queue"], i["taskId"], i["workerId"], i["seq"] = text(c.Queue), text(c.Task), text(c.Worker), number(c.Seq)
	_, err = t.DB.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: tableName(), Item: i, ConditionExpression: aws.String(absent),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if old, ok := refused(err); ok {
		if f := of(old); f("taskId") == c.Task && f("workerId") == c.Worker && f.int("seq") == c.Seq {
			return nil // this request, repeated by the SDK
		}
		if err := t.withdraw(ctx, c); err != nil {
			return err
		}
		return ErrSlotTaken
	}
	if err != nil {
		return fmt.Errorf("take slot %d of queue %s: %w", c.Slot, c.Queue, err)
	}
	return nil
}

// withdraw deletes a claim whose task has not moved on. The worker may claim the task
// under the same key again, so the nonce is compared: a deletion that arrives a second
// time must not delete that claim.
func (t *Table) withdraw(ctx context.Context, c *Claim) error {
	_, err := t.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: tableName(), Key: claimKey(c), ConditionExpression: aws.String("nonce = :nonce"),
		ExpressionAttributeValues: item{":nonce": text(c.nonce)},
	})
	if _, ok := refused(err); err != nil && !ok {
		return fmt.Errorf("delete the claim of %s on task %s: %w", c.Worker, c.Task, err)
	}
	return nil
}

// claiming returns Moved if the task has moved on since a claim was stored, and else
// Claiming.
func (t *Table) claiming(ctx context.Context, c Claim) error {
	now, ok, err := t.Get(ctx, c.Task)
	switch {
	case err != nil:
		return err
	case !ok:
		return new(Moved)
	case now.Seq >= c.Seq:
		return &Moved{&now}
	}
	return &Claiming{c}
}

// drop frees the slot of a claim and then deletes the claim, later.
func (t *Table) drop(ctx context.Context, c *Claim) error {
	if err := t.free(ctx, c); err != nil {
		return err
	}
	t.deleteClaim(c)
	return nil
}

// free frees the slot of a claim, if it has one.
func (t *Table) free(ctx context.Context, c *Claim) error {
	if c.Slot == 0 {
		return nil
	}
	_, err := t.DB.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: tableName(), Key: slotKey(c.Queue, c.Slot),
		ConditionExpression:       aws.String("taskId = :id AND workerId = :worker AND seq = :seq"),
		ExpressionAttributeValues: item{":id": text(c.Task), ":worker": text(c.Worker), ":seq": number(c.Seq)},
	})
	if _, ok := refused(err); err != nil && !ok {
		return fmt.Errorf("free slot %d of queue %s: %w", c.Slot, c.Queue, err)
	}
	return nil
}

// FreeOrphan frees a slot whose claim does not exist or has another slot, and reports
// whether the slot is free. A claim is stored before its slot, and deleted when its task
// can no longer be updated for it, so nothing will use this slot: its write was late.
func (t *Table) FreeOrphan(ctx context.Context, slot Claim) (bool, error) {
	c, ok, err := t.ClaimOf(ctx, slot)
	if err != nil || ok && c.Slot == slot.Slot {
		return false, err
	}
	return true, t.free(ctx, &slot)
}

// dropAfter frees the slot of a claim that has ended, and returns the function that
// deletes the claim, which is called when the event is durable. If the slot cannot be
// freed, the claim stays until it expires, and the slot with it.
func (t *Table) dropAfter(ctx context.Context, c *Claim) []func() {
	if c == nil {
		return nil
	}
	if err := t.free(ctx, c); err != nil {
		t.failed(err)
		return nil
	}
	return []func(){func() { t.deleteClaim(c) }}
}

// Drop ends a claim whose task has moved on, or whose task was never updated. In the
// second case the task first gets an event, so that a late update for this claim fails.
func (t *Table) Drop(ctx context.Context, c Claim, at time.Time) error {
	now, ok, err := t.Get(ctx, c.Task)
	switch {
	case err != nil:
		return err
	case ok && now.Seq < c.Seq:
		e := task.Event{Seq: now.Seq + 1, Type: task.Expired, At: at, Detail: task.Detail{Worker: c.Worker, Reason: "the server ended while worker " + c.Worker + " claimed it"}}
		var moved *Moved
		if _, err := t.Append(ctx, now, e, With{}); errors.As(err, &moved) {
			return ErrClaimGone // the task has changed; its claims are examined again
		} else if err != nil {
			return err
		}
	case ok && now.Seq == c.Seq && now.Status == task.Processing && now.Worker == c.Worker:
		return fmt.Errorf("the claim of %s on task %s has not ended", c.Worker, c.Task)
	case ok:
		if err := t.repair(ctx, &now); err != nil { // the crash that left the claim may have lost the event
			return err
		}
	}
	return t.drop(ctx, &c)
}

// endBeats ends the heartbeats of a claim, if there was none since.
func (t *Table) endBeats(ctx context.Context, c *Claim) error {
	_, err := t.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: tableName(), Key: claimKey(c), UpdateExpression: aws.String("SET ended = :true"),
		ConditionExpression:       aws.String("seq = :seq AND beat = :beat"),
		ExpressionAttributeValues: item{":true": boolean(true), ":seq": number(c.Seq), ":beat": number(c.Beat)},
	})
	if _, ok := refused(err); ok {
		return ErrClaimGone
	}
	if err != nil {
		return fmt.Errorf("end the claim of %s on task %s: %w", c.Worker, c.Task, err)
	}
	return nil
}

// refused returns the item that failed a condition.
func refused(err error) (old item, ok bool) {
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return failed.Item, true
	}
	return nil, false
}

// update changes a task from before to after, if it is unchanged.
func (t *Table) update(ctx context.Context, before, after *task.Task, e *task.Event, unread bool) error {
	_, err := t.DB.UpdateItem(ctx, updateOf(before, after, unread))
	old, ok := refused(err)
	switch {
	case !ok && err != nil:
		return fmt.Errorf("append %s to task %s: %w", e.Type, before.ID, err)
	case !ok:
		return nil
	case old == nil:
		return new(Moved)
	}
	found := readTask(of(old))
	if found.Seq == e.Seq && reflect.DeepEqual(found.LastEvent(), *e) {
		return nil // this request, repeated by the SDK; a claim belongs to one request alone
	}
	return &Moved{&found}
}

// updateOf sets the attributes that differ between before and after, on the
// condition that the task is unchanged.
func updateOf(before, after *task.Task, unread bool) *dynamodb.UpdateItemInput {
	names, values := map[string]string{"#status": "status"}, item{":was": number(before.Seq), ":from": text(string(before.Status)), ":queue": text(before.Queue)}
	condition := "seq = :was AND #status = :from AND #queue = :queue"
	names["#queue"] = "queue"
	if before.Worker != "" {
		condition += " AND workerId = :worker"
		values[":worker"] = text(before.Worker)
	}
	if unread { // only tasks of queues with a limit have a slot
		condition += " AND (attribute_not_exists(slot) OR slot = :slot)"
		values[":slot"] = number(before.Slot)
	}
	was, is := state(before), state(after)
	delete(was, "last") // not known of every task
	delete(was, "updatedAt")
	var set, remove []string
	for name, v := range is {
		if w, ok := was[name]; !ok || !same(v, w) {
			names["#"+name], values[":"+name] = name, v
			set = append(set, "#"+name+" = :"+name)
		}
	}
	if before.Status != task.Processing { // not known of every task, and claims remove it
		was["lastWorker"] = nil
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
	return &dynamodb.UpdateItemInput{
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

// Beat counts a heartbeat. It returns false if the claim no longer exists or has
// expired.
func (t *Table) Beat(ctx context.Context, worker, id string, seq int) (bool, error) {
	c := Claim{Worker: worker, Task: id, Seq: seq}
	ok, err := t.beat(ctx, &c)
	if err != nil || ok {
		return ok, err
	}
	c.sk = "TASK#" + id // of an earlier version
	return t.beat(ctx, &c)
}

func (t *Table) beat(ctx context.Context, c *Claim) (bool, error) {
	_, err := t.DB.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: tableName(), Key: claimKey(c), UpdateExpression: aws.String("ADD beat :one"),
		ConditionExpression:       aws.String("seq = :seq AND (attribute_not_exists(ended) OR ended = :false)"),
		ExpressionAttributeValues: item{":one": number(1), ":seq": number(c.Seq), ":false": boolean(false)},
	})
	if _, ok := refused(err); ok {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("extend the claim of %s on task %s: %w", c.Worker, c.Task, err)
	}
	return true, nil
}
