package door

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// recordingHandler records the requests that it answers.
type recordingHandler struct {
	mu     sync.Mutex
	seen   []string
	direct int // requests that the door read
}

func (*recordingHandler) Accepts(r *Request) bool {
	return string(r.Header("X-Amz-Target")) != "stream"
}

func (h *recordingHandler) Answer(_ context.Context, r *Request, a *Reply) {
	target := string(r.Header("X-Amz-Target"))
	a.Status, a.ContentType = 200, "text/plain"
	body, err := []byte("not read"), error(nil)
	if target != "unread" {
		body, err = r.Read(1<<20, nil)
	}
	if err != nil {
		body, a.Status = []byte("broken"), 400
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, fmt.Sprintf("%s %s?%s host %q target %q authorization %q type %q encoding %q length %d body %q",
		r.Method, r.Path, r.Query, r.Host, target, r.Header("Authorization"), r.Header("Content-Type"), r.ContentEncoding(), r.Length, body))
	if r.web == nil {
		h.direct++
	}
	a.Write(fmt.Appendf(a.Memory.Empty(), "%d", len(h.seen)))
	if target == "large" {
		a.Write(append(a.Body, bytes.Repeat([]byte("large"), 8<<10)...))
	}
}

func (h *recordingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := Begin(w, r)
	defer x.End()
	h.Answer(r.Context(), &x.Request, &x.Reply)
	x.Reply.Send(w)
}

// scriptedConn is a connection whose client sends fixed bytes, which arrive in
// steps, and then ends.
type scriptedConn struct {
	mu     sync.Mutex
	in     []byte
	step   int
	out    bytes.Buffer
	closed chan struct{}
	once   sync.Once
}

func newScriptedConn(in []byte, step int) *scriptedConn {
	return &scriptedConn{in: bytes.Clone(in), step: max(step, 1), closed: make(chan struct{})}
}

func (c *scriptedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.step)], c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *scriptedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(b)
}

func (c *scriptedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (*scriptedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*scriptedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*scriptedConn) SetDeadline(time.Time) error      { return nil }
func (*scriptedConn) SetReadDeadline(time.Time) error  { return nil }
func (*scriptedConn) SetWriteDeadline(time.Time) error { return nil }

// connListener is a listener for connections that a test makes.
type connListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newConnListener() *connListener {
	return &connListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *connListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *connListener) Addr() net.Addr { return &net.TCPAddr{} }

// observed is what happened on a connection: the requests that the handler saw, and
// the statuses and bodies of the replies.
type observed struct {
	requests, replies []string
	direct            int
}

func newWeb(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, 0),
	}
}

// viaNetHTTP serves a client with net/http alone.
func viaNetHTTP(c *scriptedConn) observed {
	h := new(recordingHandler)
	web := newWeb(h)
	l := newConnListener()
	go web.Serve(l)
	l.conns <- c
	<-c.closed
	web.Close()
	return c.observed(h)
}

// viaDoor serves a client with the door, which may hand it to net/http.
func viaDoor(c *scriptedConn, seen net.Conn) observed {
	h := new(recordingHandler)
	s := New(h, newWeb(h), slog.New(slog.DiscardHandler))
	l := newConnListener()
	go s.Serve(l)
	l.conns <- seen
	<-c.closed
	s.Close()
	return c.observed(h)
}

func (c *scriptedConn) observed(h *recordingHandler) observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	t := observed{requests: h.seen, direct: h.direct}
	for r := bufio.NewReader(&c.out); ; {
		reply, err := http.ReadResponse(r, nil)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				t.replies = append(t.replies, err.Error())
			}
			return t
		}
		body, err := io.ReadAll(reply.Body)
		t.replies = append(t.replies, fmt.Sprintf("%d %.20q %v close %v", reply.StatusCode, body, err, reply.Close))
	}
}

// difference compares the door with net/http on the same bytes.
func difference(in []byte, step int, change func(*scriptedConn) net.Conn) (string, observed) {
	want := viaNetHTTP(newScriptedConn(in, step))
	c := newScriptedConn(in, step)
	got := viaDoor(c, change(c))
	switch {
	case !slices.Equal(got.requests, want.requests):
		return fmt.Sprintf("accepted\n\t%s\nnet/http has\n\t%s", strings.Join(got.requests, "\n\t"), strings.Join(want.requests, "\n\t")), got
	case !slices.Equal(got.replies, want.replies):
		return fmt.Sprintf("answered\n\t%s\nnet/http has\n\t%s", strings.Join(got.replies, "\n\t"), strings.Join(want.replies, "\n\t")), got
	}
	return "", got
}

func unchanged(c *scriptedConn) net.Conn { return c }

// again follows a request, to show where the reader places the end of that one.
const again = "POST / HTTP/1.1\r\nHost: next\r\nContent-Length: 4\r\n\r\nnext"

