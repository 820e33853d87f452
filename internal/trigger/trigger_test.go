package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// triggerTest is a database with an endpoint, in virtual time.
type triggerTest struct {
	*testing.T
	service  *ops.Service
	triggers *Set
	log      logtest.Log

	mu      sync.Mutex
	got     []delivery // all requests, including rejected ones
	answer  func(delivery) (status int, body string)
	running int
	most    int // concurrent requests
	takes   time.Duration

	skipped atomic.Int64

	reopen func(*clock.Clock) // restarts the database
}

// delivery is one request.
type delivery struct {
	at      time.Time
	header  http.Header
	path    string
	records []postedRecord
	ok      bool
}

// postedRecord contains the members of a record that the tests read.
type postedRecord struct {
	EventID, EventName, EventSource, EventSourceARN, EventVersion, AwsRegion string

	UserIdentity *struct{ Type, PrincipalID string }
	Dynamodb     struct {
		Keys, NewImage, OldImage    map[string]map[string]string
		SequenceNumber              string
		StreamViewType              string
		ApproximateCreationDateTime float64
	}
}

func (r postedRecord) id() string { return r.Dynamodb.Keys["id"]["S"] }

// value is the id and the new number of the record's item.
func (r postedRecord) value() string {
	if r.EventName == "REMOVE" {
		return r.id() + "-"
	}
	return r.id() + r.Dynamodb.NewImage["n"]["N"]
}

func newTriggerTest(t *testing.T) *triggerTest {
	t.Helper()
	w := &triggerTest{T: t}
	w.open(clock.Given(w.now), w.now)
	return w
}

