package stator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/stator-db/stator/internal/inject"
)

// faulty is a server that injects faults, with a table Orders, and clients that do not retry.
type faulty struct {
	*testing.T
	*dynamodb.Client
	url string
	db  *DB
}

func newFaulty(t *testing.T, billing types.BillingMode) *faulty {
	t.Helper()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	d, err := Open(t.Context(), Options{AllowFaults: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	f := &faulty{T: t, db: d, url: server.URL, Client: sdkClient(server.URL, nil)}
	in := &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: billing,
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("n"), KeyType: types.KeyTypeRange}},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("id"), AttributeType: "S"}, {AttributeName: aws.String("n"), AttributeType: "N"}, {AttributeName: aws.String("state"), AttributeType: "S"}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{IndexName: aws.String("by-state"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("state"), KeyType: types.KeyTypeHash}}}},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}
	if billing == types.BillingModeProvisioned {
		in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(5)}
		in.GlobalSecondaryIndexes[0].ProvisionedThroughput = in.ProvisionedThroughput
	}
	if _, err := f.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return f
}

// inject sets rules.
func (f *faulty) inject(rules ...FaultRule) {
	f.Helper()
	if err := f.db.SetFaults(FaultPlan{Seed: 7, Rules: rules}); err != nil {
		f.Fatal(err)
	}
}

// injected returns the faults that were injected, as fault and operation.
func (f *faulty) injected() (all []string) {
	for _, i := range f.db.InjectedFaults() {
		all = append(all, string(i.Fault)+" "+i.Operation)
	}
	return all
}

func orderKey(n int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "a"}, "n": &types.AttributeValueMemberN{Value: fmt.Sprint(n)}}
}

func (f *faulty) put(n int, state string) error {
	it := orderKey(n)
	it["state"] = &types.AttributeValueMemberS{Value: state}
	_, err := f.PutItem(f.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: it})
	return err
}

// state returns the state of an item; empty if it does not exist.
func (f *faulty) state(n int, consistent bool) string {
	f.Helper()
	out, err := f.GetItem(f.Context(), &dynamodb.GetItemInput{TableName: aws.String("Orders"), Key: orderKey(n), ConsistentRead: &consistent})
	if err != nil {
		f.Fatal(err)
	}
	s, _ := out.Item["state"].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// code returns the code of an error of the API.
func code(err error) string {
	var fault smithy.APIError
	if errors.As(err, &fault) {
		return fault.ErrorCode()
	}
	return fmt.Sprint(err)
}

func TestFaultsThrottle(t *testing.T) {
	for _, c := range []struct {
		billing          types.BillingMode
		as, code, reason string
	}{
		{types.BillingModeProvisioned, "", "ProvisionedThroughputExceededException", "TableWriteProvisionedThroughputExceeded"},
		{types.BillingModeProvisioned, "partition", "ProvisionedThroughputExceededException", "TableWriteKeyRangeThroughputExceeded"},
		{types.BillingModePayPerRequest, "", "ThrottlingException", "TableWriteKeyRangeThroughputExceeded"},
		{types.BillingModePayPerRequest, "maximum", "ThrottlingException", "TableWriteMaxOnDemandThroughputExceeded"},
		{types.BillingModePayPerRequest, "account", "RequestLimitExceeded", "TableWriteAccountLimitExceeded"},
	} {
		t.Run(string(c.billing)+" "+c.as, func(t *testing.T) {
			f := newFaulty(t, c.billing)
			f.inject(FaultRule{Fault: "throttle", Operations: []string{"PutItem", "BatchWriteItem", "TransactWriteItems"}, As: c.as})
			err := f.put(1, "new")
			if code(err) != c.code || !strings.Contains(fmt.Sprint(f.db.InjectedFaults()), c.reason) {
				t.Errorf("got %v and %v, want %s for %s", err, f.db.InjectedFaults(), c.code, c.reason)
			}
			if got := f.state(1, true); got != "" {
				t.Errorf("the throttled write was executed: %q", got)
			}
			if _, err := f.batch(1, 2, 3); code(err) != c.code {
				t.Errorf("a batch gets %v, want %s", err, c.code)
			}
			var cancelled *types.TransactionCanceledException
			if err := f.transact(1, 2, 3); !errors.As(err, &cancelled) {
				t.Fatalf("a transaction gets %v, want TransactionCanceledException", err)
			}
			want := "ProvisionedThroughputExceeded"
			if c.billing == types.BillingModePayPerRequest {
				want = "ThrottlingError"
			}
			if codes := reasonCodes(cancelled); count(codes, want) != 1 || count(codes, "None") != 2 {
				t.Errorf("the transaction is cancelled for %v, want %s once", codes, want)
			}
		})
	}
}

func reasonCodes(c *types.TransactionCanceledException) (codes []string) {
	for _, r := range c.CancellationReasons {
		codes = append(codes, aws.ToString(r.Code))
	}
	return codes
}

func count(all []string, one string) (n int) {
	for _, a := range all {
		if a == one {
			n++
		}
	}
	return n
}

// batch writes items, and returns how many are left.
func (f *faulty) batch(ns ...int) (left int, err error) {
	var writes []types.WriteRequest
	for _, n := range ns {
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: orderKey(n)}})
	}
	out, err := f.BatchWriteItem(f.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"Orders": writes}})
	if err != nil {
		return 0, err
	}
	return len(out.UnprocessedItems["Orders"]), nil
}

