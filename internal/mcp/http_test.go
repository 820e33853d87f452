package mcp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const testToken = "TESTTOKENTESTTOKENTESTTOKEN"

// Over HTTP, requests need the token, and come from no page.
func TestHTTPRefuses(t *testing.T) {
	r := newRig(t, nil)
	web := httptest.NewServer(r.server.Handler(testToken))
	t.Cleanup(web.Close)
	const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	texts := make(map[int]string)
	for _, c := range []struct {
		name   string
		method string
		path   string
		change func(*http.Request)
		want   int
	}{
		{"with the token", "POST", Path, func(*http.Request) {}, 200},
		{"from its own origin", "POST", Path, func(r *http.Request) { r.Header.Set("Origin", web.URL) }, 200},
		{"without a token", "POST", Path, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"with another token", "POST", Path, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+testToken+"x") }, 401},
		{"with another scheme", "POST", Path, func(r *http.Request) { r.Header.Set("Authorization", "Basic "+testToken) }, 401},
		{"with the token in the URL", "POST", Path + "?token=" + testToken, func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"of another host", "POST", Path, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"of a host that begins as ours", "POST", Path, func(r *http.Request) { r.Host = "127.0.0.1.evil.example:80" }, 403},
		{"from another origin", "POST", Path, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		{"from another port of this machine", "POST", Path, func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		{"from no origin", "POST", Path, func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"from another site", "POST", Path, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"to another path", "POST", "/", func(*http.Request) {}, 404},
		{"of a stream", "GET", Path, func(*http.Request) {}, 405},
		{"of another type", "POST", Path, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		{"that is too large", "POST", Path, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", maxArguments+1) + body))
		}, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := http.NewRequestWithContext(t.Context(), c.method, web.URL+c.path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+testToken)
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Accept", "application/json, text/event-stream")
			c.change(q)
			if c.want == 413 {
				q.ContentLength = -1
			}
			reply, err := web.Client().Do(q)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(reply.Body)
			if err := reply.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if err != nil || reply.StatusCode != c.want {
				t.Errorf("it is answered with %d %s, %v, want %d", reply.StatusCode, text, err, c.want)
			}
			if strings.Contains(string(text), testToken) {
				t.Errorf("the answer has the token: %s", text)
			}
			if was, ok := texts[c.want]; c.want == 401 && ok && was != string(text) {
				t.Errorf("401 is %q, and was %q", text, was)
			}
			texts[c.want] = string(text)
		})
	}
}

// withToken adds the token to requests.
type withToken struct{}

func (withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+testToken)
	return http.DefaultTransport.RoundTrip(r)
}

// Clients of the newest version are served over HTTP, and can be asked.
func TestHTTPClient(t *testing.T) {
	r := newRig(t, nil, Write)
	r.server.asks = false
	web := httptest.NewServer(r.server.Handler(testToken))
	t.Cleanup(web.Close)
	for _, version := range []string{"2026-07-28", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			asked := 0
			client := sdk.NewClient(&sdk.Implementation{Name: "web", Version: "1"}, &sdk.ClientOptions{
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					asked++
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"agree": true}}, nil
				},
			})
			session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: web.URL + Path, HTTPClient: &http.Client{Transport: withToken{}}}, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = session.Close() }()
			over := &toolRig{t: t, client: session}
			over.want("get", `{"table":"Orders","key":{"id":"a","n":1}}`, `"found":true`)
			r.send("PutItem", `{"TableName":"Orders","Item":{"id":{"S":"b"},"n":{"N":"1"}}}`)
			want := `"done":true`
			if version < "2026" {
				want = `"confirm":"` // older clients cannot be asked there
			}
			over.want("write", `{"actions":[{"action":"delete","table":"Orders","key":{"id":"b","n":1}}]}`, want)
			if (asked == 1) != (version >= "2026") {
				t.Errorf("the person was asked %d times", asked)
			}
		})
	}
}

// The token is made once, for the owner of its file alone.
func TestToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "token")
	token, err := Token(path)
	if err != nil || len(token) < minToken {
		t.Fatalf("the token is %q, %v", token, err)
	}
	info, err := os.Stat(path)
	if err != nil || !isPrivate(info.Mode()) {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if again, err := Token(path); err != nil || again != token {
		t.Errorf("the second time it is %q, %v", again, err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(path); err == nil {
		t.Error("a short token is accepted")
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Token(path); err == nil && !isPrivate(0o644) {
		t.Error("a file that others can read is accepted")
	}
}