// open opens the database with a clock, on an engine with another.
func (w *triggerTest) open(c *clock.Clock, engineNow func() time.Time) {
	w.Helper()
	t := w.T
	storage := pebble.InMemory()
	storage.Now = engineNow
	engine, err := pebble.Open(storage)
	if err != nil {
		t.Fatal(err)
	}
	open := func(c *clock.Clock) *db.DB {
		d, err := db.Open(t.Context(), engine, db.Options{Clock: c})
		if err != nil {
			t.Fatal(err)
		}
		w.service = ops.New(ops.Parts{DB: d})
		return d
	}
	d := open(c)
	w.reopen = func(c *clock.Clock) {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d = open(c)
	}
	t.Cleanup(func() {
		w.stop()
		if err := errors.Join(d.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	w.create("Orders")
}

// now is the database's clock. skip advances it without waiting in virtual time,
// which would take long.
func (w *triggerTest) now() time.Time { return time.Now().Add(time.Duration(w.skipped.Load())) }

func (w *triggerTest) skip(d time.Duration) { w.skipped.Add(int64(d)) }

func (w *triggerTest) do(operation, format string, args ...any) {
	w.Helper()
	if err := w.execute(w.Context(), operation, fmt.Appendf(nil, format, args...)); err != nil {
		w.Fatalf("%s: %v", operation, err)
	}
}

func (w *triggerTest) execute(ctx context.Context, operation string, body []byte) error {
	r, err := ops.Read(operation, body)
	if err == nil {
		_, err = w.service.Do(ctx, r, new(buffer.Scratch))
	}
	return err
}

func (w *triggerTest) create(table string) {
	w.Helper()
	w.do("CreateTable", `{"TableName": %q, "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}], "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}}`, table)
}

func (w *triggerTest) put(id string, n int) {
	w.Helper()
	w.do("PutItem", `{"TableName": "Orders", "Item": {"id": {"S": %q}, "n": {"N": "%d"}}}`, id, n)
}

// start starts triggers. Their endpoint and table have defaults.
func (w *triggerTest) start(configs ...Config) {
	w.Helper()
	for i := range configs {
		c := &configs[i]
		if c.Name == "" {
			c.Name = "t"
		}
		if c.Table == "" {
			c.Table = "Orders"
		}
		if c.URL == "" {
			c.URL = "http://endpoint.invalid/hook"
		}
	}
	set, err := Start(w.Context(), Options{Service: w.service, Log: w.log.Logger(), Transport: w}, configs...)
	if err != nil {
		w.Fatal(err)
	}
	w.triggers = set
}

func (w *triggerTest) stop() {
	if w.triggers != nil {
		if err := w.triggers.Close(); err != nil {
			w.Error(err)
		}
		w.triggers = nil
	}
}

// RoundTrip is the endpoint.
func (w *triggerTest) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var event struct{ Records []postedRecord }
	if err := json.Unmarshal(body, &event); err != nil {
		w.Errorf("the body is %s: %v", body, err)
	}
	w.mu.Lock()
	d := delivery{at: time.Now(), header: r.Header, path: r.URL.Path, records: event.Records}
	status, reply := http.StatusOK, ""
	if w.answer != nil {
		status, reply = w.answer(d)
	}
	d.ok = status/100 == 2
	w.got = append(w.got, d)
	w.running++
	w.most = max(w.most, w.running)
	w.mu.Unlock()
	lead.Wait(r.Context(), w.takes)
	if status == 0 {
		<-r.Context().Done()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(reply)), Request: r}, nil
}

// requests returns the requests so far.
func (w *triggerTest) requests() []delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// answers sets the replies of the endpoint.
func (w *triggerTest) answers(answer func(delivery) (status int, body string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// accepted returns the values of the records that were answered with 2xx.
func (w *triggerTest) accepted() (values []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.got {
		for _, r := range d.records {
			if d.ok {
				values = append(values, r.value())
			}
		}
	}
	return values
}

// expect compares the accepted records, in the order of each item.
func (w *triggerTest) expect(want ...string) {
	w.Helper()
	got := w.accepted()
	byItem := func(a, b string) int { return strings.Compare(a[:1], b[:1]) }
	slices.SortStableFunc(got, byItem)
	slices.SortStableFunc(want, byItem)
	if !slices.Equal(got, want) {
		w.Errorf("%v was delivered, want %v", got, want)
	}
}

// has reports whether a delivery contains a record of a value.
func (d delivery) has(value string) bool {
	return slices.ContainsFunc(d.records, func(r postedRecord) bool { return r.value() == value })
}

// readDeadLetters returns the lines of a dead-letter file.
func (w *triggerTest) readDeadLetters(path string) (all []deadLetter) {
	w.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var l deadLetter
		if err := json.Unmarshal(line, &l); err != nil {
			w.Fatalf("line %s: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

func recordOf(w *triggerTest, l deadLetter) string {
	var r postedRecord
	if err := json.Unmarshal(l.Record, &r); err != nil {
		w.Fatal(err)
	}
	return r.value()
}

// inVirtualTime runs a test in virtual time.
func inVirtualTime(t *testing.T, test func(w *triggerTest)) {
	t.Helper()
	virtualtime.Test(t, func(t *testing.T) { test(newTriggerTest(t)) })
}

// A record has Lambda's members, and a request the headers of the config.
func TestRecord(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.start(Config{Headers: map[string]string{"authorization": "Bearer x"}, Region: "eu-central-1"})
		w.put("a", 1)
		w.put("a", 2)
		w.do("DeleteItem", `{"TableName": "Orders", "Key": {"id": {"S": "a"}}}`)
		time.Sleep(time.Second)
		w.expect("a1", "a2", "a-")
		d := w.requests()[0]
		r := d.records[0]
		if d.header.Get("Authorization") != "Bearer x" || d.header.Get("Content-Type") != "application/json" || d.path != "/hook" {
			t.Errorf("the request is %+v", d)
		}
		if len(r.EventID) != 32 || r.EventName != "INSERT" || r.EventSource != "aws:dynamodb" || r.EventVersion != "1.1" || r.AwsRegion != "eu-central-1" ||
			!strings.HasPrefix(r.EventSourceARN, "arn:aws:dynamodb:eu-central-1:000000000000:table/Orders/stream/") || r.Dynamodb.StreamViewType != "NEW_AND_OLD_IMAGES" {
			t.Errorf("the record is %+v", r)
		}
	})
}

// The identity of an expired record has Lambda's member names.
func TestExpiredRecord(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.do("UpdateTimeToLive", `{"TableName": "Orders", "TimeToLiveSpecification": {"Enabled": true, "AttributeName": "n"}}`)
		w.start(Config{Filters: []Pattern{`{"userIdentity": {"type": ["Service"], "principalId": ["dynamodb.amazonaws.com"]}}`}})
		w.put("a", int(time.Now().Unix())+5)
		time.Sleep(time.Minute)
		w.expect("a-")
	})
}

// LATEST delivers changes from the trigger's first start on, TRIM_HORIZON all changes
// of the stream; a restart neither skips nor repeats records.
func TestStartingPosition(t *testing.T) {
	for _, c := range []struct {
		position string
		want     []string
	}{
		{Latest, []string{"a2", "a3", "b2", "c1"}},
		{TrimHorizon, []string{"a1", "b1", "a2", "a3", "b2", "c1"}},
	} {
		t.Run(c.position, func(t *testing.T) {
			inVirtualTime(t, func(w *triggerTest) {
				w.put("a", 1)
				w.put("b", 1)
				w.start(Config{StartingPosition: c.position})
				if c.position == TrimHorizon {
					time.Sleep(time.Second) // Close cancels a batch in flight, which is then repeated
				}
				w.stop()
				w.put("a", 2)
				w.start(Config{StartingPosition: c.position})
				w.put("a", 3)
				w.put("b", 2)
				time.Sleep(time.Second)
				w.stop()
				w.put("c", 1)
				w.start(Config{StartingPosition: c.position})
				time.Sleep(time.Second)
				w.expect(c.want...)
			})
		})
	}
}

// A stream that ends is delivered before the next, also when the table is deleted and
// created again; and a trigger may exist before its table.
func TestFollowsTheTable(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		disable := func() {
			w.do("UpdateTable", `{"TableName": "Orders", "StreamSpecification": {"StreamEnabled": false}}`)
		}
		enable := func() {
			w.do("UpdateTable", `{"TableName": "Orders", "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"}}`)
		}
		w.do("DeleteTable", `{"TableName": "Orders"}`)
		time.Sleep(time.Second)
		w.start(Config{})
		time.Sleep(time.Second)
		w.create("Orders")
		w.put("a", 1)
		w.answers(func(delivery) (int, string) { return http.StatusServiceUnavailable, "" })
		w.put("a", 2)
		disable()
		w.put("a", 3) // not in a stream
		enable()
		w.put("a", 4)
		disable()
		enable()
		w.put("a", 5)
		w.do("DeleteTable", `{"TableName": "Orders"}`)
		time.Sleep(time.Second)
		w.create("Orders")
		w.put("a", 6)
		time.Sleep(10 * time.Second)
		w.answers(nil)
		time.Sleep(time.Minute)
		w.expect("a1", "a2", "a4", "a5", "a6")
	})
}

