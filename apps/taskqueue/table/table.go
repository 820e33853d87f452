// Package table stores tasks in one DynamoDB table: the keys of the items, the
// writes that change them, the queries that find them, and the stream.
package table

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/stator-db/stator/apps/taskqueue/task"
)

// Name is the table's name in the model.
const Name = "tasks"

// Shards is the number of partitions for each status of a queue in the indexes.
const Shards = 4

// Table is the table.
type Table struct {
	DB      *dynamodb.Client
	Streams *dynamodbstreams.Client

	// Keep is how long an event is kept after the time at which its task could run.
	// Zero keeps events for good.
	Keep time.Duration

	// Failed is called when a write that no reply waits for has failed. May be nil.
	Failed func(error)

	// Backlog is how many events, and how many deletions of claims, may be stored later than their tasks.
	// Zero means 10,000. Requests fail while there is no space.
	Backlog int

	events, claims later // writes that no reply waits for
	durable        durable
}

type (
	item  = map[string]types.AttributeValue
	value = types.AttributeValue
)

func text(s string) value  { return &types.AttributeValueMemberS{Value: s} }
func boolean(b bool) value { return &types.AttributeValueMemberBOOL{Value: b} }
func number[N int | int64](n N) value {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10)}
}

func key(pk, sk string) item { return item{"PK": text(pk), "SK": text(sk)} }

func metaKey(id string) item           { return key("TASK#"+id, "META") }
func idemKey(client string) item       { return key("IDEM#"+client, "IDEM") }
func claimKey(c *Claim) item           { return key("WORKER#"+c.Worker, c.sort()) }
func eventKey(id string, n int) item   { return key("TASK#"+id, "EVENT#"+task.Number(n)) }
func slotKey(queue string, n int) item { return key("QUEUE#"+queue, "SLOT#"+task.Number(n)) }
func workerKey(worker string) item     { return key("WORKERS", "WORKER#"+worker) }
func queueKey(queue string) item       { return key("QUEUES", "QUEUE#"+queue) }

func eventName(id string, n int) string { return id + " " + task.Number(n) }

func shard(id string) string {
	h := fnv.New32a()
	h.Write([]byte(id))
	return strconv.Itoa(int(h.Sum32() % Shards))
}

func statusPartition(s task.Status, queue, shard string) string {
	return "STATUS#" + string(s) + "#" + queue + "#" + shard
}

func createdSort(created, id string) string { return "CREATED#" + created + "#" + id }

func duePartition(queue, shard string) string { return "DELAYED#" + queue + "#" + shard }

func dueSort(runAt, id string) string { return "RUNAT#" + runAt + "#" + id }

// indexKeys returns the index keys of a task in its status; none for an index that
// the task is not in.
func indexKeys(t *task.Task) map[string]string {
	if t.Status == task.Processing {
		return nil
	}
	n := shard(t.ID)
	keys := map[string]string{
		"GSI1PK": statusPartition(t.Status, t.Queue, n),
		"GSI1SK": createdSort(task.Format(t.Created), t.ID),
	}
	if t.Status == task.Delayed {
		keys["GSI2PK"] = duePartition(t.Queue, n)
		keys["GSI2SK"] = dueSort(task.Format(t.RunAt), t.ID)
	}
	return keys
}

func tableName() *string { return aws.String(Name) }

func after(s, prefix string) string {
	rest, _ := strings.CutPrefix(s, prefix)
	return rest
}
