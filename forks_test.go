package stator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/virtualtime"
	"github.com/stator-db/stator/statortest"
)

// member is a database of the property test, with what it must have: its tables, and their
// items by key.
type member struct {
	db     *stator.DB
	client *dynamodb.Client
	tables map[string]map[string]string
	writes map[string]int // to each table since it was created, which its stream has
}

func (m *member) clone(db *stator.DB) *member {
	c := &member{db: db, client: statortest.Client(db), tables: make(map[string]map[string]string), writes: maps.Clone(m.writes)}
	for name, items := range m.tables {
		c.tables[name] = maps.Clone(items)
	}
	return c
}

var forkTables = []string{"Ants", "Bees", "Cats"}

func createForkTable(ctx context.Context, c *dynamodb.Client, name string) error {
	_, err := c.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("v"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("byV"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("v"), KeyType: types.KeyTypeHash}},
		}},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly},
	})
	return err
}

func forkItem(id, v string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: id}, "v": &types.AttributeValueMemberS{Value: v}}
}

func forkKey(id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: id}}
}

// Random operations on a database, on forks of it and on forks of those: items, transactions,
// tables that are created and deleted. Each database has at any time what was written to it,
// in its tables, indexes, streams and item counts, and nothing else.
func TestForksAreIsolated(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		name := "in memory"
		if dir != "" {
			name, dir = "in a folder", filepath.Join(dir, "data")
		}
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			testForksAreIsolated(t, rand.New(rand.NewPCG(seed, 0)), stator.Options{Dir: dir, Relaxed: true})
		})
	}
}

func testForksAreIsolated(t *testing.T, r *rand.Rand, o stator.Options) {
	ctx := t.Context()
	base, err := stator.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.Close() })
	members := []*member{(&member{}).clone(base)}
	members[0].writes = make(map[string]int)
	for step := range 700 {
		at := r.IntN(len(members))
		m := members[at]
		switch p := r.IntN(100); {
		case p < 6 && len(members) < 7:
			members = append(members, m.clone(statortest.ForkDB(t, m.db)))
		case p < 8 && at > 0:
			if err := m.db.Close(); err != nil {
				t.Fatal(err)
			}
			members = slices.Delete(members, at, at+1)
		case p < 12:
			m.check(t)
		default:
			if err := m.change(ctx, r, fmt.Sprint(step)); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
	}
	for _, m := range members {
		m.check(t)
	}
}

// change makes one random change of the tables or of items.
func (m *member) change(ctx context.Context, r *rand.Rand, v string) error {
	table := forkTables[r.IntN(len(forkTables))]
	items, exists := m.tables[table]
	id := func() string { return fmt.Sprint(r.IntN(30)) }
	switch p := r.IntN(100); {
	case !exists:
		m.tables[table], m.writes[table] = make(map[string]string), 0
		return createForkTable(ctx, m.client, table)
	case p < 3:
		delete(m.tables, table)
		_, err := m.client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table})
		return err
	case p < 55:
		k := id()
		items[k] = v
		m.writes[table]++
		_, err := m.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: forkItem(k, v)})
		return err
	case p < 75:
		k := id()
		if _, has := items[k]; has {
			m.writes[table]++
		}
		delete(items, k)
		_, err := m.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: forkKey(k)})
		return err
	}
	put, del := id(), id()
	if put == del {
		return nil
	}
	_, err := m.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: &table, Item: forkItem(put, v), ConditionExpression: aws.String("attribute_not_exists(id)")}},
		{Delete: &types.Delete{TableName: &table, Key: forkKey(del)}},
	}})
	var canceled *types.TransactionCanceledException
	if _, has := items[put]; has {
		if !errors.As(err, &canceled) {
			return fmt.Errorf("the condition of a transaction holds: %w", err)
		}
		return nil
	}
	if _, has := items[del]; has {
		m.writes[table]++
	}
	delete(items, del)
	items[put] = v
	m.writes[table]++
	return err
}

