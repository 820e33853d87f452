package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// A request for a host that a page of another site can have is rejected, whatever it
// asks for. The control is a handler that does not check hosts.
func TestHosts(t *testing.T) {
	open := newHandler(t)
	checked := open.OnlyHosts([]string{"Db.example.org", "*.example.net"})
	for _, c := range []struct {
		host string
		want bool
	}{
		{"localhost:8000", true},
		{"localhost", true},
		{"LOCALHOST:8000", true},
		{"localhost.:8000", true},
		{"123456789012.ddb.localhost:8000", true},
		{"127.0.0.1:8000", true},
		{"127.0.0.1", true},
		{"[::1]:8000", true},
		{"[::1]", true},
		{"10.1.2.3:8000", true},
		{"dynamodb:8000", true},
		{"host.docker.internal:8000", true},
		{"stator.default.svc.cluster.local", true},
		{"stator.default.svc", true},
		{"stator.default.svc:8000", true},
		{"db.lan", true},
		{"DB.Home.:8000", true},
		{"db.eu.corp", true},
		{"db.intranet", true},
		{"db.private", true},
		{"", true},
		{"db.example.org:8000", true},
		{"DB.EXAMPLE.ORG", true},
		{"a.b.example.net", true},
		{"evil.example:8000", false},
		{"evil.example", false},
		{"127.0.0.1.evil.example:8000", false},
		{"localhost.evil.example:8000", false},
		{"evillocalhost.example", false},
		{"notinternal.example", false},
		{"other.example.org:8000", false},
		{"x.db.example.org", false},
		{"example.net", false},
		{"stator.default", false}, // a namespace can have the name of a public domain, such as dev
		{"stator.dev", false},
		{"db.evil-lan", false},
		{"db.lan.example", false},
		{"db.xcorp", false},
		{"svc.example", false},
		{"evilexample.net", false},
		{"0x7f.0.0.1:8000", false},
	} {
		for _, request := range []struct{ method, target string }{
			{"GET", "/shapes?X-Amz-Algorithm=AWS4-HMAC-SHA256"}, {"GET", "/healthz"}, {"GET", "/livez"}, {"GET", "/readyz"}, {"GET", "/"}, {"POST", "/"}, {"PUT", "/other"},
		} {
			r := httptest.NewRequest(request.method, request.target, strings.NewReader("{}"))
			r.Header = signed(listTables)
			r.Host = c.host
			w := httptest.NewRecorder()
			checked.ServeHTTP(w, r)
			if got := w.Code != 403; got != c.want {
				t.Errorf("%s %s of %q is accepted: %v, want %v", request.method, request.target, c.host, got, c.want)
			}
			w = httptest.NewRecorder()
			open.ServeHTTP(w, r)
			if w.Code == 403 {
				t.Errorf("the control rejects %s %s of %q", request.method, request.target, c.host)
			}
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = "evil.example"
	w := httptest.NewRecorder()
	open.OnlyHosts([]string{"*"}).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("with * a host gets %d", w.Code)
	}
}
