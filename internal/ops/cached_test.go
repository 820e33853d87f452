package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/cache"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/store/pebble"
)

// cachedTest is a service with a cache and a table Items with the keys pk and sk, in
// which time passes only by advance.
type cachedTest struct {
	*testing.T
	s      *Service
	now    *atomic.Int64 // in nanoseconds
	engine *pausedEngine
}

// pausedEngine is an engine whose Get waits after it has read, if afterGet is set.
type pausedEngine struct {
	store.Engine
	afterGet atomic.Pointer[func()]
	panics   atomic.Bool // the next snapshot of a refresher does
}

func (e *pausedEngine) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if strings.Contains(string(debug.Stack()), "refresher") && e.panics.Swap(false) {
		panic("a bug")
	}
	return e.Engine.Snapshot(ctx)
}

func (e *pausedEngine) Get(ctx context.Context, c store.Consistency, keys ...[]byte) ([][]byte, error) {
	values, err := e.Engine.Get(ctx, c, keys...)
	if wait := e.afterGet.Load(); wait != nil {
		(*wait)()
	}
	return values, err
}

func newCachedTest(t *testing.T, o cache.Options, options ...func(*db.Options)) *cachedTest {
	t.Helper()
	c := &cachedTest{T: t, now: new(atomic.Int64)}
	c.now.Store(time.Unix(1_700_000_000, 0).UnixNano())
	now := clock.Given(func() time.Time { return time.Unix(0, c.now.Load()) })
	inner, err := pebble.Open(pebble.InMemory())
	if err != nil {
		t.Fatal(err)
	}
	c.engine = &pausedEngine{Engine: inner}
	if o.Bytes == 0 {
		o.Bytes = 1 << 20
	}
	o.Elapsed = now.Elapsed
	cached := cache.New(o)
	settings := db.Options{Clock: now}
	if o.Mode == cache.Coherent {
		settings.Writing = cached.Writing
	}
	for _, set := range options {
		set(&settings)
	}
	d, err := db.Open(t.Context(), c.engine, settings)
	if err != nil {
		t.Fatal(err)
	}
	c.s = New(Parts{DB: d, Cache: cached})
	t.Cleanup(func() {
		c.s.Close()
		if err := errors.Join(d.Close(), inner.Close()); err != nil {
			t.Error(err)
		}
	})
	c.around("CreateTable", createItems)
	return c
}

const createItems = `{"TableName":"Items","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"N"},{"AttributeName":"v","AttributeType":"S"}],
	"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}],
	"GlobalSecondaryIndexes":[{"IndexName":"by-v","KeySchema":[{"AttributeName":"v","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}]}`

func dax() cache.Options {
	return cache.Options{Mode: cache.DAX, ItemTTL: cache.DefaultTTL, QueryTTL: cache.DefaultTTL}
}

func coherent() cache.Options {
	o := dax()
	o.Mode = cache.Coherent
	return o
}

func (c *cachedTest) advance(d time.Duration) { c.now.Add(int64(d)) }

// try sends a request through the cache.
func (c *cachedTest) try(operation, body string) (reply string, use CacheUse, err error) {
	c.Helper()
	ctx := ThroughCache(WithCaller(c.Context(), Caller{Region: "us-east-1"}))
	text, err := answer(ctx, c.s, operation, []byte(body), new(buffer.Scratch))
	return string(text), CacheUsed(ctx), err
}

// around sends a request that does not go through the cache.
func (c *cachedTest) around(operation, body string) string {
	c.Helper()
	text, err := answer(c.Context(), c.s, operation, []byte(body), new(buffer.Scratch))
	if err != nil {
		c.Fatalf("%s %s: %v", operation, body, err)
	}
	return string(text)
}

// through sends a request through the cache, and checks how that is used.
func (c *cachedTest) through(want CacheUse, operation, body string) string {
	c.Helper()
	reply, use, err := c.try(operation, body)
	if err != nil {
		c.Fatalf("%s %s: %v", operation, body, err)
	}
	if use != want {
		c.Errorf("%s %s: %s, want %s", operation, body, use, want)
	}
	return reply
}

// settle waits until the items of transactions are read.
func (c *cachedTest) settle() { c.s.refresher.work.Wait() }

func itemKey(sk int) string { return fmt.Sprintf(`{"pk":{"S":"p"},"sk":{"N":"%d"}}`, sk) }

func itemWith(sk int, v string) string {
	return fmt.Sprintf(`{"pk":{"S":"p"},"sk":{"N":"%d"},"v":{"S":"%s"}}`, sk, v)
}

func getRequest(sk int) string {
	return fmt.Sprintf(`{"TableName":"Items","Key":%s}`, itemKey(sk))
}

func putRequest(sk int, v string) string {
	return fmt.Sprintf(`{"TableName":"Items","Item":%s}`, itemWith(sk, v))
}

const queryItems = `{"TableName":"Items","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"p"}}}`

// get reads an item through the cache, and checks its v ("" for no item) and the use.
func (c *cachedTest) get(use CacheUse, sk int, v string) {
	c.Helper()
	want := "{}"
	if v != "" {
		want = `"v":{"S":"` + v + `"}`
	}
	if reply := c.through(use, "GetItem", getRequest(sk)); !strings.Contains(reply, want) || v == "" && reply != want {
		c.Errorf("item %d is %s, want %q", sk, reply, v)
	}
}

