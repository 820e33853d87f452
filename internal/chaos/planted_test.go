package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/internal/inject"
)

// program is a small client of DynamoDB. Each of its tasks can be done right, or with a bug that
// only shows when the service does what it may do, but seldom does.
type program struct {
	*dynamodb.Client
	ctx   context.Context
	url   string
	buggy bool
}

const numbers = "Numbers"

func newProgram(ctx context.Context, url string, buggy bool) (*program, error) {
	p := &program{ctx: ctx, url: url, buggy: buggy, Client: dynamodb.New(dynamodb.Options{
		BaseEndpoint: &url, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), HTTPClient: &http.Client{Transport: &http.Transport{}},
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
			o.RateLimiter = unlimited{}
		}),
	})}
	_, err := p.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String(numbers), BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(5)},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("n"), KeyType: types.KeyTypeRange}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}, {AttributeName: aws.String("n"), AttributeType: "N"}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly},
	})
	return p, err
}

// unlimited lets a client retry as often as it wants.
type unlimited struct{}

func (unlimited) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (unlimited) AddTokens(uint) error { return nil }

func numberKey(n int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "a"}, "n": &types.AttributeValueMemberN{Value: fmt.Sprint(n)}}
}

func number(it map[string]types.AttributeValue, name string) (n int) {
	if v, ok := it[name].(*types.AttributeValueMemberN); ok {
		fmt.Sscan(v.Value, &n)
	}
	return n
}

func (p *program) put(n int) error {
	_, err := p.PutItem(p.ctx, &dynamodb.PutItemInput{TableName: aws.String(numbers), Item: numberKey(n)})
	return err
}

// all reads the numbers page by page.
func (p *program) all() (ns []int, err error) {
	in := &dynamodb.QueryInput{TableName: aws.String(numbers), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("id = :a"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberS{Value: "a"}}}
	for {
		page, err := p.Query(p.ctx, in)
		if err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			ns = append(ns, number(it, "n"))
		}
		if in.ExclusiveStartKey = page.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			return ns, nil
		}
	}
}

func (p *program) count(want int) error {
	ns, err := p.all()
	if err == nil && len(ns) != want {
		err = fmt.Errorf("there are %d numbers, want %d", len(ns), want)
	}
	return err
}

// loadBatch writes ten numbers. The bug: it ignores UnprocessedItems.
func (p *program) loadBatch() error {
	left := make(map[string][]types.WriteRequest)
	for n := range 10 {
		left[numbers] = append(left[numbers], types.WriteRequest{PutRequest: &types.PutRequest{Item: numberKey(n)}})
	}
	for len(left) > 0 {
		out, err := p.BatchWriteItem(p.ctx, &dynamodb.BatchWriteItemInput{RequestItems: left})
		if err != nil {
			return err
		}
		if left = out.UnprocessedItems; p.buggy {
			break
		}
	}
	return p.count(10)
}

// increment adds 1 eight times. The bug: an update that is repeated after a lost answer adds again.
func (p *program) increment() error {
	const add = "ADD amount :one"
	one := map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}}
	for i := range 8 {
		if p.buggy {
			if _, err := p.UpdateItem(p.ctx, &dynamodb.UpdateItemInput{TableName: aws.String(numbers), Key: numberKey(1), UpdateExpression: aws.String(add), ExpressionAttributeValues: one}); err != nil {
				return err
			}
			continue
		}
		in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String(fmt.Sprint("increment ", i)), TransactItems: []types.TransactWriteItem{{Update: &types.Update{
			TableName: aws.String(numbers), Key: numberKey(1), UpdateExpression: aws.String(add), ExpressionAttributeValues: one}}}}
		var cancelled *types.TransactionCanceledException
		_, err := p.TransactWriteItems(p.ctx, in)
		for errors.As(err, &cancelled) {
			_, err = p.TransactWriteItems(p.ctx, in)
		}
		if err != nil {
			return err
		}
	}
	return p.total(8)
}