// seeds are requests, and attempts to smuggle one inside another.
func seeds() (seeds []string) {
	const host = "Host: localhost:8000"
	head := func(lines ...string) { seeds = append(seeds, request(lines...)+"0\r\n\r\n"+again) }
	for _, length := range []string{"5", "05", "+5", "-5", "5 ", "5,5", "5, 5", "5;", "0x5", "5.", "", "18446744073709551621", "99999999999999", "\x0b5", "5\x00", "5\r", "1_0"} {
		head(host, "Content-Length: "+length)
	}
	head(host, "Content-Length: 5", "Content-Length: 5")
	head(host, "Content-Length: 5", "Content-Length: 6")
	head(host, "content-length: 5", "CONTENT-LENGTH: 0")
	for _, coding := range []string{"chunked", "Chunked", " chunked ", "chunked,", "chunked, chunked", "gzip, chunked", "chunked, gzip", "identity", "xchunked", "\x0bchunked", "chunked\x0c", "\"chunked\"", "", "chunked\r"} {
		head(host, "Transfer-Encoding: "+coding)
		head(host, "Transfer-Encoding: "+coding, "Content-Length: 5")
		head(host, "Content-Length: 5", "Transfer-Encoding: "+coding)
	}
	head(host, "Transfer-Encoding: chunked", "Transfer-Encoding: identity")
	head(host, "Content-Length : 5")
	head(host, "Content-Length\t: 5")
	head(host, " Content-Length: 5")
	head(host, "X: a", " Content-Length: 5")
	head(host, "X: a\r Content-Length: 5")
	head(host, "X: a\nContent-Length: 5")
	head(host, "X: a\rContent-Length: 5")
	head(host, "X: a\x00", "Content-Length: 5")
	head(host, "X\x00: a", "Content-Length: 5")
	head(host, "Content_Length: 5")
	head(host, "\xc2\xa0Content-Length: 5")
	head(" "+host, "Content-Length: 5")
	head("Content-Length: 5")
	head("Host:", "Content-Length: 5")
	head(host, "Host: other", "Content-Length: 5")
	head("Host: a b", "Content-Length: 5")
	head("Host: a@b", "Content-Length: 5")
	head(host, "Connection: close", "Content-Length: 5")
	head(host, "Connection: close, keep-alive", "Content-Length: 5")
	head(host, "Connection: keep-alive", "Connection: close", "Content-Length: 5")
	head(host, "Connection: content-length", "Content-Length: 5")
	head(host, "Expect: 100-continue", "Content-Length: 5")
	head(host, "Expect: a miracle", "Content-Length: 5")
	head(host, "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "Content-Length: 5")
	head(host, "Content-Encoding: gzip", "Content-Length: 5")
	head(host, "Content-Encoding: gzip", "content-encoding: identity", "Content-Length: 5")
	head(host, "Content-Encoding:", "Content-Encoding: gzip", "Content-Length: 5")
	head(host, "X-Amz-Target: unread", "Content-Length: 5")
	head(host, "X-Amz-Target: large", "Content-Length: 5")
	head(host, "X-Amz-Target: stream", "Content-Length: 5")
	head(host, "X: "+strings.Repeat("long", 1<<11), "Content-Length: 5")
	head(host, "X: "+strings.Repeat("long", 1<<13), "Content-Length: 5")
	const chunked = opening + host + "\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, body := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\nX: y\r\n\r\n", "5\r\nhello\r\n0\r\nX: y\n\n", "5;a=b\r\nhello\r\n0\r\n\r\n", "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n",
		"5 \r\nhello\r\n0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\rhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n",
		"5\r\nhello!\r\n0\r\n\r\n", "5\r\nhell\r\n0\r\n\r\n", "5\r\nhello\r\n0\r\n\n", "5\r\nhello\r\n0\n\r\n", "5\r\nhello\r\n00000000000000000\r\n\r\n", "5\r\nhello\r\n0\r\n", "5\r\nhello\r\n", "5\r\nhel",
		"fffffffffffffffff\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", "7fffffff\r\nhello\r\n0\r\n\r\n", "\r\n5\r\nhello\r\n0\r\n\r\n", "0\r\nContent-Length: 5\r\n\r\n",
		strings.Repeat("1\r\na\r\n", 1000) + "0\r\n\r\n", strings.Repeat("1\r\na\r\n", 3000) + "0\r\n\r\n", "3000\r\n" + strings.Repeat("chunks..", 0x600) + "\r\n0\r\n\r\n",
	} {
		seeds = append(seeds, chunked+body+again, strings.Replace(chunked, host, host+"\r\nX-Amz-Target: unread", 1)+body+again)
	}
	for _, size := range []int{0, 1, 8000, 8192, 9000, 70_000, 300_000} {
		for _, target := range []string{"", "unread"} {
			seeds = append(seeds, request(host, "X-Amz-Target: "+target, fmt.Sprintf("Content-Length: %d", size))+strings.Repeat("b", size)+again)
		}
	}
	return append(seeds,
		"", "\r\n", "P", again, again+again+again, again+"\r\n"+again, again+"\r\n\r\n"+again, again+"\r\n\r\n\r\n"+again, "\r\n"+again, again+"\n\n"+again, again+"\r\n"+"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		again+"GET / HTTP/1.1\r\nHost: a\r\n\r\n"+again, again+"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"+again, again+"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"+again, "POST /a HTTP/1.1\r\nHost: a\r\n\r\n"+again,
		"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 1\r\n\r\na"+again, "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na"+again, "POST / HTTP/1.2\r\nHost: a\r\n\r\n"+again, "POST / HTTP/2.0\r\nHost: a\r\n\r\n"+again,
		"POST /  HTTP/1.1\r\nHost: a\r\n\r\n"+again, "POST\t/ HTTP/1.1\r\nHost: a\r\n\r\n"+again, "POST / HTTP/1.1 \r\nHost: a\r\n\r\n"+again, "POST / HTTP/1.1\nHost: a\nContent-Length: 1\n\na"+again, "POST http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"+again,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", sample+strings.Repeat("y", 1024)+again, sample+"short", again+"0", again+"\r\n0", again+"\r\n\r\n0")
}

// The door and net/http read the same requests from the same bytes, and give the
// same replies. One difference is out of reach of this test: the door cuts off a
// client that stops in the middle of a short body without a reply, whereas
// net/http lets the handler answer that the body is broken (see TestSlowBody).
func FuzzDoor(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s), uint16(4096))
		if len(s) < 1000 {
			f.Add([]byte(s), uint16(1))
			f.Add([]byte(s), uint16(7))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint16) {
		if len(in) > 1<<20 {
			return
		}
		virtualtime.Test(t, func(t *testing.T) { // net/http waits before it closes
			if d, _ := difference(in, int(step), unchanged); d != "" {
				t.Errorf("%q in steps of %d\n%s", in, step, d)
			}
		})
	})
}