// query queries all items through the cache, and checks the values of v.
func (c *cachedTest) query(use CacheUse, operation, body string, want ...string) {
	c.Helper()
	reply := c.through(use, operation, body)
	var page struct {
		Count int
		Items []struct{ V struct{ S string } }
	}
	if err := json.Unmarshal([]byte(reply), &page); err != nil {
		c.Fatal(err)
	}
	var got []string
	for _, it := range page.Items {
		got = append(got, it.V.S)
	}
	if !slices.Equal(got, want) || page.Count != len(want) {
		c.Errorf("%s %s: %s, want %q", operation, body, reply, want)
	}
}

// An item that was written around the cache is stale until its time to live.
func TestCachedItemIsStale(t *testing.T) {
	c := newCachedTest(t, dax())
	c.around("PutItem", putRequest(1, "one"))
	c.get(CacheMiss, 1, "one")
	c.around("PutItem", putRequest(1, "two"))
	c.get(CacheHit, 1, "one")
	c.advance(cache.DefaultTTL - 1)
	c.get(CacheHit, 1, "one")
	c.advance(1)
	c.get(CacheMiss, 1, "two")
	c.get(CacheHit, 1, "two")
}

// A hit consumes nothing, returns any projection of the item, and is not a request to the
// table.
func TestCachedItem(t *testing.T) {
	c := newCachedTest(t, dax())
	c.around("PutItem", putRequest(1, "one"))
	capacity := strings.TrimSuffix(getRequest(1), "}") + `,"ReturnConsumedCapacity":"TOTAL"`
	if reply := c.through(CacheMiss, "GetItem", capacity+`,"ProjectionExpression":"sk"}`); !strings.Contains(reply, `"Item":{"sk":{"N":"1"}}`) || !strings.Contains(reply, `"CapacityUnits":0.5`) {
		t.Error(reply)
	}
	read := total(c.s.DB, "dynamodb_consumed_read_capacity_units_total")
	if reply := c.through(CacheHit, "GetItem", capacity+`,"ProjectionExpression":"v"}`); !strings.Contains(reply, `"Item":{"v":{"S":"one"}}`) || !strings.Contains(reply, `"CapacityUnits":0.0}`) {
		t.Error(reply)
	}
	batch := `{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"Items":{"Keys":[` + itemKey(1) + `]}}}`
	if reply := c.through(CacheHit, "BatchGetItem", batch); !strings.Contains(reply, `"one"`) || !strings.Contains(reply, `"CapacityUnits":0`) {
		t.Error(reply)
	}
	if after := total(c.s.DB, "dynamodb_consumed_read_capacity_units_total"); after != read {
		t.Errorf("hits have consumed %v units", after-read)
	}
	for _, faulty := range []string{
		`{"TableName":"Items","Key":{"pk":{"S":"p"}}}`,
		`{"TableName":"Nothing","Key":` + itemKey(1) + `}`,
		`{"TableName":"Items","Key":` + itemKey(1) + `,"ProjectionExpression":"v[0], v.x"}`,
	} {
		_, want := answer(t.Context(), c.s, "GetItem", []byte(faulty), new(buffer.Scratch))
		if _, use, err := c.try("GetItem", faulty); err == nil || err.Error() != want.Error() || use != CachePass {
			t.Errorf("%s: %v and %s, want %v", faulty, err, use, want)
		}
	}
}

// That an item does not exist is cached, until it is written through the cache.
func TestCachedAbsence(t *testing.T) {
	c := newCachedTest(t, dax())
	c.get(CacheMiss, 1, "")
	c.around("PutItem", putRequest(1, "one"))
	c.get(CacheHit, 1, "")
	c.through(CachePass, "PutItem", putRequest(1, "two"))
	c.get(CacheHit, 1, "two")
	c.through(CachePass, "UpdateItem", strings.TrimSuffix(getRequest(1), "}")+`,"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"S":"three"}}}`)
	c.get(CacheHit, 1, "three")
	c.through(CachePass, "DeleteItem", getRequest(1))
	c.around("PutItem", putRequest(1, "four"))
	c.get(CacheHit, 1, "")
	c.advance(cache.DefaultTTL)
	c.get(CacheMiss, 1, "four")
}

