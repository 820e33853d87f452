package server_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/store"
)

// Writable is that of an engine on a disk that may be full.
func (e *failingEngine) Writable() error {
	if err := e.err(); errors.Is(err, store.ErrFull) {
		return err
	}
	return nil
}

// A server that lives may not be ready, for one of several reasons, and may be ready again.
func TestReadiness(t *testing.T) {
	h, engine := newFailing(t)
	for _, c := range []struct {
		name                   string
		failure                error
		ready, writing, health int
		readyText, healthy     string
	}{
		{"nothing is wrong", nil, 200, 200, 200, "ready\n", "ok\n"},
		{"the disk is full", store.ErrFull, 200, 503, 200, "ready\nthe disk is almost full: writes are rejected, reads and deletes are served\n", "ok\n"},
		{"the disk is full also for deletes", store.ErrNoSpaceToDelete, 200, 503, 200, "ready\nthe disk is almost full: writes and deletes are rejected, reads are served\n", "ok\n"},
		{"the storage fails", errors.New("unreachable"), 503, 503, 503, "the storage does not answer\n", "the storage does not answer\n"},
		{"the folder is gone", store.ErrRemoved, 503, 503, 503, "the data folder was removed or replaced\n", "the data folder was removed or replaced\n"},
		{"nothing is wrong any more", nil, 200, 200, 200, "ready\n", "ok\n"},
	} {
		engine.fail(c.failure)
		for _, check := range []struct {
			path   string
			status int
			text   string
		}{{"/livez", 200, "ok\n"}, {"/readyz", c.ready, c.readyText}, {"/readyz?writes", c.writing, writingText(c.writing, c.readyText)}, {"/healthz", c.health, c.healthy}} {
			for _, method := range []string{"GET", "HEAD"} {
				if w := send(h, method, check.path, nil, nil); w.Code != check.status || w.Body.String() != check.text && method == "GET" {
					t.Errorf("%s: %s %s answers %d %s", c.name, method, check.path, w.Code, w.Body)
				}
			}
		}
	}
	engine.fail(store.ErrFull)
	if text := send(h, "GET", "/metrics", nil, nil).Body.String(); !strings.Contains(text, "stator_writes_rejected 1\n") {
		t.Errorf("the metrics do not show a full disk:\n%s", text)
	}
	if w := send(h, "POST", "/readyz", nil, strings.NewReader("{}")); w.Code != 404 {
		t.Errorf("a POST is answered with %d", w.Code)
	}
}

// writingText is the text of a check that asks for writes too.
func writingText(status int, text string) string {
	if status == 200 {
		return text
	}
	return strings.TrimPrefix(text, "ready\n")
}

// A server that is about to stop is not ready, but serves requests.
func TestDrainingServerIsNotReady(t *testing.T) {
	h := newHandler(t)
	starting := new(server.Starting)
	starting.Drain() // there is nothing to drain yet
	starting.Open(h.OnlyHosts(nil))
	if w := send(starting, "GET", "/readyz", nil, nil); w.Code != 403 { // httptest's host is example.com
		t.Errorf("for another host the reply is %d", w.Code)
	}
	status := func(path string) int {
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		w := httptest.NewRecorder()
		starting.ServeHTTP(w, r)
		return w.Code
	}
	if got := status("/readyz"); got != 200 {
		t.Errorf("before it drains: %d", got)
	}
	starting.Drain()
	for path, want := range map[string]int{"/readyz": 503, "/livez": 200, "/healthz": 200} {
		if got := status(path); got != want {
			t.Errorf("%s answers %d, want %d", path, got, want)
		}
	}
	r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader("{}"))
	r.Header = signed(listTables)
	w := httptest.NewRecorder()
	starting.ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("a request is answered with %d %s", w.Code, w.Body)
	}
}

// Before the data is open, and while it is a standby, a server lives and is not ready.
func TestStartingServerLives(t *testing.T) {
	starting := &server.Starting{Hosts: []string{"db.example.org"}}
	check := func(state string) {
		t.Helper()
		for _, c := range []struct {
			host, path string
			status     int
		}{
			{"localhost", "/livez", 200}, {"localhost", "/readyz", 503}, {"localhost", "/healthz", 503}, {"db.example.org", "/livez", 200},
			{"evil.example", "/livez", 403}, {"evil.example", "/readyz", 403},
		} {
			w := httptest.NewRecorder()
			starting.ServeHTTP(w, httptest.NewRequest("GET", "http://"+c.host+c.path, nil))
			if w.Code != c.status {
				t.Errorf("%s: %s%s answers %d %s", state, c.host, c.path, w.Code, w.Body)
			}
		}
	}
	check("starting")
	starting.Follow(&server.Standby{Hosts: []string{"db.example.org"}, Status: func() standby.Status { return standby.Status{} }})
	check("standby")
}
