package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// The protocol of DAX (docs/dax-protocol.md), as far as GetItem needs it.

// daxHello is what a client sends first: a text, 0, a session, headers and 0.
var daxHello = []byte("\x67J7yne5G\x00\x611\xa1\x69UserAgent\x6cstator-bench\x00")

// dialLoad returns a connection for the requests of a workload.
func (e *endpoint) dialLoad(ctx context.Context) (net.Conn, error) {
	if e.dax == "" {
		return e.dialPlain(ctx)
	}
	dialer := net.Dialer{Timeout: dialTime}
	n, err := dialer.DialContext(ctx, "tcp", e.dax)
	if err != nil {
		return nil, err
	}
	if _, err := n.Write(daxHello); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// daxItemBytes is the least that an item has in a reply of DAX, which has neither its key nor the names of its attributes.
const daxItemBytes = 900

// loadGenerator returns what composes the requests of a workload.
func (a *api) loadGenerator(j job, connection int) *generator {
	g := newGenerator(a.dataset, j, connection)
	if a.dax != "" {
		g.least = daxItemBytes
	}
	return g
}

// loadExchange returns what writes and reads on a connection of dialLoad.
func (e *endpoint) loadExchange() exchange {
	x := e.exchange()
	x.dax = e.dax != ""
	return x
}

// dialDriver is dial for the requests of a workload.
func (e *endpoint) dialDriver(ctx context.Context) (*conn, error) {
	if e.dax == "" {
		return e.dial(ctx)
	}
	n, err := e.dialLoad(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{net: n, exchange: e.loadExchange()}, nil
}

// fillCache reads all items once, so that the server has them in its cache.
func (a *api) fillCache(ctx context.Context) error {
	c, err := a.dialDriver(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	g := newGenerator(a.dataset, job{Connections: 1}, 0)
	for i := range a.dataset.items {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_ = c.net.SetDeadline(time.Now().Add(time.Minute))
		g.get(i)
		if _, err := c.ask(g.operation, g.body); err != nil {
			return fmt.Errorf("read item %d over DAX: %w", i, err)
		}
	}
	return nil
}

// appendDAXGet appends the getItem for the JSON of a GetItem, whose key is two texts.
func appendDAXGet(dst, body []byte) []byte {
	value := func() (text []byte) {
		const before = `{"S":"`
		_, body, _ = bytes.Cut(body, []byte(before))
		text, body, _ = bytes.Cut(body, []byte(`"`))
		return text
	}
	partition, sort := value(), value()
	dst = append(dst, 1, 0x1a, 0x0f, 0xb0, 0xcc, 0x6a) // the service, and the method 263244906
	dst = append(appendCBOR(dst, 2, len(tableItems)), tableItems...)
	size := len(partition) + len(sort) + 1
	if len(partition) > 23 {
		size++
	}
	dst = appendCBOR(dst, 2, size)
	dst = append(appendCBOR(dst, 3, len(partition)), partition...)
	dst = append(dst, sort...)
	return append(dst, 0xf6) // no options
}

// appendCBOR appends the beginning of a value of fewer than 256 bytes.
func appendCBOR(dst []byte, major byte, n int) []byte {
	if n < 24 {
		return append(dst, major<<5|byte(n))
	}
	return append(dst, major<<5|24, byte(n))
}

// parse reads a response.
func (x *exchange) parse(in []byte) (response, int, error) {
	if !x.dax {
		return parse(in)
	}
	codes, err := skipCBOR(in, 0, 0)
	if err != nil {
		return response{}, 0, err
	}
	values, status := 1, 200
	if codes != 1 { // an error has codes, a message and details
		values, status = 2, 400
	}
	to := codes
	for range values {
		if to, err = skipCBOR(in, to, 0); err != nil {
			return response{}, 0, err
		}
	}
	return response{status: status, body: in[codes:to]}, to, nil
}

var errCBOR = errors.New("the reply is not valid CBOR")

// skipCBOR returns where the value at an offset ends.
func skipCBOR(in []byte, at, depth int) (int, error) {
	if at >= len(in) {
		return 0, errMore
	}
	if depth > 64 {
		return 0, errCBOR
	}
	major, info := in[at]>>5, in[at]&31
	at++
	n := int(info)
	switch {
	case info == 31 && major >= 2 && major <= 5:
		for {
			if at >= len(in) {
				return 0, errMore
			}
			if in[at] == 0xff {
				return at + 1, nil
			}
			var err error
			if at, err = skipCBOR(in, at, depth+1); err != nil {
				return 0, err
			}
		}
	case info > 27:
		return 0, errCBOR
	case info >= 24:
		size := 1 << (info - 24)
		if at+size > len(in) {
			return 0, errMore
		}
		n = 0
		for _, b := range in[at : at+size] {
			n = n<<8 | int(b)
		}
		at += size
	}
	if n < 0 || n > 1<<30 && major >= 2 && major <= 5 {
		return 0, errCBOR
	}
	switch major {
	case 2, 3:
		if at+n > len(in) {
			return 0, errMore
		}
		return at + n, nil
	case 5:
		n *= 2
	case 6:
		n = 1
	case 4:
	default:
		return at, nil
	}
	for range n {
		var err error
		if at, err = skipCBOR(in, at, depth+1); err != nil {
			return 0, err
		}
	}
	return at, nil
}
