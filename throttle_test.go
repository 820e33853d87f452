package stator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// throttled is a server that throttles, with a clock that the test moves, and a client
// that does not retry.
type throttled struct {
	*testing.T
	*dynamodb.Client
	url   string
	clock atomic.Int64 // nanoseconds since 1970
}

func newThrottled(t *testing.T) *throttled {
	t.Helper()
	s := &throttled{T: t}
	s.clock.Store(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	d, err := Open(t.Context(), Options{Throttle: true, Now: func() time.Time { return time.Unix(0, s.clock.Load()).UTC() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	s.url = server.URL
	s.Client = sdkClient(server.URL, nil)
	return s
}

// pass moves the clock.
func (s *throttled) pass(d time.Duration) { s.clock.Add(int64(d)) }

// create creates the table Orders with a sort key and a global index, of the given
// units; 0 is on-demand.
func (s *throttled) create(read, write, indexWrite int64, change ...func(*dynamodb.CreateTableInput)) {
	s.Helper()
	units := func(read, write int64) *types.ProvisionedThroughput {
		if read == 0 {
			return nil
		}
		return &types.ProvisionedThroughput{ReadCapacityUnits: &read, WriteCapacityUnits: &write}
	}
	in := &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"),
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("n"), KeyType: types.KeyTypeRange}},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("id"), AttributeType: "S"}, {AttributeName: aws.String("n"), AttributeType: "N"}, {AttributeName: aws.String("by"), AttributeType: "S"}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("byOwner"), KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("by"), KeyType: types.KeyTypeHash}},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}, ProvisionedThroughput: units(read, indexWrite),
		}},
		ProvisionedThroughput: units(read, write),
	}
	if read == 0 {
		in.BillingMode = types.BillingModePayPerRequest
	}
	for _, c := range change {
		c(in)
	}
	if _, err := s.CreateTable(s.Context(), in); err != nil {
		s.Fatal(err)
	}
}

func row(id string, n int, more ...string) map[string]types.AttributeValue {
	it := map[string]types.AttributeValue{
		"id": &types.AttributeValueMemberS{Value: id}, "n": &types.AttributeValueMemberN{Value: fmt.Sprint(n)}}
	for i := 0; i < len(more); i += 2 {
		it[more[i]] = &types.AttributeValueMemberS{Value: more[i+1]}
	}
	return it
}

func (s *throttled) put(id string, n int, more ...string) error {
	_, err := s.PutItem(s.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: row(id, n, more...)})
	return err
}

// puts writes until it is throttled, and returns how many items were written.
func (s *throttled) puts(most int, more ...string) (n int, err error) {
	for n = range most {
		if err := s.put("a", n, more...); err != nil {
			return n, err
		}
	}
	return most, nil
}

const ordersARN = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"

// expectProvisioned checks the exception of a provisioned table.
func (s *throttled) expectProvisioned(err error, message, reason, resource string) {
	s.Helper()
	var e *types.ProvisionedThroughputExceededException
	if !errors.As(err, &e) {
		s.Errorf("%v is no ProvisionedThroughputExceededException", err)
		return
	}
	if !strings.HasPrefix(e.ErrorMessage(), message) || len(e.ThrottlingReasons) != 1 ||
		*e.ThrottlingReasons[0].Reason != reason || *e.ThrottlingReasons[0].Resource != resource {
		text, _ := json.Marshal(e)
		s.Errorf("the exception is %s", text)
	}
}

// expectOnDemand checks the exception of an on-demand table.
func (s *throttled) expectOnDemand(err error, message, reason, resource string) {
	s.Helper()
	var e *types.ThrottlingException
	if !errors.As(err, &e) {
		s.Errorf("%v is no ThrottlingException", err)
		return
	}
	if !strings.HasPrefix(e.ErrorMessage(), message) || len(e.ThrottlingReasons) != 1 ||
		*e.ThrottlingReasons[0].Reason != reason || *e.ThrottlingReasons[0].Resource != resource {
		text, _ := json.Marshal(e)
		s.Errorf("the exception is %s", text)
	}
}

const (
	tableExceeded = "The level of configured provisioned throughput for the table was exceeded."
	indexExceeded = "The level of configured provisioned throughput for one or more global secondary indexes"
)

// Writes and reads of a provisioned table, and of its index.
func TestProvisionedIsThrottled(t *testing.T) {
	s := newThrottled(t)
	s.create(5, 5, 3)
	n, err := s.puts(100)
	if n != 5 {
		t.Errorf("%d writes were accepted", n)
	}
	s.expectProvisioned(err, tableExceeded, "TableWriteProvisionedThroughputExceeded", ordersARN)

	key := row("a", 0)
	get := func() error {
		_, err := s.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("Orders"), Key: key, ConsistentRead: aws.Bool(true)})
		return err
	}
	for range 5 {
		if err := get(); err != nil {
			t.Fatal(err)
		}
	}
	s.expectProvisioned(get(), tableExceeded, "TableReadProvisionedThroughputExceeded", ordersARN)
	s.pass(time.Second)
	if err := get(); err != nil {
		t.Errorf("a second later: %v", err)
	}

	query := func() error {
		_, err := s.Query(t.Context(), &dynamodb.QueryInput{
			TableName: aws.String("Orders"), IndexName: aws.String("byOwner"), KeyConditionExpression: aws.String(`#by = :x`),
			ExpressionAttributeNames: map[string]string{"#by": "by"}, ExpressionAttributeValues: map[string]types.AttributeValue{":x": &types.AttributeValueMemberS{Value: "x"}},
		})
		return err
	}
	for n, err = 0, nil; err == nil; n++ {
		err = query()
	}
	if n != 21 { // half a unit each, of two seconds with five
		t.Errorf("%d queries of the index", n)
	}
	s.expectProvisioned(err, indexExceeded, "IndexReadProvisionedThroughputExceeded", ordersARN+"/index/byOwner")
}

