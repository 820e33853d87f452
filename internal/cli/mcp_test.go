package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/mcp"
	"github.com/stator-db/stator/internal/model/apply"
)

// Invalid command lines are refused before anything is served.
func TestMCPUsage(t *testing.T) {
	const endpoint = "http://127.0.0.1:1"
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"without an endpoint", nil, "--endpoint must name the server"},
		{"another group", []string{"--endpoint", endpoint, "--allow", "read,everything"}, `--allow is "read", but must be forks, write or tables`},
		{"another group after one", []string{"--endpoint", endpoint, "--allow", "write,all"}, `--allow is "all"`},
		{"a model that is none", []string{"--endpoint", endpoint, "--model", invalid}, "unknown field"},
		{"an address of other machines", []string{"--endpoint", endpoint, "--http", "0.0.0.0:0"}, "must be a loopback address"},
		{"a token for stdin", []string{"--endpoint", endpoint, "--token-file", "x"}, "--token-file is for --http"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runStator(t, append([]string{"mcp"}, c.args...)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %q", code, stdout, stderr, c.want)
			}
		})
	}
}

// mcpClient is a client on stdin and stdout of the command, line by line.
type mcpClient struct {
	t      *testing.T
	in     *io.PipeWriter
	out    *bufio.Scanner
	ended  chan error
	stderr lockedText
	id     int
}

type lockedText struct {
	sync.Mutex
	strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Builder.Write(b)
}

func (l *lockedText) text() string {
	l.Lock()
	defer l.Unlock()
	return l.String()
}

