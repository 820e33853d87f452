package door

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bufferBytes is the size of a connection's buffer, and so the limit of a
	// head. A body that fits in with it is not copied; a chunked body that does
	// not fit is left to net/http.
	bufferBytes = 8 << 10
	// bufferTime is how long a connection keeps its buffer between requests.
	bufferTime = time.Second
	// maxDrained is how much of an unread body is discarded to keep the
	// connection, as in net/http.
	maxDrained = 256 << 10
	// lingerTime is how long the connection of a rejected client that is still
	// sending stays open, so that the client can read the reply.
	lingerTime = 500 * time.Millisecond
)

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// conn is a connection, served by one goroutine.
type conn struct {
	s  *Server
	nc net.Conn

	buf  *[bufferBytes]byte // nil while the connection is idle
	r, w int                // buf[r:w] has been read but not used

	state         atomic.Int32
	last          time.Time // when the last request ended
	begun         time.Time // when the current request began, if it did not arrive in one piece
	readDeadline  time.Time // as set on nc
	writeDeadline time.Time

	rest   int64 // bytes of the body that have not been read into buf
	broken bool  // reading the body failed

	host   string // of the last request; most connections use one host only
	remote string // the IP address of the client
	secure bool   // the connection has TLS
	tls    TLS
	kept   any // by the handler

	wasCut atomic.Bool // the body was evicted

	ctx      context.Context // of the requests
	cancel   context.CancelFunc
	requests int64        // so far
	current  atomic.Int64 // the number of the request in progress; 0 is none
	watched  int64        // current, when watch looked last
}

// The states of a connection. Shutdown closes idle connections only.
const (
	idle int32 = iota
	busy
	closed
)

// closeIfIdle closes a connection between two requests. It reports whether it did.
func (c *conn) closeIfIdle() bool {
	if !c.state.CompareAndSwap(idle, closed) {
		return false
	}
	_ = c.nc.Close()
	return true
}

// serve answers requests in their order until one ends the connection.
func (c *conn) serve() {
	c.last = time.Now()
	c.buf = buffers.Get().(*[bufferBytes]byte)
	defer c.cancel()
	passed := false
	defer func() {
		if p := recover(); p != nil { // no input may crash the process
			c.s.log.Error("panic while serving a connection", "panic", p, "stack", string(debug.Stack()))
		} else {
			c.releaseBuffer()
		}
		if !passed {
			_ = c.nc.Close()
			c.s.limit.ended()
		}
		c.s.removeConn(c)
	}()
	if !c.handshake() {
		return
	}
	c.remote = AddressOf(c.nc.RemoteAddr().String())
	for first := true; ; first = false {
		if c.r == c.w && !c.waitForRequest(first) {
			return
		}
		switch x := exchanges.Get().(*Exchange); c.read(&x.Request, first) {
		case done:
			if !c.answer(x) {
				return
			}
		case pass:
			x.End()
			passed = c.pass()
			return
		default: // the client sends no more
			x.End()
			return
		}
	}
}

// handshake performs the TLS handshake, if the listener uses TLS. It is not left
// to the first read, whose deadline is short.
func (c *conn) handshake() bool {
	secure, ok := c.nc.(secureConn)
	if !ok {
		return true
	}
	c.secure = true
	c.readUntil(c.last, c.s.times.head)
	if secure.HandshakeContext(c.s.ctx) != nil {
		return false
	}
	c.tls = TLSOf(c.nc)
	return true
}

// waitForRequest waits for the first byte of a request. Between requests in quick
// succession it reuses the deadline that is set and keeps the buffer; after
// bufferTime it gives the buffer back.
func (c *conn) waitForRequest(first bool) bool {
	c.r, c.w = 0, 0
	c.state.Store(idle)
	if c.s.closing.Load() {
		return false
	}
	limit := c.s.times.idle
	if first {
		limit = c.s.times.head
	}
	soon := bufferTime
	if limit > 0 {
		soon = min(soon, limit)
	}
	if left := c.readDeadline.Sub(c.last); left < soon/2 || left > soon {
		c.readUntil(c.last, soon)
	}
	n, err := c.nc.Read(c.buf[:])
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		c.releaseBuffer()
		c.readUntil(c.last, limit)
		var one [1]byte
		n, _ = c.nc.Read(one[:])
		c.buf = buffers.Get().(*[bufferBytes]byte)
		c.buf[0] = one[0]
	}
	c.w = n
	return n > 0 && c.state.CompareAndSwap(idle, busy)
}