// A batch has all available records, up to its size.
func TestBatchSize(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		for n := range 25 {
			w.put("a", n)
		}
		w.start(Config{StartingPosition: TrimHorizon, BatchSize: 10})
		time.Sleep(time.Second)
		var sizes []int
		for _, d := range w.requests() {
			sizes = append(sizes, len(d.records))
		}
		if !slices.Equal(sizes, []int{10, 10, 5}) {
			t.Errorf("the batches have %v records", sizes)
		}
	})
}

// A batch window collects records until it is over or the batch is full.
func TestBatchWindow(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.start(Config{BatchSize: 10, BatchWindow: 20 * time.Second})
		began := time.Now()
		for n := range 4 {
			w.put("a", n)
			time.Sleep(4 * time.Second)
		}
		time.Sleep(time.Minute)
		for n := range 10 {
			w.put("a", 10+n)
		}
		full := time.Now()
		time.Sleep(time.Second)
		got := w.requests()
		if len(got) != 2 || len(got[0].records) != 4 || len(got[1].records) != 10 {
			t.Fatalf("%d batches: %v", len(got), w.accepted())
		}
		if took := got[0].at.Sub(began); took < 20*time.Second || took > 21*time.Second {
			t.Errorf("the first batch was posted after %v", took)
		}
		if took := got[1].at.Sub(full); took > time.Second {
			t.Errorf("the full batch was posted after %v", took)
		}
	})
}

