package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// An endpoint is where a server listens.
type endpoint struct {
	addr string // host:port
	sign bool   // each request by itself; otherwise all have the same signature
}

const (
	bufferBytes = 64 << 10
	dialTime    = 5 * time.Second
)

// A conn is one kept connection. It does as little as HTTP/1.1 allows: a
// request is one write, a response is read into memory that is used again.
type conn struct {
	net    net.Conn
	in     *bufio.Reader
	out    []byte
	body   []byte
	heads  map[string][]byte // what the requests of an operation begin with
	host   string
	signer *signer
	static []byte // the authorization of requests that are not signed
	date   string
	dated  time.Time // when date was made
	last   bool      // the server has closed it, or will
}

func (e *endpoint) dial(ctx context.Context) (*conn, error) {
	dialer := net.Dialer{Timeout: dialTime}
	n, err := dialer.DialContext(ctx, "tcp", e.addr)
	if err != nil {
		return nil, err
	}
	c := &conn{net: n, in: bufio.NewReaderSize(n, bufferBytes), heads: map[string][]byte{}, host: e.addr}
	c.signer = newSigner(accessKey, secretKey, region, "dynamodb")
	if !e.sign {
		c.stamp(time.Now())
		c.static = c.signer.authorization(nil, c.date, c.signed("GetItem"), nil)
	}
	return c, nil
}

func (c *conn) close() { _ = c.net.Close() }

// do sends a request and reads the response, whose body is valid until the
// next one. After an error the connection is of no use.
func (c *conn) do(operation string, body []byte) (response, error) {
	c.out = append(c.out[:0], c.head(operation)...)
	if c.static != nil {
		c.out = append(c.out, c.static...)
	} else {
		c.out = c.signer.authorization(c.out, c.date, c.signed(operation), body)
	}
	c.out = append(append(append(c.out, "\r\nX-Amz-Date: "...), c.date...), "\r\nContent-Length: "...)
	c.out = append(strconv.AppendInt(c.out, int64(len(body)), 10), "\r\n\r\n"...)
	c.out = append(c.out, body...)
	if _, err := c.net.Write(c.out); err != nil {
		return response{}, err
	}
	r, err := readResponse(c.in, c.body)
	c.body, c.last = r.body, r.last || err != nil
	return r, err
}

const (
	mediaType    = "application/x-amz-json-1.0"
	targetPrefix = "DynamoDB_20120810."
)

// head is what all requests of an operation begin with.
func (c *conn) head(operation string) []byte {
	if c.static == nil {
		if now := time.Now(); now.Sub(c.dated) > time.Second {
			c.stamp(now)
		}
	}
	h, ok := c.heads[operation]
	if !ok {
		h = fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: %s\r\nUser-Agent: stator-bench\r\nAccept-Encoding: identity\r\n"+
			"Content-Type: %s\r\nX-Amz-Target: %s%s\r\nAuthorization: ", c.host, mediaType, targetPrefix, operation)
		c.heads[operation] = h
	}
	return h
}

func (c *conn) stamp(now time.Time) { c.date, c.dated = amzDate(now), now }

// signed are the headers that the signature covers.
func (c *conn) signed(operation string) []header {
	return []header{
		{"content-type", mediaType}, {"host", c.host},
		{"x-amz-date", c.date}, {"x-amz-target", targetPrefix + operation},
	}
}

// A refusal is a response that is no success.
type refusal struct {
	status int
	body   string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.status, r.body) }

// ask sends a request and returns the body of its success.
func (c *conn) ask(operation string, body []byte) ([]byte, error) {
	r, err := c.do(operation, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	if r.status != 200 {
		return nil, fmt.Errorf("%s: %w", operation, &refusal{r.status, string(bytes.TrimSpace(r.body[:min(len(r.body), 300)]))})
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