// An index that has reached its limit rejects writes of its table that change it, and
// no others.
func TestIndexDelaysWrites(t *testing.T) {
	s := newThrottled(t)
	s.create(5, 20, 3)
	n, err := s.puts(100, "by", "x")
	if n != 3 {
		t.Errorf("%d writes were accepted", n)
	}
	s.expectProvisioned(err, indexExceeded, "IndexWriteProvisionedThroughputExceeded", ordersARN+"/index/byOwner")
	for n := range 10 {
		if err := s.put("b", n); err != nil {
			t.Errorf("a write that does not change the index: %v", err)
		}
	}
}

// A condition that does not hold consumes units.
func TestFailedConditionsAreCharged(t *testing.T) {
	s := newThrottled(t)
	s.create(5, 5, 5)
	for range 5 {
		_, err := s.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: row("a", 1), ConditionExpression: aws.String("attribute_exists(id)")})
		if !errors.As(err, new(*types.ConditionalCheckFailedException)) {
			t.Fatal(err)
		}
	}
	s.expectProvisioned(s.put("a", 1), tableExceeded, "TableWriteProvisionedThroughputExceeded", ordersARN)
}

// Batches leave what is throttled unprocessed, and fail if that is everything. A loop
// over what is unprocessed ends with everything written.
func TestBatchesAreThrottled(t *testing.T) {
	s := newThrottled(t)
	s.create(10, 5, 5)
	var requests []types.WriteRequest
	var keys []map[string]types.AttributeValue
	for n := range 25 {
		it := row("a", n, "text", strings.Repeat("x", 1500)) // two units
		requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: it}})
		keys = append(keys, row("a", n))
	}
	todo, rounds := map[string][]types.WriteRequest{"Orders": requests}, 0
	rejected := 0
	for len(todo) > 0 && rounds < 1000 {
		rounds++
		out, err := s.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: todo})
		if err != nil {
			s.expectProvisioned(err, tableExceeded, "TableWriteProvisionedThroughputExceeded", ordersARN)
			rejected++
		} else {
			todo = out.UnprocessedItems
		}
		s.pass(100 * time.Millisecond)
	}
	if len(todo) > 0 || rejected == 0 || rounds < 50 {
		t.Errorf("%d rounds, %d rejected, %d left", rounds, rejected, len(todo["Orders"]))
	}

	s.pass(time.Second)
	found := make(map[string]bool)
	wanted := map[string]types.KeysAndAttributes{"Orders": {Keys: keys, ConsistentRead: aws.Bool(true)}}
	for rounds = 0; len(wanted) > 0 && rounds < 1000; rounds++ {
		out, err := s.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: wanted})
		if err != nil {
			s.expectProvisioned(err, tableExceeded, "TableReadProvisionedThroughputExceeded", ordersARN)
		} else {
			for _, it := range out.Responses["Orders"] {
				found[it["n"].(*types.AttributeValueMemberN).Value] = true
			}
			wanted = out.UnprocessedKeys
		}
		s.pass(100 * time.Millisecond)
	}
	if len(found) != 25 {
		t.Errorf("%d of 25 items were found after %d rounds", len(found), rounds)
	}
}

// One hot partition does not keep the others of a batch from being written.
func TestBatchWithHotPartition(t *testing.T) {
	s := newThrottled(t)
	s.create(0, 0, 0)
	var err error
	for err == nil {
		_, err = s.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: aws.String("Orders"), Key: row("hot", 1),
			UpdateExpression: aws.String("SET #t = :t"), ExpressionAttributeNames: map[string]string{"#t": "text"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":t": &types.AttributeValueMemberS{Value: strings.Repeat("x", 100_000)}}})
	}
	s.expectOnDemand(err, "Throughput exceeds the current capacity of your table or index.", "TableWriteKeyRangeThroughputExceeded", ordersARN)
	todo := map[string][]types.WriteRequest{}
	for _, id := range []string{"hot", "b", "c", "d", "e", "f", "g", "h"} {
		todo["Orders"] = append(todo["Orders"], types.WriteRequest{PutRequest: &types.PutRequest{Item: row(id, 2)}})
	}
	out, err := s.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: todo})
	if err != nil {
		t.Fatal(err)
	}
	left := out.UnprocessedItems["Orders"]
	if len(left) == 0 || len(left) > 6 || left[0].PutRequest.Item["id"].(*types.AttributeValueMemberS).Value != "hot" {
		t.Errorf("%d are unprocessed: %v", len(left), left)
	}
}