// Records that match no filter are not posted, and are not read again.
func TestFiltersInABatch(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		config := Config{Filters: []Pattern{
			`{"eventName": ["REMOVE"]}`,
			`{"dynamodb": {"NewImage": {"n": {"N": [{"numeric": [">=", 8]}]}}}}`,
		}}
		w.start(config)
		for n := range 10 {
			w.put("a", n)
		}
		w.do("DeleteItem", `{"TableName": "Orders", "Key": {"id": {"S": "a"}}}`)
		w.put("b", 1)
		time.Sleep(time.Second)
		w.expect("a8", "a9", "a-")
		w.stop()
		config.Filters = nil
		w.start(config)
		time.Sleep(time.Second)
		w.expect("a8", "a9", "a-")
	})
}

// Without a limit a batch is retried with exponential backoff until it is accepted.
func TestRetries(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.answer = func(delivery) (int, string) {
			if len(w.got) < 12 {
				return http.StatusInternalServerError, ""
			}
			return http.StatusNoContent, ""
		}
		w.start(Config{URL: "http://user:secret@endpoint.invalid/secret?secret", Headers: map[string]string{"X-Key": "secret"}})
		w.put("a", 1)
		w.put("a", 2)
		time.Sleep(10 * time.Minute)
		w.expect("a1", "a2")
		got := w.requests()
		gap := func(i int) time.Duration { return got[i].at.Sub(got[i-1].at) }
		if gap(1) != 100*time.Millisecond || gap(2) != 200*time.Millisecond || gap(12) != 30*time.Second {
			t.Errorf("the gaps are %v, %v … %v", gap(1), gap(2), gap(12))
		}
		if strings.Contains(w.log.String(), "secret") || !strings.Contains(w.log.String(), "the endpoint answered 500") {
			t.Errorf("the log is %s", w.log.String())
		}
	})
}

// A redirect is a failure, and a request to an endpoint that hangs times out.
func TestEndpointFails(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		answers := []int{http.StatusTemporaryRedirect, 0, http.StatusOK}
		w.answer = func(delivery) (int, string) { return answers[min(len(w.got), 2)], "" }
		w.start(Config{Timeout: 5 * time.Second})
		w.put("a", 1)
		time.Sleep(time.Minute)
		w.expect("a1")
		got := w.requests()
		if took := got[2].at.Sub(got[1].at); len(got) != 3 || took != 5*time.Second+200*time.Millisecond {
			t.Errorf("%d requests; the third was sent after %v", len(w.got), took)
		}
	})
}

// Bisection finds the record that the endpoint rejects; only this one becomes a dead
// letter after its retries, and the order is kept.
func TestBisect(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.answer = func(d delivery) (int, string) {
			if d.has("a5") {
				return http.StatusBadRequest, ""
			}
			return http.StatusOK, ""
		}
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		for n := range 10 {
			w.put("a", n)
		}
		w.start(Config{StartingPosition: TrimHorizon, Bisect: true, MaxRetries: new(2), DeadLetter: dead})
		time.Sleep(time.Minute)
		w.expect("a0", "a1", "a2", "a3", "a4", "a6", "a7", "a8", "a9")
		letters := w.readDeadLetters(dead)
		if len(letters) != 1 || recordOf(w, letters[0]) != "a5" || letters[0].Attempts != 3 || letters[0].Reason != exhausted ||
			letters[0].Error != "the endpoint answered 400" || letters[0].Trigger != "t" {
			t.Errorf("the dead letters are %+v", letters)
		}
	})
}

