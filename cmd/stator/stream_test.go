package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var streamCycles = flag.Int("stream.cycles", 20, "number of times that a server with a stream and a trigger is killed")

const (
	streamWriters = 64
	streamItems   = 200
)

// Whenever the server is killed, replaying the records of an item gives the stored
// item, and a trigger delivers each change, in the order of its item.
func TestStreamsAndTriggersSurviveKill(t *testing.T) {
	dir := t.TempDir()
	endpoint := newEndpoint(t)
	start := func(cycle int) *server {
		return startServer(t, filepath.Join(dir, "data"), "--shard-duration=2s", "--log=error", "--config", endpoint.config(t, dir, cycle))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := start(0)
	s.createStreamed(t)
	acks := make(map[string]bool)
	for cycle := range *streamCycles {
		for _, v := range s.change(seed, cycle, s.kill) {
			acks[v] = true
		}
		endpoint.expect(cycle + 1)
		s = start(cycle + 1)
	}
	stream, stored := s.records(t), s.items(t)
	delivered := endpoint.waitFor(t, stream)
	t.Logf("%d kills, %d writes acknowledged, %d records, %d delivered in %d batches", *streamCycles, len(acks), len(stream), len(delivered), endpoint.batches)

	faults := append(replayFaults(stream, stored, acks), deliveryFaults(stream, delivered)...)
	if len(faults) > 0 {
		t.Errorf("%d faults:\n%s", len(faults), strings.Join(faults[:min(len(faults), 20)], "\n"))
	}
	// The controls: a record from the middle is left out.
	planted := stream[len(stream)/2]
	without := func(all []streamed) []streamed {
		return slices.DeleteFunc(slices.Clone(all), func(r streamed) bool { return r.EventID == planted.EventID })
	}
	if len(replayFaults(without(stream), stored, acks)) == 0 || len(deliveryFaults(stream, without(delivered))) == 0 {
		t.Error("a missing record is not detected")
	}
}

// The checks detect planted faults.
func TestStreamChecksFindFaults(t *testing.T) {
	record := func(id, item, before, after string) streamed {
		r := streamed{EventID: id}
		r.Dynamodb.Keys = image{"id": {"S": item}}
		if before != "" {
			r.Dynamodb.OldImage = image{"v": {"S": before}}
		}
		if after != "" {
			r.Dynamodb.NewImage = image{"v": {"S": after}}
		}
		return r
	}
	a1, a2, a3 := record("1", "a", "", "x"), record("2", "a", "x", "y"), record("3", "a", "y", "")
	b1 := record("4", "b", "", "z")
	stored := map[string]string{"b": b1.Dynamodb.NewImage.String()}
	acks := map[string]bool{"x": true, "z": true}
	for _, c := range []struct {
		name   string
		stream []streamed
		faults bool
	}{
		{"complete", []streamed{a1, b1, a2, a3}, false},
		{"the first is missing", []streamed{b1, a2, a3}, true},
		{"one in the middle is missing", []streamed{a1, b1, a3}, true},
		{"the last is missing", []streamed{a1, b1, a2}, true},
		{"the only one is missing", []streamed{a1, a2, a3}, true},
		{"one twice", []streamed{a1, a1, b1, a2, a3}, true},
		{"out of order", []streamed{a2, a1, b1, a3}, true},
	} {
		if got := replayFaults(c.stream, stored, acks); len(got) > 0 != c.faults {
			t.Errorf("the stream, %s: %q", c.name, got)
		}
	}
	if got := replayFaults([]streamed{b1}, stored, acks); len(got) == 0 {
		t.Error("the loss of all records of a deleted item is not detected")
	}
	for _, c := range []struct {
		name      string
		delivered []streamed
		faults    bool
	}{
		{"complete", []streamed{a1, b1, a2, a3}, false},
		{"some repeated", []streamed{a1, a2, b1, a1, a2, a3, b1}, false},
		{"one is missing", []streamed{a1, a2, a3}, true},
		{"one in the middle is missing", []streamed{a1, a3, b1}, true},
		{"the last is missing", []streamed{a1, a2, b1}, true},
		{"out of order", []streamed{a2, a1, a3, b1}, true},
		{"one that is not in the stream", []streamed{a1, a2, a3, b1, record("5", "b", "", "z")}, true},
	} {
		if got := deliveryFaults([]streamed{a1, b1, a2, a3}, c.delivered); len(got) > 0 != c.faults {
			t.Errorf("the deliveries, %s: %q", c.name, got)
		}
	}
}

// streamed is a record from a stream or a trigger.
type streamed struct {
	EventID  string `json:"eventID"`
	Dynamodb struct{ Keys, NewImage, OldImage image }
}

func (r *streamed) item() string { return r.Dynamodb.Keys["id"]["S"] }

// image is an item whose attributes are strings and numbers.
type image map[string]map[string]string

func (i image) String() string {
	if i == nil {
		return ""
	}
	text, err := json.Marshal(i)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// replayFaults replays the records of each item. The old image of each record must
// be the new image of the record before, the last new image must be the stored item,
// and each acknowledged write must have a record.
func replayFaults(stream []streamed, stored map[string]string, acks map[string]bool) (faults []string) {
	items, seen, versions := map[string]string{}, map[string]bool{}, map[string]bool{}
	for i := range stream {
		r := &stream[i]
		if seen[r.EventID] {
			faults = append(faults, r.EventID+" occurs twice")
		}
		seen[r.EventID] = true
		if before := r.Dynamodb.OldImage.String(); before != items[r.item()] {
			faults = append(faults, fmt.Sprintf("%s: the item was %q, but the next record has the old image %q", r.item(), items[r.item()], before))
		}
		items[r.item()] = r.Dynamodb.NewImage.String()
		versions[r.Dynamodb.NewImage["v"]["S"]] = true
	}
	for id, now := range stored {
		if items[id] == "" {
			faults = append(faults, fmt.Sprintf("%s is %q, but no record has created it", id, now))
		}
	}
	for id, last := range items {
		if last != stored[id] {
			faults = append(faults, fmt.Sprintf("%s is %q, but its last change made it %q", id, stored[id], last))
		}
	}
	for v := range acks {
		if !versions[v] {
			faults = append(faults, "the write "+v+" was acknowledged, but is not in the stream")
		}
	}
	return faults
}

// deliveryFaults compares the deliveries of a trigger with the stream. For each item,
// a delivery must be the next record or a repetition, and the last must be the last
// of the stream.
func deliveryFaults(stream, delivered []streamed) (faults []string) {
	numbers, counts := map[string]int{}, map[string]int{}
	for i := range stream {
		counts[stream[i].item()]++
		numbers[stream[i].EventID] = counts[stream[i].item()]
	}
	last := map[string]int{}
	for i := range delivered {
		r := &delivered[i]
		number, known := numbers[r.EventID]
		switch {
		case !known:
			faults = append(faults, r.EventID+" was delivered, but is not in the stream")
		case number > last[r.item()]+1:
			faults = append(faults, fmt.Sprintf("%s: change %d was delivered after %d", r.item(), number, last[r.item()]))
		}
		last[r.item()] = number
	}
	for id, n := range counts {
		if last[id] != n {
			faults = append(faults, fmt.Sprintf("%s: the last delivered change is %d of %d", id, last[id], n))
		}
	}
	return faults
}

// endpoint receives the deliveries of a trigger. It outlives the servers.
type endpoint struct {
	url string

	mu       sync.Mutex
	cycle    int // requests of servers that were killed are rejected
	requests int
	batches  int
	got      []streamed
	seen     map[string]bool
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{seen: make(map[string]bool)}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.url = s.URL
	return e
}

// ServeHTTP accepts a batch, and rejects some.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var event struct{ Records []streamed }
	err := json.NewDecoder(r.Body).Decode(&event)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	if err != nil || r.URL.Path != "/"+strconv.Itoa(e.cycle) || e.requests%29 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	e.batches++
	e.got = append(e.got, event.Records...)
	for i := range event.Records {
		e.seen[event.Records[i].EventID] = true
	}
}

func (e *endpoint) expect(cycle int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cycle = cycle
}

// config writes a configuration file with the trigger.
func (e *endpoint) config(t *testing.T, dir string, cycle int) string {
	t.Helper()
	path := filepath.Join(dir, "stator.yaml")
	text := fmt.Sprintf("triggers:\n  - name: all\n    table: Streamed\n    url: %s/%d\n    batch-size: 200\n    parallelism: 2\n    bisect-on-error: true\n", e.url, cycle)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// waitFor waits until the trigger has delivered a stream and sends nothing more.
func (e *endpoint) waitFor(t *testing.T, stream []streamed) []streamed {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for before := -1; time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		e.mu.Lock()
		seen, requests := len(e.seen), e.requests
		e.mu.Unlock()
		if seen >= len(stream) && requests == before {
			break
		}
		before = requests
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

func (s *server) createStreamed(t *testing.T) {
	t.Helper()
	err := s.call("CreateTable", `{"TableName": "Streamed", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
		"StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}}`, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// change runs writers that change the same items, with single writes and with
// transactions, until end has stopped the server. It returns the acknowledged
// versions.
func (s *server) change(seed uint64, cycle int, end func()) (acked []string) {
	var mu sync.Mutex
	var writers sync.WaitGroup
	for w := range streamWriters {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(cycle*streamWriters+w)))
			var mine []string
			for n := 0; ; n++ {
				operation, body, versions := randomChange(r, fmt.Sprintf("%d.%d.%d", cycle, w, n))
				if s.call(operation, body, nil) != nil {
					break
				}
				mine = append(mine, versions...)
			}
			mu.Lock()
			defer mu.Unlock()
			acked = append(acked, mine...)
		})
	}
	time.Sleep(*killLoad)
	end()
	writers.Wait()
	return acked
}

// randomChange returns a request and the versions that it writes.
func randomChange(r *rand.Rand, version string) (operation, body string, versions []string) {
	target := func(id int) string { return fmt.Sprintf(`"TableName": "Streamed", "Key": {"id": {"S": "i%d"}}`, id) }
	update := func(id int, v string) string {
		versions = append(versions, v)
		return fmt.Sprintf(`{%s, "UpdateExpression": "SET v = :v ADD n :one", "ExpressionAttributeValues": {":v": {"S": %q}, ":one": {"N": "1"}}}`, target(id), v)
	}
	ids := r.Perm(streamItems)
	switch r.IntN(10) {
	case 0:
		return "DeleteItem", fmt.Sprintf(`{%s}`, target(ids[0])), nil
	case 1, 2, 3:
		body = fmt.Sprintf(`{"TransactItems": [{"Update": %s}, {"Delete": {%s}}, {"Update": %s}]}`,
			update(ids[0], version+"a"), target(ids[1]), update(ids[2], version+"b"))
		return "TransactWriteItems", body, versions
	}
	body = update(ids[0], version)
	return "UpdateItem", body, versions
}

// records returns all records of the stream, each shard after its parent.
func (s *server) records(t *testing.T) (all []streamed) {
	t.Helper()
	ask := func(operation, body string, reply any) {
		t.Helper()
		if err := s.send("DynamoDBStreams_20120810."+operation, body, reply); err != nil {
			t.Fatal(err)
		}
	}
	var streams struct{ Streams []struct{ StreamArn string } }
	ask("ListStreams", `{"TableName": "Streamed"}`, &streams)
	arn, after := streams.Streams[0].StreamArn, ""
	for {
		var reply struct {
			StreamDescription struct {
				Shards               []struct{ ShardId string }
				LastEvaluatedShardId string
			}
		}
		ask("DescribeStream", fmt.Sprintf(`{"StreamArn": %q%s}`, arn, after), &reply)
		for _, shard := range reply.StreamDescription.Shards {
			var at struct{ ShardIterator string }
			ask("GetShardIterator", fmt.Sprintf(`{"StreamArn": %q, "ShardId": %q, "ShardIteratorType": "TRIM_HORIZON"}`, arn, shard.ShardId), &at)
			for at.ShardIterator != "" {
				var page struct {
					Records           []streamed
					NextShardIterator string
				}
				ask("GetRecords", fmt.Sprintf(`{"ShardIterator": %q}`, at.ShardIterator), &page)
				all = append(all, page.Records...)
				if at.ShardIterator = page.NextShardIterator; len(page.Records) == 0 {
					break
				}
			}
		}
		last := reply.StreamDescription.LastEvaluatedShardId
		if last == "" {
			return all
		}
		after = fmt.Sprintf(`, "ExclusiveStartShardId": %q`, last)
	}
}

// items returns the stored items.
func (s *server) items(t *testing.T) map[string]string {
	t.Helper()
	var page struct{ Items []image }
	if err := s.call("Scan", `{"TableName": "Streamed", "ConsistentRead": true}`, &page); err != nil {
		t.Fatal(err)
	}
	items := make(map[string]string)
	for _, it := range page.Items {
		items[it["id"]["S"]] = it.String()
	}
	return items
}