func (f *faulty) transact(ns ...int) error {
	var actions []types.TransactWriteItem
	for _, n := range ns {
		actions = append(actions, types.TransactWriteItem{Put: &types.Put{TableName: aws.String("Orders"), Item: orderKey(n)}})
	}
	_, err := f.TransactWriteItems(f.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	return err
}

// An internal error before the commit leaves nothing behind, and one after it everything.
func TestFaultsInternalErrors(t *testing.T) {
	f := newFaulty(t, types.BillingModePayPerRequest)
	for _, c := range []struct{ fault, as, error, state string }{
		{"internal-error", "", "InternalServerError", ""},
		{"lost-answer", "", "InternalServerError", "new"},
		{"internal-error", "connection-closed", "EOF", ""},
		{"lost-answer", "connection-closed", "EOF", "new"},
	} {
		f.inject(FaultRule{Fault: inject.Fault(c.fault), Operations: []string{"PutItem"}, As: c.as})
		n := 100 + len(c.fault) + len(c.as)
		if err := f.put(n, "new"); err == nil || !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s as %q: got %v, want %s", c.fault, c.as, err, c.error)
		}
		if got := f.state(n, true); got != c.state {
			t.Errorf("%s as %q: the item has state %q, want %q", c.fault, c.as, got, c.state)
		}
		if got := f.injected(); !slices.Equal(got, []string{c.fault + " PutItem"}) {
			t.Errorf("%s as %q: the log has %v", c.fault, c.as, got)
		}
	}
}

// Writes conflict with transactions only, so a table without any has no conflicts unless a rule
// names the operation.
func TestFaultsConflicts(t *testing.T) {
	f := newFaulty(t, types.BillingModePayPerRequest)
	f.inject(FaultRule{Fault: "conflict"})
	if err := f.put(1, "a"); err != nil {
		t.Errorf("a write without any transaction gets %v", err)
	}
	var cancelled *types.TransactionCanceledException
	if err := f.transact(1, 2, 3, 4); !errors.As(err, &cancelled) || count(reasonCodes(cancelled), "TransactionConflict") != 1 {
		t.Errorf("a transaction gets %v, want one TransactionConflict", err)
	}
	if err := f.put(1, "b"); code(err) != "TransactionConflictException" {
		t.Errorf("a write after a transaction gets %v", err)
	}
	if got := f.state(1, true); got != "a" {
		t.Errorf("the item has state %q, want a", got)
	}
}