// A write through the cache does not change the results of queries, nor does a query change
// what is cached of items.
func TestCachedQuery(t *testing.T) {
	c := newCachedTest(t, dax())
	c.through(CachePass, "PutItem", putRequest(1, "one"))
	scan, index := `{"TableName":"Items"}`, `{"TableName":"Items","IndexName":"by-v","KeyConditionExpression":"v = :v","ExpressionAttributeValues":{":v":{"S":"one"}}}`
	c.query(CacheMiss, "Query", queryItems, "one")
	c.query(CacheMiss, "Scan", scan, "one")
	c.query(CacheMiss, "Query", index, "one")
	c.through(CachePass, "PutItem", putRequest(2, "one"))
	c.query(CacheHit, "Query", queryItems, "one")
	c.query(CacheHit, "Scan", scan, "one")
	c.query(CacheHit, "Query", index, "one")
	c.get(CacheHit, 2, "one")
	// The same query with other names, and others.
	c.query(CacheHit, "Query", `{"TableName":"Items","KeyConditionExpression":"#k = :x","ExpressionAttributeNames":{"#k":"pk"},"ExpressionAttributeValues":{":x":{"S":"p"}},"ScanIndexForward":true}`, "one")
	for _, more := range []string{`"Limit":5`, `"ScanIndexForward":false`, `"FilterExpression":"attribute_exists(v)"`, `"FilterExpression":"attribute_not_exists(x)"`, `"ProjectionExpression":"v"`, `"ExclusiveStartKey":` + itemKey(0)} {
		body := strings.TrimSuffix(queryItems, "}") + "," + more + "}"
		c.query(CacheMiss, "Query", body, "one", "one")
		c.query(CacheHit, "Query", body, "one", "one")
	}
	c.advance(cache.DefaultTTL)
	c.query(CacheMiss, "Query", queryItems, "one", "one")
	c.query(CacheMiss, "Scan", scan, "one", "one")
	// A hit has the rest of the reply, too.
	page := strings.TrimSuffix(queryItems, "}") + `,"Limit":1,"ProjectionExpression":"v","ReturnConsumedCapacity":"INDEXES"}`
	first := c.through(CacheMiss, "Query", page)
	units := `"ConsumedCapacity":{"TableName":"Items","CapacityUnits":%s,"Table":{"CapacityUnits":%[1]s}}`
	if second := c.through(CacheHit, "Query", page); second != strings.Replace(first, fmt.Sprintf(units, "0.5"), fmt.Sprintf(units, "0.0"), 1) || second == first || !strings.Contains(second, "LastEvaluatedKey") {
		t.Errorf("first %s, then %s", first, second)
	}
	count := strings.TrimSuffix(queryItems, "}") + `,"Select":"COUNT"}`
	if a, b := c.through(CacheMiss, "Query", count), c.through(CacheHit, "Query", count); a != b || strings.Contains(a, "Items") {
		t.Errorf("first %s, then %s", a, b)
	}
	nothing := strings.TrimSuffix(queryItems, "}") + `,"ExclusiveStartKey":` + itemKey(9) + `}`
	c.query(CacheMiss, "Query", nothing)
	c.query(CacheHit, "Query", nothing)
}

