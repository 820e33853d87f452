package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fakeEndpoint accepts one key, and answers with the target.
type fakeEndpoint struct {
	signIn SignIn
	did    []string
	over   bool // the key was revoked
}

func (e *fakeEndpoint) Asks() SignIn   { return e.signIn }
func (e *fakeEndpoint) Now() time.Time { return time.UnixMilli(1_800_000_000_123) }
func (e *fakeEndpoint) About() About   { return About{Region: "eu-west-1"} }

func (e *fakeEndpoint) Identify(_ context.Context, c Credentials, _ Client) (Identity, error) {
	if c.AccessKey != "ada" || c.Secret != "secret" {
		return Identity{}, ErrCredentials
	}
	return Identity{AccessKey: "ada", Principal: "arn:aws:iam::000000000000:user/ada"}, nil
}

func (e *fakeEndpoint) Do(_ context.Context, who Identity, r Request) (Reply, error) {
	if e.over {
		return Reply{}, ErrSignedOut
	}
	e.did = append(e.did, who.AccessKey+" "+r.Target)
	return Reply{Status: 200, Body: []byte(`{}`)}, nil
}

func (e *fakeEndpoint) Permit(context.Context, Identity, Request, string) (string, error) {
	return "", nil
}

type consoleRig struct {
	*Handler
	endpoint *fakeEndpoint
	now      time.Time
	page     string // the secret of the page
}

func newRig(signIn SignIn, mode Mode) *consoleRig {
	r := &consoleRig{endpoint: &fakeEndpoint{signIn: signIn}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.Handler = New(Options{Endpoint: r.endpoint, Mode: mode, Now: func() time.Time { return r.now }, AcceptsHost: func(host string) bool { return host == "127.0.0.1:8000" || host == "127.0.0.1:8001" }})
	return r
}

// send sends a request of our own page, after change.
func (r *consoleRig) send(method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, "http://127.0.0.1:8000/console/"+path, strings.NewReader(body))
	q.RemoteAddr = "127.0.0.1:5000"
	q.Header.Set(Header, "read")
	q.Header.Set("Sec-Fetch-Site", "same-origin")
	q.Header.Set("Origin", "http://127.0.0.1:8000")
	q.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
	if change != nil {
		change(q)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w
}

// Only our own page gets data, whatever another page sends.
func TestOtherPagesAreRejected(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   int
	}{
		{"our page", nil, 200},
		{"a browser that says Origin only", func(r *http.Request) { r.Header.Del("Sec-Fetch-Site") }, 200},
		{"a GET of our page has no Origin", func(r *http.Request) { r.Header.Del("Origin") }, 200},
		{"neither header", func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Del("Origin") }, 403},
		{"no header of ours", func(r *http.Request) { r.Header.Del(Header) }, 403},
		{"another site", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Origin", "http://evil.example")
		}, 403},
		{"another port", func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-site")
			r.Header.Set("Origin", "http://127.0.0.1:9000")
		}, 403},
		{"another scheme", func(r *http.Request) { r.Header.Set("Origin", "https://127.0.0.1:8000") }, 403},
		{"a sandboxed frame", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"DNS rebinding", func(r *http.Request) {
			r.Host = "evil.example:8000"
			r.Header.Set("Origin", "http://evil.example:8000")
		}, 403},
		{"no host", func(r *http.Request) { r.Host = "" }, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(NoSignIn, ReadOnly)
			if w := r.send("POST", "api", "{}", c.change); w.Code != c.want || (len(r.endpoint.did) > 0) != (c.want == 200) {
				t.Errorf("the API answers %d, want %d, and did %v", w.Code, c.want, r.endpoint.did)
			}
			if w := r.send("GET", "api/session", "", c.change); w.Code != c.want {
				t.Errorf("the session answers %d, want %d", w.Code, c.want)
			}
		})
	}
}