// Without bisection the whole batch becomes dead letters, and the next one follows.
func TestRetriesExhausted(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.answer = func(d delivery) (int, string) {
			if d.has("a1") {
				return http.StatusBadRequest, ""
			}
			return http.StatusOK, ""
		}
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		if err := os.WriteFile(dead, []byte(`{"cut":true}`), 0o600); err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			w.put("a", n)
		}
		config := Config{StartingPosition: TrimHorizon, BatchSize: 2, MaxRetries: new(0), DeadLetter: dead}
		w.start(config)
		time.Sleep(time.Minute)
		w.expect("a2", "a3")
		if letters := w.readDeadLetters(dead); len(letters) != 3 || recordOf(w, letters[1]) != "a0" || recordOf(w, letters[2]) != "a1" {
			t.Errorf("the dead letters are %+v", letters)
		}
		w.stop()
		w.start(config)
		time.Sleep(time.Minute)
		if len(w.requests()) != 2 || len(w.readDeadLetters(dead)) != 3 {
			t.Errorf("dead letters were delivered or written again")
		}
	})
}

// Records that are too old become dead letters, before the first attempt or between
// attempts.
func TestRecordAge(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		w.put("a", 1)
		w.skip(2 * time.Hour)
		w.put("a", 2)
		w.answer = func(d delivery) (int, string) {
			if d.has("a2") {
				return http.StatusBadGateway, ""
			}
			return http.StatusOK, ""
		}
		w.start(Config{StartingPosition: TrimHorizon, MaxAge: 10 * time.Minute, DeadLetter: dead})
		time.Sleep(9 * time.Minute)
		if n := len(w.readDeadLetters(dead)); n != 1 {
			t.Errorf("%d dead letters after 9 minutes", n)
		}
		time.Sleep(2 * time.Minute)
		w.put("a", 3)
		time.Sleep(time.Minute)
		w.expect("a3")
		letters := w.readDeadLetters(dead)
		if len(letters) != 2 || recordOf(w, letters[0]) != "a1" || letters[0].Attempts != 0 || letters[0].Reason != tooOld ||
			recordOf(w, letters[1]) != "a2" || letters[1].Attempts < 20 {
			t.Errorf("the dead letters are %+v", letters)
		}
	})
}

// An endpoint may report the first record that failed: the records before it are
// done.
func TestItemFailures(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		var replies []string
		w.answer = func(d delivery) (int, string) {
			reply := ""
			switch len(w.got) {
			case 0:
				reply = fmt.Sprintf(`{"batchItemFailures": [{"itemIdentifier": %q}, {"itemIdentifier": %q}]}`, d.records[3].Dynamodb.SequenceNumber, d.records[2].Dynamodb.SequenceNumber)
			case 1:
				reply = `{"batchItemFailures": [{"itemIdentifier": "unknown"}]}`
			case 2:
				reply = `{"batchItemFailures": [{"itemIdentifier": ""}]}`
			case 3:
				reply = `{"batchItemFailures": []}`
			}
			var values []string
			for _, r := range d.records {
				values = append(values, r.value())
			}
			replies = append(replies, strings.Join(values, ","))
			return http.StatusOK, reply
		}
		for n := range 5 {
			w.put("a", n)
		}
		w.start(Config{StartingPosition: TrimHorizon, ReportItemFailures: true})
		time.Sleep(time.Minute)
		w.stop()
		want := []string{"a0,a1,a2,a3,a4", "a2,a3,a4", "a2,a3,a4", "a2,a3,a4"}
		if !slices.Equal(replies, want) {
			t.Errorf("the batches are %q, want %q", replies, want)
		}
	})
}

