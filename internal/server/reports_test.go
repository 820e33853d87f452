package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The counts by shape require a signature, and pages of other sites are rejected.
func TestShapes(t *testing.T) {
	h := newHandler(t)
	get := func(change func(*http.Request)) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/shapes", nil)
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00")
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
		want   string
	}{
		{"signed", func(*http.Request) {}, 200, `"shapes":[]`},
		{"not signed", func(r *http.Request) { r.Header.Del("Authorization") }, 400, "MissingAuthenticationTokenException"},
		{"another page", func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") }, 403, "rejected"},
		{"posted", func(r *http.Request) { r.Method = http.MethodPost }, 404, "UnknownOperation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := get(c.change)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("the reply is %d %s, want %d with %s", w.Code, w.Body, c.status, c.want)
			}
		})
	}
}