// check compares all that can be read with what was written.
func (m *member) check(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	list, err := m.client.ListTables(ctx, &dynamodb.ListTablesInput{})
	if err != nil || !slices.Equal(list.TableNames, slices.Sorted(maps.Keys(m.tables))) {
		t.Fatalf("tables %q, %v, want %q", list.TableNames, err, slices.Sorted(maps.Keys(m.tables)))
	}
	for table, want := range m.tables {
		got := make(map[string]string)
		scan, err := m.client.Scan(ctx, &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range scan.Items {
			got[i["id"].(*types.AttributeValueMemberS).Value] = i["v"].(*types.AttributeValueMemberS).Value
		}
		if !maps.Equal(got, want) {
			t.Fatalf("table %s has %v, want %v", table, got, want)
		}
		index, err := m.client.Scan(ctx, &dynamodb.ScanInput{TableName: &table, IndexName: aws.String("byV")})
		if err != nil || int(index.Count) != len(want) {
			t.Fatalf("index of table %s has %d entries, %v, want %d", table, index.Count, err, len(want))
		}
		described, err := m.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		if err != nil || int(*described.Table.ItemCount) != len(want) {
			t.Fatalf("the item count of table %s is %d, %v, want %d", table, *described.Table.ItemCount, err, len(want))
		}
		if n := m.records(t, *described.Table.LatestStreamArn); n != m.writes[table] {
			t.Fatalf("the stream of table %s has %d records, want %d", table, n, m.writes[table])
		}
	}
}

// records counts the records of a stream.
func (m *member) records(t *testing.T, stream string) (n int) {
	t.Helper()
	var shards struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	call(t, m.db.Client(), "DynamoDBStreams_20120810.DescribeStream", map[string]any{"StreamArn": stream}, &shards)
	for _, shard := range shards.StreamDescription.Shards {
		var at struct{ ShardIterator string }
		call(t, m.db.Client(), "DynamoDBStreams_20120810.GetShardIterator", map[string]any{"StreamArn": stream, "ShardId": shard.ShardId, "ShardIteratorType": "TRIM_HORIZON"}, &at)
		for {
			var page struct {
				Records           []json.RawMessage
				NextShardIterator string
			}
			call(t, m.db.Client(), "DynamoDBStreams_20120810.GetRecords", map[string]any{"ShardIterator": at.ShardIterator}, &page)
			n += len(page.Records)
			if at.ShardIterator = page.NextShardIterator; len(page.Records) == 0 || at.ShardIterator == "" {
				break
			}
		}
	}
	return n
}

// call sends a request, which must succeed.
func call(t testing.TB, c *http.Client, target string, in, out any) {
	t.Helper()
	if status, text := send(t, c, "http://stator.invalid/", target, in); status != http.StatusOK {
		t.Fatalf("%s: %d %s", target, status, text)
	} else if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatal(err)
	}
}

// send sends a request, with headers given as name, value, name, value.
func send(t testing.TB, c *http.Client, url, target string, in any, headers ...string) (status int, text string) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("X-Amz-Date", "20260101T000000Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0")
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	reply, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	read, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(read)
}

// forkServer is a server whose requests may make forks.
type forkServer struct {
	*testing.T
	handler http.Handler
}

func newForkServer(t *testing.T, o stator.Options) *forkServer {
	t.Helper()
	if o.Forks == nil {
		o.Forks = &stator.ForkOptions{}
	}
	db, err := stator.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &forkServer{t, db.Handler()}
}

// at sends a request to a fork, by the header or by a path, or to the server itself for an empty
// name.
func (s *forkServer) at(fork, target, body string, headers ...string) (int, string) {
	s.Helper()
	path := "/"
	if strings.HasPrefix(fork, "/") {
		path = fork
	} else if fork != "" {
		headers = append(headers, "X-Stator-Fork", fork)
	}
	if body == "" {
		body = "{}"
	}
	if !strings.Contains(target, ".") {
		target = "DynamoDB_20120810." + target
	}
	return send(s, stator.HandlerClient(s.handler), "http://127.0.0.1:8000"+path, target, json.RawMessage(body), headers...)
}

// want sends a request whose reply has this text, or fails with an error that has it.
func (s *forkServer) want(fork, target, body, text string, headers ...string) {
	s.Helper()
	if _, got := s.at(fork, target, body, headers...); !strings.Contains(got, text) {
		s.Errorf("%s %.200s at %q: %s, want %s", target, body, fork, got, text)
	}
}

