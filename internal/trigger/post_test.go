package trigger

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Over a real network: redirects are not followed, and network errors do not
// contain the URL.
func TestPost(t *testing.T) {
	var bodies []string
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Method+" "+string(body))
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, other.URL, http.StatusPermanentRedirect)
		}
	}))
	batch := []*pendingRecord{{text: []byte(`{"a":1}`)}, {text: []byte(`{"a":2}`)}}
	post := func(url string) (int, error) {
		c := Config{URL: url, Timeout: 5 * time.Second, Parallelism: 1}
		tr := &trigger{Config: c, client: newClient(nil, &c)}
		defer tr.client.CloseIdleConnections()
		return tr.post(t.Context(), batch)
	}
	if accepted, err := post(s.URL + "/here"); accepted != 2 || err != nil || bodies[0] != `POST {"Records":[{"a":1},{"a":2}]}` {
		t.Errorf("%d records were accepted, %v; the request was %s", accepted, err, bodies)
	}
	if accepted, err := post(s.URL + "/moved"); accepted != 0 || err == nil || err.Error() != "the endpoint answered 308" || elsewhere > 0 {
		t.Errorf("%d records were accepted over a redirect, %v", accepted, err)
	}
	s.Close()
	if accepted, err := post(strings.Replace(s.URL, "http://", "http://me:secret@", 1) + "/secret?secret"); accepted != 0 || err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%d records were accepted without an endpoint, %v", accepted, err)
	}
}