// Lanes deliver concurrently, and the records of one item keep their order.
func TestParallelism(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		const items, versions = 26, 20
		var want []string
		for n := range versions {
			for i := range items {
				id := string(rune('a' + i))
				w.put(id, n)
				want = append(want, fmt.Sprint(id, n))
			}
		}
		w.takes = 50 * time.Millisecond
		refused := 0
		w.answer = func(delivery) (int, string) {
			if refused++; refused%3 == 0 {
				return http.StatusServiceUnavailable, ""
			}
			return http.StatusOK, ""
		}
		w.start(Config{StartingPosition: TrimHorizon, BatchSize: 7, Parallelism: 5})
		time.Sleep(time.Minute)
		w.expect(want...)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.most <= 4 || w.most > 20 {
			t.Errorf("%d concurrent requests", w.most)
		}
	})
}

// Whenever a trigger is stopped, it resumes at its position: no record is skipped,
// each item keeps its order, and few records are delivered twice.
func TestStopAndResume(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.takes = 30 * time.Millisecond
		config := Config{BatchSize: 3, Parallelism: 3}
		w.start(config)
		last := map[string]int{}
		for n := range 40 {
			for i := range 6 {
				w.put(string(rune('a'+i)), n)
			}
			time.Sleep(time.Duration(n%7) * 13 * time.Millisecond)
			if n%5 == 4 {
				w.stop()
				w.start(config)
			}
		}
		time.Sleep(time.Minute)
		all := w.accepted()
		for _, value := range all {
			var n int
			fmt.Sscan(value[1:], &n)
			if known, seen := last[value[:1]]; n > known+1 || !seen && n != 0 {
				t.Fatalf("%s follows %d: %v", value, known, all)
			}
			last[value[:1]] = n
		}
		for id, n := range last {
			if n != 39 {
				t.Errorf("the last record of %s is %d", id, n)
			}
		}
		if len(last) != 6 || len(all) > 2*240 {
			t.Errorf("%d items, %d records for 240 changes", len(last), len(all))
		}
	})
}

// Close does not wait for an endpoint, nor for a retry.
func TestCloseIsQuick(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.answer = func(delivery) (int, string) { return 0, "" }
		w.start(Config{Timeout: 10 * time.Minute})
		w.put("a", 1)
		time.Sleep(time.Second)
		began := time.Now()
		w.stop()
		if took := time.Since(began); took > 0 || len(w.requests()) != 1 {
			t.Errorf("Close took %v", took)
		}
	})
}

// While the dead-letter file cannot be written, later records wait.
func TestDeadLetterCannotBeWritten(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.answer = func(d delivery) (int, string) {
			if d.has("a1") {
				return http.StatusBadRequest, ""
			}
			return http.StatusOK, ""
		}
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		config := Config{BatchSize: 1, MaxRetries: new(0), DeadLetter: dead}
		w.start(config)
		w.triggers.dead[dead].file.Close() // imitates a failing disk
		w.put("a", 1)
		w.put("a", 2)
		time.Sleep(2 * time.Minute)
		w.expect()
		clear(w.triggers.dead)
		w.stop()
		w.start(config)
		time.Sleep(time.Minute)
		w.expect("a2")
		if letters := w.readDeadLetters(dead); len(letters) != 1 || recordOf(w, letters[0]) != "a1" {
			t.Errorf("the dead letters are %+v", letters)
		}
	})
}