func TestFaultsUnprocessed(t *testing.T) {
	f := newFaulty(t, types.BillingModePayPerRequest)
	f.inject(FaultRule{Fault: "unprocessed"})
	left, err := f.batch(1, 2, 3, 4, 5)
	if err != nil || left < 1 || left > 4 {
		t.Fatalf("%d of 5 are left unprocessed, and error %v", left, err)
	}
	if left, err := f.batch(9); err != nil || left != 0 {
		t.Errorf("of a batch of one, %d are left, and error %v: DynamoDB rejects such a batch as a whole", left, err)
	}
	f.inject()
	keys := []map[string]types.AttributeValue{orderKey(1), orderKey(2), orderKey(3), orderKey(4), orderKey(5)}
	get := func() (found, left int) {
		out, err := f.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"Orders": {Keys: keys, ConsistentRead: aws.Bool(true)}}})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Responses["Orders"]), len(out.UnprocessedKeys["Orders"].Keys)
	}
	if found, _ := get(); found != 5-left {
		t.Errorf("%d items were written, but %d left unprocessed", found, left)
	}
	f.inject(FaultRule{Fault: "unprocessed"})
	if _, left := get(); left < 1 || left > 4 {
		t.Errorf("%d keys are left unprocessed", left)
	}
}

func (f *faulty) query(index string, limit int32) (states []string, more bool) {
	f.Helper()
	in := &dynamodb.QueryInput{TableName: aws.String("Orders"), KeyConditionExpression: aws.String("id = :v"), ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "a"}}}
	if index != "" {
		in.IndexName, in.KeyConditionExpression = &index, aws.String("#s = :v")
		in.ExpressionAttributeNames, in.ExpressionAttributeValues[":v"] = map[string]string{"#s": "state"}, &types.AttributeValueMemberS{Value: "done"}
	}
	if limit > 0 {
		in.Limit = &limit
	}
	out, err := f.Query(f.Context(), in)
	if err != nil {
		f.Fatal(err)
	}
	for _, it := range out.Items {
		states = append(states, it["state"].(*types.AttributeValueMemberS).Value)
	}
	return states, out.LastEvaluatedKey != nil
}

// A stale read returns what the item was, and only without ConsistentRead.
func TestFaultsStaleReads(t *testing.T) {
	f := newFaulty(t, types.BillingModePayPerRequest)
	f.inject(FaultRule{Fault: "stale-read"}, FaultRule{Fault: "index-lag"})
	for n := range 3 {
		if err := f.put(n, "done"); err != nil {
			t.Fatal(err)
		}
	}
	if stale, now := f.state(1, false), f.state(1, true); stale != "" || now != "done" {
		t.Errorf("the item has state %q without ConsistentRead, want none, and %q with it, want done", stale, now)
	}
	if found, _ := f.query("", 0); len(found) != 0 {
		t.Errorf("a stale query returns %v", found)
	}
	if found, _ := f.query("by-state", 0); len(found) != 0 {
		t.Errorf("a query of a lagging index returns %v", found)
	}
	if got, want := f.injected(), []string{"stale-read GetItem", "stale-read Query", "index-lag Query"}; !slices.Equal(got, want) {
		t.Errorf("the log has %v, want %v", got, want)
	}
	f.inject()
	if found, _ := f.query("by-state", 0); len(found) != 3 {
		t.Errorf("without faults a query returns %v", found)
	}
}

// What a stale read returns has existed: with the clock moved on after each write, each lag has
// the state of its time.
func TestFaultsStaleReadsAreOfThatTime(t *testing.T) {
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var passed atomic.Int64 // the database reads the clock in the background too
	d, err := Open(t.Context(), Options{AllowFaults: true, Now: func() time.Time { return begin.Add(time.Duration(passed.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := &faulty{T: t, db: d, Client: dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String("http://x"), Region: "us-east-1", HTTPClient: d.Client(), Credentials: sdkClient("http://x", nil).Options().Credentials})}
	if _, err := f.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("n"), KeyType: types.KeyTypeRange}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}, {AttributeName: aws.String("n"), AttributeType: "N"}}}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := f.put(1, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		passed.Add(int64(time.Second))
	}
	for lag, want := range []string{"4", "3", "2", "1", "0", ""} {
		f.inject(FaultRule{Fault: "stale-read", Lag: time.Duration(lag)*time.Second + time.Millisecond})
		if lag == 0 {
			f.inject()
		}
		if got := f.state(1, false); got != want {
			t.Errorf("%d seconds ago the state was %q, want %q", lag, got, want)
		}
		if found, _ := f.query("", 0); strings.Join(found, "") != want {
			t.Errorf("%d seconds ago a query returns %q, want %q", lag, found, want)
		}
	}
}

