package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// groupMB is the memory of the control group that the server runs in.
const groupMB = 512

// Many clients send requests of one operation, at its limits, and do not read the
// replies. The server stays within the memory of its control group, and a good client
// is served meanwhile.
//
// The control is a server that takes the memory of the machine for its own, so that
// its admission control lets in more than the group has room for.
func TestMemoryIsBoundedAtTheLimits(t *testing.T) {
	g := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	group := newGroup(t)
	s := group.start(t, data, "--log=error")
	fillToTheLimits(t, s.door)
	conns, span := 64, 300*time.Millisecond
	if *long {
		conns, span = 512, 4*time.Second
	}
	alone, worst := serveFor(g, s, span), latencies{}
	for range g.rounds(1) {
		for _, r := range requestsAtTheLimits(t, s.door) {
			n := conns
			if r.writes {
				n = conns / 16 // each writes up to 84 MB
			}
			if status, answer, err := unthrottled(s.door, r); err != nil || status != http.StatusOK {
				t.Fatalf("%s of one client is answered %d %.200s, %v", r.operation, status, answer, err)
			} else if !r.writes && len(answer) < 400_000 {
				t.Fatalf("%s has a reply of %d bytes only", r.operation, len(answer))
			}
			leave := holdReplies(g, s, r, n)
			served := serveFor(g, s, span)
			leave()
			if !s.alive() || group.kills() > 0 {
				t.Fatalf("%s of %d clients has ended the server\n%s", r.operation, n, s.log())
			}
			if len(served) == 0 {
				t.Errorf("no request of a good client is served during %s", r.operation)
			}
			if served.at(99) > worst.at(99) {
				worst = served
			}
			g.count("good requests during "+r.operation, len(served))
		}
	}
	peak := s.memory(t, "VmHWM")
	g.count("MB at most", peak)
	if peak > groupMB {
		t.Errorf("the server has taken %d MB", peak)
	}
	alone.report(g, "alone")
	worst.report(g, "in the worst crowd")
	s.kill()
	if !group.isExceeded(g, data) {
		t.Error("the control: a server without these bounds stays within the memory of the group")
	}
}

// unthrottled sends a request again while it is throttled: on a busy machine the server may still be doing what
// the crowd before has asked for.
func unthrottled(d door, r limitRequest) (status int, answer []byte, err error) {
	for range 100 {
		status, answer, err = d(r.target(), r.body)
		if err != nil || status == http.StatusOK || !bytes.Contains(answer, []byte("#ThrottlingException")) {
			break
		}
	}
	return status, answer, err
}

// isExceeded reports whether the crowd ends a server that has joined the group after
// its limits were set.
func (c *memoryGroup) isExceeded(g *rig, data string) bool {
	g.Helper()
	s := runBinary(g, exec.Command(build(g, "cmd/stator"), "serve", "--addr", "127.0.0.1:0", "--data", data, "--log=error"))
	requests := requestsAtTheLimits(g, s.door)
	c.join(g, s)
	for began := time.Now(); time.Since(began) < controlTime; {
		for _, r := range requests {
			if r.writes {
				continue
			}
			leave := holdReplies(g, s, r, 512)
			select {
			case <-s.ended:
			case <-time.After(2 * time.Second):
			}
			leave()
			if c.kills() > 0 || !s.alive() {
				g.count("controls that were ended", 1)
				return true
			}
		}
	}
	return s.memory(g, "VmHWM") > groupMB
}

// controlTime is how long the control may take to exceed its memory.
const controlTime = time.Minute

// holdReplies lets clients send the same request and not read its reply, until leave
// is called.
func holdReplies(g *rig, s *process, r limitRequest, clients int) (leave func()) {
	g.Helper()
	request, err := http.NewRequest("POST", "http://"+s.addr+"/", nil)
	if err != nil {
		g.Fatal(err)
	}
	sign(request, r.target())
	message := fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n%s", s.addr, len(r.body), headers(request), r.body)
	var conns []net.Conn
	for range clients {
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			break // the control has ended
		}
		conns = append(conns, conn)
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		go conn.Write(message) //nolint:errcheck // it may be cut off
	}
	return func() {
		for _, conn := range conns {
			conn.Close()
		}
	}
}

// latencies are those of a good client's requests, sorted.
type latencies []time.Duration