// The projection of a list's elements is made once.
func TestCachedProjection(t *testing.T) {
	c := newCachedTest(t, dax())
	c.around("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"p"},"sk":{"N":"1"},"l":{"L":[{"S":"a"},{"S":"b"}]}}}`)
	body := strings.TrimSuffix(queryItems, "}") + `,"ProjectionExpression":"l[1]"}`
	if a, b := c.through(CacheMiss, "Query", body), c.through(CacheHit, "Query", body); a != b || !strings.Contains(a, `"b"`) {
		t.Errorf("first %s, then %s", a, b)
	}
}

// An item TTL of 0 is none, and with a query TTL of 0 queries are not cached.
func TestCacheWithoutTTL(t *testing.T) {
	o := dax()
	o.ItemTTL, o.QueryTTL = 0, 0
	c := newCachedTest(t, o)
	c.through(CachePass, "PutItem", putRequest(1, "one"))
	c.around("PutItem", putRequest(1, "two"))
	c.advance(1000 * time.Hour)
	c.get(CacheHit, 1, "one")
	c.query(CachePass, "Query", queryItems, "two")
	c.query(CachePass, "Query", queryItems, "two")
	c.through(CachePass, "PutItem", putRequest(1, "three"))
	c.get(CacheHit, 1, "three")
}

// Consistent reads, transactions and statements neither use nor fill the cache.
func TestPassedRequests(t *testing.T) {
	c := newCachedTest(t, dax())
	c.through(CachePass, "PutItem", putRequest(1, "one"))
	c.around("PutItem", putRequest(1, "two"))
	consistent := `,"ConsistentRead":true}`
	for operation, body := range map[string]string{
		"GetItem":          strings.TrimSuffix(getRequest(1), "}") + consistent,
		"Query":            strings.TrimSuffix(queryItems, "}") + consistent,
		"Scan":             `{"TableName":"Items"` + consistent,
		"BatchGetItem":     `{"RequestItems":{"Items":{"ConsistentRead":true,"Keys":[` + itemKey(1) + `]}}}`,
		"TransactGetItems": `{"TransactItems":[{"Get":{"TableName":"Items","Key":` + itemKey(1) + `}}]}`,
		"ExecuteStatement": `{"Statement":"SELECT * FROM Items WHERE pk = 'p'"}`,
	} {
		if reply := c.through(CachePass, operation, body); !strings.Contains(reply, `"two"`) {
			t.Errorf("%s: %s", operation, reply)
		}
	}
	c.get(CacheHit, 1, "one")
	c.query(CacheMiss, "Query", queryItems, "two")
	c.through(CachePass, "ExecuteStatement", `{"Statement":"UPDATE Items SET v = 'three' WHERE pk = 'p' AND sk = 1"}`)
	c.get(CacheHit, 1, "one")
}

// A write that is rejected leaves the cache as it is.
func TestRejectedWrites(t *testing.T) {
	c := newCachedTest(t, dax())
	c.through(CachePass, "PutItem", putRequest(1, "one"))
	never := `,"ConditionExpression":"attribute_exists(nothing)"}`
	for operation, body := range map[string]string{
		"PutItem":    strings.TrimSuffix(putRequest(1, "two"), "}") + never,
		"DeleteItem": strings.TrimSuffix(getRequest(1), "}") + never,
		"UpdateItem": strings.TrimSuffix(getRequest(1), "}") + `,"UpdateExpression":"SET v = v + v"}`,
		"TransactWriteItems": `{"TransactItems":[{"Put":{"TableName":"Items","Item":` + itemWith(2, "two") + `}},
			{"ConditionCheck":{"TableName":"Items","Key":` + itemKey(1) + never + `}]}`,
	} {
		if _, _, err := c.try(operation, body); err == nil {
			t.Errorf("%s was not rejected", operation)
		}
		c.settle()
		c.get(CacheHit, 1, "one")
	}
	c.get(CacheMiss, 2, "")
}

// A batch looks for each of its keys, and reads those that are not cached.
func TestCachedBatches(t *testing.T) {
	c := newCachedTest(t, dax())
	c.through(CachePass, "BatchWriteItem", `{"RequestItems":{"Items":[{"PutRequest":{"Item":`+itemWith(1, "one")+`}},{"PutRequest":{"Item":`+itemWith(3, "three")+`}},{"DeleteRequest":{"Key":`+itemKey(5)+`}}]}}`)
	for sk := range 6 {
		c.around("PutItem", putRequest(sk, fmt.Sprint("new-", sk)))
	}
	keys := make([]string, 6)
	for sk := range keys {
		keys[sk] = itemKey(sk)
	}
	batch := func(use CacheUse, units string, keys []string, want ...string) {
		t.Helper()
		reply := c.through(use, "BatchGetItem", `{"ReturnConsumedCapacity":"TOTAL","RequestItems":{"Items":{"Keys":[`+strings.Join(keys, ",")+`]}}}`)
		var got struct {
			Responses        map[string][]struct{ V struct{ S string } }
			ConsumedCapacity []struct{ CapacityUnits json.Number }
		}
		if err := json.Unmarshal([]byte(reply), &got); err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, it := range got.Responses["Items"] {
			values = append(values, it.V.S)
		}
		if !slices.Equal(values, want) || got.ConsumedCapacity[0].CapacityUnits.String() != units {
			t.Errorf("%s, want %q and %s units", reply, want, units)
		}
	}
	batch(CacheHit, "0.0", []string{keys[3], keys[5], keys[1]}, "three", "one")
	batch(CacheMiss, "1.5", keys, "new-0", "one", "new-2", "three", "new-4")
	batch(CacheHit, "0.0", keys, "new-0", "one", "new-2", "three", "new-4")
}

// Keys that are throttled are neither cached nor returned, and items that are left
// unprocessed are not cached.
func TestThrottledBatches(t *testing.T) {
	c := newCachedTest(t, dax(), func(o *db.Options) { o.Throttle = true })
	c.around("CreateTable", strings.NewReplacer(`"Items"`, `"Slow"`, `"BillingMode":"PAY_PER_REQUEST"`, `"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`,
		`"Projection":{"ProjectionType":"ALL"}`, `"Projection":{"ProjectionType":"ALL"},"ProvisionedThroughput":{"ReadCapacityUnits":1000,"WriteCapacityUnits":1000}`).Replace(createItems))
	pad := strings.Repeat("x", 20_000)
	var unprocessed struct {
		UnprocessedItems map[string][]struct {
			PutRequest struct {
				Item struct{ Sk struct{ N string } }
			}
		}
	}
	for range 10 {
		c.advance(time.Second)
		puts := make([]string, 25)
		for i := range puts {
			puts[i] = `{"PutRequest":{"Item":{"pk":{"S":"p` + fmt.Sprint(i) + `"},"sk":{"N":"` + fmt.Sprint(i) + `"},"pad":{"S":"` + pad + `"}}}}`
		}
		reply, _, err := c.try("BatchWriteItem", `{"RequestItems":{"Slow":[`+strings.Join(puts, ",")+`]}}`)
		if err != nil {
			continue
		}
		if err := json.Unmarshal([]byte(reply), &unprocessed); err != nil {
			t.Fatal(err)
		}
		if len(unprocessed.UnprocessedItems["Slow"]) > 0 {
			break
		}
	}
	left := unprocessed.UnprocessedItems["Slow"]
	if len(left) == 0 || len(left) == 25 {
		t.Fatalf("%d items are unprocessed", len(left))
	}
	for i := range 25 {
		_, use, _ := c.try("GetItem", fmt.Sprintf(`{"TableName":"Slow","Key":{"pk":{"S":"p%d"},"sk":{"N":"%d"}}}`, i, i))
		done := !slices.ContainsFunc(left, func(u struct {
			PutRequest struct {
				Item struct{ Sk struct{ N string } }
			}
		}) bool {
			return u.PutRequest.Item.Sk.N == fmt.Sprint(i)
		})
		if done && use != CacheHit {
			t.Errorf("item %d was written, and is not cached", i)
		}
	}
	// Reads: keys that are not cached exceed the limit; those that are do not.
	misses := 0
	for round := range 400 {
		keys := []string{`{"pk":{"S":"p0"},"sk":{"N":"0"}}`}
		for i := range 20 {
			keys = append(keys, fmt.Sprintf(`{"pk":{"S":"none-%d-%d"},"sk":{"N":"1"}}`, round, i))
		}
		reply, _, err := c.try("BatchGetItem", `{"RequestItems":{"Slow":{"Keys":[`+strings.Join(keys, ",")+`],"ProjectionExpression":"sk"}}}`)
		if err != nil {
			t.Fatalf("round %d: %v", round, err) // the first key is never throttled
		}
		if !strings.Contains(reply, `"Responses":{"Slow":[{"sk":{"N":"0"}}]}`) {
			t.Fatalf("round %d: %s", round, reply)
		}
		if misses = strings.Count(reply, "none-"); misses > 0 {
			break
		}
	}
	if misses == 0 {
		t.Error("no key was throttled")
	}
}

// The items of a transaction are cached after it, in the background.
func TestCachedTransaction(t *testing.T) {
	c := newCachedTest(t, dax())
	c.get(CacheMiss, 1, "")
	c.get(CacheMiss, 2, "")
	c.around("PutItem", putRequest(3, "three"))
	c.get(CacheMiss, 3, "three")
	c.around("PutItem", putRequest(3, "new"))
	body := `{"ClientRequestToken":"t","TransactItems":[{"Put":{"TableName":"Items","Item":` + itemWith(1, "one") + `}},
		{"Update":{"TableName":"Items","Key":` + itemKey(2) + `,"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"S":"two"}}}},
		{"ConditionCheck":{"TableName":"Items","Key":` + itemKey(3) + `,"ConditionExpression":"attribute_exists(v)"}}]}`
	c.through(CachePass, "TransactWriteItems", body)
	c.settle()
	c.get(CacheHit, 1, "one")
	c.get(CacheHit, 2, "two")
	c.get(CacheHit, 3, "new")
	c.around("PutItem", putRequest(1, "newer"))
	c.through(CachePass, "TransactWriteItems", body) // it was executed before
	c.settle()
	c.get(CacheHit, 1, "one")
	// When the service is closed, nothing is read any more, and nothing stale is left.
	c.s.Close()
	c.through(CachePass, "TransactWriteItems", strings.Replace(body, `"t"`, `"u"`, 1))
	c.get(CacheMiss, 1, "one")
}

// A table that is deleted and created again has no entries.
func TestCacheOfAnotherTable(t *testing.T) {
	for _, o := range []cache.Options{dax(), coherent()} {
		t.Run(string(o.Mode), func(t *testing.T) {
			c := newCachedTest(t, o)
			c.around("PutItem", putRequest(1, "one"))
			c.get(CacheMiss, 1, "one")
			c.query(CacheMiss, "Query", queryItems, "one")
			c.around("DeleteTable", `{"TableName":"Items"}`)
			if _, use, err := c.try("GetItem", getRequest(1)); err == nil || use != CachePass {
				t.Errorf("an item of a deleted table: %s, %v", use, err)
			}
			c.around("CreateTable", createItems)
			c.get(CacheMiss, 1, "")
			c.query(CacheMiss, "Query", queryItems)
		})
	}
}

// A read that finds an item before it is written, and caches it after that, does not
// replace what the write has cached.
func TestReadOvertakenByWrite(t *testing.T) {
	c := newCachedTest(t, dax())
	c.around("PutItem", putRequest(1, "old"))
	read, written := make(chan struct{}), make(chan struct{})
	wait := sync.OnceFunc(func() { close(read); <-written })
	c.engine.afterGet.Store(&wait)
	done := make(chan string)
	go func() {
		reply, _, err := c.try("GetItem", getRequest(1))
		done <- fmt.Sprint(reply, err)
	}()
	<-read
	c.engine.afterGet.Store(nil)
	c.through(CachePass, "PutItem", putRequest(1, "new"))
	close(written)
	if got := <-done; !strings.Contains(got, `"old"`) {
		t.Errorf("the read was not overtaken: %s", got) // the control
	}
	c.get(CacheHit, 1, "new")
}

// A panic while the items of a transaction are read for the cache does not end the process, and the
// items are not cached.
func TestRefresherPanics(t *testing.T) {
	c := newCachedTest(t, dax())
	c.through(CachePass, "PutItem", putRequest(1, "one"))
	c.get(CacheHit, 1, "one")
	c.engine.panics.Store(true)
	c.through(CachePass, "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Items","Item":`+itemWith(1, "two")+`}}]}`)
	c.settle()
	if c.engine.panics.Load() {
		t.Error("nothing was read")
	}
	c.get(CacheMiss, 1, "two")
	c.through(CachePass, "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Items","Item":`+itemWith(1, "three")+`}}]}`)
	c.settle()
	c.get(CacheHit, 1, "three")
}

