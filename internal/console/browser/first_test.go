package browser

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stator-db/stator"
)

// front is a server in front of that of a test. It keeps the requests of the console, and may
// answer them itself.
type front struct {
	*server
	mu   sync.Mutex
	sent []string // such as "POST DescribeTable Notes"
}

var tableNamed = regexp.MustCompile(`"TableName":"([^"]*)"`)

// front starts one. answer reports whether it has answered a request, which is empty for files.
func (s *server) front(t *testing.T, answer func(f *front, w http.ResponseWriter, r *http.Request, what string) bool) *front {
	t.Helper()
	f := &front{}
	behind := s.db.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := ""
		if _, path, ok := strings.Cut(r.URL.Path, "/console/api"); ok {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			what = r.Method + " " + operation + strings.Trim(path, "/")
			if table := tableNamed.FindSubmatch(body); table != nil {
				what += " " + string(table[1])
			}
			f.mu.Lock()
			f.sent = append(f.sent, what)
			f.mu.Unlock()
		}
		if !answer(f, w, r, what) {
			behind.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(web.Close)
	f.server = &server{url: web.URL, db: s.db, Client: s.Client}
	return f
}

// requests returns the requests since it was last called, sorted.
func (f *front) requests() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Sorted(slices.Values(f.sent))
	f.sent = nil
	return strings.Join(all, ", ")
}

func (f *front) has(what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.sent, what)
}

func (f *front) expect(t *testing.T, when, want string) {
	t.Helper()
	if got := f.requests(); got != want {
		t.Errorf("%s sent %q, want %q", when, got, want)
	}
}

// again opens the console as if it were new, with the cookie and the secret of its session.
func (b *tab) again() {
	b.Helper()
	if faults := b.run(`return faults.join()`); faults != "" {
		b.Errorf("the page has: %s", faults)
	}
	if err := chromedp.Do(b.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(b.url), chromedp.WaitReady(chromedp.CSS("#main"))); err != nil {
		b.Fatal(err)
	}
}

// The first requests do not wait for the modules of the page, and are not sent again by them; later ones are.
func TestFirstRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create(t, "Notes", "id S")
	s.create(t, "Orders", "id S")
	f := s.front(t, func(f *front, _ http.ResponseWriter, r *http.Request, _ string) bool {
		if strings.HasSuffix(r.URL.Path, "/app.js") {
			for end := time.Now().Add(time.Minute); !f.has("GET session") || !f.has("POST DescribeTable Notes") || !f.has("POST DescribeTable Orders"); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Error("the first requests wait for app.js")
					break
				}
			}
		}
		return false
	})
	b := f.open(t, "")
	b.run(`await t.until(() => t.all(".status.active").length === 2, "two tables"); await t.rest();`)
	f.expect(t, "the first view", "GET session, POST DescribeTable Notes, POST DescribeTable Orders, POST ListTables")
	s.create(t, "Third", "id S")
	b.run(`await t.click("button", "Refresh"); await t.has("Third"); await t.until(() => t.all(".status.active").length === 3, "three tables"); await t.rest();`)
	f.expect(t, "Refresh", "POST DescribeTable Notes, POST DescribeTable Orders, POST DescribeTable Third, POST ListTables")
	b.run(`await t.go("#/model"); await t.el("input[type=file]"); await t.go("#/tables"); await t.until(() => t.all(".status.active").length === 3, "three tables"); await t.rest();`)
	f.expect(t, "another visit", "POST DescribeTable Notes, POST DescribeTable Orders, POST DescribeTable Third, POST GetModel, POST ListTables")
}

// Other views ask for nothing of the list of tables.
func TestFirstRequestsOfAnotherView(t *testing.T) {
	t.Parallel()
	f := serve(t, nil).front(t, func(*front, http.ResponseWriter, *http.Request, string) bool { return false })
	b := f.open(t, "#/model")
	b.run(`await t.el("input[type=file]"); await t.rest();`)
	f.expect(t, "the page of models", "GET session, POST GetModel")
}