func TestFaultsShortPages(t *testing.T) {
	f := newFaulty(t, types.BillingModePayPerRequest)
	for n := range 10 {
		if err := f.put(n, "done"); err != nil {
			t.Fatal(err)
		}
	}
	f.inject(FaultRule{Fault: "short-page"})
	found, more := f.query("", 0)
	if len(found) < 1 || len(found) > 3 || !more {
		t.Errorf("a page has %d items and more %v", len(found), more)
	}
	if found, _ := f.query("", 1); len(found) != 1 {
		t.Errorf("a page with a limit of 1 has %d items", len(found))
	}
}

// anySignature is a signature that is not verified.
const anySignature = "AWS4-HMAC-SHA256 Credential=a/20261101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=b"

// ask sends a request of DynamoDB Streams.
func (f *faulty) ask(operation string, in map[string]any, out any) error {
	f.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		f.Fatal(err)
	}
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set("X-Amz-Target", "DynamoDBStreams_20120810."+operation)
	r.Header.Set("Authorization", anySignature)
	r.Header.Set("X-Amz-Date", "20261101T000000Z")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s, %w", operation, text, err)
	}
	return json.Unmarshal(text, out)
}

// records reads a stream from its oldest record on as a client does, and returns the sort keys
// of its records, in each shard in order.
func (f *faulty) records(pages int) (found []string, shards int, err error) {
	var streams struct{ Streams []struct{ StreamArn string } }
	if err := f.ask("ListStreams", map[string]any{}, &streams); err != nil {
		return nil, 0, err
	}
	arn := streams.Streams[0].StreamArn
	var described struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	if err := f.ask("DescribeStream", map[string]any{"StreamArn": arn}, &described); err != nil {
		return nil, 0, err
	}
	for _, shard := range described.StreamDescription.Shards {
		var at struct{ ShardIterator string }
		if err := f.ask("GetShardIterator", map[string]any{"StreamArn": arn, "ShardId": shard.ShardId, "ShardIteratorType": "TRIM_HORIZON"}, &at); err != nil {
			return nil, 0, err
		}
		next := at.ShardIterator
		for range pages {
			if next == "" {
				break
			}
			var page struct {
				NextShardIterator string
				Records           []struct {
					Dynamodb struct {
						Keys struct{ N struct{ N string } }
					} `json:"dynamodb"`
				}
			}
			if err := f.ask("GetRecords", map[string]any{"ShardIterator": next}, &page); err != nil {
				return nil, 0, err
			}
			for _, r := range page.Records {
				found = append(found, r.Dynamodb.Keys.N.N)
			}
			next = page.NextShardIterator
		}
	}
	return found, len(described.StreamDescription.Shards), nil
}

func TestFaultsStreams(t *testing.T) {
	f := newFaulty(t, types.BillingModeProvisioned)
	for n := range 8 {
		if err := f.put(n, "done"); err != nil {
			t.Fatal(err)
		}
	}
	whole, before, err := f.records(3)
	if err != nil || len(whole) != 8 {
		t.Fatalf("without faults there are the records %v, and error %v", whole, err)
	}
	f.inject(FaultRule{Fault: "late-records", Count: 6})
	late, _, err := f.records(1)
	if err != nil || len(late) >= 8 {
		t.Errorf("all of %v came in the first page, and error %v", late, err)
	}
	if again, _, err := f.records(12); err != nil || !slices.Equal(again, whole) {
		t.Errorf("late records come as %v, want %v, and error %v", again, whole, err)
	}
	f.inject(FaultRule{Fault: "expired-iterator", Count: 1})
	if _, _, err := f.records(1); err == nil || !strings.Contains(err.Error(), "ExpiredIteratorException") {
		t.Errorf("the iterator gets %v", err)
	}
	f.inject(FaultRule{Fault: "split-shard", Count: 1})
	split, _, err := f.records(3)
	if err != nil || !slices.Equal(split, whole) {
		t.Errorf("with a split the records are %v, want %v, and error %v", split, whole, err)
	}
	if _, after, err := f.records(1); err != nil || after <= before {
		t.Errorf("there were %d shards, and %d after a split, and error %v", before, after, err)
	}
	if got := f.injected(); !slices.Equal(got, []string{"split-shard GetRecords"}) {
		t.Errorf("the log has %v", got)
	}
}