// A trigger that was stopped for longer than the retention of its stream continues
// with the remaining changes and logs that others are lost.
func TestTrimmed(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.start(Config{})
		w.stop()
		w.put("a", 1)
		w.skip(23 * time.Hour)
		w.put("a", 2)
		w.skip(2 * time.Hour)
		w.start(Config{})
		time.Sleep(time.Second)
		w.expect("a2")
		if !strings.Contains(w.log.String(), "undelivered changes older than 24 h are lost") {
			t.Errorf("the log is %s", w.log.String())
		}
		w.stop()
		w.log.Reset()
		w.start(Config{})
		time.Sleep(time.Second)
		for range 25 { // while idle, its position does not get too old
			w.skip(time.Hour)
			time.Sleep(time.Second)
		}
		w.put("a", 3)
		time.Sleep(time.Second)
		w.expect("a2", "a3")
		if strings.Contains(w.log.String(), "undelivered changes older than 24 h are lost") {
			t.Error("the position of an idle trigger gets too old")
		}
	})
}

// Two triggers of one table are independent.
func TestTwoTriggers(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		w.answer = func(d delivery) (int, string) {
			if d.path == "/bad" {
				return http.StatusInternalServerError, ""
			}
			return http.StatusOK, ""
		}
		w.start(Config{Name: "good"}, Config{Name: "bad", URL: "http://endpoint.invalid/bad"})
		w.put("a", 1)
		w.put("a", 2)
		time.Sleep(time.Minute)
		w.expect("a1", "a2")
	})
}

func TestNamesAreUnique(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		c := Config{Name: "t", Table: "Orders", URL: "http://endpoint.invalid"}
		_, err := Start(context.Background(), Options{Service: w.service, Log: slog.New(slog.DiscardHandler), Transport: w}, c, c)
		if err == nil || err.Error() != "two triggers have the name t" {
			t.Errorf("the error is %v", err)
		}
	})
}

// A step of the wall clock, short or accepted, neither makes dead letters of records
// that are young nor keeps a trigger from later records. The control is a clock that
// is not checked.
func TestStepsOfTheClock(t *testing.T) {
	for _, step := range []time.Duration{26 * time.Hour, -2 * time.Hour} {
		for _, checked := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/checked=%v", step, checked), func(t *testing.T) {
				virtualtime.Test(t, func(t *testing.T) {
					w := &triggerTest{T: t}
					begun := time.Now()
					o := clock.Options{Now: w.now}
					if checked {
						o.Elapsed = func() time.Duration { return time.Since(begun) }
					}
					c := clock.New(o)
					w.open(c, c.Now)
					dead := filepath.Join(t.TempDir(), "dead.jsonl")
					refuse := true
					w.answer = func(delivery) (int, string) {
						if refuse {
							return http.StatusBadGateway, ""
						}
						return http.StatusOK, ""
					}
					w.start(Config{StartingPosition: TrimHorizon, MaxAge: time.Hour, BatchWindow: time.Second, DeadLetter: dead})
					w.put("a", 1)
					time.Sleep(5 * time.Second)
					w.skip(step)
					time.Sleep(time.Minute)
					letters := 0
					if !checked && step > 0 {
						letters = 1
					}
					if n := len(w.readDeadLetters(dead)); n != letters {
						t.Errorf("there are %d dead letters, want %d", n, letters)
					}
					w.mu.Lock()
					refuse = false
					w.mu.Unlock()
					time.Sleep(16 * time.Minute) // a checked step is accepted
					w.put("a", 2)
					time.Sleep(time.Minute)
					w.skip(-step)
					time.Sleep(time.Minute)
					w.put("a", 3)
					time.Sleep(time.Minute)
					if n := len(w.readDeadLetters(dead)); n != letters {
						t.Errorf("there are %d dead letters at last, want %d", n, letters)
					}
					want := []string{"a1", "a2", "a3"}[letters:]
					w.expect(want...)
				})
			})
		}
	}
}

// A trigger that was idle while the clock was ahead of that of the engine gets the
// records that are written then and later.
func TestIdleWhileTheClockIsAhead(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		w := &triggerTest{T: t}
		w.open(clock.Given(w.now), time.Now)
		w.start(Config{StartingPosition: TrimHorizon})
		w.put("a", 1)
		time.Sleep(time.Minute)
		w.skip(20 * time.Hour)
		time.Sleep(time.Minute)
		w.put("a", 2)
		time.Sleep(time.Minute)
		w.skip(-20 * time.Hour)
		w.put("a", 3)
		time.Sleep(time.Minute)
		w.expect("a1", "a2", "a3")
	})
}