func startMCP(t *testing.T, run func(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error) *mcpClient {
	t.Helper()
	in, ours := io.Pipe()
	theirs, out := io.Pipe()
	c := &mcpClient{t: t, in: ours, out: bufio.NewScanner(theirs), ended: make(chan error, 1)}
	c.out.Buffer(nil, 1<<20)
	go func() {
		err := run(t.Context(), in, out, &c.stderr)
		_ = out.Close()
		c.ended <- err
	}()
	c.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cli","version":"1"}}`)
	fmt.Fprintln(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// ask sends a request, and returns the result.
func (c *mcpClient) ask(method, parameters string) json.RawMessage {
	c.t.Helper()
	c.id++
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, parameters)
	var reply struct {
		JSONRPC       string
		ID            int
		Result, Error json.RawMessage
	}
	if !c.out.Scan() {
		c.t.Fatalf("stdout ends: %v, %s", c.out.Err(), c.stderr.text())
	}
	if err := json.Unmarshal(c.out.Bytes(), &reply); err != nil || reply.JSONRPC != "2.0" || reply.ID != c.id || reply.Error != nil {
		c.t.Fatalf("%s %s is answered with %s, %v", method, parameters, c.out.Text(), err)
	}
	return reply.Result
}

// want calls a tool whose answer contains a text.
func (c *mcpClient) want(tool, arguments, want string) string {
	c.t.Helper()
	var result struct{ Content []struct{ Text string } }
	text := c.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
	if err := json.Unmarshal(text, &result); err != nil || len(result.Content) != 1 || !strings.Contains(result.Content[0].Text, want) {
		c.t.Fatalf("%s %s returns %s, %v, want %s", tool, arguments, text, err, want)
	}
	return result.Content[0].Text
}

func (c *mcpClient) end() {
	c.t.Helper()
	_ = c.in.Close()
	if c.out.Scan() {
		c.t.Errorf("stdout has %q at the end", c.out.Text())
	}
	if err := <-c.ended; err != nil {
		c.t.Error(err)
	}
}

// The command serves on stdin and stdout; its forks end with it, and only the log is on stderr.
func TestMCPOnStdio(t *testing.T) {
	db, err := stator.Open(t.Context(), stator.Options{Forks: &stator.ForkOptions{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	web := httptest.NewServer(db.Handler())
	t.Cleanup(web.Close)
	endpoint := web.URL
	f := mcpFlags{endpointFlags: endpointFlags{endpoint: endpoint, region: "us-east-1"}, model: goodModel, allow: []string{"forks", "tables"}}
	c := startMCP(t, f.run)
	c.want("overview", `{}`, `"allowed":["read","forks","tables"]`)
	c.want("model_prove", `{}`, `"ok":true`)
	plan := c.want("table_apply", `{}`, `"done":false`)
	c.want("table_apply", `{"confirm":`+regexp.MustCompile(`"confirm":("[^"]+")`).FindStringSubmatch(plan)[1]+`}`, `"done":true`)
	c.want("traffic", `{}`, `"operations":`)
	c.want("explain", `{"statement":"SELECT * FROM \"data-download-jobs\""}`, `"scan":true`)
	c.want("fork", `{"action":"create","name":"one"}`, `"fork":"one-`)
	c.end()
	forks, err := clientOf(endpoint, "us-east-1").SendOwn(t.Context(), "ListForks", struct{}{})
	if err != nil || string(forks) != `{"Forks":[]}` {
		t.Errorf("the forks are %s, %v", forks, err)
	}
	for line := range strings.Lines(c.stderr.text()) {
		if !strings.HasPrefix(line, "time=") || !strings.Contains(line, `client="cli 1"`) {
			t.Errorf("stderr has %q", line)
		}
	}
}

// Over HTTP the token is in its file only.
func TestMCPOverHTTP(t *testing.T) {
	endpoint, stop, err := servePrivately(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	file := filepath.Join(t.TempDir(), "token")
	f := mcpFlags{endpointFlags: endpointFlags{endpoint: endpoint, region: "us-east-1"}, http: "127.0.0.1:0", tokenFile: file}
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr lockedText
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx, strings.NewReader(""), &stdout, &stderr) }()
	var url string
	for url == "" {
		select {
		case err := <-ended:
			t.Fatal(err, stderr.text())
		case <-time.After(5 * time.Millisecond):
		}
		url = regexp.MustCompile(`http://127\S+/mcp`).FindString(stderr.text())
	}
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]int{strings.TrimSpace(string(token)): http.StatusOK, "none": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"overview","arguments":{}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+given)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		if err != nil || reply.StatusCode != want || want == http.StatusOK && !strings.Contains(string(text), `"allowed":["read"]`) {
			t.Errorf("it is answered with %d %s, %v, want %d", reply.StatusCode, text, err, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := stdout.text() + stderr.text(); strings.Contains(text, strings.TrimSpace(string(token))) {
		t.Errorf("the output has the token: %s", text)
	}
}

// The policies of the key hold, and a denial is explained.
func TestMCPUnderPolicies(t *testing.T) {
	s := newPolicyServer(t, "")
	if _, err := s.admin.Send(t.Context(), "CreateTable", json.RawMessage(`{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`)); err != nil {
		t.Fatal(err)
	}
	if err := apply.WaitUntilActive(t.Context(), s.admin.Send, "Orders"); err != nil {
		t.Fatal(err)
	}
	s.allow(json.RawMessage(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["dynamodb:*","stator:*"],"Resource":"*"},{"Sid":"NoScans","Effect":"Deny","Action":"dynamodb:Scan","Resource":"*"}]}`))
	c := startMCP(t, func(ctx context.Context, stdin io.Reader, stdout, _ io.Writer) error {
		return mcp.New(mcp.Options{Endpoint: s.app}).Run(ctx, io.NopCloser(stdin), writeCloser{stdout})
	})
	c.want("query", `{"table":"Orders","where":{"id":"a"}}`, `"count":0`)
	denied := c.want("query", `{"table":"Orders","allow_scan":true}`, "AccessDeniedException")
	id := regexp.MustCompile(`request id (\w+)`).FindStringSubmatch(denied)
	if id == nil {
		t.Fatalf("the error has no request id: %s", denied)
	}
	c.want("why_denied", `{"request_id":"`+id[1]+`"}`, `NoScans`)
	c.end()
}