// A panic while the other caches of the cluster are notified does not end the process either.
func TestRefresherPanicsAtItsEnd(t *testing.T) {
	c := newCachedTest(t, dax())
	notified := 0
	c.s.Cache().OnWritten(func([][]byte) {
		if notified++; notified == 1 {
			panic("a bug")
		}
	})
	for _, v := range []string{"one", "two"} {
		c.through(CachePass, "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Items","Item":`+itemWith(1, v)+`}}]}`)
		c.settle()
		c.get(CacheHit, 1, v)
	}
	if notified != 2 {
		t.Errorf("the other caches were notified %d times", notified)
	}
}

// Random requests are compared with a model: a table, and what a cache of it has.
func TestCacheIsAsItsModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := newCachedTest(t, dax())
	type known struct {
		v     string // "" if there is no item
		since time.Duration
	}
	type result struct {
		values []string
		since  time.Duration
	}
	const items = 6
	table, cached, queries := make([]string, items), map[int]known{}, map[string]result{}
	now, written, hits, stale := time.Duration(0), 0, 0, 0
	values := func(from int) (all []string) {
		for _, v := range table[from:] {
			if v != "" {
				all = append(all, v)
			}
		}
		return all
	}
	// lookup returns what a read of an item returns.
	lookup := func(sk int) (v string, hit bool) {
		if k, ok := cached[sk]; ok && now-k.since < cache.DefaultTTL {
			if k.v != table[sk] {
				stale++
			}
			hits++
			return k.v, true
		}
		cached[sk] = known{table[sk], now}
		return table[sk], false
	}
	write := func(sk int, v string, through bool) {
		if table[sk] = v; through {
			cached[sk] = known{v, now}
		}
	}
	send := func(through bool, operation, body string) {
		if through {
			c.through(CachePass, operation, body)
		} else {
			c.around(operation, body)
		}
	}
	for range 4000 {
		sk, through := random.IntN(items), random.IntN(2) == 0
		written++
		v := fmt.Sprint("v", written)
		switch random.IntN(9) {
		case 0:
			step := time.Duration(random.IntN(60)) * time.Second
			now += step
			c.advance(step)
		case 1:
			send(through, "PutItem", putRequest(sk, v))
			write(sk, v, through)
		case 2:
			send(through, "DeleteItem", getRequest(sk))
			write(sk, "", through)
		case 3:
			send(through, "UpdateItem", strings.TrimSuffix(getRequest(sk), "}")+`,"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"S":"`+v+`"}}}`)
			write(sk, v, through)
		case 4:
			other := (sk + 1) % items
			send(through, "BatchWriteItem", `{"RequestItems":{"Items":[{"PutRequest":{"Item":`+itemWith(sk, v)+`}},{"DeleteRequest":{"Key":`+itemKey(other)+`}}]}}`)
			write(sk, v, through)
			write(other, "", through)
		case 5:
			other := (sk + 1) % items
			send(through, "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Items","Item":`+itemWith(sk, v)+`}},{"Delete":{"TableName":"Items","Key":`+itemKey(other)+`}}]}`)
			c.settle()
			write(sk, v, through)
			write(other, "", through)
		case 6:
			v, hit := lookup(sk)
			use := CacheMiss
			if hit {
				use = CacheHit
			}
			c.get(use, sk, v)
		case 7:
			use, keys, want := CacheHit, []string{}, []string{}
			for sk := range 1 + random.IntN(items) {
				keys = append(keys, itemKey(sk))
				v, hit := lookup(sk)
				if v != "" {
					want = append(want, v)
				}
				if !hit {
					use = CacheMiss
				}
			}
			reply := c.through(use, "BatchGetItem", `{"RequestItems":{"Items":{"Keys":[`+strings.Join(keys, ",")+`],"ProjectionExpression":"v"}}}`)
			list := make([]string, len(want))
			for i, v := range want {
				list[i] = `{"v":{"S":"` + v + `"}}`
			}
			if !strings.Contains(reply, `{"Items":[`+strings.Join(list, ",")+`]}`) {
				t.Errorf("%s, want %q", reply, want)
			}
		case 8:
			from := random.IntN(items)
			body := fmt.Sprintf(`{"TableName":"Items","KeyConditionExpression":"pk = :p AND sk >= :s","ExpressionAttributeValues":{":p":{"S":"p"},":s":{"N":"%d"}}}`, from)
			use, r := CacheHit, queries[body]
			if _, ok := queries[body]; !ok || now-r.since >= cache.DefaultTTL {
				use, r = CacheMiss, result{values(from), now}
				queries[body] = r
			} else if hits++; !slices.Equal(r.values, values(from)) {
				stale++
			}
			c.query(use, "Query", body, r.values...)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d hits, %d of them stale", hits, stale)
	if stale < 100 || hits-stale < 100 {
		t.Error("too few hits")
	}
}

// In mode coherent, every request that writes drops what it changes, around the cache too.
func TestCoherentCache(t *testing.T) {
	scan, index := `{"TableName":"Items"}`, `{"TableName":"Items","IndexName":"by-v","KeyConditionExpression":"v = :v","ExpressionAttributeValues":{":v":{"S":"one"}}}`
	for _, r := range []struct{ operation, body, want string }{
		{"PutItem", putRequest(1, "two"), "two"},
		{"DeleteItem", getRequest(1), ""},
		{"UpdateItem", strings.TrimSuffix(getRequest(1), "}") + `,"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"S":"two"}}}`, "two"},
		{"BatchWriteItem", `{"RequestItems":{"Items":[{"PutRequest":{"Item":` + itemWith(1, "two") + `}}]}}`, "two"},
		{"TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"Items","Key":` + itemKey(1) + `}}]}`, ""},
		{"ExecuteStatement", `{"Statement":"UPDATE Items SET v = 'two' WHERE pk = 'p' AND sk = 1"}`, "two"},
		{"BatchExecuteStatement", `{"Statements":[{"Statement":"DELETE FROM Items WHERE pk = 'p' AND sk = 1"}]}`, ""},
		{"ExecuteTransaction", `{"TransactStatements":[{"Statement":"UPDATE Items SET v = 'two' WHERE pk = 'p' AND sk = 1"}]}`, "two"},
	} {
		for _, through := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, through the cache: %v", r.operation, through), func(t *testing.T) {
				c := newCachedTest(t, coherent())
				c.around("PutItem", putRequest(1, "one"))
				c.around("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"other"},"sk":{"N":"1"},"v":{"S":"x"}}}`)
				other := strings.Replace(queryItems, `"S":"p"`, `"S":"other"`, 1)
				for _, use := range []CacheUse{CacheMiss, CacheHit} {
					c.get(use, 1, "one")
					c.query(use, "Query", queryItems, "one")
					c.query(use, "Query", index, "one")
					c.query(use, "Query", other, "x")
					c.through(use, "Scan", scan)
				}
				if through {
					c.through(CachePass, r.operation, r.body)
				} else {
					c.around(r.operation, r.body)
				}
				c.get(CacheMiss, 1, r.want)
				if r.want == "" {
					c.query(CacheMiss, "Query", queryItems)
				} else {
					c.query(CacheMiss, "Query", queryItems, r.want)
				}
				c.query(CacheMiss, "Query", index)
				c.query(CacheHit, "Query", other, "x") // of another partition
				if reply := c.through(CacheMiss, "Scan", scan); strings.Contains(reply, `"one"`) {
					t.Error(reply)
				}
			})
		}
	}
}