func (p *program) read(consistent bool) (map[string]types.AttributeValue, error) {
	out, err := p.GetItem(p.ctx, &dynamodb.GetItemInput{TableName: aws.String(numbers), Key: numberKey(1), ConsistentRead: &consistent})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

func (p *program) total(want int) error {
	it, err := p.read(true)
	if err == nil && number(it, "amount") != want {
		err = fmt.Errorf("the total is %d, want %d", number(it, "amount"), want)
	}
	return err
}

// spend reads a total, and writes one that is less. The bug: what it reads may be stale.
func (p *program) spend() error {
	for range 4 {
		it, err := p.read(!p.buggy)
		if err != nil {
			return err
		}
		item := numberKey(1)
		item["amount"] = &types.AttributeValueMemberN{Value: fmt.Sprint(number(it, "amount") - 10)}
		if _, err := p.PutItem(p.ctx, &dynamodb.PutItemInput{TableName: aws.String(numbers), Item: item}); err != nil {
			return err
		}
	}
	return p.total(-40)
}

// list reads ten numbers. The bug: it reads the first page only.
func (p *program) list() error {
	for n := range 10 {
		if err := p.put(n); err != nil {
			return err
		}
	}
	if !p.buggy {
		return p.count(10)
	}
	page, err := p.Query(p.ctx, &dynamodb.QueryInput{TableName: aws.String(numbers), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("id = :a"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberS{Value: "a"}}})
	if err == nil && len(page.Items) != 10 {
		err = fmt.Errorf("there are %d numbers, want 10", len(page.Items))
	}
	return err
}

// ask sends a request of DynamoDB Streams, again if the service has failed.
func (p *program) ask(operation string, in map[string]any, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		status, text, err := p.send(operation, body)
		switch {
		case err == nil && status == http.StatusOK:
			return json.Unmarshal(text, out)
		case (err != nil || status >= 500) && attempt < 3:
		default:
			return fmt.Errorf("%s is answered with %d %s, %w", operation, status, text, err)
		}
	}
}

func (p *program) send(operation string, body []byte) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(p.ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("X-Amz-Target", "DynamoDBStreams_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Date", "20261101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=b")
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	text, err = io.ReadAll(reply.Body)
	return reply.StatusCode, text, err
}

// shards returns the ids of the shards of the stream, parents first.
func (p *program) shards() (arn string, ids []string, err error) {
	var streams struct{ Streams []struct{ StreamArn string } }
	if err := p.ask("ListStreams", map[string]any{}, &streams); err != nil {
		return "", nil, err
	}
	arn = streams.Streams[0].StreamArn
	var d struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	if err := p.ask("DescribeStream", map[string]any{"StreamArn": arn}, &d); err != nil {
		return "", nil, err
	}
	for _, s := range d.StreamDescription.Shards {
		ids = append(ids, s.ShardId)
	}
	return arn, ids, nil
}

type record struct {
	Dynamodb struct {
		Keys           struct{ N struct{ N string } }
		SequenceNumber string
	} `json:"dynamodb"`
}