func (c *conn) releaseBuffer() {
	if c.buf != nil {
		buffers.Put(c.buf)
		c.buf = nil
	}
}

// readUntil sets the deadline of reads; a limit of zero is none.
func (c *conn) readUntil(from time.Time, limit time.Duration) {
	c.readDeadline = time.Time{}
	if limit > 0 {
		c.readDeadline = from.Add(limit)
	}
	c.nc.SetReadDeadline(c.readDeadline) //nolint:errcheck // the read reports it
}

// read reads a head, and its body if that is small. A verdict of more means that
// the connection has ended.
func (c *conn) read(r *Request, first bool) verdict {
	c.begun = time.Time{}
	if first {
		c.begun = c.last
	}
	if v := c.readHead(&r.head, first); v != done {
		return v
	}
	h := &r.head
	if host := r.Header("Host"); string(host) != c.host {
		c.host = string(host)
	}
	r.Method, r.Path, r.EscapedPath, r.Host = "POST", "/", "/", c.host
	r.Length, r.Remote, r.Secure, r.TLS, r.Kept = h.length, c.remote, c.secure, c.tls, &c.kept
	if h.chunked {
		r.Length = -1
	}
	if !c.s.api.Accepts(r) {
		return pass
	}
	switch {
	case h.chunked:
		return c.readChunked(r)
	case int64(h.next)+h.length <= bufferBytes:
		return c.readWhole(r)
	}
	c.r += h.next
	c.rest = h.length - int64(c.w-c.r)
	r.rest, r.cut = (*body)(c), c.cut
	c.readUntil(c.start(), c.s.times.whole)
	return done
}

// start is when the current request began. It is needed only for requests that do
// not arrive in one piece.
func (c *conn) start() time.Time {
	if c.begun.IsZero() {
		c.begun = time.Now()
	}
	return c.begun
}

// readHead reads the head of a request. After the first request it imitates
// net/http in two ways, because net/http treats the first request that it is
// handed as the first of the connection: it skips up to four bytes of empty lines,
// which some old clients send after a body; and fewer than four bytes in all are
// not a request.
func (c *conn) readHead(h *head, first bool) verdict {
	h.reset()
	const peeked = 4
	skipped, slow := 0, false
	for {
		for !first && skipped < peeked && h.next == 0 && c.r < c.w && (c.buf[c.r] == '\r' || c.buf[c.r] == '\n') {
			c.r++
			skipped++
		}
		enough := first || skipped+c.w-c.r >= peeked
		if v := h.scan(c.buf[c.r:c.w]); v == done || v == pass && enough {
			return v
		}
		if !slow {
			slow = true
			c.readUntil(c.start(), c.s.times.head)
		}
		switch v := c.fill(); {
		case v == pass && !enough:
			return more
		case v != done:
			return v
		}
	}
}

// readWhole reads a body that fits in the buffer.
func (c *conn) readWhole(r *Request) verdict {
	end := r.head.next + int(r.Length)
	if c.w-c.r < end {
		c.readUntil(c.start(), c.s.times.whole)
		for c.w-c.r < end {
			if v := c.fill(); v != done {
				return v
			}
		}
		r.head.text = c.buf[c.r : c.r+r.head.next] // fill may have moved it
	}
	r.whole, r.hasWhole = c.buf[c.r+r.head.next:c.r+end:c.r+end], true
	c.r += end
	return done
}

// readChunked reads a chunked body that fits in the buffer with its chunk sizes.
func (c *conn) readChunked(r *Request) verdict {
	slow := false
	for {
		at := c.r + r.head.next
		end, v := scanChunked(c.buf[at:c.w])
		if v == done {
			r.head.text = c.buf[c.r:at] // fill may have moved it
			r.whole, r.hasWhole = joinChunks(c.buf[at:at+end:at+end]), true
			c.r = at + end
			return done
		}
		if v == pass {
			return pass
		}
		if !slow {
			slow = true
			c.readUntil(c.start(), c.s.times.whole)
		}
		if v := c.fill(); v != done {
			return v
		}
	}
}