// An expired item that reads omit is not found, although nobody has written it.
func TestCoherentCacheHidesExpired(t *testing.T) {
	c := newCachedTest(t, coherent(), func(o *db.Options) { o.HideExpired, o.ExpiryInterval = true, 24*time.Hour })
	c.around("UpdateTimeToLive", `{"TableName":"Items","TimeToLiveSpecification":{"AttributeName":"expires","Enabled":true}}`)
	c.around("PutItem", fmt.Sprintf(`{"TableName":"Items","Item":{"pk":{"S":"p"},"sk":{"N":"1"},"v":{"S":"one"},"expires":{"N":"%d"}}}`, c.now.Load()/int64(time.Second)+60))
	c.get(CachePass, 1, "one")
	c.query(CachePass, "Query", queryItems, "one")
	c.advance(2 * time.Minute)
	c.get(CachePass, 1, "")
	c.query(CachePass, "Query", queryItems)
}

// With concurrent writes, a read that begins after a write was answered does not return
// what was before it. The control is mode dax, which does.
func TestCoherentReadsSeeAnsweredWrites(t *testing.T) {
	for _, o := range []cache.Options{coherent(), dax()} {
		t.Run(string(o.Mode), func(t *testing.T) {
			stale := staleReads(t, newCachedTest(t, o))
			t.Logf("%d stale reads", stale)
			if (stale > 0) != (o.Mode == cache.DAX) {
				t.Errorf("%d stale reads", stale)
			}
		})
	}
}

