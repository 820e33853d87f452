package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An endpoint is where a server listens.
type endpoint struct {
	addr string // host:port
	sign bool   // sign each request; otherwise all carry the same signature
	tls  bool   // the certificate is not verified
	dax  string // address for requests over the protocol of DAX; "" to send them over HTTP
}

const (
	bufferBytes = 64 << 10
	dialTime    = 5 * time.Second
	// patience is how long after the end of a slice its last response may arrive.
	patience = 30 * time.Second
)

// A conn is one kept connection.
type conn struct {
	net net.Conn
	exchange
}

func (e *endpoint) dial(ctx context.Context) (*conn, error) {
	n, err := e.dialPlain(ctx)
	if err != nil {
		return nil, err
	}
	if e.tls {
		if n, err = handshake(ctx, n); err != nil {
			return nil, err
		}
	}
	return &conn{net: n, exchange: e.exchange()}, nil
}

func (e *endpoint) dialPlain(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTime}
	return dialer.DialContext(ctx, "tcp", e.addr)
}

// handshake begins TLS on a connection. It closes it after an error.
func handshake(ctx context.Context, n net.Conn) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	t := tls.Client(n, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the server is ours
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return t, nil
}

func (c *conn) close() { _ = c.net.Close() }

// do sends a request and reads the response, whose body is valid until the
// next one. After an error the connection must not be used again.
func (c *conn) do(operation string, body []byte) (response, error) {
	c.compose(operation, body)
	if _, err := c.net.Write(c.out); err != nil {
		c.last = true
		return response{}, err
	}
	return c.receive(c.net)
}

// An exchange writes requests and reads responses. It does as little as HTTP/1.1
// allows: a request is one write, and responses are read into a reused buffer.
type exchange struct {
	out    []byte            // the request
	in     []byte            // bytes received
	used   int               // how many of them belong to the last response
	heads  map[string][]byte // first part of the requests of each operation
	host   string
	signer *signer
	static []byte // the authorization of requests that are not signed
	date   string
	dated  time.Time // when date was made
	last   bool      // the server has closed the connection, or will
	dax    bool      // the protocol is that of DAX

	sent, received int64 // bytes
}

func (e *endpoint) exchange() exchange {
	x := exchange{in: make([]byte, 0, bufferBytes), heads: map[string][]byte{}, host: e.addr}
	x.signer = newSigner(accessKey, secretKey, region, "dynamodb")
	if !e.sign {
		x.stamp(time.Now())
		x.static = x.signer.authorization(nil, x.date, x.signed("GetItem"), nil)
	}
	return x
}

// compose writes a request into the output buffer.
func (x *exchange) compose(operation string, body []byte) {
	defer func() { x.sent += int64(len(x.out)) }()
	if x.dax {
		x.out = appendDAXGet(x.out[:0], body)
		return
	}
	x.out = append(x.out[:0], x.head(operation)...)
	if x.static != nil {
		x.out = append(x.out, x.static...)
	} else {
		x.out = x.signer.authorization(x.out, x.date, x.signed(operation), body)
	}
	x.out = append(append(append(x.out, "\r\nX-Amz-Date: "...), x.date...), "\r\nContent-Length: "...)
	x.out = append(strconv.AppendInt(x.out, int64(len(body)), 10), "\r\n\r\n"...)
	x.out = append(x.out, body...)
}

// receive reads a response, whose body is valid until the next one. After
// errLater it must be called again when more bytes have arrived.
func (x *exchange) receive(from io.Reader) (response, error) {
	x.in, x.used = append(x.in[:0], x.in[x.used:]...), 0
	for {
		r, used, err := x.parse(x.in)
		if err == errMore {
			if err = x.more(from); err == nil {
				continue
			}
		}
		if err != nil {
			x.last = err != errLater
			return response{}, err
		}
		x.used, x.last = used, r.last
		x.received += int64(used)
		return r, nil
	}
}

// errLater is returned by a read that would block. It is temporary, so that a read of TLS can be
// repeated after it.
var errLater error = laterError{}

type laterError struct{}

func (laterError) Error() string   { return "no bytes have arrived yet" }
func (laterError) Timeout() bool   { return true }
func (laterError) Temporary() bool { return true }

// more reads the bytes that have arrived.
func (x *exchange) more(from io.Reader) error {
	if len(x.in) == cap(x.in) {
		x.in = slices.Grow(x.in, len(x.in))
	}
	n, err := from.Read(x.in[len(x.in):cap(x.in)])
	x.in = x.in[:len(x.in)+n]
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

const mediaType = "application/x-amz-json-1.0"

// targetOf returns the X-Amz-Target of an operation. Those that DynamoDB does not have are named
// with their service.
func targetOf(operation string) string {
	if strings.Contains(operation, ".") {
		return operation
	}
	return "DynamoDB_20120810." + operation
}

// head returns the first part of all requests of an operation.
func (x *exchange) head(operation string) []byte {
	if x.static == nil {
		if now := time.Now(); now.Sub(x.dated) > time.Second {
			x.stamp(now)
		}
	}
	h, ok := x.heads[operation]
	if !ok {
		h = fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: %s\r\nUser-Agent: stator-bench\r\nAccept-Encoding: identity\r\n"+
			"Content-Type: %s\r\nX-Amz-Target: %s\r\nAuthorization: ", x.host, mediaType, targetOf(operation))
		x.heads[operation] = h
	}
	return h
}

func (x *exchange) stamp(now time.Time) { x.date, x.dated = amzDate(now), now }

// signed returns the headers that the signature covers.
func (x *exchange) signed(operation string) []header {
	return []header{
		{"content-type", mediaType}, {"host", x.host},
		{"x-amz-date", x.date}, {"x-amz-target", targetOf(operation)},
	}
}

// refusal returns the error of a response whose status is not 200.
func (r *response) refusal() error {
	if r.status == 200 {
		return nil
	}
	return fmt.Errorf("%d %s", r.status, bytes.TrimSpace(r.body[:min(len(r.body), 300)]))
}

// ask sends a request and returns the body of the reply.
func (c *conn) ask(operation string, body []byte) ([]byte, error) {
	r, err := c.do(operation, body)
	if err == nil {
		err = r.refusal()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	return r.body, nil
}

// ask sends one request over a connection of its own.
func (e *endpoint) ask(ctx context.Context, operation, body string) ([]byte, error) {
	c, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	_ = c.net.SetDeadline(time.Now().Add(time.Minute))
	return c.ask(operation, []byte(body))
}