// fill reads more bytes into the buffer. Its verdict is pass when the buffer is
// full, or when the client has closed its side within a request: net/http has the
// reply for both.
func (c *conn) fill() verdict {
	if c.r > 0 {
		c.w = copy(c.buf[:], c.buf[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.buf) {
		return pass
	}
	n, err := c.nc.Read(c.buf[c.w:])
	c.w += n
	switch {
	case n > 0:
		return done
	case errors.Is(err, io.EOF):
		return pass
	}
	return more // and none arrived in time
}

// pass hands the connection to net/http.
func (c *conn) pass() bool {
	if c.nc.SetDeadline(time.Time{}) != nil {
		return false
	}
	read := append([]byte(nil), c.buf[c.r:c.w]...)
	return c.s.handoff.offer(&countedConn{&replayConn{Conn: c.nc, read: read}, sync.OnceFunc(c.s.limit.ended)})
}

type secureKey struct{}

// markSecure marks the context of a connection that has TLS, which net/http does not see.
func markSecure(ctx context.Context, nc net.Conn) context.Context {
	if counted, ok := nc.(*countedConn); ok {
		if isSecure(counted.replayConn.Conn) {
			return context.WithValue(ctx, secureKey{}, TLSOf(counted.replayConn.Conn))
		}
	}
	return ctx
}

// secureConn is a connection with TLS.
type secureConn interface{ HandshakeContext(context.Context) error }

func isSecure(nc net.Conn) bool {
	_, ok := nc.(secureConn)
	return ok
}

// body is the body of a request that does not fit in the buffer.
type body conn

func (b *body) Read(p []byte) (int, error) {
	c := (*conn)(b)
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		return n, nil
	}
	if c.rest == 0 {
		return 0, io.EOF
	}
	n, err := c.nc.Read(p[:min(int64(len(p)), c.rest)])
	c.rest -= int64(n)
	if n > 0 {
		return n, nil
	}
	c.broken = true
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return 0, err
}

// cut ends a read of the body. It relies on the read deadline not being set
// elsewhere while a body is read.
func (c *conn) cut() {
	c.wasCut.Store(true)
	_ = c.nc.SetReadDeadline(past)
}

// answer answers a request. It reports false if the connection ends with it.
func (c *conn) answer(x *Exchange) bool {
	if !c.run(x) {
		return false // x may be in any state after a panic, and is not reused
	}
	defer x.End()
	if x.Reply.Status == 0 {
		return false
	}
	unread := c.drain(&x.Request)
	last := unread || c.broken || x.Request.head.close || x.Reply.Last || c.s.closing.Load()
	c.last = time.Now()
	if !c.send(&x.Reply, last) || last && !unread {
		return false
	}
	if unread {
		c.linger()
		return false
	}
	return true
}

// run calls the handler. If the handler panics, run logs that and answers.
func (c *conn) run(x *Exchange) (ok bool) {
	defer func() {
		if ok {
			return
		}
		c.s.log.Error("panic while answering a request", "panic", recover(), "stack", string(debug.Stack()))
		c.last = time.Now()
		c.send(&Reply{Status: 500, ContentType: "text/plain; charset=utf-8", Body: []byte("internal server error\n")}, true)
	}()
	c.begin()
	c.s.api.Answer(c.ctx, &x.Request, &x.Reply)
	c.end()
	if x.Reply.Stream != nil {
		panic("the handler accepted a request that it answers with a stream")
	}
	return true
}

// drain discards the rest of a body that the handler has not read. It reports
// unread if that is too much. The reply is sent afterwards: a client that does not
// read while it sends would wait for the server, and the server for the client.
func (c *conn) drain(r *Request) (unread bool) {
	if r.rest == nil {
		return false
	}
	if c.broken {
		return c.wasCut.Load() // it may still be sending
	}
	left := c.rest + int64(c.w-c.r)
	if left > maxDrained {
		return true
	}
	_, err := io.Copy(io.Discard, r.rest)
	return err != nil
}

// linger reads on for a moment: closing a connection with unread bytes resets it,
// and the client could lose the reply.
func (c *conn) linger() {
	if closeWrite(c.nc) != nil {
		return
	}
	c.readUntil(time.Now(), lingerTime)
	_, _ = io.Copy(io.Discard, c.nc) // until the client ends or the deadline passes
}