// staleReads writes and reads a few items concurrently, and returns how many reads have
// returned what was replaced before they began.
func staleReads(t *testing.T, c *cachedTest) int64 {
	const items, rounds = 4, 400
	var answered [items]atomic.Int64 // the last value that a write was answered for
	var stale atomic.Int64
	var group sync.WaitGroup
	check := func(reply string, sk int, before int64) {
		var at int64
		if _, v, ok := strings.Cut(reply, `"sk":{"N":"`+fmt.Sprint(sk)+`"},"v":{"S":"`); ok {
			fmt.Sscanf(v, "%d", &at)
		}
		if at < before {
			stale.Add(1)
		}
	}
	for sk := range items {
		group.Go(func() { // one writer for each item, so that its values ascend
			for n := range int64(rounds) {
				v := fmt.Sprint(n + 1)
				operation, body := "PutItem", putRequest(sk, v)
				switch n % 3 {
				case 1:
					operation, body = "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"Items","Item":`+itemWith(sk, v)+`}}]}`
				case 2:
					operation, body = "ExecuteStatement", `{"Statement":"UPDATE Items SET v = '`+v+`' WHERE pk = 'p' AND sk = `+fmt.Sprint(sk)+`"}`
				}
				if _, err := answer(t.Context(), c.s, operation, []byte(body), new(buffer.Scratch)); err != nil {
					t.Error(err)
				}
				answered[sk].Store(n + 1)
			}
		})
		group.Go(func() {
			for range 2 * rounds {
				before := answered[sk].Load()
				reply, _, err := c.try("GetItem", getRequest(sk))
				if err != nil {
					t.Error(err)
				}
				check(reply, sk, before)
			}
		})
	}
	for _, r := range [][2]string{{"Query", queryItems}, {"Scan", `{"TableName":"Items"}`}} {
		group.Go(func() {
			for range rounds {
				var before [items]int64
				for sk := range before {
					before[sk] = answered[sk].Load()
				}
				reply, _, err := c.try(r[0], r[1])
				if err != nil {
					t.Error(err)
				}
				for sk := range before {
					check(reply, sk, before[sk])
				}
			}
		})
	}
	group.Wait()
	return stale.Load()
}

