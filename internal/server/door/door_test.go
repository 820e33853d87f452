package door

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/virtualtime"
)

// listen serves a handler over TCP.
func listen(t *testing.T, h interface {
	Handler
	http.Handler
}) (*Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(h, newWeb(h), slog.New(slog.DiscardHandler))
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return s, l.Addr().String()
}

// A reply has the same headers as if net/http had sent it.
func TestSameHeaders(t *testing.T) {
	h := fixedReply{[]byte("some reply")}
	_, addr := listen(t, h)
	get := func(first string) http.Header {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		reply := exchange(t, c, first+"Host: a\r\nContent-Length: 2\r\n\r\n{}")
		reply.Header.Del("Date")
		return reply.Header
	}
	direct, web := get(opening), get("POST /? HTTP/1.1\r\n")
	if !maps.EqualFunc(direct, web, slices.Equal) || len(direct) < 4 {
		t.Errorf("the door sends %v, net/http %v", direct, web)
	}
}

// Pipelined requests are answered in order.
func TestPipeline(t *testing.T) {
	_, addr := listen(t, new(recordingHandler))
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const count = 500
	go func() {
		var all bytes.Buffer
		for i := range count {
			switch i % 3 {
			case 0:
				all.WriteString(again)
			case 1:
				all.WriteString(request("Host: a", "Content-Length: 10000") + strings.Repeat("b", 10_000))
			case 2:
				all.WriteString(request("Host: a", "Transfer-Encoding: chunked") + "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
			}
		}
		c.Write(all.Bytes())
	}()
	r := bufio.NewReader(c)
	for i := range count {
		reply, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		if body, _ := io.ReadAll(reply.Body); string(body) != fmt.Sprint(i+1) {
			t.Fatalf("reply %d is %s", i, body)
		}
	}
}

// A client whose body the handler does not read can read the reply before the
// connection ends, however much it sends.
func TestUnreadBody(t *testing.T) {
	_, addr := listen(t, new(recordingHandler))
	for _, size := range []int{100_000, 64 << 20} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			io.WriteString(c, request("Host: a", "X-Amz-Target: unread", fmt.Sprint("Content-Length: ", size)))
			for sent := 0; sent < size; sent += 1 << 10 {
				if _, err := c.Write(make([]byte, min(1<<10, size-sent))); err != nil {
					return
				}
			}
		}()
		reply, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || reply.StatusCode != 200 || reply.Close != (size > maxDrained) {
			t.Errorf("%d bytes: %v, %v", size, reply, err)
		}
		c.Close()
	}
}

// panickingHandler panics if the request asks for it.
type panickingHandler struct{ recordingHandler }

func (h *panickingHandler) Accepts(r *Request) bool {
	if string(r.Header("X-Amz-Target")) == "panic before" {
		panic("before")
	}
	return true
}

func (h *panickingHandler) Answer(ctx context.Context, r *Request, a *Reply) {
	switch string(r.Header("X-Amz-Target")) {
	case "panic":
		a.Body = append(a.Body, "half a reply"...)
		panic("on request")
	case "nothing":
		return
	case "a stream":
		a.Status, a.Stream = 200, func(io.Writer) error { return nil }
		return
	}
	h.recordingHandler.Answer(ctx, r, a)
}

// A panic ends its connection and nothing else.
func TestPanic(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s, dial := open(t, new(panickingHandler))
		var log logtest.Log
		s.log = log.Logger()
		for target, status := range map[string]int{"panic": 500, "a stream": 500, "fine": 200} {
			c := dial()
			reply := exchange(t, c, request("Host: a", "X-Amz-Target: "+target))
			if reply.StatusCode != status || reply.Close != (status == 500) {
				t.Errorf("%s is answered with %v", target, reply)
			}
		}
		if !strings.Contains(log.String(), "on request") || !strings.Contains(log.String(), "door_test.go") {
			t.Errorf("the log is\n%s", log.String())
		}
		for _, target := range []string{"nothing", "panic before"} {
			c := dial()
			io.WriteString(c, request("Host: a", "X-Amz-Target: "+target))
			if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
				t.Errorf("%s is answered with %q, %v", target, b, err)
			}
		}
	})
}

// countingHandler counts the requests that it answers.
type countingHandler struct {
	fixedReply
	handled atomic.Int64
}

func (h *countingHandler) Answer(ctx context.Context, r *Request, a *Reply) {
	h.handled.Add(1)
	h.fixedReply.Answer(ctx, r, a)
}

// When the server stops under load, every request that was executed gets its whole
// reply.
func TestShutdownUnderLoad(t *testing.T) {
	h := &countingHandler{fixedReply: fixedReply{bytes.Repeat([]byte("x"), 1024)}}
	s, addr := listen(t, h)
	var clients sync.WaitGroup
	var answered atomic.Int64
	warm := make(chan struct{}, 1)
	for range 16 {
		clients.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			for {
				if _, err := io.WriteString(c, again); err != nil {
					return
				}
				reply, err := http.ReadResponse(r, nil)
				if err != nil {
					return // the request was not read
				}
				if n, err := io.Copy(io.Discard, reply.Body); n != 1024 || err != nil {
					t.Errorf("a reply ends after %d bytes: %v", n, err)
					return
				}
				if answered.Add(1) == 2000 {
					warm <- struct{}{}
				}
				if reply.Close {
					return
				}
			}
		})
	}
	<-warm
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	clients.Wait()
	if h.handled.Load() != answered.Load() {
		t.Errorf("%d requests were executed, %d answered", h.handled.Load(), answered.Load())
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("a new connection is accepted")
	}
}

// failingListener is a listener whose first calls of Accept fail.
type failingListener struct {
	*connListener
	errs []error
}

func (l *failingListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	return l.connListener.Accept()
}

type temporaryError struct{ error }

func (temporaryError) Temporary() bool { return true }

// Serve retries when there are too many open files, and not when the listener ends.
func TestAcceptErrors(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := new(recordingHandler)
		busy, ended := temporaryError{errors.New("too many open files")}, errors.New("the listener has ended")
		l := &failingListener{newConnListener(), []error{busy, busy, busy}}
		s := New(h, newWeb(h), slog.New(slog.DiscardHandler))
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		client, server := net.Pipe()
		l.conns <- server
		exchange(t, client, again)
		s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returns %v", err)
		}
		s = New(h, newWeb(h), slog.New(slog.DiscardHandler))
		if err := s.Serve(&failingListener{newConnListener(), []error{ended}}); !errors.Is(err, ended) {
			t.Errorf("Serve returns %v", err)
		}
		s.Close()
	})
}
