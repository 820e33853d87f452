package console

import (
	"net/http"
	"testing"
)

// Browsers send a cookie to all servers of a host, whatever their ports. Another server of the host, which
// may be another person's, cannot use it: it does not get the secret that the page keeps.
func TestCookieOfAnotherPort(t *testing.T) {
	r := newRig(SignInKey, ReadOnly)
	w := r.send("POST", "api/session", `{"accessKey":"ada","secret":"secret"}`, nil)
	cookie, page := w.Result().Cookies()[0], pageSecret(t, w)
	ask := func(method, path, page string) int {
		return r.send(method, path, "{}", func(q *http.Request) {
			q.AddCookie(cookie)
			q.Header.Set("X-Stator-Session", page)
		}).Code
	}
	for _, wrong := range []string{"", cookie.Value, page + "x"} {
		if code := ask("POST", "api", wrong); code != 401 {
			t.Errorf("with the cookie and %q the API answers %d", wrong, code)
		}
		ask("DELETE", "api/session", wrong)
	}
	if code := ask("POST", "api", page); code != 200 {
		t.Errorf("with the cookie and the secret of the page the API answers %d", code)
	}
	other := r.send("POST", "api/session", `{"accessKey":"ada","secret":"secret"}`, func(q *http.Request) {
		q.Host = "127.0.0.1:8001"
		q.Header.Set("Origin", "http://127.0.0.1:8001")
	})
	if names := other.Result().Cookies(); len(names) != 1 || names[0].Name == cookie.Name {
		t.Errorf("the cookie of another port is %v, which replaces %v", names, cookie)
	}
}