// All replies have the headers that protect the page.
func TestHeaders(t *testing.T) {
	r := newRig(NoSignIn, ReadOnly)
	for _, path := range []string{"", "api", "api/session", "nothing", r.files.load().prefix + "app.js"} {
		h := r.send("GET", path, "", nil).Header()
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if h.Get(name) != want {
				t.Errorf("%q has the %s %q", path, name, h.Get(name))
			}
		}
		want := "no-store"
		if strings.HasSuffix(path, ".js") {
			want = "public, max-age=31536000, immutable"
		}
		if path != "nothing" && h.Get("Cache-Control") != want {
			t.Errorf("%q has the Cache-Control %q", path, h.Get("Cache-Control"))
		}
	}
	if at := r.send("GET", "api/session", "", nil).Header().Get(timeHeader); at != "1800000000123" {
		t.Errorf("the time of the endpoint is %q", at)
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy has an exception: %s", policy)
	}
}

// Requests that change something need a console that may, and the switch of the page.
func TestReadOnly(t *testing.T) {
	statement := func(text string) string {
		b, _ := json.Marshal(map[string]string{"Statement": text})
		return string(b)
	}
	for _, c := range []struct {
		target, body string
		reads        bool
	}{
		{"DynamoDB_20120810.Query", "", true},
		{"DynamoDB_20120810.BatchGetItem", "", true},
		{"DynamoDB_20120810.TransactGetItems", "", true},
		{"DynamoDBStreams_20120810.GetRecords", "", true},
		{"Stator.ItemHistory", "", true},
		{"Stator.GetItemAt", "", true},
		{"Stator.QueryAt", "", true},
		{"Stator.ScanAt", "", true},
		{"Stator.UndoChanges", "", false},
		{"DynamoDB_20120810.RestoreTableToPointInTime", "", false},
		{"Stator.GetHistory", "", true},
		{"Stator.ListDeadLetters", "", true},
		{"Stator.DescribeExpiry", "", true},
		{"Stator.ReplayDeadLetters", "", false},
		{"GraniteServiceVersion20100801.GetMetricData", "", true},
		{"DynamoDB_20120810.PutItem", "", false},
		{"DynamoDB_20120810.BatchWriteItem", "", false},
		{"DynamoDB_20120810.DeleteTable", "", false},
		{"DynamoDB_20120810.RestoreTableFromBackup", "", false},
		{"Stator.SetThrottling", "", false},
		{"PutItem", "", false},
		{"", "", false},
		{"DynamoDB_20120810.ExecuteStatement", statement("SELECT * FROM T"), true},
		{"DynamoDB_20120810.ExecuteStatement", statement("\n select*from T"), true},
		{"DynamoDB_20120810.ExecuteStatement", statement("DELETE FROM T WHERE a = 1"), false},
		{"DynamoDB_20120810.ExecuteStatement", statement("SELECTED"), false},
		{"DynamoDB_20120810.ExecuteStatement", statement(""), false},
		{"DynamoDB_20120810.ExecuteStatement", `{}`, false},
		{"DynamoDB_20120810.ExecuteStatement", `[`, false},
		{"DynamoDB_20120810.ExecuteStatement", `{"Statement":"SELECT 1 ","Statement":"DELETE FROM T"}`, false},
		{"DynamoDB_20120810.ExecuteStatement", `{"Statement":"DELETE FROM T","Statement":"SELECT 1 "}`, false},
		{"DynamoDB_20120810.ExecuteStatement", `{"Statement":"DELETE FROM T","statement":"SELECT 1 "}`, false},
		{"DynamoDB_20120810.BatchExecuteStatement", `{"Statements":[{"Statement":"SELECT 1 "},{"Statement":"DELETE FROM T"}]}`, false},
		{"DynamoDB_20120810.BatchExecuteStatement", `{"Statements":[{"Statement":"SELECT 1 "}]}`, true},
		{"DynamoDB_20120810.ExecuteTransaction", `{"TransactStatements":[{"Statement":"EXISTS(SELECT 1)"}]}`, true},
		{"DynamoDB_20120810.ExecuteTransaction", `{"TransactStatements":[{"Statement":"UPDATE T SET a=1"}]}`, false},
	} {
		for _, m := range []struct {
			mode  Mode
			on    string
			write bool
		}{{ReadOnly, "read", false}, {ReadOnly, "write", false}, {ReadWrite, "read", false}, {ReadWrite, "write", true}} {
			r := newRig(NoSignIn, m.mode)
			w := r.send("POST", "api", c.body, func(q *http.Request) { q.Header.Set("X-Amz-Target", c.target); q.Header.Set(Header, m.on) })
			if allowed := len(r.endpoint.did) == 1; allowed != (c.reads || m.write) {
				t.Errorf("%s %s with mode %s and switch %s: allowed is %t, status %d", c.target, c.body, m.mode, m.on, allowed, w.Code)
			}
		}
	}
}

