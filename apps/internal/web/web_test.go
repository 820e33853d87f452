package web

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	type order struct{ Name string }
	handler := secured(Handler(log, func(w http.ResponseWriter, r *http.Request) (any, error) {
		var in order
		if err := Read(w, r, 64, &in); err != nil {
			return nil, err
		}
		switch in.Name {
		case "":
			return nil, nil
		case "broken":
			return nil, errors.New("the secret of the house")
		}
		return in, nil
	}))
	for _, c := range []struct {
		name, body, origin string
		status             int
		want               string
	}{
		{"a value is written as JSON", `{"Name": "a<b"}`, "", 200, `{"Name":"a<b"}`},
		{"nothing is no content", `{}`, "", 204, ""},
		{"a failure keeps its words to itself", `{"Name": "broken"}`, "", 500, "the log tells"},
		{"what is no JSON is refused", `{"Name"`, "", 400, "bad_json"},
		{"a member that is not known is refused", `{"Size": 1}`, "", 400, "unknown field"},
		{"a second value is refused", `{} {}`, "", 400, "something follows"},
		{"what is too large is refused", `{"Name": "` + strings.Repeat("x", 100) + `"}`, "", 413, "too_large"},
		{"a foreign page is refused", `{}`, "https://elsewhere.example", 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(c.body))
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}

// Serve finishes what is under way when it is told to stop, and lets live pages go.
func TestServeStops(t *testing.T) {
	listener, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	live := new(Live)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, live, slog.New(slog.DiscardHandler)) }()
	answer, err := http.Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Scan() // ": listening"
	live.Tell("first")
	for lines.Scan() && lines.Text() != "data: first" {
	}
	if lines.Text() != "data: first" {
		t.Error("the page is not told")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestListenStaysHere(t *testing.T) {
	for address, anyone := range map[string]bool{"0.0.0.0:0": false, ":0": false, "192.0.2.1:80": false, "nonsense": true} {
		var l net.Listener
		l, err := Listen(address, anyone)
		if err == nil {
			l.Close()
			t.Errorf("%s is opened", address)
		}
	}
}
