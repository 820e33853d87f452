package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Requests of pages of other sites are rejected, also those without an Origin.
func TestOnlyPrivate(t *testing.T) {
	h := OnlyPrivate(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"", "", 200},
		{"Sec-Fetch-Site", "none", 200}, // typed by a person
		{"Sec-Fetch-Site", "same-origin", 200},
		{"Sec-Fetch-Site", "same-site", 403}, // another port
		{"Sec-Fetch-Site", "cross-site", 403},
		{"Origin", "http://evil.example", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:6060/debug/pprof/heap", nil)
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s %s: %d, want %d", c.header, c.value, w.Code, c.want)
		}
	}
}