func (r *consoleRig) signInAs(t *testing.T, secret string, change func(*http.Request)) (*http.Cookie, int) {
	t.Helper()
	w := r.send("POST", "api/session", `{"accessKey":"ada","secret":"`+secret+`"}`, change)
	r.page = pageSecret(t, w)
	if cookies := w.Result().Cookies(); len(cookies) == 1 {
		return cookies[0], w.Code
	}
	return nil, w.Code
}

// pageSecret returns the secret of the page in the reply to a person who signs in.
func pageSecret(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var reply struct{ Page string }
	if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
		t.Fatal(err)
	}
	return reply.Page
}

// A session lasts 30 minutes since its last request, and 12 hours at most.
func TestSessions(t *testing.T) {
	r := newRig(SignInKey, ReadOnly)
	if w := r.send("POST", "api", "{}", nil); w.Code != 401 {
		t.Fatalf("without a session the API answers %d", w.Code)
	}
	if w := r.send("GET", "api/session", "", nil); strings.Contains(w.Body.String(), "eu-west-1") {
		t.Error("the region is told before somebody has signed in")
	}
	if c, code := r.signInAs(t, "wrong", nil); c != nil || code != 401 {
		t.Fatalf("a wrong secret is answered with %d and %v", code, c)
	}
	cookie, code := r.signInAs(t, "secret", nil)
	if code != 200 || cookie == nil {
		t.Fatalf("signing in is answered with %d", code)
	}
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/console" || cookie.Secure {
		t.Errorf("the cookie is %v", cookie)
	}
	with := func(q *http.Request) { q.AddCookie(cookie); q.Header.Set(SessionHeader, r.page) }
	ask := func() int { return r.send("POST", "api", "{}", with).Code }
	for range 20 {
		r.now = r.now.Add(29 * time.Minute)
		if ask() != 200 {
			t.Fatal("a session that is used is over")
		}
	}
	r.now = r.now.Add(30 * time.Minute)
	if ask() != 401 {
		t.Error("a session lasts while it is idle")
	}
	if cookie, _ = r.signInAs(t, "secret", nil); ask() != 200 {
		t.Fatal("a second session does not work")
	}
	for range 24 {
		r.now = r.now.Add(29 * time.Minute)
		ask()
	}
	r.now = r.now.Add(29 * time.Minute)
	if ask() != 401 {
		t.Error("a session lasts longer than 12 hours")
	}
	cookie, _ = r.signInAs(t, "secret", nil)
	r.send("DELETE", "api/session", "", with)
	if ask() != 401 {
		t.Error("a session lasts after signing out")
	}
	cookie, _ = r.signInAs(t, "secret", nil)
	r.endpoint.over = true
	first := ask()
	r.endpoint.over = false
	if second := ask(); first != 401 || second != 401 {
		t.Errorf("after the key was revoked the API answers %d, and later %d", first, second)
	}
}