const (
	forkTable = `{"TableName":"Mine","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"}}`
	scanMine  = `{"TableName":"Mine","Select":"COUNT"}`
)

func putMine(id string) string { return `{"TableName":"Mine","Item":{"id":{"S":"` + id + `"}}}` }

// A fork is reached by the header, the path and the host name, and no other request reaches it.
func TestForksOverHTTP(t *testing.T) {
	s := newForkServer(t, stator.Options{AllowedHosts: []string{"db.localhost"}})
	s.want("", "CreateTable", forkTable, "Mine")
	s.want("", "PutItem", putMine("a"), "{}")
	s.want("", "Stator.CreateFork", `{"ForkName":"One"}`, `"ForkName":"one"`)
	s.want("", "Stator.CreateFork", `{"ForkName":"one"}`, "ResourceInUseException")
	s.want("one", "PutItem", putMine("b"), "{}")
	s.want("", "PutItem", putMine("c"), "{}")
	s.want("", "PutItem", putMine("d"), "{}")
	s.want("one", "Scan", scanMine, `"Count":2`)
	s.want("ONE", "Scan", scanMine, `"Count":2`)
	s.want("", "Scan", scanMine, `"Count":3`)
	s.want("", "Scan", scanMine, `"Count":2`, "Host", "one.localhost:8000")
	s.want("", "Scan", scanMine, `"Count":3`, "Host", "localhost:8000")
	s.want("", "Scan", scanMine, `"Count":3`, "Host", "db.localhost:8000")
	s.want("one", "Scan", scanMine, `"Count":2`, "Host", "one.localhost")
	s.want("one", "Scan", scanMine, "different forks", "Host", "two.localhost")
	s.want("", "Scan", scanMine, "Fork: two not found", "Host", "two.localhost")
	s.want("two", "Scan", scanMine, "Fork: two not found")
	s.want("../one", "Scan", scanMine, "must be the name of a fork")
	for _, path := range []string{"/fork/one", "/fork/one/", "/fork/ONE"} {
		s.want(path, "Scan", scanMine, `"Count":2`)
		s.want(path, "Scan", scanMine, `"Count":2`, "X-Stator-Fork", "one")
		s.want(path, "Scan", scanMine, "different forks", "X-Stator-Fork", "two")
		s.want(path, "Scan", scanMine, "different forks", "Host", "two.localhost")
	}
	s.want("/fork/two", "Scan", scanMine, "Fork: two not found")
	s.want("/fork/", "Scan", scanMine, "must begin with the name of a fork")
	s.want("/fork/a_b/", "Scan", scanMine, "must begin with the name of a fork")
	for _, path := range []string{"/fork/one/fork/one", "/fork/one/other", "/fork"} {
		s.want(path, "Scan", scanMine, "UnknownOperationException")
	}
	for path, want := range map[string]string{"/fork/one": "healthy: dynamodb", "/fork/one/readyz": "", "/fork/one/metrics": "stator_", "/fork/two/": "Fork: two not found"} {
		if got := s.get(path); !strings.Contains(got, want) || strings.Contains(got, "Exception") {
			t.Errorf("GET %s: %.200s, want %s", path, got, want)
		}
	}
	s.want("", "Scan", scanMine, "must be the name of a fork", "X-Stator-Fork", "")
	s.want("", "Stator.CreateFork", `{"ForkName":"a/b"}`, "must have letters, digits and hyphens only")
	s.want("", "Stator.CreateFork", `{"ForkName":"-a"}`, "must have letters, digits and hyphens only")
	s.want("", "Scan", scanMine, "requests from pages of other sites", "Host", "one.localhost:8000", "Origin", "http://two.localhost:8000")

	s.want("one", "Stator.CreateFork", `{"ForkName":"child"}`, `"ForkOf":"one"`)
	s.want("child", "Scan", scanMine, `"Count":2`)
	s.want("one", "Stator.DeleteFork", `{"ForkName":"one"}`, "{}")
	s.want("one", "Scan", scanMine, "Fork: one not found")
	s.want("child", "Scan", scanMine, `"Count":2`)
	s.want("", "Stator.ListForks", "", `"ForkName":"child"`)
	s.want("", "Stator.DeleteFork", `{"ForkName":"one"}`, "Fork: one not found")
	s.want("", "Stator.CreateFork", "", `"ForkName":"fork-`)
	s.want("child", "Stator.CreateAccessKey", "", "has the access keys and principals of its server")
}