// serveFor sends requests of a good client for some time, and returns how long those
// took that were served.
func serveFor(g *rig, s *process, span time.Duration) (took latencies) {
	g.Helper()
	for began := time.Now(); time.Since(began) < span; {
		sent := time.Now()
		err := s.call("GetItem", object{"TableName": "Limits", "Key": object{"p": text("small"), "k": num(0)}}, nil)
		if err != nil && !rejected(err, "ThrottlingException") {
			g.Fatalf("a good client: %v", err)
		}
		if err == nil {
			took = append(took, time.Since(sent))
		}
	}
	slices.Sort(took)
	return took
}

// at returns a percentile; 0 if there are none.
func (l latencies) at(percent int) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)*percent/100]
}

// report writes the latencies down.
func (l latencies) report(g *rig, where string) {
	g.count("us p50 "+where, int(l.at(50).Microseconds()))
	g.count("us p99 "+where, int(l.at(99).Microseconds()))
}

// limitRequest is a request at a limit of its operation.
type limitRequest struct {
	operation string
	body      []byte
	writes    bool
}

func (r *limitRequest) target() string {
	if r.operation == "GetRecords" {
		return "DynamoDBStreams_20120810.GetRecords"
	}
	return "DynamoDB_20120810." + r.operation
}

// largeItems is the number of items of 400 KB: a BatchGetItem returns as many.
const largeItems = 40

// fillToTheLimits creates a table with 20 indexes that project all attributes and
// with a stream, and stores large items: texts of control characters, whose JSON is
// six times as long, large sets and deep documents.
func fillToTheLimits(t testing.TB, d door) {
	t.Helper()
	attributes := []object{{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "k", "AttributeType": "N"}, {"AttributeName": "g", "AttributeType": "S"}}
	var indexes []object
	for i := range 20 {
		indexes = append(indexes, object{"IndexName": fmt.Sprintf("index-%d", i), "KeySchema": []object{{"AttributeName": "g", "KeyType": "HASH"}},
			"Projection": object{"ProjectionType": "ALL"}})
	}
	d.must(t, "CreateTable", object{"TableName": "Limits", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": attributes,
		"KeySchema":              []object{{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "k", "KeyType": "RANGE"}},
		"GlobalSecondaryIndexes": indexes,
		"StreamSpecification":    object{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}}, nil)
	d.must(t, "PutItem", object{"TableName": "Limits", "Item": object{"p": text("small"), "k": num(0)}}, nil)
	for k := range largeItems {
		d.must(t, "PutItem", object{"TableName": "Limits", "Item": object{"p": text("p"), "k": num(k), "v": largeValue(k)}}, nil)
	}
}

// largeValue is a value of about 400 KB.
func largeValue(k int) object {
	switch k % 3 {
	case 0:
		return text(strings.Repeat("\x01", 400_000))
	case 1:
		var members []string
		for i := range 80_000 {
			members = append(members, strconv.Itoa(i))
		}
		return object{"SS": members}
	}
	var elements []object
	for range 130_000 {
		elements = append(elements, object{"NULL": true})
	}
	deep := object{"L": elements}
	for range 25 {
		deep = object{"M": object{"a": deep}}
	}
	return deep
}

// requestsAtTheLimits returns a request of each operation that can hold much memory.
func requestsAtTheLimits(t testing.TB, d door) []limitRequest {
	t.Helper()
	var all []limitRequest
	add := func(operation string, writes bool, body object) {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, limitRequest{operation, b, writes})
	}
	var keys, gets, updates, puts, selects, batchSelects []object
	for k := range largeItems {
		key := object{"p": text("p"), "k": num(k)}
		keys = append(keys, key)
		statement := object{"Statement": fmt.Sprintf("SELECT * FROM Limits WHERE p='p' AND k=%d", k)}
		if k < 10 {
			gets = append(gets, object{"Get": object{"TableName": "Limits", "Key": key}})
			updates = append(updates, object{"Update": object{"TableName": "Limits", "Key": key, "UpdateExpression": "SET g = :g",
				"ExpressionAttributeValues": object{":g": text("g")}}})
			selects = append(selects, statement)
		}
		if k < 25 {
			batchSelects = append(batchSelects, statement)
			puts = append(puts, object{"PutRequest": object{"Item": object{"p": text("q"), "k": num(k), "g": text("g"), "v": text(strings.Repeat("x", 400_000))}}})
		}
	}
	add("GetItem", false, object{"TableName": "Limits", "Key": keys[0]})
	add("Query", false, object{"TableName": "Limits", "KeyConditionExpression": "p = :p", "ExpressionAttributeValues": object{":p": text("p")}})
	add("Scan", false, object{"TableName": "Limits"})
	add("BatchGetItem", false, object{"RequestItems": object{"Limits": object{"Keys": keys}}})
	add("TransactGetItems", false, object{"TransactItems": gets})
	add("ExecuteStatement", false, object{"Statement": "SELECT * FROM Limits WHERE p='p'"})
	add("ExecuteTransaction", false, object{"TransactStatements": selects})
	add("BatchExecuteStatement", false, object{"Statements": batchSelects})
	add("GetRecords", false, object{"ShardIterator": firstIterator(t, d)})
	add("UpdateItem", true, object{"TableName": "Limits", "Key": keys[11], "UpdateExpression": "SET g = :g", "ReturnValues": "ALL_NEW",
		"ExpressionAttributeValues": object{":g": text("g")}})
	add("TransactWriteItems", true, object{"TransactItems": updates})
	add("BatchWriteItem", true, object{"RequestItems": object{"Limits": puts}})
	return all
}