func TestFaultsLatency(t *testing.T) {
	f := newFaulty(t, types.BillingModePayPerRequest)
	f.inject(FaultRule{Fault: "latency", Delay: 5 * time.Minute, Operations: []string{"PutItem"}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: orderKey(1)})
		done <- err
	}()
	for len(f.db.InjectedFaults()) == 0 {
		select {
		case err := <-done:
			t.Fatalf("the request was not delayed: %v", err)
		default:
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("a request that is cut off while it waits succeeds")
	}
	if got := f.state(1, true); got != "" {
		t.Errorf("it was executed: %q", got)
	}
}

// The seed of a reply is the one that repeats the run.
func TestSeedsOfReplies(t *testing.T) {
	f := newFaulty(t, types.BillingModePayPerRequest)
	for _, c := range []struct{ body, want string }{
		{`{"Plan":"seed: 9223372036854775807"}`, `"Seed":9223372036854775807`},
		{`{"Plan":"seed: 18446744073709551615"}`, "seed is 18446744073709551615, but must be at most 9223372036854775807"},
		{`{"Plan":"faults: []","Seed":-1}`, "Value '-1' at 'seed' failed to satisfy constraint"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
		r.Header.Set("X-Amz-Target", "Stator.SetFaults")
		r.Header.Set("Authorization", anySignature)
		r.Header.Set("X-Amz-Date", "20261101T000000Z")
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Host = "127.0.0.1"
		w := httptest.NewRecorder()
		if f.db.Handler().ServeHTTP(w, r); !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s is answered with %s, want %s", c.body, w.Body, c.want)
		}
	}
}

// A server that does not allow faults refuses requests for them, and so does a cluster.
func TestFaultsNotAllowed(t *testing.T) {
	d, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.SetFaults(FaultPlan{}); !errors.Is(err, ErrNoFaults) {
		t.Errorf("got %v, want ErrNoFaults", err)
	}
	for _, operation := range []string{"SetFaults", "GetFaults", "ListInjectedFaults"} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"Plan":"faults: []"}`))
		r.Header.Set("X-Amz-Target", "Stator."+operation)
		r.Header.Set("Authorization", anySignature)
		r.Header.Set("X-Amz-Date", "20261101T000000Z")
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Host = "127.0.0.1"
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "--allow-faults") {
			t.Errorf("%s is answered with %d %s", operation, w.Code, w.Body)
		}
	}
	if _, err := Open(t.Context(), Options{AllowFaults: true, Engine: "tikv://x", Backups: "y"}); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("a cluster with faults gets %v", err)
	}
}

// The same seed injects the same faults into the same requests, however they interleave.
func TestFaultsRepeat(t *testing.T) {
	share := 0.3
	run := func(seed uint64, parallel bool) (all []string) {
		f := newFaulty(t, types.BillingModePayPerRequest)
		if err := f.db.SetFaults(FaultPlan{Seed: seed, Rules: []FaultRule{{Fault: "throttle", Share: &share}, {Fault: "internal-error", Share: &share}}}); err != nil {
			t.Fatal(err)
		}
		done := make(chan bool)
		for n := range 20 {
			work := func() {
				for range 3 {
					_ = f.put(n, "done")
				}
				done <- true
			}
			go work()
			if !parallel {
				<-done
			}
		}
		for range 20 {
			if parallel {
				<-done
			}
		}
		for _, i := range f.db.InjectedFaults() {
			all = append(all, fmt.Sprint(i.Fault, i.Key, i.Occurrence))
		}
		slices.Sort(all)
		return all
	}
	first := run(1, false)
	if again := run(1, true); !slices.Equal(first, again) || len(first) == 0 {
		t.Errorf("the seed 1 injects %v first, and %v then", first, again)
	}
	if other := run(2, false); slices.Equal(first, other) {
		t.Errorf("the seeds 1 and 2 both inject %v", other)
	}
}