// get sends a GET request without a signature.
func (s *forkServer) get(path string, headers ...string) string {
	s.Helper()
	r := httptest.NewRequestWithContext(s.Context(), http.MethodGet, "http://127.0.0.1:8000"+path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Body.String()
}

// A header that is sent twice is rejected, since it could name two forks.
func TestRepeatedForkHeader(t *testing.T) {
	s := newForkServer(t, stator.Options{Console: stator.ConsoleRead})
	s.want("", "Stator.CreateFork", `{"ForkName":"one"}`, "one")
	for _, path := range []string{"/", "/console/"} {
		if got := s.get(path, "X-Stator-Fork", "one", "X-Stator-Fork", "one"); !strings.Contains(got, "must be the name of a fork, once") {
			t.Errorf("GET %s: %.200s", path, got)
		}
	}
}

// Patterns of --allow-host do not make the names of forks those of the server itself.
func TestForksWithHostPatterns(t *testing.T) {
	for _, pattern := range []string{"*", "*.localhost"} {
		s := newForkServer(t, stator.Options{AllowedHosts: []string{pattern, "DB.localhost"}})
		s.want("", "ListTables", "", "Fork: one not found", "Host", "one.localhost:8000")
		s.want("", "ListTables", "", `"TableNames":[]`, "Host", "db.localhost:8000")
	}
}

// A request for a fork does not reach a database without forks: it could be one that tests must
// not change.
func TestNoForks(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := &forkServer{t, db.Handler()}
	s.want("", "Stator.CreateFork", "", "makes no forks")
	s.want("", "ListTables", "", `"TableNames":[]`, "Host", "one.localhost")
	fork := &forkServer{t, statortest.ForkDB(t, db).Handler()}
	for _, s := range []*forkServer{s, fork} {
		s.want("one", "ListTables", "", "Fork: one not found: no forks can be reached here")
		s.want("/fork/one", "ListTables", "", "Fork: one not found: no forks can be reached here")
		s.want("", "ListTables", "", "must be the name of a fork", "X-Stator-Fork", "")
		if got := s.get("/", "X-Stator-Fork", "one"); !strings.Contains(got, "Fork: one not found") {
			t.Errorf("a health check of a fork: %s", got)
		}
	}
	s.want("", "ListTables", "", `"TableNames":[]`)
}

func TestForkLimits(t *testing.T) {
	s := newForkServer(t, stator.Options{Forks: &stator.ForkOptions{Max: 3, Bytes: 100_000, AllBytes: 180_000}})
	large := func(id string) string {
		return `{"TableName":"Mine","Item":{"id":{"S":"` + id + `"},"v":{"S":"` + strings.Repeat("v", 60_000) + `"}}}`
	}
	s.want("", "CreateTable", strings.Replace(forkTable, `"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"`, `"StreamEnabled":false`, 1), "Mine")
	for _, name := range []string{"a", "b", "c"} {
		s.want("", "Stator.CreateFork", `{"ForkName":"`+name+`"}`, name)
	}
	s.want("", "Stator.CreateFork", "", "There are 3 forks and snapshots, the most that this server may have")
	s.want("", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, "There are 3 forks and snapshots")
	s.want("a", "PutItem", large("1"), "{}")
	status, text := s.at("a", "PutItem", large("2"))
	if status != http.StatusBadRequest || !strings.Contains(text, "LimitExceededException") || !strings.Contains(text, "exceed 100000 bytes, the limit of a fork") {
		t.Errorf("a write beyond the limit of a fork: %d %s", status, text)
	}
	s.want("a", "Scan", scanMine, `"Count":1`)
	s.want("b", "PutItem", large("1"), "{}")
	s.want("c", "PutItem", large("1"), "exceed 180000 bytes, the limit of the server")
	s.want("a", "DeleteItem", `{"TableName":"Mine","Key":{"id":{"S":"1"}}}`, "{}")
	s.want("c", "PutItem", large("1"), "{}")
	s.want("", "Stator.DeleteFork", `{"ForkName":"b"}`, "{}")
	s.want("", "Stator.CreateFork", "", "fork-")
	s.want("", "PutItem", large("2"), "{}")
}

// Forks follow the test clock of their database, and a rewound server keeps it and its faults.
func TestClockOfForks(t *testing.T) {
	clock := stator.NewTestClock(time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC))
	s := newForkServer(t, stator.Options{TestClock: clock, TestClockRequests: true, AllowFaults: true})
	s.want("", "CreateTable", forkTable, "Mine")
	s.want("", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, "s")
	s.want("", "Stator.Rewind", `{"SnapshotName":"s"}`, "s")
	s.want("", "Stator.AdvanceClock", `{"Seconds":60}`, fmt.Sprintf(`{"Time":%d.000,"Mode":"frozen"}`, clock.Now().Unix()+60))
	s.want("", "Stator.SetFaults", `{"Plan":"faults: []"}`, `"Rules":0`)
	s.want("", "Stator.CreateFork", `{"ForkName":"f"}`, "f")
	for _, fork := range []string{"", "f"} {
		at := latest(s, fork)
		s.want(fork, "PutItem", putMine("a"), "{}")
		records := ""
		for _, iterator := range at {
			_, text := s.at(fork, "DynamoDBStreams_20120810.GetRecords", `{"ShardIterator":"`+iterator+`"}`)
			records += text
		}
		if want := fmt.Sprintf(`"ApproximateCreationDateTime":%d`, clock.Now().Unix()); !strings.Contains(records, want) {
			t.Errorf("at %q: %s, want %s", fork, records, want)
		}
	}
}

