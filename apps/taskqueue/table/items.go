package table

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// fields reads the attributes of an item of a table or of a stream, which have
// different types in the SDK.
type fields func(name string) string

func of(i item) fields {
	return func(name string) string {
		switch v := i[name].(type) {
		case *types.AttributeValueMemberS:
			return v.Value
		case *types.AttributeValueMemberN:
			return v.Value
		case *types.AttributeValueMemberBOOL:
			return strconv.FormatBool(v.Value)
		}
		return ""
	}
}

func (f fields) int(name string) int {
	n, _ := strconv.Atoi(f(name))
	return n
}

func (f fields) time(name string) time.Time {
	t, _ := time.Parse(task.TimeFormat, f(name))
	return t
}

// state returns the attributes of a task that events change. Absent attributes
// are not in the map.
func state(t *task.Task) item {
	i := item{"status": text(string(t.Status)), "updatedAt": text(task.Format(t.Updated)), "seq": number(t.Seq), "attempts": number(t.Attempts)}
	for name, s := range map[string]string{"workerId": t.Worker, "lastWorker": t.Last.Worker, "reason": t.Reason, "result": t.Result} {
		if s != "" {
			i[name] = text(s)
		}
	}
	for name, at := range map[string]time.Time{"runAt": t.RunAt, "until": t.Until} {
		if !at.IsZero() {
			i[name] = text(task.Format(at))
		}
	}
	if t.Last.Type != "" {
		i["last"] = text(string(t.Last.Type))
	}
	if t.Slot != 0 {
		i["slot"] = number(t.Slot)
	}
	if t.Expires != 0 {
		i["expiresAt"] = number(t.Expires)
	}
	for name, s := range indexKeys(t) {
		i[name] = text(s)
	}
	return i
}

// metaItem returns the item of a task.
func metaItem(t *task.Task) item {
	i := state(t)
	i["PK"], i["SK"] = text("TASK#"+t.ID), text("META")
	i["taskId"], i["queue"], i["type"] = text(t.ID), text(t.Queue), text(t.Type)
	i["createdAt"] = text(task.Format(t.Created))
	i["priority"], i["maxAttempts"], i["backoff"] = number(t.Priority), number(t.MaxAttempts), number(time.Duration(t.Backoff).Milliseconds())
	i["payload"], i["payloadHash"] = text(string(t.Payload)), text(t.PayloadHash)
	if t.Key != "" {
		i["key"] = text(t.Key)
	}
	return i
}

func readTask(f fields) task.Task {
	t := task.Task{
		ID: f("taskId"), Queue: f("queue"), Type: f("type"), Status: task.Status(f("status")), Priority: f.int("priority"),
		PayloadHash: f("payloadHash"), Created: f.time("createdAt"), Updated: f.time("updatedAt"), RunAt: f.time("runAt"), Until: f.time("until"),
		Worker: f("workerId"), Slot: f.int("slot"), Attempts: f.int("attempts"), MaxAttempts: f.int("maxAttempts"),
		Backoff: task.Duration(time.Duration(f.int("backoff")) * time.Millisecond), Seq: f.int("seq"), Reason: f("reason"), Result: f("result"),
		Key: f("key"), Expires: int64(f.int("expiresAt")),
		Last: task.Last{Type: task.EventType(f("last")), Worker: f("lastWorker")},
	}
	if p := f("payload"); p != "" {
		t.Payload = json.RawMessage(p)
	}
	return t
}

// eventItem returns the item of an event. It depends on the event alone, so that
// any server can write it again.
func (t *Table) eventItem(id string, e *task.Event) item {
	detail, err := json.Marshal(e.Detail)
	if err != nil { // it has only text, numbers, and times of this century
		panic(fmt.Sprintf("encode event %d of task %s: %v", e.Seq, id, err))
	}
	i := eventKey(id, e.Seq)
	i["taskId"], i["type"], i["at"], i["detail"] = text(id), text(string(e.Type)), text(task.Format(e.At)), text(string(detail))
	if t.Keep != 0 {
		at := e.At
		if e.RunAt.After(at) {
			at = e.RunAt
		}
		i["expiresAt"] = number(at.Add(t.Keep).Unix())
	}
	return i
}

func readEvent(f fields) (task.Event, error) {
	seq, err := strconv.Atoi(after(f("SK"), "EVENT#"))
	if err != nil {
		return task.Event{}, fmt.Errorf("task %s has an event with the sort key %q", f("taskId"), f("SK"))
	}
	e := task.Event{Seq: seq, Type: task.EventType(f("type")), At: f.time("at")}
	if err := json.Unmarshal([]byte(f("detail")), &e.Detail); err != nil {
		return e, fmt.Errorf("decode event %d of task %s: %w", seq, f("taskId"), err)
	}
	return e, nil
}

// Claim is a worker's claim of a task, as the table stores it.
type Claim struct {
	Worker, Task, Queue string
	Since               time.Time
	Seq, Slot           int
	Beat                int // counts heartbeats
	Lease               time.Duration

	nonce string // of the request that created it
	sk    string // its sort key, if it was read
}

// sort returns the sort key of a claim. It contains the number of the event, so once
// the task has an event of that number, the key is never used again, and deleting it
// again does no harm.
func (c *Claim) sort() string {
	if c.sk != "" {
		return c.sk
	}
	return "TASK#" + c.Task + "#" + task.Number(c.Seq)
}

func claimItem(c *Claim) item {
	i := claimKey(c)
	i["workerId"], i["taskId"], i["queue"] = text(c.Worker), text(c.Task), text(c.Queue)
	i["claimedAt"], i["seq"], i["beat"], i["lease"] = text(task.Format(c.Since)), number(c.Seq), number(c.Beat), number(c.Lease.Milliseconds())
	i["nonce"], i["ended"] = text(c.nonce), boolean(false)
	if c.Slot != 0 {
		i["slot"] = number(c.Slot)
	}
	return i
}

func readClaim(f fields) Claim {
	return Claim{
		Worker: f("workerId"), Task: f("taskId"), Queue: f("queue"), Since: f.time("claimedAt"),
		Seq: f.int("seq"), Slot: f.int("slot"), Beat: f.int("beat"), Lease: time.Duration(f.int("lease")) * time.Millisecond,
		nonce: f("nonce"), sk: f("SK"),
	}
}

// readClaimKey returns what the key of a claim says.
func readClaimKey(pk, sk string) Claim {
	c := Claim{Worker: after(pk, "WORKER#"), sk: sk}
	id, seq, _ := strings.Cut(after(sk, "TASK#"), "#")
	c.Task = id
	c.Seq, _ = strconv.Atoi(seq)
	return c
}

func queueItem(q *task.Queue) item {
	i := queueKey(q.Name)
	i["queue"], i["updatedAt"] = text(q.Name), text(task.Format(q.Updated))
	i["maxPending"], i["maxRunning"] = number(q.MaxPending), number(q.MaxRunning)
	i["paused"] = boolean(q.Paused)
	return i
}

func readQueue(f fields) task.Queue {
	return task.Queue{Name: f("queue"), MaxPending: f.int("maxPending"), MaxRunning: f.int("maxRunning"), Paused: f("paused") == "true", Updated: f.time("updatedAt")}
}