func serveWithKeys(t *testing.T, policies ...string) *server {
	t.Helper()
	access, err := stator.OpenAccess(writeAccess(t, t.TempDir(), map[string][]string{"ada": policies}))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, func(o *stator.Options) { o.Access = access })
}

const signInAsAda = `await t.fill("input[name=accessKey]", "ADAKEY"); await t.fill("input[name=secret]", "ada-secret-0123456789"); await t.click("button", "Sign in");`

// Before somebody signs in no operation is sent, and nobody sees replies to what was sent before.
func TestFirstRequestsSignedOut(t *testing.T) {
	t.Parallel()
	f := serveWithKeys(t, "dynamodb:*").front(t, func(f *front, w http.ResponseWriter, _ *http.Request, what string) bool {
		if what != "POST ListTables" || f.has("POST session") {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized) // as if the key was revoked since GET session was answered
		fmt.Fprint(w, `{"__type":"ConsoleSignedOut","message":"Sign in to go on."}`)
		return true
	})
	b := f.open(t, "")
	b.run(`await t.el("input[name=accessKey]"); await t.rest();`)
	f.expect(t, "a page without a session", "GET session")
	b.run(signInAsAda + `await t.has("No tables yet"); await t.rest();`)
	f.expect(t, "signing in", "POST ListTables, POST session")

	b.again()
	b.run(`await t.el("input[name=accessKey]");`)
	f.expect(t, "a page whose key was revoked", "GET session, POST ListTables")
	b.run(signInAsAda + `await t.has("No tables yet"); await t.rest(); if (t.all(".problem").length) throw new Error(document.body.innerText);`)
	f.expect(t, "signing in again", "POST ListTables, POST session")
}

// An operation that is denied is asked for once.
func TestFirstRequestsDenied(t *testing.T) {
	t.Parallel()
	s := serveWithKeys(t, "dynamodb:ListTables")
	f := s.front(t, func(_ *front, w http.ResponseWriter, _ *http.Request, what string) bool {
		if what != "POST ListTables" {
			return false
		}
		fmt.Fprint(w, `{"TableNames":["AAA","BBB","CCC","DDD","EEE"]}`)
		return true
	})
	b := f.open(t, "")
	b.run(signInAsAda + `await t.until(() => t.all("td", "AccessDeniedException").length === 5, "five denials");`)
	f.requests()
	b.again()
	b.run(`await t.until(() => t.all("td", "AccessDeniedException").length === 5, "five denials"); await t.rest();`)
	f.expect(t, "the first view", "GET session, POST DescribeTable AAA, POST DescribeTable BBB, POST DescribeTable CCC, POST DescribeTable DDD, POST DescribeTable EEE, POST ListTables")
}

// A server that cannot be asked is a message, and a view that throws an error that the browser reports.
func TestFirstViewFails(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for name, c := range map[string]struct {
		answer       func(w http.ResponseWriter, r *http.Request, what string) bool
		text, faults string
	}{
		"no session": {func(w http.ResponseWriter, _ *http.Request, what string) bool {
			if what == "GET session" {
				http.Error(w, "no server", http.StatusBadGateway)
			}
			return what == "GET session"
		}, "The console cannot be reached: The console answered 502", ""},
		"no connection": {func(_ http.ResponseWriter, _ *http.Request, what string) bool {
			if what != "" {
				panic(http.ErrAbortHandler)
			}
			return false
		}, "The console cannot be reached", ""},
		"a view that throws": {func(w http.ResponseWriter, r *http.Request, _ string) bool {
			if !strings.HasSuffix(r.URL.Path, "/tables.js") {
				return false
			}
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, `export default () => { throw new Error("planted"); };`)
			return true
		}, "", "planted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := s.front(t, func(_ *front, w http.ResponseWriter, r *http.Request, what string) bool { return c.answer(w, r, what) })
			b := s.open(t, "#/none")
			if err := chromedp.Do(b.ctx, chromedp.Navigate(f.url+"/console/")); err != nil {
				t.Fatal(err)
			}
			faults := b.run(`await t.until(() => document.body.innerText.includes($1) && faults.join().includes($2), "the failure"); await t.rest(); const found = faults.join(); faults.length = 0; return found;`, c.text, c.faults)
			if c.faults == "" && faults != "" {
				t.Errorf("the browser reports %s", faults)
			}
		})
	}
}

