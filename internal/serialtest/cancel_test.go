package serialtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/keyspace"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// parts is a database with access to each of its parts.
type parts struct {
	door
	engine *pebble.Engine
	db     *db.DB
}

func openParts(t testing.TB, o db.Options) parts {
	t.Helper()
	storage := pebble.InMemory()
	storage.Patience = 50 * time.Millisecond
	e, err := pebble.Open(storage)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(context.Background(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	})
	return parts{door{server.New(ops.New(ops.Parts{DB: d}), slog.New(slog.DiscardHandler), 0)}, e, d}
}

// createOrders creates a table with an index of each kind.
func createOrders(t testing.TB, d door) {
	t.Helper()
	createTable(t, d, "Orders", jsonObject{
		"AttributeDefinitions": []jsonObject{
			{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "k", "AttributeType": "N"}, {"AttributeName": "g", "AttributeType": "S"},
		},
		"LocalSecondaryIndexes": []jsonObject{{
			"IndexName":  "local",
			"KeySchema":  []jsonObject{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "g", "KeyType": "RANGE"}},
			"Projection": jsonObject{"ProjectionType": "ALL"},
		}},
		"GlobalSecondaryIndexes": []jsonObject{{
			"IndexName":  "global",
			"KeySchema":  []jsonObject{{"AttributeName": "g", "KeyType": "HASH"}},
			"Projection": jsonObject{"ProjectionType": "KEYS_ONLY"},
		}},
	})
}

func orderKey(p string, k int) attributes { return attributes{"p": str(p), "k": num(k)} }

func order(p string, k int, g string) attributes {
	it := orderKey(p, k)
	it["g"] = str(g)
	return it
}

func putAction(it attributes) jsonObject {
	return jsonObject{"Put": jsonObject{"TableName": "Orders", "Item": it}}
}

