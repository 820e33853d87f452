//go:build !race

package door

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// repeatingConn is a client that sends a request repeatedly and ignores the
// replies.
type repeatingConn struct {
	scriptedConn
	request []byte
	left    int
}

func (c *repeatingConn) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	c.left--
	return copy(b, c.request), nil
}

func (*repeatingConn) Write(b []byte) (int, error) { return len(b), nil }

// A request needs no allocation. (The race detector makes pools drop objects, so
// the test is not run with it.)
func TestAllocations(t *testing.T) {
	h := fixedReply{[]byte(strings.Repeat("x", 1024))}
	s := New(h, new(http.Server), slog.New(slog.DiscardHandler))
	const requests = 1000
	for name, in := range map[string]string{
		"a length": sample + strings.Repeat("y", 1024),
		"chunks":   strings.Replace(sample, "Content-Length: 1024", "Transfer-Encoding: chunked", 1) + "400\r\n" + strings.Repeat("y", 1024) + "\r\n0\r\n\r\n",
	} {
		perConn := testing.AllocsPerRun(5, func() {
			c := s.addConn(&repeatingConn{scriptedConn: scriptedConn{closed: make(chan struct{})}, request: []byte(in), left: requests})
			c.serve()
		})
		if got := perConn / requests; got > 0.5 {
			t.Errorf("a request with %s needs %.2f allocations", name, got)
		}
	}
}
