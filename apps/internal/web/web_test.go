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
			return nil, errors.New("the secret")
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
		{"the text of an internal error is not sent", `{"Name": "broken"}`, "", 500, "see the server's log"},
		{"invalid JSON is rejected", `{"Name"`, "", 400, "bad_json"},
		{"an unknown member is rejected", `{"Size": 1}`, "", 400, "unknown field"},
		{"a second value is rejected", `{} {}`, "", 400, "something follows"},
		{"a body that is too large is rejected", `{"Name": "` + strings.Repeat("x", 100) + `"}`, "", 413, "too_large"},
		{"another origin is rejected", `{}`, "https://elsewhere.example", 403, ""},
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

// Serve finishes requests in progress when its context ends, and ends live pages.
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
	live.Broadcast("first")
	for lines.Scan() && lines.Text() != "data: first" {
	}
	if lines.Text() != "data: first" {
		t.Error("the page receives no event")
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestListenRefusesOtherMachines(t *testing.T) {
	for address, anyone := range map[string]bool{"0.0.0.0:0": false, ":0": false, "192.0.2.1:80": false, "nonsense": true} {
		var l net.Listener
		l, err := Listen(address, anyone)
		if err == nil {
			l.Close()
			t.Errorf("%s is opened", address)
		}
	}
}
