package server

import "testing"

// The URL of a fork names that fork alone, whatever fork the URL names that it was made at.
func TestForkURL(t *testing.T) {
	for _, c := range []struct{ name, endpoint, of, want string }{
		{"of a server", "http://127.0.0.1:8000", "", "http://127.0.0.1:8000/fork/new"},
		{"of a server, with a slash", "http://127.0.0.1:8000/", "", "http://127.0.0.1:8000/fork/new"},
		{"of a server behind a path", "https://example.org/db/", "", "https://example.org/db/fork/new"},
		{"of a fork by its path", "http://127.0.0.1:8000/fork/one", "one", "http://127.0.0.1:8000/fork/new"},
		{"of a fork by its path in upper case", "http://127.0.0.1:8000/fork/ONE/", "one", "http://127.0.0.1:8000/fork/new"},
		{"of a fork behind a path", "https://example.org/db/fork/one", "one", "https://example.org/db/fork/new"},
		{"of a fork by its host name", "http://One.localhost:8000", "one", "http://localhost:8000/fork/new"},
		{"of a fork by its host name, without a port", "http://one.localhost/", "one", "http://localhost/fork/new"},
		{"of a fork by both", "http://one.localhost:8000/fork/one", "one", "http://localhost:8000/fork/new"},
		{"of a fork by a header", "http://127.0.0.1:8000", "one", "http://127.0.0.1:8000/fork/new"},
		{"of a server with the name", "http://db.localhost:8000", "", "http://db.localhost:8000/fork/new"},
		{"of a fork of a server with a name", "http://db.localhost:8000/fork/one", "one", "http://db.localhost:8000/fork/new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ForkURL(c.endpoint, c.of, "new"); got != c.want {
				t.Errorf("ForkURL(%q, %q) = %q, want %q", c.endpoint, c.of, got, c.want)
			}
		})
	}
}