// pages reads a shard page by page, and calls each with the records, until it reports true or the
// shard ends. It begins after a checkpoint, or at the beginning.
func (p *program) pages(arn, shard string, checkpoint string, each func([]record) (done bool)) error {
	in := map[string]any{"StreamArn": arn, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"}
	if checkpoint != "" {
		in["ShardIteratorType"], in["SequenceNumber"] = "AFTER_SEQUENCE_NUMBER", checkpoint
	}
	var at struct{ ShardIterator string }
	if err := p.ask("GetShardIterator", in, &at); err != nil {
		return err
	}
	for next := at.ShardIterator; next != ""; {
		var page struct {
			NextShardIterator string
			Records           []record
		}
		if err := p.ask("GetRecords", map[string]any{"ShardIterator": next, "Limit": 2}, &page); err != nil {
			return err
		}
		if each(page.Records) {
			return nil
		}
		next = page.NextShardIterator
	}
	return nil
}

func expired(err error) bool { return err != nil && strings.Contains(err.Error(), "ExpiredIterator") }

// follow writes numbers, and finds them all in the stream. The bug: it knows the shards that there were
// at the beginning only.
func (p *program) follow() error {
	arn, ids, err := p.shards()
	if err != nil {
		return err
	}
	found, checkpoints := make(map[string]bool), make(map[string]string)
	for n := range 12 {
		if err := p.put(n); err != nil {
			return err
		}
		if !p.buggy {
			if _, ids, err = p.shards(); err != nil {
				return err
			}
		}
		for _, id := range ids {
			empty := 0
			for begin := true; begin; {
				err := p.pages(arn, id, checkpoints[id], func(records []record) bool {
					for _, r := range records {
						found[r.Dynamodb.Keys.N.N], checkpoints[id] = true, r.Dynamodb.SequenceNumber
					}
					if len(records) == 0 {
						empty++
					}
					return empty >= 3 // records may be late
				})
				if begin = expired(err); err != nil && !begin {
					return err
				}
			}
		}
	}
	if len(found) != 12 {
		return fmt.Errorf("the stream has shown %d numbers, want 12", len(found))
	}
	return nil
}

// sum counts the records of a stream. The bug: after an iterator has expired, it counts those since
// the last checkpoint again.
func (p *program) sum() error {
	for n := range 12 {
		if err := p.put(n); err != nil {
			return err
		}
	}
	counted, seen, done := 0, make(map[string]bool), make(map[string]bool)
	for len(seen) < 12 {
		arn, ids, err := p.shards()
		if err != nil {
			return err
		}
		for _, id := range ids {
			checkpoint, pages, empty := "", 0, 0
			for begin := !done[id]; begin; {
				err := p.pages(arn, id, checkpoint, func(records []record) bool {
					for _, r := range records {
						if !seen[r.Dynamodb.SequenceNumber] || p.buggy {
							counted++
						}
						seen[r.Dynamodb.SequenceNumber] = true
					}
					if pages++; pages%3 == 0 && len(records) > 0 {
						checkpoint = records[len(records)-1].Dynamodb.SequenceNumber
					}
					if len(records) == 0 {
						empty++
					}
					return empty >= 3
				})
				if begin = expired(err); err != nil && !begin {
					return err
				}
			}
			done[id] = true
		}
		if len(seen) < 12 {
			clear(done)
		}
	}
	if counted != 12 {
		return fmt.Errorf("%d records were counted, want 12", counted)
	}
	return nil
}

// plantedBugs are the tasks of the program with the fault that shows the bug of each.
var plantedBugs = []struct {
	name  string
	task  func(*program) error
	fault inject.Fault
}{
	{"ignores unprocessed items", (*program).loadBatch, inject.Unprocessed},
	{"repeats an update whose answer was lost", (*program).increment, inject.LostAnswer},
	{"trusts a stale read", (*program).spend, inject.StaleRead},
	{"reads the first page only", (*program).list, inject.ShortPage},
	{"does not follow a shard that was split", (*program).follow, inject.SplitShard},
	{"counts a repeated record again", (*program).sum, inject.ExpiredIterator},
}

func checkOf(task func(*program) error, buggy bool) Check {
	return func(ctx context.Context, url string, _ uint64) (string, error) {
		p, err := newProgram(ctx, url, buggy)
		if err == nil {
			err = task(p)
		}
		return fmt.Sprintln(err), err
	}
}

// A planted bug of each kind is found with the default faults, and reduced to the one fault that
// shows it; the same task without the bug passes with all of the seeds.
func TestPlantedBugs(t *testing.T) {
	for _, bug := range plantedBugs {
		t.Run(bug.name, func(t *testing.T) {
			plan := Defaults()
			for i := range plan.Rules {
				if plan.Rules[i].Lag > 0 {
					plan.Rules[i].Lag = time.Minute // a slow machine is not to hide a bug
				}
			}
			plan.Rules = slices.DeleteFunc(plan.Rules, func(r inject.Rule) bool { return r.Fault == inject.Latency })
			o := Options{Plan: plan, Seeds: 60, Timeout: time.Minute, Check: checkOf(bug.task, true)}
			found, err := Search(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Failures) == 0 {
				t.Fatalf("%d seeds with %d faults did not find the bug", found.Tried, found.Injected)
			}
			f := found.Failures[0]
			t.Logf("seed %d, %d of %d faults after %d runs, %s", f.Seed, len(f.Minimal), len(f.Faults), f.Runs, found.Identity)
			if len(f.Minimal) != 1 || f.Minimal[0].Fault != bug.fault || f.Confirmed != f.Confirmations || !f.Whole {
				t.Errorf("the bug was reduced to %+v, confirmed by %d of %d runs; want one %s", f.Minimal, f.Confirmed, f.Confirmations, bug.fault)
			}

			// The file that repeats it does so after it was written and read.
			again, err := inject.Parse("replay", f.Replay.Format())
			if err != nil {
				t.Fatal(err)
			}
			replayed, err := Replay(t.Context(), Options{Plan: *again, Check: o.Check})
			if err != nil || len(replayed.Failures) != 1 {
				t.Errorf("the replay has the failures %v, and error %v", replayed.Failures, err)
			}

			o.Check, o.Seeds = checkOf(bug.task, false), max(12, int(f.Seed))
			right, err := Search(t.Context(), o)
			if err != nil || len(right.Failures) > 0 || right.Injected == 0 {
				t.Errorf("without the bug there are the failures %v of %d faults, and error %v", right.Failures, right.Injected, err)
			}
		})
	}
}