// Transactions are cancelled with the reason of each action.
func TestTransactionsAreThrottled(t *testing.T) {
	s := newThrottled(t)
	s.create(5, 5, 5)
	write := func(n int) error {
		_, err := s.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: aws.String("Orders"), Item: row("a", n)}}, {Put: &types.Put{TableName: aws.String("Orders"), Item: row("b", n)}}}})
		return err
	}
	n := 0
	var err error
	for ; err == nil; n++ {
		err = write(n)
	}
	var cancelled *types.TransactionCanceledException
	if n != 3 || !errors.As(err, &cancelled) { // two of four units, and one more
		t.Fatalf("%d transactions, then %v", n, err)
	}
	for _, r := range cancelled.CancellationReasons {
		if *r.Code != "ProvisionedThroughputExceeded" || !strings.HasPrefix(*r.Message, tableExceeded) {
			t.Errorf("the reason is %s: %s", *r.Code, *r.Message)
		}
	}
	read := func() error {
		_, err := s.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: aws.String("Orders"), Key: row("a", 0)}}, {Get: &types.Get{TableName: aws.String("Orders"), Key: row("b", 0)}}}})
		return err
	}
	for n, err = 0, nil; err == nil; n++ {
		err = read()
	}
	if n != 3 || !errors.As(err, &cancelled) || *cancelled.CancellationReasons[0].Code != "ProvisionedThroughputExceeded" {
		t.Errorf("%d reads, then %v", n, err)
	}
}

// A page ends when the units are used up, and continues later.
func TestPagesEndEarly(t *testing.T) {
	s := newThrottled(t)
	s.create(10, 1000, 1000)
	for n := range 40 {
		if err := s.put("a", n, "text", strings.Repeat("x", 4000)); err != nil {
			t.Fatal(err)
		}
		s.pass(10 * time.Millisecond)
	}
	s.pass(time.Second)
	var start map[string]types.AttributeValue
	found, pages, rejected := 0, 0, 0
	for pages < 1000 {
		page, err := s.Query(t.Context(), &dynamodb.QueryInput{
			TableName: aws.String("Orders"), KeyConditionExpression: aws.String("id = :a"), ConsistentRead: aws.Bool(true), ExclusiveStartKey: start,
			ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberS{Value: "a"}}})
		if err != nil {
			s.expectProvisioned(err, tableExceeded, "TableReadProvisionedThroughputExceeded", ordersARN)
			rejected++
			s.pass(100 * time.Millisecond)
			continue
		}
		pages++
		found += int(page.Count)
		if start = page.LastEvaluatedKey; start == nil {
			break
		}
	}
	if found != 40 || pages < 3 || rejected == 0 {
		t.Errorf("%d items in %d pages, %d requests rejected", found, pages, rejected)
	}
}

// The maximum of an on-demand table.
func TestOnDemandMaximum(t *testing.T) {
	s := newThrottled(t)
	s.create(0, 0, 0, func(in *dynamodb.CreateTableInput) {
		in.OnDemandThroughput = &types.OnDemandThroughput{MaxWriteRequestUnits: aws.Int64(5)}
	})
	n, err := s.puts(100)
	if n != 5 {
		t.Errorf("%d writes were accepted", n)
	}
	s.expectOnDemand(err, "Throughput exceeds the maximum OnDemandThroughput configured on table or index", "TableWriteMaxOnDemandThroughputExceeded", ordersARN)
}

// Statements report it as other requests do.
func TestStatementsAreThrottled(t *testing.T) {
	s := newThrottled(t)
	s.create(5, 5, 5)
	if _, err := s.puts(5); err != nil {
		t.Fatal(err)
	}
	_, err := s.ExecuteStatement(t.Context(), &dynamodb.ExecuteStatementInput{Statement: aws.String(`INSERT INTO "Orders" VALUE {'id': 'z', 'n': 1}`)})
	s.expectProvisioned(err, tableExceeded, "TableWriteProvisionedThroughputExceeded", ordersARN)
	out, err := s.BatchExecuteStatement(t.Context(), &dynamodb.BatchExecuteStatementInput{Statements: []types.BatchStatementRequest{
		{Statement: aws.String(`INSERT INTO "Orders" VALUE {'id': 'z', 'n': 1}`)}}})
	if err != nil || out.Responses[0].Error == nil || out.Responses[0].Error.Code != types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded {
		t.Errorf("%+v, %v", out, err)
	}
}

// New units take effect; background work and servers without the option are not
// throttled.
func TestThrottleFollowsTheTable(t *testing.T) {
	s := newThrottled(t)
	s.create(5, 5, 5)
	if n, _ := s.puts(100); n != 5 {
		t.Errorf("%d writes with 5 units", n)
	}
	_, err := s.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String("Orders"),
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(50)}})
	if err != nil {
		t.Fatal(err)
	}
	s.pass(time.Second)
	if n, _ := s.puts(100); n != 50 {
		t.Errorf("%d writes a second later with 50 units", n)
	}
}
