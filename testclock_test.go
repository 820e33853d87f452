package stator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/logtest"
)

// clocked is a database with a clock that the test sets.
type clocked struct {
	*testing.T
	db    *stator.DB
	clock *stator.TestClock
}

var clockStart = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func newClocked(t *testing.T, o stator.Options) *clocked {
	t.Helper()
	s := &clocked{T: t, clock: stator.NewTestClock(clockStart)}
	o.TestClock = s.clock
	var err error
	if s.db, err = stator.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// try sends a request, whose target defaults to an operation of DynamoDB.
func (s *clocked) try(target, body string) (status int, reply string) {
	s.Helper()
	if !strings.Contains(target, ".") {
		target = "DynamoDB_20120810." + target
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if strings.HasPrefix(target, "AnyScale") {
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=b")
	r.Header.Set("X-Amz-Date", "20261101T000000Z")
	w := httptest.NewRecorder()
	s.db.Handler().ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	return w.Code, string(text)
}

// send is try of a request that succeeds, and decodes the reply.
func (s *clocked) send(target, body string) (reply map[string]any) {
	s.Helper()
	status, text := s.try(target, body)
	if status != http.StatusOK {
		s.Fatalf("%s %s: %s", target, body, text)
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		s.Fatal(err)
	}
	return reply
}

func (s *clocked) advance(d time.Duration) {
	s.Helper()
	if err := s.clock.Advance(s.Context(), d); err != nil {
		s.Fatal(err)
	}
}

// table creates a table, with further parameters.
func (s *clocked) table(more string) {
	s.Helper()
	if !strings.Contains(more, "ProvisionedThroughput") {
		more += `,"BillingMode":"PAY_PER_REQUEST"`
	}
	s.send("CreateTable", `{"TableName":"Items","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`+more+`}`)
}

const streamed = `,"StreamSpecification":{"StreamEnabled":true,"StreamViewType":"NEW_AND_OLD_IMAGES"}`

// records returns the records of the stream of the table, all shards one after the other.
func (s *clocked) records() (all []string) {
	s.Helper()
	arn := s.send("DescribeTable", `{"TableName":"Items"}`)["Table"].(map[string]any)["LatestStreamArn"].(string)
	stream := s.send("DynamoDBStreams_20120810.DescribeStream", `{"StreamArn":"`+arn+`"}`)["StreamDescription"].(map[string]any)
	for _, shard := range stream["Shards"].([]any) {
		it := s.send("DynamoDBStreams_20120810.GetShardIterator", fmt.Sprintf(`{"StreamArn":"%s","ShardId":"%s","ShardIteratorType":"TRIM_HORIZON"}`, arn, shard.(map[string]any)["ShardId"]))["ShardIterator"]
		for range 3 { // a page may be empty
			if it == nil {
				break
			}
			page := s.send("DynamoDBStreams_20120810.GetRecords", fmt.Sprintf(`{"ShardIterator":"%s"}`, it))
			for _, r := range page["Records"].([]any) {
				r := r.(map[string]any)
				change := r["dynamodb"].(map[string]any)
				all = append(all, fmt.Sprintf("%v %v at %.0f by %v", r["eventName"], change["Keys"], change["ApproximateCreationDateTime"], r["userIdentity"]))
			}
			it = page["NextShardIterator"]
		}
	}
	return all
}

func (s *clocked) expiring(key string, in time.Duration) {
	s.Helper()
	s.send("PutItem", fmt.Sprintf(`{"TableName":"Items","Item":{"pk":{"S":"%s"},"ttl":{"N":"%d"}}}`, key, s.clock.Now().Add(in).Unix()))
}

func (s *clocked) has(key string) bool {
	s.Helper()
	return s.send("GetItem", `{"TableName":"Items","Key":{"pk":{"S":"`+key+`"}},"ConsistentRead":true}`)["Item"] != nil
}

// An item whose time to live has passed is deleted, and its record is in the stream, when the
// clock has been advanced; not before.
func TestClockExpiresItems(t *testing.T) {
	s := newClocked(t, stator.Options{})
	s.table(streamed)
	s.send("UpdateTimeToLive", `{"TableName":"Items","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`)
	s.expiring("a", 24*time.Hour)
	s.expiring("b", 100*24*time.Hour)
	s.advance(24 * time.Hour)
	if !s.has("a") {
		t.Error("the item was deleted before its time")
	}
	s.advance(2 * time.Second)
	if s.has("a") || !s.has("b") {
		t.Error("the item is there after its time, or the other was deleted")
	}
	all := s.records()
	want := fmt.Sprintf("REMOVE map[pk:map[S:a]] at %d by map[PrincipalId:dynamodb.amazonaws.com Type:Service]", clockStart.Add(24*time.Hour+time.Second).Unix())
	if last := all[len(all)-1]; !strings.EqualFold(last, want) {
		t.Errorf("the last record is %s, want %s", last, want)
	}
}

// The token of a transaction is forgotten after ten minutes.
func TestClockEndsTokens(t *testing.T) {
	s := newClocked(t, stator.Options{})
	s.table("")
	send := func(n string) int {
		status, _ := s.try("TransactWriteItems", `{"ClientRequestToken":"t","TransactItems":[{"Put":{"TableName":"Items","Item":{"pk":{"S":"a"},"n":{"N":"`+n+`"}}}}]}`)
		return status
	}
	send("1")
	s.advance(10 * time.Minute)
	if send("2") == http.StatusOK {
		t.Error("the token is forgotten already")
	}
	s.advance(time.Second)
	if send("2") != http.StatusOK {
		t.Error("the token is not forgotten")
	}
}

// A stream keeps records for 24 hours, and an iterator is valid for 15 minutes.
func TestClockTrimsStreams(t *testing.T) {
	s := newClocked(t, stator.Options{})
	s.table(streamed)
	s.send("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
	arn := s.send("DescribeTable", `{"TableName":"Items"}`)["Table"].(map[string]any)["LatestStreamArn"].(string)
	shard := s.send("DynamoDBStreams_20120810.DescribeStream", `{"StreamArn":"`+arn+`"}`)["StreamDescription"].(map[string]any)["Shards"].([]any)[0].(map[string]any)["ShardId"]
	it := s.send("DynamoDBStreams_20120810.GetShardIterator", fmt.Sprintf(`{"StreamArn":"%s","ShardId":"%s","ShardIteratorType":"TRIM_HORIZON"}`, arn, shard))["ShardIterator"]
	read := func() int {
		status, _ := s.try("DynamoDBStreams_20120810.GetRecords", fmt.Sprintf(`{"ShardIterator":"%s"}`, it))
		return status
	}
	s.advance(15 * time.Minute)
	if read() != http.StatusOK {
		t.Error("the iterator has expired already")
	}
	s.advance(time.Second)
	if read() == http.StatusOK {
		t.Error("the iterator has not expired")
	}
	s.advance(24*time.Hour - 15*time.Minute - time.Second)
	if n := len(s.records()); n != 1 {
		t.Errorf("%d records after 24 hours, want 1", n)
	}
	s.advance(2 * time.Second) // stamps are up to a second ahead
	if all := s.records(); len(all) != 0 {
		t.Errorf("after more than 24 hours there is %s", all)
	}
}

// The window of point-in-time recovery follows the clock.
func TestClockMovesRecovery(t *testing.T) {
	s := newClocked(t, stator.Options{})
	s.table("")
	s.send("UpdateContinuousBackups", `{"TableName":"Items","PointInTimeRecoverySpecification":{"PointInTimeRecoveryEnabled":true,"RecoveryPeriodInDays":2}}`)
	s.send("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
	at := clockStart.Add(time.Hour).Unix()
	restore := func(name string) int {
		status, _ := s.try("RestoreTableToPointInTime", fmt.Sprintf(`{"SourceTableName":"Items","TargetTableName":"%s","RestoreDateTime":%d}`, name, at))
		return status
	}
	s.advance(49 * time.Hour)
	if restore("Early") != http.StatusOK {
		t.Error("the time is not in the window any more")
	}
	s.advance(time.Second)
	if restore("Late") == http.StatusOK {
		t.Error("the time is still in the window")
	}
	s.advance(0) // the table is restored
	if n := s.send("Scan", `{"TableName":"Early"}`)["Count"]; n != 1.0 {
		t.Errorf("the restored table has %v items", n)
	}
}

// A table is scaled at the end of the second minute above its target, and by a scheduled action.
func TestClockScales(t *testing.T) {
	s := newClocked(t, stator.Options{})
	s.table(`,"ProvisionedThroughput":{"ReadCapacityUnits":5,"WriteCapacityUnits":5}`)
	const of = `"ServiceNamespace":"dynamodb","ResourceId":"table/Items","ScalableDimension":"dynamodb:table:WriteCapacityUnits"`
	s.send("AnyScaleFrontendService.RegisterScalableTarget", `{`+of+`,"MinCapacity":5,"MaxCapacity":100}`)
	s.send("AnyScaleFrontendService.PutScalingPolicy", `{`+of+`,"PolicyName":"half","PolicyType":"TargetTrackingScaling","TargetTrackingScalingPolicyConfiguration":{"TargetValue":50,"PredefinedMetricSpecification":{"PredefinedMetricType":"DynamoDBWriteCapacityUtilization"}}}`)
	s.send("AnyScaleFrontendService.PutScheduledAction", `{`+of+`,"ScheduledActionName":"night","Schedule":"at(2026-11-02T00:00:00)","ScalableTargetAction":{"MinCapacity":42,"MaxCapacity":100}}`)
	units := func() any {
		return s.send("DescribeTable", `{"TableName":"Items"}`)["Table"].(map[string]any)["ProvisionedThroughput"].(map[string]any)["WriteCapacityUnits"]
	}
	for range 3 { // minutes
		for range 240 {
			s.send("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
		}
		s.advance(time.Minute)
	}
	if n := units(); n != 5.0 && n != 8.0 {
		t.Errorf("%v units", n)
	}
	s.advance(10 * time.Second)
	if n := units(); n != 8.0 {
		t.Errorf("%v units after a load of 4 units a second, want 8", n)
	}
	s.advance(clockStart.Add(24*time.Hour - time.Second).Sub(s.clock.Now()))
	if n := units(); n != 5.0 {
		t.Errorf("%v units after a day without load, want 5", n)
	}
	s.advance(time.Second)
	if n := units(); n != 42.0 {
		t.Errorf("%v units after the scheduled action, want 42", n)
	}
}

// Scheduled backups are made, and those that are too old removed.
func TestClockMakesBackups(t *testing.T) {
	s := newClocked(t, stator.Options{BackupEvery: 6 * time.Hour, BackupKeep: 3})
	s.table("")
	s.send("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
	backups := func() int { return len(s.send("ListBackups", `{"BackupType":"ALL"}`)["BackupSummaries"].([]any)) }
	s.advance(0)
	before := backups()
	s.advance(6*time.Hour - time.Second)
	if n := backups(); n != before {
		t.Errorf("%d backups before the time of the next, want %d", n, before)
	}
	s.advance(2 * time.Second)
	if n := backups(); n != before+1 {
		t.Errorf("%d backups after the time of the next, want %d", n, before+1)
	}
	s.advance(48 * time.Hour)
	if n := backups(); n != 3 {
		t.Errorf("%d backups after two days, want 3", n)
	}
}

// An item in the cache is read again after its time to live.
func TestClockExpiresCache(t *testing.T) {
	s := newClocked(t, stator.Options{Cache: stator.NewCache(stator.CacheDAX)})
	s.table("")
	read := func() string {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(`{"TableName":"Items","Key":{"pk":{"S":"a"}}}`))
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=a/20261101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=b")
		r.Header.Set("X-Amz-Date", "20261101T000000Z")
		w := httptest.NewRecorder()
		s.db.Handler().ServeHTTP(w, r)
		return w.Header().Get("X-Stator-Cache")
	}
	read()
	s.advance(5*time.Minute - time.Nanosecond)
	if use := read(); use != "hit" {
		t.Errorf("before the time to live: %s", use)
	}
	s.advance(time.Nanosecond)
	if use := read(); use != "miss" {
		t.Errorf("after the time to live: %s", use)
	}
}

// Units that were consumed are there again when the clock has been advanced.
func TestClockRefillsUnits(t *testing.T) {
	s := newClocked(t, stator.Options{Throttle: true})
	s.table(`,"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1}`)
	put := func() bool {
		status, _ := s.try("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
		return status == http.StatusOK
	}
	for range 1000 {
		if !put() {
			break
		}
	}
	if put() {
		t.Fatal("nothing is throttled")
	}
	s.advance(10 * time.Second)
	n := 0
	for put() {
		n++
	}
	if n < 9 || n > 11 {
		t.Errorf("%d requests after ten seconds at one unit a second", n)
	}
}

// A trigger that failed is retried.
func TestClockRetriesTriggers(t *testing.T) {
	var posts atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if posts.Add(1) <= 5 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer endpoint.Close()
	s := newClocked(t, stator.Options{Triggers: []stator.Trigger{{Name: "t", Table: "Items", URL: endpoint.URL}}})
	s.table(streamed)
	s.send("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
	s.advance(0)
	if n := posts.Load(); n != 1 {
		t.Errorf("%d posts before the time of the first retry, want 1", n)
	}
	s.advance(100 * time.Millisecond)
	if n := posts.Load(); n != 2 {
		t.Errorf("%d posts after the time of the first retry, want 2", n)
	}
	s.advance(time.Minute)
	if n := posts.Load(); n != 6 {
		t.Errorf("%d posts after a minute, want 6: the last succeeds", n)
	}
	s.send("UpdateTimeToLive", `{"TableName":"Items","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`)
	s.expiring("b", time.Hour)
	s.advance(time.Hour)
	if n := posts.Load(); n != 7 {
		t.Errorf("%d posts before the item expires, want 7", n)
	}
	s.advance(2 * time.Second)
	if n := posts.Load(); n != 8 {
		t.Errorf("%d posts after the item has expired, want 8", n)
	}
}

// A trigger that has delivered all changes does not report that old ones are lost when the clock has
// been advanced beyond the retention of streams.
func TestClockMovesIdleTriggers(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer endpoint.Close()
	log := new(logtest.Log)
	s := newClocked(t, stator.Options{Log: log.Logger(), Triggers: []stator.Trigger{{Name: "t", Table: "Items", URL: endpoint.URL}}})
	s.table(streamed)
	s.send("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
	s.advance(0)
	s.advance(25 * time.Hour)
	if strings.Contains(log.String(), "are lost") {
		t.Errorf("the log is %s", log.String())
	}
}

// Tables change their state when their delay is over.
func TestClockSettlesTables(t *testing.T) {
	s := newClocked(t, stator.Options{TableDelay: time.Minute})
	s.table("")
	status := func() any {
		return s.send("DescribeTable", `{"TableName":"Items"}`)["Table"].(map[string]any)["TableStatus"]
	}
	s.advance(time.Minute - time.Second)
	if got := status(); got != "CREATING" {
		t.Errorf("the table is %v before its delay is over", got)
	}
	s.advance(time.Second)
	if got := status(); got != "ACTIVE" {
		t.Errorf("the table is %v after its delay", got)
	}
	s.send("DeleteTable", `{"TableName":"Items"}`)
	s.advance(time.Minute - time.Second)
	if status() != "DELETING" {
		t.Error("the table is deleted before its delay is over")
	}
	s.advance(time.Second)
	if code, _ := s.try("DescribeTable", `{"TableName":"Items"}`); code == http.StatusOK {
		t.Error("the table exists after its delay")
	}
}

// Many small steps have the same effect as one large step, at the same times.
func TestClockInSmallSteps(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	var lives []time.Duration
	for range 20 {
		lives = append(lives, time.Duration(r.Int64N(int64(20*time.Hour))))
	}
	run := func(steps func(*clocked)) []string {
		s := newClocked(t, stator.Options{BackupEvery: 5 * time.Hour, BackupKeep: 2})
		s.table(streamed)
		s.send("UpdateTimeToLive", `{"TableName":"Items","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`)
		for i, d := range lives {
			s.expiring(fmt.Sprint(i), d)
		}
		steps(s)
		all := s.records()
		for _, b := range s.send("ListBackups", `{"BackupType":"ALL"}`)["BackupSummaries"].([]any) {
			all = append(all, fmt.Sprintf("backup at %.0f", b.(map[string]any)["BackupCreationDateTime"]))
		}
		slices.Sort(all) // shards are in any order
		return all
	}
	want := run(func(s *clocked) { s.advance(23 * time.Hour) })
	got := run(func(s *clocked) {
		for left := 23 * time.Hour; left > 0; {
			step := min(left, time.Duration(r.Int64N(int64(20*time.Minute))))
			s.advance(step)
			left -= step
		}
	})
	if len(want) < 42 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("seed %d: in small steps:\n%s\n\nin one step:\n%s", seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Requests set the clock if that is allowed, and show it in any case.
func TestClockRequests(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		s := newClocked(t, stator.Options{TestClockRequests: allowed})
		for _, c := range []struct{ operation, body, want string }{
			{"GetClock", `{}`, `{"Time":1793491200.000,"Mode":"frozen"}`},
			{"AdvanceClock", `{"Seconds":90000.5}`, `{"Time":1793581200.500,"Mode":"frozen"}`},
			{"SetClock", `{"Time":1793581201}`, `{"Time":1793581201.000,"Mode":"frozen"}`},
			{"SetClock", `{"Time":1793581200}`, `"message":"The clock shows 2026-11-02T01:00:01Z and cannot be set back to 2026-11-02T01:00:00Z:`},
			{"AdvanceClock", `{"Seconds":-1}`, `cannot be set back`},
			{"AdvanceClock", `{"Seconds":1e300}`, `is more than 366 days later`},
			{"AdvanceClock", `{}`, `failed to satisfy constraint`},
			{"RunClock", `{}`, `"Mode":"running"`},
			{"FreezeClock", `{}`, `"Mode":"frozen"`},
		} {
			_, got := s.try("Stator."+c.operation, c.body)
			if !allowed && c.operation != "GetClock" && !strings.Contains(c.want, "constraint") {
				c.want = "The clock of this server cannot be changed: start it with --in-memory and --test-clock"
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("allowed %v: %s %s: %s, want %s", allowed, c.operation, c.body, got, c.want)
			}
		}
	}
}

// A fork has the clock of its server, and no faults: the errors of its requests do not advise to start the server
// with options that it has.
func TestForksHaveNoClockAndFaults(t *testing.T) {
	s := newForkServer(t, stator.Options{TestClock: stator.NewTestClock(time.Now()), TestClockRequests: true, AllowFaults: true})
	s.want("", "Stator.CreateFork", `{"ForkName":"f"}`, "f")
	s.want("f", "Stator.AdvanceClock", `{"Seconds":1}`, "A fork has the clock of its server: send the request to the server itself")
	for _, operation := range []string{"SetFaults", "GetFaults", "ListInjectedFaults"} {
		s.want("f", "Stator."+operation, `{"Plan":""}`, "Faults are not injected into forks: send the request to the server itself")
		s.want("", "Stator."+operation, `{"Plan":""}`, "{")
	}
}

// What was consumed is known after the points of the metrics are removed.
func TestClockKeepsConsumption(t *testing.T) {
	s := newClocked(t, stator.Options{})
	s.table("")
	s.send("PutItem", `{"TableName":"Items","Item":{"pk":{"S":"a"}}}`)
	want := []stator.Consumption{{Table: "Items", Write: 1}}
	if got := s.db.Consumed(); !slices.Equal(got, want) {
		t.Errorf("%+v is consumed, want %+v", got, want)
	}
	s.advance(16 * 24 * time.Hour)
	if got := s.db.Consumed(); !slices.Equal(got, want) {
		t.Errorf("after 16 days, %+v is consumed, want %+v", got, want)
	}
}

// A database with a test clock is in memory, and has no other clock.
func TestClockOptions(t *testing.T) {
	clock := stator.NewTestClock(clockStart)
	for _, o := range []stator.Options{
		{TestClock: clock, Dir: t.TempDir()},
		{TestClock: clock, Engine: "tikv://localhost", Backups: "mem://"},
		{TestClock: clock, Now: time.Now},
		{TestClockRequests: true},
		{TestClockSignatures: true},
	} {
		if d, err := stator.Open(t.Context(), o); err == nil {
			d.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}
