package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	killCycles = flag.Int("kill.cycles", 20, "number of times that the server is killed")
	killLoad   = flag.Duration("kill.load", 250*time.Millisecond, "time that the server runs before it is killed")
)

const killWriters = 64

// A 200 means that the write is durable: writes that were acknowledged before a
// kill -9 are present after it.
func TestNoAcknowledgedWriteIsLostByKill(t *testing.T) {
	lost, acknowledged := killLoop(t, *killCycles)
	t.Logf("%d kills, %d writes acknowledged", *killCycles, acknowledged)
	if len(lost) > 0 {
		t.Errorf("%d writers lost acknowledged writes:\n%s", len(lost), strings.Join(lost, "\n"))
	}
}

// The control: with writes that are acknowledged before they are on disk, the same
// loop finds lost writes.
func TestKillLoopFindsLosses(t *testing.T) {
	for range 5 {
		if lost, _ := killLoop(t, 4, "--durability=relaxed"); len(lost) > 0 {
			return
		}
	}
	t.Error("no acknowledged write was lost although none was durable")
}

// SIGTERM loses no acknowledged write, and the exit code is 0.
func TestTermFinishesRequests(t *testing.T) {
	data := t.TempDir()
	s := startServer(t, data)
	s.createTable(t)
	acks := s.load(0, func() { s.cmd.Process.Signal(syscall.SIGTERM) })
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server exited with %v\n%s", err, s.log())
	}
	s = startServer(t, data)
	defer s.kill()
	if lost := s.missing(t, 0, acks); len(lost) > 0 {
		t.Errorf("lost:\n%s", strings.Join(lost, "\n"))
	}
}

// killLoop repeatedly runs writers, kills the server and looks for the acknowledged
// writes, with the same data folder.
func killLoop(t *testing.T, cycles int, flags ...string) (lost []string, acknowledged int) {
	t.Helper()
	data := t.TempDir()
	s := startServer(t, data, flags...)
	s.createTable(t)
	for cycle := range cycles {
		acks := s.load(cycle, s.kill)
		for _, n := range acks {
			acknowledged += n
		}
		s = startServer(t, data, flags...)
		lost = append(lost, s.missing(t, cycle, acks)...)
	}
	s.kill()
	return lost, acknowledged
}

// server is a stator process.
type server struct {
	cmd  *exec.Cmd
	url  string
	once sync.Once

	mu     sync.Mutex
	stderr bytes.Buffer
}

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stator-test")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "stator")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := buildOnce(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func startServer(t *testing.T, data string, flags ...string) *server {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cmd: exec.Command(binary, append([]string{"serve", "--addr", "127.0.0.1:0", "--data", data}, flags...)...)}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		s.note(lines.Text())
		if url, ok := strings.CutPrefix(lines.Text(), "stator listens on "); ok {
			s.url = url
			break
		}
	}
	if s.url == "" {
		t.Fatalf("the server did not start: %v\n%s", s.cmd.Wait(), s.log())
	}
	go func() {
		for lines.Scan() {
			s.note(lines.Text())
		}
	}()
	t.Cleanup(s.kill)
	return s
}

func (s *server) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(&s.stderr, line)
}

func (s *server) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.String()
}

// kill kills the server, the first time that it is called.
func (s *server) kill() {
	s.once.Do(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	})
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: killWriters}}

// call sends one request. It returns an error of the network, or for a status other
// than 200.
func (s *server) call(operation, body string, reply any) error {
	return s.send("DynamoDB_20120810."+operation, body, reply)
}

func (s *server) send(target, body string, reply any) error {
	req, err := http.NewRequest("POST", s.url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", target)
	req.Header.Set("X-Amz-Date", "20260101T000000Z")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", target, res.Status, answer)
	}
	if reply != nil {
		return json.Unmarshal(answer, reply)
	}
	return nil
}

func (s *server) createTable(t *testing.T) {
	t.Helper()
	err := s.call("CreateTable", `{"TableName": "Kills", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": [{"AttributeName": "writer", "AttributeType": "S"}, {"AttributeName": "n", "AttributeType": "N"}],
		"KeySchema": [{"AttributeName": "writer", "KeyType": "HASH"}, {"AttributeName": "n", "KeyType": "RANGE"}]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func writerName(cycle, writer int) string { return fmt.Sprintf("%d-%d", cycle, writer) }

// load runs writers that each put their own items, numbered from 1, until end has
// stopped the server. It returns the last acknowledged item of each writer.
func (s *server) load(cycle int, end func()) []int {
	acks := make([]int, killWriters)
	var writers sync.WaitGroup
	for w := range killWriters {
		writers.Go(func() {
			for n := 1; ; n++ {
				body := fmt.Sprintf(`{"TableName": "Kills", "Item": {"writer": {"S": "%s"}, "n": {"N": "%d"}, "pad": {"S": "%0200d"}}}`, writerName(cycle, w), n, n)
				if s.call("PutItem", body, nil) != nil {
					return
				}
				acks[w] = n
			}
		})
	}
	time.Sleep(*killLoad)
	end()
	writers.Wait()
	return acks
}

// missing lists the writers that have lost an acknowledged item.
func (s *server) missing(t *testing.T, cycle int, acks []int) (lost []string) {
	t.Helper()
	for w, acked := range acks {
		found := 0
		start := ""
		for {
			var page struct {
				Items            []struct{ N struct{ N json.Number } }
				LastEvaluatedKey json.RawMessage
			}
			body := fmt.Sprintf(`{"TableName": "Kills", "ConsistentRead": true, "KeyConditionExpression": "writer = :w",
				"ProjectionExpression": "n", "ExpressionAttributeValues": {":w": {"S": "%s"}}%s}`, writerName(cycle, w), start)
			if err := s.call("Query", body, &page); err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				if n, _ := it.N.N.Int64(); int(n) == found+1 {
					found++
				}
			}
			if page.LastEvaluatedKey == nil {
				break
			}
			start = `, "ExclusiveStartKey": ` + string(page.LastEvaluatedKey)
		}
		if found < acked {
			lost = append(lost, fmt.Sprintf("cycle %d, writer %d: %d acknowledged, found up to %d", cycle, w, acked, found))
		}
	}
	return lost
}