// firstIterator is an iterator at the beginning of a shard of the table's stream that
// has records of large items.
func firstIterator(t testing.TB, d door) string {
	t.Helper()
	const streams = "DynamoDBStreams_20120810."
	var list struct{ Streams []struct{ StreamArn string } }
	d.must(t, streams+"ListStreams", object{"TableName": "Limits"}, &list)
	arn := list.Streams[0].StreamArn
	var stream struct {
		StreamDescription struct{ Shards []struct{ ShardId string } }
	}
	d.must(t, streams+"DescribeStream", object{"StreamArn": arn}, &stream)
	for _, shard := range stream.StreamDescription.Shards {
		var it struct{ ShardIterator string }
		d.must(t, streams+"GetShardIterator", object{"StreamArn": arn, "ShardId": shard.ShardId, "ShardIteratorType": "TRIM_HORIZON"}, &it)
		var page struct{ Records []any }
		d.must(t, streams+"GetRecords", object{"ShardIterator": it.ShardIterator}, &page)
		if len(page.Records) > 1 {
			return it.ShardIterator
		}
	}
	t.Fatal("no shard has records")
	return ""
}

// memoryGroup is a control group with a limit of memory.
type memoryGroup struct{ dir, events string }

// newGroup creates a control group, and skips the test if this process may not.
func newGroup(t *testing.T) *memoryGroup {
	t.Helper()
	name := fmt.Sprintf("stator-torture-%d", os.Getpid())
	for _, c := range []struct{ root, limit, events string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
		{"/sys/fs/cgroup", "memory.max", "memory.events"},
	} {
		dir := filepath.Join(c.root, name)
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { removeGroup(t, dir) }) // after the server has ended
		if os.WriteFile(filepath.Join(dir, c.limit), []byte(strconv.Itoa(groupMB<<20)), 0) != nil {
			continue
		}
		t.Logf("the server runs in %s", dir)
		return &memoryGroup{dir, filepath.Join(dir, c.events)}
	}
	t.Skip("no control group with a limit of memory can be created: that needs root")
	return nil
}

// start runs a server in the group: the binary as it is delivered, because the race
// detector takes several times the memory of the server.
func (c *memoryGroup) start(t *testing.T, data string, flags ...string) *process {
	t.Helper()
	shell := []string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, c.dir, build(t, "cmd/stator"), "serve", "--addr", "127.0.0.1:0", "--data", data}
	return runBinary(t, exec.Command("/bin/sh", append(shell, flags...)...))
}

func runBinary(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p, err := run(t, cmd)
	if err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	return p
}

// join moves a running server into the group.
func (c *memoryGroup) join(t testing.TB, s *process) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(strconv.Itoa(s.cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
}

// kills is how many processes of the group were killed for lack of memory.
func (c *memoryGroup) kills() int { return killsIn(c.events) }

// killsIn reads how many processes of a group were killed for lack of memory.
func killsIn(file string) (kills int) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		_, _ = fmt.Sscanf(line, "oom_kill %d", &kills) // other lines do not match
	}
	return kills
}

// removeGroup removes a group once its processes are gone.
func removeGroup(t *testing.T, dir string) {
	for range 100 {
		if os.Remove(dir) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("the control group %s cannot be removed", dir)
}
