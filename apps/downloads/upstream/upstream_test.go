package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Replies that are not a list, and their errors.
func TestList(t *testing.T) {
	answer := http.HandlerFunc(nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	defer server.Close()
	c := &Client{URL: server.URL, Token: "secret", HTTP: server.Client()}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	many := `{"ready":true,"next":"more","files":[` + strings.Repeat(`{"entity":"a"},`, 10_000) + `{"entity":"a"}]}`
	for _, c2 := range []struct {
		name    string
		answer  http.HandlerFunc
		want    string
		refusal bool
	}{
		{"not JSON", text("<html>"), "not the expected JSON", true},
		{"half of it", text(`{"ready":true,"files":[`), "not the expected JSON", true},
		{"another type", text(`{"ready":"yes"}`), "not the expected JSON", true},
		{"too much", text(strings.Repeat(" ", maxPage+1)), "more than 8388608 bytes", true},
		{"no end", text(`{"ready":true,"next":"x","files":[{}]}`), "does not end", true},
		{"empty pages", text(`{"ready":true,"next":"x","files":[]}`), "does not end", true},
		{"too many files", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, strings.Replace(many, `"more"`, `"`+r.URL.Query().Get("page")+`x"`, 1))
		}, "more than 20000 files", true},
		{"not there yet", text(`{"ready":false}`), "has not published", false},
		{"unknown", status(404), "has not published", false},
		{"busy", status(429), "429", false},
		{"down", status(502), "502", false},
		{"forbidden", status(403), "is the token right?", true},
		{"broken off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
		}, "read the upstream's reply", false},
	} {
		t.Run(c2.name, func(t *testing.T) {
			answer = c2.answer
			files, err := c.List(t.Context(), "2026-02-28")
			var refusal *Refusal
			if err == nil || !strings.Contains(err.Error(), c2.want) || errors.As(err, &refusal) != c2.refusal || strings.Contains(err.Error(), "secret") {
				t.Errorf("%d files, %v", len(files), err)
			}
		})
	}
	answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(401)
		} else if r.URL.Query().Get("page") == "" {
			fmt.Fprint(w, `{"ready":true,"next":"2","files":[{"entity":"a"}]}`)
		} else {
			fmt.Fprint(w, `{"ready":true,"files":[{"entity":"b"}]}`)
		}
	}
	if files, err := c.List(t.Context(), "2026-02-28"); err != nil || len(files) != 2 || files[1].Entity != "b" {
		t.Errorf("two pages: %v, %v", files, err)
	}
	answer = text(`{"entity":"other"}`)
	if _, err := c.Ask(t.Context(), "2026-02-28", "a"); err == nil || !strings.Contains(err.Error(), `returns "other"`) {
		t.Errorf("asked for one file, got another: %v", err)
	}
	answer = status(404)
	if _, err := c.Ask(t.Context(), "2026-02-28", "a"); !errors.Is(err, ErrGone) {
		t.Errorf("asked for a file that does not exist: %v", err)
	}
}

// An API with TLS does not lead to hosts without it.
func TestURLs(t *testing.T) {
	file := File{Entity: "a", IV: "AAAAAAAAAAAAAAAAAAAAAA==", SHA256: strings.Repeat("0", 64)}
	for _, c := range []struct {
		api, url string
		ok       bool
	}{
		{"https://api", "https://files/x", true}, {"https://api", "http://files/x", false}, {"http://api", "http://files/x", true},
		{"https://api", "https://user:word@files/x", false}, {"https://api", "//files/x", false}, {"https://api", "file:///x", false}, {"https://api", "", false},
	} {
		file.URL = c.url
		if _, err := (&Client{URL: c.api}).Job(file, "b", "2026-02-28"); (err == nil) != c.ok {
			t.Errorf("%s leads to %s: %v", c.api, c.url, err)
		}
	}
}