// Replies that arrive late do not replace what was asked for later, or by somebody else.
func TestLateRepliesOfTheList(t *testing.T) {
	t.Parallel()
	// late answers the first request of a kind after the test has released it.
	late := func(what, reply string) (answer func(*front, http.ResponseWriter, *http.Request, string) bool, release func()) {
		held := make(chan struct{})
		var came atomic.Bool
		return func(_ *front, w http.ResponseWriter, r *http.Request, got string) bool {
			if got != what || came.Swap(true) {
				return false
			}
			select {
			case <-held:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, reply)
			return true
		}, sync.OnceFunc(func() { close(held) })
	}
	const active = `await t.until(() => t.all(".status.active").length === $1, "active tables");`

	t.Run("a description after Refresh", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil)
		s.create(t, "Notes", "id S")
		answer, release := late("POST DescribeTable Notes", `{"Table":{"TableName":"Notes","TableStatus":"CREATING","AttributeDefinitions":[],"KeySchema":[],"BillingModeSummary":{"BillingMode":"PAY_PER_REQUEST"}}}`)
		list, releaseList := late("POST ListTables", `{"TableNames":["Notes"]}`)
		var again atomic.Bool
		b := s.front(t, func(f *front, w http.ResponseWriter, r *http.Request, what string) bool {
			return answer(f, w, r, what) || again.Load() && list(f, w, r, what)
		}).open(t, "")
		b.run(`await t.has("Notes");`)
		again.Store(true)
		b.run(`await t.click("button", "Refresh"); await t.rest();`)
		release()
		b.run(`await t.rest(); await t.rest();`)
		releaseList()
		b.run(active, 1)
	})
	t.Run("names after Refresh", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil)
		s.create(t, "Notes", "id S")
		s.create(t, "Orders", "id S")
		answer, release := late("POST ListTables", `{"TableNames":["Notes"]}`)
		b := s.front(t, answer).open(t, "")
		b.run(`await t.click("button", "Refresh"); `+active, 2)
		release()
		b.run(`await t.rest(); await t.rest(); await t.has("Orders"); `+active, 2)
	})
	t.Run("names for somebody else", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		access, err := stator.OpenAccess(writeAccess(t, dir, map[string][]string{"ada": {"dynamodb:*"}, "bob": {"dynamodb:*"}}))
		if err != nil {
			t.Fatal(err)
		}
		answer, release := late("POST ListTables", `{"TableNames":["Secret"]}`)
		b := serve(t, func(o *stator.Options) { o.Access = access }).front(t, answer).open(t, "")
		b.run(signInAsAda + `await t.click("button", "Sign out"); await t.fill("input[name=accessKey]", "BOBKEY"); await t.fill("input[name=secret]", "bob-secret-0123456789"); await t.click("button", "Sign in"); await t.has("No tables yet");`)
		release()
		b.run(`await t.rest(); await t.rest(); await t.has("No tables yet"); if (document.body.innerText.includes("Secret")) throw new Error("a name of somebody else");`)
	})
	t.Run("no names on another visit", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil)
		s.create(t, "Notes", "id S")
		var fail atomic.Bool
		b := s.front(t, func(_ *front, w http.ResponseWriter, _ *http.Request, what string) bool {
			if what != "POST ListTables" || !fail.Load() {
				return false
			}
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}`)
			return true
		}).open(t, "")
		b.run(active+`await t.go("#/model"); await t.el("input[type=file]");`, 1)
		fail.Store(true)
		b.run(`await t.go("#/tables"); await t.has("slow down"); `+active, 1)
	})
}