// A fork that has more than half of the memory of all forks can be rewound.
func TestRewindOfALargeFork(t *testing.T) {
	s := newForkServer(t, stator.Options{Forks: &stator.ForkOptions{AllBytes: 170_000}})
	s.want("", "CreateTable", strings.Replace(forkTable, `"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"`, `"StreamEnabled":false`, 1), "Mine")
	s.want("", "Stator.CreateFork", `{"ForkName":"f"}`, "f")
	s.want("f", "PutItem", `{"TableName":"Mine","Item":{"id":{"S":"1"},"v":{"S":"`+strings.Repeat("v", 60_000)+`"}}}`, "{}")
	s.want("f", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, `"SnapshotName":"s"`)
	for range 3 {
		s.want("f", "PutItem", putMine("2"), "{}")
		s.want("f", "Stator.Rewind", `{"SnapshotName":"s"}`, `"SnapshotName":"s"`)
		s.want("f", "Scan", scanMine, `"Count":1`)
	}
}

// What a fork has written counts after a rewind too, so that the bound of one fork holds. A fork of the
// snapshot begins with none.
func TestRewindKeepsTheBoundOfAFork(t *testing.T) {
	s := newForkServer(t, stator.Options{Forks: &stator.ForkOptions{Bytes: 100_000}})
	s.want("", "CreateTable", strings.Replace(forkTable, `"StreamEnabled":true,"StreamViewType":"KEYS_ONLY"`, `"StreamEnabled":false`, 1), "Mine")
	large := func(id string) string {
		return `{"TableName":"Mine","Item":{"id":{"S":"` + id + `"},"v":{"S":"` + strings.Repeat("v", 40_000) + `"}}}`
	}
	s.want("", "Stator.CreateFork", `{"ForkName":"f"}`, "f")
	s.want("f", "PutItem", large("1"), "{}")
	s.want("f", "PutItem", large("2"), "{}")
	s.want("f", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, `"SnapshotName":"s"`)
	for _, rewound := range []bool{false, true, true} {
		if rewound {
			s.want("f", "Stator.Rewind", `{"SnapshotName":"s"}`, `"SnapshotName":"s"`)
		}
		s.want("f", "PutItem", large("3"), "LimitExceededException")
	}
	s.want("f", "Stator.CreateFork", `{"ForkName":"g","SnapshotName":"s"}`, "g")
	s.want("g", "PutItem", large("3"), "{}")
}