// Secrets are accepted over TLS, or from this machine.
func TestSecretsNeedTLS(t *testing.T) {
	r := newRig(SignInKey, ReadOnly)
	if c, code := r.signInAs(t, "secret", func(q *http.Request) { q.RemoteAddr = "192.0.2.1:5000" }); c != nil || code != 403 {
		t.Errorf("plain HTTP from another machine is answered with %d and %v", code, c)
	}
	c, code := r.signInAs(t, "secret", func(q *http.Request) {
		q.RemoteAddr = "192.0.2.1:5000"
		q.Header.Set("Origin", "https://127.0.0.1:8000")
		*q = *q.WithContext(MarkSecure(q.Context()))
	})
	if code != 200 || c == nil || c.Name != "__Host-stator-console-8000" || !c.Secure || c.Path != "/" {
		t.Errorf("with TLS it is answered with %d and %v", code, c)
	}
}

// A session ends when its key expires, by whichever clock that does.
func TestSessionOfAKeyThatExpires(t *testing.T) {
	now, expired := time.Unix(0, 0), false
	s := newSessions(func() time.Time { return now })
	secret, page := s.begin(Identity{Expired: func() bool { return expired }})
	if _, ok := s.find(secret, page); !ok {
		t.Error("the session is over before the key expires")
	}
	expired = true
	if _, ok := s.find(secret, page); ok {
		t.Error("the session is not over")
	}
}

// The memory of sessions is bounded.
func TestSessionsAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	s := newSessions(func() time.Time { now = now.Add(time.Millisecond); return now })
	first, page := s.begin(Identity{})
	for range 2 * maxSessions {
		s.begin(Identity{})
	}
	if _, ok := s.find(first, page); ok || len(s.byID) > maxSessions {
		t.Errorf("there are %d sessions", len(s.byID))
	}
}

// The vendored files are those of the table, with their licences.
func TestVendoredFiles(t *testing.T) {
	table, err := os.ReadFile("page/vendor/vendor.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"vendor.txt": true}
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Fields(line)
		text, err := os.ReadFile("page/vendor/" + row[1])
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != row[0] {
			t.Errorf("%s has the checksum %x", row[1], sum)
		}
		for _, name := range row[1:] {
			known[name] = true
			if _, err := os.Stat("page/vendor/" + name); err != nil {
				t.Error(err)
			}
		}
	}
	files, err := os.ReadDir("page/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s is not in vendor.txt", f.Name())
		}
	}
}

var staticImport = regexp.MustCompile(`(?m)(?:^import|^export)[^"';]*?from ?"(\./[^"]+)"|from"(\./[^"]+)"`)

// The files of the first view are small, and the page names no other host.
func TestFirstView(t *testing.T) {
	l := newFiles(NoSignIn).load()
	total, seen := len(l.page.packed), map[string]bool{}
	var add func(name string)
	add = func(name string) {
		f := l.byPath[name]
		if f == nil {
			t.Fatalf("%s does not exist", name)
		}
		if seen[name] {
			return
		}
		seen[name] = true
		total += len(f.packed)
		for _, m := range staticImport.FindAllStringSubmatch(string(f.plain), -1) {
			dir := ""
			if strings.HasPrefix(name, "vendor/") {
				dir = "vendor/"
			}
			add(dir + strings.TrimPrefix(m[1]+m[2], "./"))
		}
	}
	for _, name := range []string{"app.js", "send.js", "tables.js", "console.css", "icon.svg"} {
		add(name)
	}
	t.Logf("the first view has %d files with %d bytes compressed", len(seen)+1, total)
	if total >= 100_000 || !seen["vendor/libraries.js"] || !seen["api.js"] {
		t.Errorf("the first view has %d bytes compressed in %v", total, seen)
	}
	// A file that is not named there is only asked for when another one has arrived.
	for name := range seen {
		if named := strings.Contains(string(l.page.plain), `"`+l.prefix+name+`"`); !named {
			t.Errorf("the page does not preload %s", name)
		}
	}
	for name, f := range l.byPath {
		if strings.HasPrefix(name, "vendor/") || name == "icon.svg" {
			continue
		}
		for _, bad := range []string{"innerHTML", "eval(", "new Function", "http://", "https://", "document.write"} {
			if strings.Contains(string(f.plain), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
	}
}