// everything returns all that a customer can see of the table: its items, the
// entries of its indexes and its counts.
func everything(t testing.TB, d door) string {
	t.Helper()
	var all []any
	for _, index := range []string{"", "local", "global"} {
		body := jsonObject{"TableName": "Orders"}
		if index != "" {
			body["IndexName"] = index
		}
		var reply any
		d.must(t, "Scan", body, &reply)
		all = append(all, reply)
	}
	var described any
	d.must(t, "DescribeTable", jsonObject{"TableName": "Orders"}, &described)
	b, err := json.Marshal(append(all, described))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A cancelled transaction returns a reason for each action, in order, and
// changes nothing.
func TestCancellationReasons(t *testing.T) {
	d := openParts(t, db.Options{MaxCollectionBytes: 2000})
	createOrders(t, d.door)
	stays := order("stays", 1, "x")
	stays["n"] = str("no number")
	d.must(t, "PutItem", jsonObject{"TableName": "Orders", "Item": stays}, nil)
	before := everything(t, d.door)

	large := order("large", 1, strings.Repeat("x", 1000))
	failing := func(returns string) jsonObject {
		return jsonObject{"ConditionCheck": jsonObject{
			"TableName": "Orders", "Key": orderKey("stays", 1), "ConditionExpression": "attribute_not_exists(p)",
			"ReturnValuesOnConditionCheckFailure": returns,
		}}
	}
	deletes := jsonObject{"Delete": jsonObject{
		"TableName": "Orders", "Key": orderKey("none", 1), "ConditionExpression": "attribute_exists(p)",
		"ReturnValuesOnConditionCheckFailure": "ALL_OLD",
	}}
	adds := jsonObject{"Update": jsonObject{
		"TableName": "Orders", "Key": orderKey("stays", 1), "UpdateExpression": "SET n = n + :one",
		"ExpressionAttributeValues": jsonObject{":one": num(1)},
	}}
	const failed, incorrect = "The conditional request failed", "An operand in the update expression has an incorrect data type"
	for _, c := range []struct {
		name    string
		actions []jsonObject
		want    []reason
	}{
		{"a condition with the item asked for", []jsonObject{putAction(order("a", 1, "g")), failing("ALL_OLD"), putAction(order("b", 1, "g"))},
			[]reason{{Code: "None"}, {"ConditionalCheckFailed", failed, stays}, {Code: "None"}}},
		{"a condition without", []jsonObject{failing("NONE"), putAction(order("a", 1, "g"))},
			[]reason{{Code: "ConditionalCheckFailed", Message: failed}, {Code: "None"}}},
		{"a condition on an item that does not exist", []jsonObject{putAction(order("a", 1, "g")), deletes},
			[]reason{{Code: "None"}, {Code: "ConditionalCheckFailed", Message: failed}}},
		{"an update that does not fit the item", []jsonObject{putAction(order("a", 1, "g")), deletes, adds},
			[]reason{{Code: "None"}, {Code: "ConditionalCheckFailed", Message: failed}, {Code: "ValidationError", Message: incorrect}}},
		{"actions after one that is not valid", []jsonObject{putAction(order("a", 1, "g")), adds, deletes},
			[]reason{{Code: "None"}, {Code: "ValidationError", Message: incorrect}, {Code: "None"}}},
		{"a collection that is too large", []jsonObject{putAction(order("a", 1, "g")), putAction(large), failing("ALL_OLD")},
			[]reason{{Code: "None"}, {Code: "ItemCollectionSizeLimitExceeded", Message: "Collection size exceeded."}, {"ConditionalCheckFailed", failed, stays}}},
		{"a collection that two actions make too large", []jsonObject{putAction(order("a", 1, strings.Repeat("x", 500))), putAction(order("a", 2, strings.Repeat("y", 500)))},
			[]reason{{Code: "None"}, {Code: "ItemCollectionSizeLimitExceeded", Message: "Collection size exceeded."}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := d.call(t.Context(), "TransactWriteItems", jsonObject{"TransactItems": c.actions}, nil)
			expectReasons(t, err, c.want)
			if after := everything(t, d.door); after != before {
				t.Errorf("the table has changed:\n%s\nwas\n%s", after, before)
			}
		})
	}
	expectSoundDB(t, d.db)
}

func expectReasons(t testing.TB, err error, want []reason) {
	t.Helper()
	var f *fault
	if !errors.As(err, &f) || f.code() != "TransactionCanceledException" {
		t.Fatalf("the error is %v", err)
	}
	var codes []string
	for _, r := range want {
		codes = append(codes, r.Code)
	}
	message := "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]"
	if f.Message != message {
		t.Errorf("the message is %q, want %q", f.Message, message)
	}
	got, _ := json.Marshal(f.CancellationReasons)
	wanted, _ := json.Marshal(want)
	if string(got) != string(wanted) {
		t.Errorf("the reasons are\n%s, want\n%s", got, wanted)
	}
}

func expectSoundDB(t testing.TB, d *db.DB) {
	t.Helper()
	reports, err := d.Verify(t.Context(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Faults > 0 {
			t.Errorf("table %s has %d faults: %v", r.Table, r.Faults, r.First)
		}
	}
}

// A request that waits too long for other writes of an item gets a conflict,
// in a transaction and outside.
func TestConflictIsReported(t *testing.T) {
	d := openParts(t, db.Options{})
	createOrders(t, d.door)
	before := everything(t, d.door)
	table, err := d.db.Table("Orders")
	if err != nil {
		t.Fatal(err)
	}
	one, _ := item.ParseNumber("1")
	at := keyspace.Item(nil, table, item.Make(map[string]item.Value{"p": item.String("a"), "k": item.Num(one)}))
	held, done := make(chan struct{}), make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		err := d.engine.Update(context.Background(), [][]byte{at}, func(store.Tx) error {
			close(held)
			<-done
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	err = d.call(t.Context(), "TransactWriteItems", jsonObject{"TransactItems": []jsonObject{putAction(order("a", 1, "g"))}}, nil)
	expectReasons(t, err, []reason{{Code: "TransactionConflict", Message: "Transaction is ongoing for the item"}})
	err = d.call(t.Context(), "PutItem", jsonObject{"TableName": "Orders", "Item": order("a", 1, "g")}, nil)
	if codeOf(err) != "TransactionConflictException" {
		t.Errorf("the error of a put is %v", err)
	}
	close(done)
	holder.Wait()
	if after := everything(t, d.door); after != before {
		t.Errorf("the table has changed: %s", after)
	}
}

// counting returns a transaction that increments counters, so that a
// repetition is noticed.
func counting(token string, by int) jsonObject {
	add := func(p string) jsonObject {
		return jsonObject{"Update": jsonObject{
			"TableName": "Orders", "Key": orderKey(p, 1), "UpdateExpression": "ADD n :by SET g = :g",
			"ExpressionAttributeValues": jsonObject{":by": num(by), ":g": str("g")},
		}}
	}
	return jsonObject{"ClientRequestToken": token, "ReturnConsumedCapacity": "TOTAL", "TransactItems": []jsonObject{add("a"), add("b")}}
}

// cost is the charge for a transaction.
type cost struct {
	ConsumedCapacity []struct {
		CapacityUnits                         float64
		ReadCapacityUnits, WriteCapacityUnits *float64
	}
}

func (c cost) isRead() bool {
	return len(c.ConsumedCapacity) == 1 && c.ConsumedCapacity[0].ReadCapacityUnits != nil && c.ConsumedCapacity[0].WriteCapacityUnits == nil
}

func (c cost) isWrite() bool {
	return len(c.ConsumedCapacity) == 1 && c.ConsumedCapacity[0].WriteCapacityUnits != nil && c.ConsumedCapacity[0].ReadCapacityUnits == nil
}

func expectCount(t testing.TB, d door, want int) {
	t.Helper()
	for _, p := range []string{"a", "b"} {
		var reply struct{ Item attributes }
		d.must(t, "GetItem", jsonObject{"TableName": "Orders", "Key": orderKey(p, 1), "ConsistentRead": true}, &reply)
		if got := number(reply.Item["n"]); got != want {
			t.Errorf("the item %s counts %d, want %d", p, got, want)
		}
	}
}

// A transaction with a token is applied once in ten minutes, whatever happens
// in between, and a repetition costs a read.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	var past atomic.Int64 // how far the clock is ahead
	o := stator.Options{Dir: dir, Now: func() time.Time { return time.Now().Add(time.Duration(past.Load())) }}
	begin := func() (*stator.DB, door) {
		s, err := stator.Open(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s, door{s.Handler()}
	}
	s, d := begin()
	createOrders(t, d)
	send := func(body jsonObject) (c cost) {
		t.Helper()
		d.must(t, "TransactWriteItems", body, &c)
		return c
	}

	// Two writes and their entries in two indexes; then two reads, twice.
	if c := send(counting("first", 1)); !c.isWrite() || c.ConsumedCapacity[0].CapacityUnits != 2*2+2*2 {
		t.Errorf("the first is charged %+v", c)
	}
	if c := send(counting("first", 1)); !c.isRead() || c.ConsumedCapacity[0].CapacityUnits != 2*2 {
		t.Errorf("the repetition is charged %+v", c)
	}
	expectCount(t, d, 1)

	for name, other := range map[string]jsonObject{
		"another value":  counting("first", 2),
		"fewer actions":  {"ClientRequestToken": "first", "TransactItems": counting("first", 1)["TransactItems"].([]jsonObject)[:1]},
		"another order":  {"ClientRequestToken": "first", "TransactItems": reversed(counting("first", 1)["TransactItems"].([]jsonObject))},
		"another item":   {"ClientRequestToken": "first", "TransactItems": []jsonObject{putAction(order("c", 1, "g"))}},
		"a larger value": counting("first", 11),
	} {
		err := d.call(t.Context(), "TransactWriteItems", other, nil)
		if codeOf(err) != "IdempotentParameterMismatchException" {
			t.Errorf("the error of %s is %v", name, err)
		}
	}
	// Parameters that only add to the reply do not distinguish requests.
	quiet := counting("first", 1)
	delete(quiet, "ReturnConsumedCapacity")
	d.must(t, "TransactWriteItems", quiet, nil)
	expectCount(t, d, 1)

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, d = begin()
	past.Store(int64(9 * time.Minute))
	if c := send(counting("first", 1)); !c.isRead() {
		t.Errorf("the repetition after a restart is charged %+v", c)
	}
	expectCount(t, d, 1)
	past.Store(int64(11 * time.Minute))
	if c := send(counting("first", 1)); !c.isWrite() {
		t.Errorf("the repetition after eleven minutes is charged %+v", c)
	}
	expectCount(t, d, 2)
	if c := send(counting("first", 1)); !c.isRead() {
		t.Errorf("its repetition is charged %+v", c)
	}
	past.Store(int64(22 * time.Minute))
	send(counting("first", 5)) // an expired token can be used for another request
	expectCount(t, d, 7)
	expectSound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func reversed(actions []jsonObject) []jsonObject {
	actions = slices.Clone(actions)
	slices.Reverse(actions)
	return actions
}

// Of concurrent requests with one token one is applied.
func TestConcurrentToken(t *testing.T) {
	s, d := open(t, stator.Options{})
	createOrders(t, d)
	const rounds, callers = 30, 6
	for round := range rounds {
		var writes, reads atomic.Int64
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				var c cost
				if err := d.call(t.Context(), "TransactWriteItems", counting(fmt.Sprint(round), 1), &c); err != nil {
					t.Error(err)
				}
				if c.isWrite() {
					writes.Add(1)
				}
				if c.isRead() {
					reads.Add(1)
				}
			})
		}
		calls.Wait()
		if writes.Load() != 1 || reads.Load() != callers-1 {
			t.Errorf("round %d: %d were charged as writes and %d as reads", round, writes.Load(), reads.Load())
		}
	}
	expectCount(t, d, rounds)
	expectSound(t, s)
}

// An index that is being built is described as such and cannot be read.
func TestIndexBeingBuilt(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		const delay = time.Minute
		_, d := open(t, stator.Options{TableDelay: delay})
		createTable(t, d, "Orders", nil)
		time.Sleep(delay)
		for k := range 10 {
			d.must(t, "PutItem", jsonObject{"TableName": "Orders", "Item": order("p", k, "x")}, nil)
		}
		d.must(t, "PutItem", jsonObject{"TableName": "Orders", "Item": attributes{"p": str("p"), "k": num(10), "g": num(1)}}, nil)
		d.must(t, "UpdateTable", jsonObject{
			"TableName":            "Orders",
			"AttributeDefinitions": []jsonObject{{"AttributeName": "g", "AttributeType": "S"}},
			"GlobalSecondaryIndexUpdates": []jsonObject{{"Create": jsonObject{
				"IndexName": "late", "KeySchema": []jsonObject{{"AttributeName": "g", "KeyType": "HASH"}}, "Projection": jsonObject{"ProjectionType": "ALL"},
			}}},
		}, nil)
		type index struct {
			IndexName, IndexStatus string
			Backfilling            *bool
			ItemCount              int
		}
		describe := func() index {
			t.Helper()
			var reply struct {
				Table struct{ GlobalSecondaryIndexes []index }
			}
			d.must(t, "DescribeTable", jsonObject{"TableName": "Orders"}, &reply)
			if len(reply.Table.GlobalSecondaryIndexes) != 1 {
				t.Fatalf("the description of the table is %+v", reply)
			}
			return reply.Table.GlobalSecondaryIndexes[0]
		}
		reads := map[string]jsonObject{
			"Scan": {"TableName": "Orders", "IndexName": "late"},
			"Query": {"TableName": "Orders", "IndexName": "late", "KeyConditionExpression": "g = :g",
				"ExpressionAttributeValues": jsonObject{":g": str("x")}},
		}
		if x := describe(); x.IndexStatus != "CREATING" || x.Backfilling == nil {
			t.Errorf("the description of the new index is %+v", x)
		}
		for operation, body := range reads {
			err := d.call(t.Context(), operation, body, nil)
			if want := "400 ValidationException: Cannot read from backfilling global secondary index: late"; err == nil || err.Error() != want {
				t.Errorf("%s: the error is %v, want %s", operation, err, want)
			}
		}
		time.Sleep(delay)
		synctest.Wait()
		if x := describe(); x.IndexStatus != "ACTIVE" || x.Backfilling != nil || x.ItemCount != 10 {
			t.Errorf("the description of the index is %+v", x)
		}
		for operation, body := range reads {
			var reply struct{ Count int }
			if d.must(t, operation, body, &reply); reply.Count != 10 {
				t.Errorf("%s finds %d items", operation, reply.Count)
			}
		}
	})
}