// A server whose backups or exports would remain is not rewound.
func TestRewindWithBackups(t *testing.T) {
	for _, o := range []stator.Options{{Backups: t.TempDir()}, {Buckets: map[string]string{"b": t.TempDir()}}} {
		s := newForkServer(t, o)
		s.want("", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, "location of backups or with buckets cannot be rewound")
	}
}

// Forks are dropped when they are not used, and at the end of their lifetime in any case.
func TestForksAreDropped(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := newForkServer(t, stator.Options{Forks: &stator.ForkOptions{Idle: time.Hour, Lifetime: 3 * time.Hour}})
		for _, name := range []string{"used", "unused"} {
			s.want("", "Stator.CreateFork", `{"ForkName":"`+name+`"}`, name)
		}
		for range 3 {
			time.Sleep(50 * time.Minute)
			s.want("used", "ListTables", "", "TableNames")
		}
		s.want("unused", "ListTables", "", "Fork: unused not found")
		time.Sleep(50 * time.Minute)
		s.want("used", "ListTables", "", "Fork: used not found")
	})
}

// TTL, index builds and the other background work run in a fork as in any database.
func TestBackgroundWorkOfForks(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s := newForkServer(t, stator.Options{Forks: &stator.ForkOptions{Idle: 2 * time.Hour}})
		s.want("", "CreateTable", forkTable, "Mine")
		s.want("", "UpdateTimeToLive", `{"TableName":"Mine","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`, "ttl")
		s.want("", "PutItem", fmt.Sprintf(`{"TableName":"Mine","Item":{"id":{"S":"old"},"ttl":{"N":"%d"}}}`, time.Now().Add(time.Hour).Unix()), "{}")
		s.want("", "PutItem", putMine("a"), "{}")
		s.want("", "Stator.CreateFork", `{"ForkName":"f"}`, "f")
		s.want("", "DeleteItem", `{"TableName":"Mine","Key":{"id":{"S":"old"}}}`, "{}")
		s.want("f", "Scan", scanMine, `"Count":2`)
		s.want("f", "UpdateTable", `{"TableName":"Mine","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"GlobalSecondaryIndexUpdates":[{"Create":{"IndexName":"again","KeySchema":[{"AttributeName":"id","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}}}]}`, "again")
		time.Sleep(time.Hour + 5*time.Second)
		s.want("f", "Scan", scanMine, `"Count":1`)
		s.want("f", "Query", `{"TableName":"Mine","IndexName":"again","KeyConditionExpression":"id = :a","ExpressionAttributeValues":{":a":{"S":"a"}}}`, `"Count":1`)
		s.want("", "Query", `{"TableName":"Mine","IndexName":"again","KeyConditionExpression":"id = :a","ExpressionAttributeValues":{":a":{"S":"a"}}}`, "does not have the specified index")
	})
}

// A rewound database has what the snapshot had. Iterators of streams from before the rewind
// return what is written after it, and nothing that was undone.
func TestRewind(t *testing.T) {
	s := newForkServer(t, stator.Options{})
	s.want("", "Stator.CreateFork", `{"ForkName":"f"}`, "f")
	for _, fork := range []string{"", "f"} {
		s.want(fork, "CreateTable", forkTable, "Mine")
		s.want(fork, "PutItem", putMine("a"), "{}")
		s.want(fork, "Stator.CreateSnapshot", `{"SnapshotName":"Loaded"}`, `"SnapshotName":"loaded"`)
		s.want(fork, "Stator.CreateSnapshot", `{"SnapshotName":"loaded"}`, "ResourceInUseException")
		for _, id := range []string{"b", "c"} {
			for range 2 { // rewind twice to the same snapshot
				s.want(fork, "PutItem", putMine(id), "{}")
				s.want(fork, "Scan", scanMine, `"Count":2`)
				at := latest(s, fork)
				s.want(fork, "PutItem", putMine("undone"), "{}")
				s.want(fork, "Stator.Rewind", `{"SnapshotName":"loaded"}`, "loaded")
				s.want(fork, "Scan", scanMine, `"Count":1`)
				s.want(fork, "PutItem", putMine("new"), "{}")
				records := ""
				for _, iterator := range at {
					_, text := s.at(fork, "DynamoDBStreams_20120810.GetRecords", `{"ShardIterator":"`+iterator+`"}`)
					records += text
				}
				if n := strings.Count(records, `"eventID"`); n != 1 || !strings.Contains(records, `"new"`) {
					t.Errorf("after the rewind the iterators return %s", records)
				}
				s.want(fork, "DeleteItem", `{"TableName":"Mine","Key":{"id":{"S":"new"}}}`, "{}")
			}
		}
		s.want(fork, "Stator.CreateFork", `{"ForkName":"of-`+fork+`snapshot","SnapshotName":"loaded"}`, "snapshot")
		s.want("of-"+fork+"snapshot", "Scan", scanMine, `"Count":1`)
		s.want(fork, "Stator.ListSnapshots", "", `"SnapshotName":"loaded"`)
		s.want(fork, "Stator.DeleteSnapshot", `{"SnapshotName":"loaded"}`, "{}")
		s.want(fork, "Stator.Rewind", `{"SnapshotName":"loaded"}`, "Snapshot: loaded not found")
	}
	s.want("", "Scan", scanMine, `"Count":1`)
}

