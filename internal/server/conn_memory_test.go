package server

import (
	"testing"

	"github.com/stator-db/stator/internal/server/door"
)

// A connection that has sent an accepted Host must not send another, nor the same to another
// handler.
func TestHostsOfConnection(t *testing.T) {
	named, private := new(Handler).OnlyHosts([]string{"db.example.org"}), new(Handler).OnlyHosts(nil)
	var kept any
	for _, c := range []struct {
		of   *Handler
		host string
		want bool
	}{
		{named, "db.example.org", true}, {named, "db.example.org", true}, {named, "evil.example", false},
		{named, "", true}, {named, "evil.example", false}, {named, "127.0.0.1:8000", true}, {named, "db.example.org", true},
		{private, "db.example.org", false}, {private, "localhost", true}, {private, "localhost", true}, {named, "evil.example", false},
		{new(Handler), "evil.example", true}, {private, "evil.example", false},
	} {
		if got := c.of.acceptsHostOf(&door.Request{Host: c.host, Kept: &kept}); got != c.want {
			t.Errorf("%q is accepted: %v, want %v", c.host, got, c.want)
		}
	}
}