// A change of a server whose shared clock is slightly ahead is not too old for the
// server that delivers it. The control is a clock that is not shared.
func TestChangeOfAServerAhead(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				w := &triggerTest{T: t}
				begun := time.Now()
				c := clock.New(clock.Options{Now: w.now, Elapsed: func() time.Duration { return time.Since(begun) }, Shared: shared})
				w.open(c, time.Now)
				time.Sleep(2 * time.Hour)
				trigger := &trigger{Config: Config{Name: "t", MaxAge: time.Hour, DeadLetter: filepath.Join(t.TempDir(), "dead.jsonl")}, service: w.service, log: w.log.Logger()}
				letters := deadLetters{}
				defer letters.close()
				var err error
				if trigger.dead, err = letters.open(trigger.DeadLetter); err != nil {
					t.Fatal(err)
				}
				f := &follower{trigger: trigger, status: new(slotStatus)}
				records := []*pendingRecord{{created: w.now().Add(50 * time.Millisecond), text: []byte("{}")}}
				p := &roundProgress{f: f, round: &round{records: records}, done: make([]bool, 1)}
				young := f.giveUpOld(t.Context(), records, 0, nil, p)
				if (len(young) == 1) != shared {
					t.Errorf("%d of 1 records are young", len(young))
				}
			})
		})
	}
}

// An endpoint is down, and the server restarts with a clock that is two days ahead,
// which is not trusted, and right again after a minute. No record is lost. If the
// clock stays there, its time is accepted, and the record is older than 24 hours.
func TestRestartWithAClockAhead(t *testing.T) {
	for _, ahead := range []time.Duration{0, 48 * time.Hour} {
		for _, corrected := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/corrected=%v", ahead, corrected), func(t *testing.T) {
				virtualtime.Test(t, func(t *testing.T) { restartAhead(t, ahead, corrected) })
			})
		}
	}
}

func restartAhead(t *testing.T, ahead time.Duration, corrected bool) {
	w := &triggerTest{T: t}
	begun := time.Now()
	newClock := func() *clock.Clock {
		return clock.New(clock.Options{Now: w.now, Elapsed: func() time.Duration { return time.Since(begun) }})
	}
	var current atomic.Pointer[clock.Clock]
	current.Store(newClock())
	w.open(current.Load(), func() time.Time { return current.Load().Now() })
	w.answers(func(delivery) (int, string) { return http.StatusBadGateway, "" })
	w.start(Config{StartingPosition: TrimHorizon})
	time.Sleep(time.Second)
	w.put("a", 1)
	time.Sleep(time.Minute)
	w.stop()

	w.skip(ahead)
	current.Store(newClock())
	w.reopen(current.Load())
	if current.Load().Trusted() != (ahead == 0) {
		t.Errorf("the clock is trusted: %v", ahead != 0)
	}
	if corrected {
		w.answers(func(delivery) (int, string) { return http.StatusOK, "" })
	}
	w.start(Config{StartingPosition: TrimHorizon})
	time.Sleep(10 * time.Second)
	w.put("a", 2)
	time.Sleep(50 * time.Second)
	if corrected {
		w.skip(-ahead)
	}
	time.Sleep(20 * time.Minute)
	w.stop()
	w.answers(func(delivery) (int, string) { return http.StatusOK, "" })
	w.start(Config{StartingPosition: TrimHorizon})
	w.put("a", 3)
	time.Sleep(time.Minute)
	if corrected || ahead == 0 {
		w.expect("a1", "a2", "a3")
	} else {
		w.expect("a2", "a3")
	}
}