// rewrittenConn is a client whose bytes are replaced, which imitates a lenient
// reader.
type rewrittenConn struct{ *scriptedConn }

func rewriting(old, new string) func(*scriptedConn) net.Conn {
	return func(c *scriptedConn) net.Conn {
		c.in = bytes.ReplaceAll(c.in, []byte(old), []byte(new))
		return rewrittenConn{c}
	}
}

// The comparison detects a reader that is more lenient than net/http.
func TestDifferenceIsFound(t *testing.T) {
	const host = "Host: localhost:8000"
	for _, c := range []struct {
		name, in, old, new string
	}{
		{"a sign before a length", request(host, "Content-Length: +5") + "hello", "+5", "5"},
		{"the last of two lengths", request(host, "Content-Length: 0", "Content-Length: 5") + "hello", "Content-Length: 0\r\n", ""},
		{"a space before the colon", request(host, "Content-Length : 5") + "hello", " :", ":"},
		{"the length rather than the chunks", request(host, "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n", "Transfer-Encoding: chunked\r\n", ""},
		{"something like chunks", request(host, "Transfer-Encoding: xchunked") + "0\r\n\r\n", "xchunked", "chunked"},
		{"a sign before a chunk's size", request(host, "Transfer-Encoding: chunked") + "+5\r\nhello\r\n0\r\n\r\n", "+5", "5"},
		{"a bare LF after a chunk's size", request(host, "Transfer-Encoding: chunked") + "5\nhello\r\n0\r\n\r\n", "5\n", "5\r\n"},
		{"no host", request("Content-Length: 0"), opening, opening + "Host: a\r\n"},
		{"a NUL in a value", request(host, "X: a\x00b"), "\x00", ""},
		{"a header that is continued by another", request(host, "X: a", " Content-Length: 5") + "hello", " Content", "Content"},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				if d, _ := difference([]byte(c.in+again), 4096, unchanged); d != "" {
					t.Errorf("without the planted fault:\n%s", d)
				}
				if d, _ := difference([]byte(c.in+again), 4096, rewriting(c.old, c.new)); d == "" {
					t.Error("the planted fault is not found")
				}
			})
		})
	}
}

// The door answers common requests itself: otherwise FuzzDoor would compare net/http
// with itself.
func TestDoorAnswersByItself(t *testing.T) {
	for _, c := range []struct {
		name, in string
		direct   int
		all      int
	}{
		{"a request of an SDK", sample + strings.Repeat("y", 1024), 1, 1},
		{"one after the other", again + again + again, 3, 3},
		{"a long body", request("Host: a", "Content-Length: 100000") + strings.Repeat("b", 100_000) + again, 2, 2},
		{"chunks", request("Host: a", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\n\r\n" + again, 2, 2},
		{"many chunks", request("Host: a", "Transfer-Encoding: chunked") + "3000\r\n" + strings.Repeat("chunks..", 0x600) + "\r\n0\r\n\r\n" + again, 0, 2},
		{"until a request of another form", again + "GET / HTTP/1.1\r\nHost: a\r\n\r\n" + again, 1, 3},
		{"a request that the handler does not accept", again + request("Host: a", "X-Amz-Target: stream") + again, 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				d, got := difference([]byte(c.in), 4096, unchanged)
				if d != "" {
					t.Error(d)
				}
				if got.direct != c.direct || len(got.requests) != c.all {
					t.Errorf("%d of %d requests are answered by the door, want %d of %d", got.direct, len(got.requests), c.direct, c.all)
				}
			})
		})
	}
}