// A page for which there is no memory is returned, but not cached.
func TestCachedPagesAreReserved(t *testing.T) {
	c := newCachedTest(t, dax())
	for i := range 20 {
		c.around("PutItem", fmt.Sprintf(`{"TableName":"Items","Item":{"pk":{"S":"a"},"sk":{"N":"%d"},"text":{"S":"%s"}}}`, i, strings.Repeat("x", 10_000)))
	}
	const query = `{"TableName":"Items","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"a"}},"Select":"ALL_ATTRIBUTES"}`
	read := func(room buffer.Room) (used CacheUse, reply string) {
		ctx := ThroughCache(WithCaller(t.Context(), Caller{Room: room}))
		text, err := answer(ctx, c.s, "Query", []byte(query), new(buffer.Scratch))
		if err != nil {
			t.Fatal(err)
		}
		return CacheUsed(ctx), string(text)
	}
	room := &freeRoom{free: 150_000} // less than a copy of the page
	_, want := read(room)
	if stats := c.s.cache.Stats(); stats.Entries != 0 {
		t.Errorf("a page without memory is cached: %+v", stats)
	}
	counted := new(countedRoom)
	if _, got := read(counted); got != want {
		t.Error("the replies differ")
	}
	if stats := c.s.cache.Stats(); stats.Entries != 1 {
		t.Errorf("a page is not cached: %+v", stats)
	}
	if counted.held < 200_000 {
		t.Errorf("%d bytes were reserved for the copy of a page", counted.held)
	}
	if used, got := read(room); used != CacheHit || got != want {
		t.Errorf("%v", used)
	}
}

// freeRoom has some memory.
type freeRoom struct{ free int }

func (r *freeRoom) Reserve(bytes int) bool {
	if bytes > r.free {
		return false
	}
	r.free -= bytes
	return true
}
func (r *freeRoom) Force(bytes int)  { r.free -= bytes }
func (r *freeRoom) Return(bytes int) { r.free += bytes }
func (r *freeRoom) Free(bytes int)   { r.free += bytes }
func (r *freeRoom) Commit()          {}

// The parameter group of the cluster that a server is changes its running cache.
func TestParameterGroupsChangeTheCache(t *testing.T) {
	o := dax()
	o.Cluster = "Shop"
	c := newCachedTest(t, o)
	c.s.dax = func() DAXPort { return DAXPort{Cached: true, ItemTTL: cache.DefaultTTL, QueryTTL: cache.DefaultTTL} }
	control := func(operation, body, want string) {
		t.Helper()
		if got := c.around("AmazonDAXV3."+operation, body); !strings.Contains(got, want) {
			t.Errorf("%s: %s\ndoes not have %s", operation, got, want)
		}
	}
	running := func(item, query time.Duration) {
		t.Helper()
		if gotItem, gotQuery := c.s.cache.TTLs(); gotItem != item || gotQuery != query {
			t.Errorf("the times to live are %s and %s, want %s and %s", gotItem, gotQuery, item, query)
		}
	}
	const get = `{"TableName":"Items","Key":{"pk":{"S":"a"},"sk":{"N":"1"}}}`
	read := func(want CacheUse) {
		t.Helper()
		if _, use, err := c.try("GetItem", get); err != nil || use != want {
			t.Errorf("the read is a %s, %v, want a %s", use, err, want)
		}
	}
	set := func(name, value string) {
		t.Helper()
		control("UpdateParameterGroup", `{"ParameterGroupName":"short","ParameterNameValues":[{"ParameterName":"`+name+`","ParameterValue":"`+value+`"}]}`, "short")
	}
	control("CreateParameterGroup", `{"ParameterGroupName":"short"}`, "short")
	set("record-ttl-millis", "10000")
	running(5*time.Minute, 5*time.Minute)
	control("CreateCluster", `{"ClusterName":"other","NodeType":"dax.t3.small","ReplicationFactor":1,"ParameterGroupName":"short",`+daxRole+`}`, "pending-reboot")
	running(5*time.Minute, 5*time.Minute)
	control("CreateCluster", `{"ClusterName":"shop","NodeType":"dax.t3.small","ReplicationFactor":1,`+daxRole+`}`, "in-sync")
	running(5*time.Minute, 5*time.Minute)

	read(CacheMiss)
	c.advance(20 * time.Second)
	read(CacheHit)
	control("UpdateCluster", `{"ClusterName":"shop","ParameterGroupName":"short"}`, `"ParameterApplyStatus":"in-sync"`)
	running(10*time.Second, 5*time.Minute)
	read(CacheMiss) // what was cached before is too old now
	c.advance(9 * time.Second)
	read(CacheHit)
	c.advance(time.Second)
	read(CacheMiss)
	set("record-ttl-millis", "60000")
	set("query-ttl-millis", "0")
	running(time.Minute, 0)
	c.advance(30 * time.Second)
	read(CacheHit)
	if c.s.cache.CachesQueries() {
		t.Error("queries are cached")
	}
	control("DescribeClusters", `{"ClusterNames":["shop"]}`, `"ParameterApplyStatus":"in-sync"`)

	// Another server has changed the group: this one applies it with the next change that it makes.
	c.s.cache.SetTTLs(time.Second, time.Second)
	control("DescribeClusters", `{"ClusterNames":["shop"]}`, `"ParameterApplyStatus":"pending-reboot"`)
	control("RebootNode", `{"ClusterName":"shop","NodeId":"shop-a"}`, "shop")
	running(time.Minute, 0)
	control("DeleteCluster", `{"ClusterName":"shop"}`, "shop")
	running(5*time.Minute, 5*time.Minute)
}