// latest returns an iterator of each shard after all records.
func latest(s *forkServer, fork string) (iterators []string) {
	s.Helper()
	var table struct {
		Table struct{ LatestStreamArn string }
	}
	var stream struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	read := func(target, body string, out any) {
		_, text := s.at(fork, target, body)
		if err := json.Unmarshal([]byte(text), out); err != nil {
			s.Fatal(err)
		}
	}
	read("DescribeTable", `{"TableName":"Mine"}`, &table)
	read("DynamoDBStreams_20120810.DescribeStream", `{"StreamArn":"`+table.Table.LatestStreamArn+`"}`, &stream)
	for _, shard := range stream.StreamDescription.Shards {
		var at struct{ ShardIterator string }
		read("DynamoDBStreams_20120810.GetShardIterator", `{"StreamArn":"`+table.Table.LatestStreamArn+`","ShardId":"`+shard.ShardId+`","ShardIteratorType":"LATEST"}`, &at)
		iterators = append(iterators, at.ShardIterator)
	}
	return iterators
}

// What a rewind could not survive is refused, while a fork of it can be rewound.
func TestRewindOfAFolder(t *testing.T) {
	s := newForkServer(t, stator.Options{Dir: filepath.Join(t.TempDir(), "data")})
	s.want("", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, "keeps its data in a folder, and cannot be rewound")
	s.want("", "Stator.Rewind", `{"SnapshotName":"s"}`, "keeps its data in a folder, and cannot be rewound")
	s.want("", "Stator.CreateFork", `{"ForkName":"f"}`, "f")
	s.want("f", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, "s")
	s.want("f", "CreateTable", forkTable, "Mine")
	s.want("f", "Stator.Rewind", `{"SnapshotName":"s"}`, "s")
	s.want("f", "ListTables", "", `"TableNames":[]`)
}

// Requests in progress are answered while forks are deleted and rewound under them.
func TestForksUnderLoad(t *testing.T) {
	s := newForkServer(t, stator.Options{Log: slog.New(slog.DiscardHandler)})
	s.want("", "CreateTable", forkTable, "Mine")
	s.want("", "Stator.CreateSnapshot", `{"SnapshotName":"s"}`, "s")
	server := httptest.NewServer(s.handler)
	defer server.Close()
	var clients sync.WaitGroup
	for w := range 6 {
		clients.Go(func() {
			for i := range 60 {
				name := fmt.Sprintf("f%d", (w+i)%3)
				target, body := "DynamoDB_20120810.PutItem", putMine(fmt.Sprint(i))
				switch i % 6 {
				case 0:
					target, body = "Stator.CreateFork", `{"ForkName":"`+name+`"}`
				case 4:
					target, body = "Stator.DeleteFork", `{"ForkName":"`+name+`"}`
				case 5:
					target, body = "Stator.Rewind", `{"SnapshotName":"s"}`
				}
				headers := []string{}
				if i%2 == 1 && i%6 != 5 {
					headers = append(headers, "X-Stator-Fork", name)
				}
				status, text := send(t, server.Client(), server.URL+"/", target, json.RawMessage(body), headers...)
				if status >= 500 {
					t.Errorf("%s: %d %s", target, status, text)
				}
			}
		})
	}
	clients.Wait()
}
