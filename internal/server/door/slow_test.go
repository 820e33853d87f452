package door

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/virtualtime"
)

// open serves a handler in virtual time, and returns the function that connects
// to it.
func open(t *testing.T, h interface {
	Handler
	http.Handler
}) (s *Server, dial func() net.Conn) {
	s = New(h, newWeb(h), slog.New(slog.DiscardHandler))
	l := newConnListener()
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve ended with %v", err)
		}
	})
	return s, func() net.Conn {
		client, server := net.Pipe()
		select {
		case l.conns <- server:
		case <-l.done:
			server.Close()
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
}

// exchange sends a request and reads the reply.
func exchange(t *testing.T, c net.Conn, request string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatalf("send a request: %v", err)
	}
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("read a reply: %v", err)
	}
	body, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatalf("read the body of a reply: %v", err)
	}
	reply.Body = io.NopCloser(strings.NewReader(string(body)))
	return reply
}

// closedAfter is how long it takes until the server ends the connection.
func closedAfter(c net.Conn) time.Duration {
	start := time.Now()
	io.Copy(io.Discard, c)
	return time.Since(start)
}

// A client may delay the TLS handshake, but not indefinitely.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	virtualtime.Test(t, func(t *testing.T) {
		h := new(recordingHandler)
		s := New(h, newWeb(h), slog.New(slog.DiscardHandler))
		l := newConnListener()
		go s.Serve(tls.NewListener(l, web.TLS.Clone()))
		defer s.Close()
		for _, c := range []struct {
			pause time.Duration
			ok    bool
		}{{0, true}, {9 * time.Second, true}, {11 * time.Second, false}} {
			client, server := net.Pipe()
			l.conns <- server
			time.Sleep(c.pause)
			secure := tls.Client(client, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if err := secure.Handshake(); (err == nil) != c.ok {
				t.Errorf("handshake after %v: %v", c.pause, err)
			}
			if !c.ok {
				continue
			}
			for _, in := range []string{again, again, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
				if reply := exchange(t, secure, in); reply.StatusCode != 200 {
					t.Errorf("%q gets %v", in, reply)
				}
				time.Sleep(time.Minute)
			}
			client.Close()
		}
		if h.direct != 4 || len(h.seen) != 6 {
			t.Errorf("%d of %d requests are answered by the door, want 4 of 6", h.direct, len(h.seen))
		}
	})
}

func TestSilentClient(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		_, dial := open(t, new(recordingHandler))
		if d := closedAfter(dial()); d != 10*time.Second {
			t.Errorf("a client that sends nothing is closed after %v, want 10s", d)
		}
		c := dial()
		exchange(t, c, again)
		if d := closedAfter(c); d != 3*time.Minute {
			t.Errorf("a client that sends nothing more is closed after %v, want 3m", d)
		}
	})
}

// trickle sends bytes at intervals until the server closes the connection. It
// closes the channel when it ends.
func trickle(c net.Conn, text string, every time.Duration) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := range len(text) {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
			time.Sleep(every)
		}
	}()
	return ended
}

func TestSlowHead(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := new(recordingHandler)
		_, dial := open(t, h)
		for _, c := range []struct {
			name  string
			every time.Duration
			want  int
		}{
			{"too slow", 12 * time.Second / time.Duration(len(again)), 0},
			{"just in time", 9 * time.Second / time.Duration(len(again)), 1},
		} {
			h.seen = nil
			client := dial()
			ended := trickle(client, again, c.every)
			start := time.Now()
			reply, err := http.ReadResponse(bufio.NewReader(client), nil)
			if c.want == 0 {
				if err == nil || time.Since(start) != 10*time.Second {
					t.Errorf("%s: got %v, %v after %v, want an end after 10s", c.name, reply, err, time.Since(start))
				}
			} else if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			client.Close()
			<-ended
			if len(h.seen) != c.want {
				t.Errorf("%s: %d requests were seen, want %d", c.name, len(h.seen), c.want)
			}
		}
	})
}

// A body must arrive within a minute. The door closes the connection of a short
// body without a reply; the handler rejects a long one.
func TestSlowBody(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := new(recordingHandler)
		_, dial := open(t, h)
		for _, c := range []struct {
			name, head string
			status     int
		}{
			{"short", request("Host: a", "Content-Length: 100"), 0},
			{"in chunks", request("Host: a", "Transfer-Encoding: chunked") + "ff\r\n", 0},
			{"long", request("Host: a", "Content-Length: 100000"), 400},
		} {
			client := dial()
			io.WriteString(client, c.head)
			ended := trickle(client, strings.Repeat("b", 100), time.Second)
			start, status := time.Now(), 0
			reply, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err == nil {
				status = reply.StatusCode
			}
			if status != c.status || time.Since(start) != time.Minute {
				t.Errorf("%s: answered %d after %v, want %d after 1m", c.name, status, time.Since(start), c.status)
			}
			client.Close()
			<-ended
		}
	})
}

// The connection of a client that does not read its reply is closed.
func TestSlowReader(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s, dial := open(t, new(recordingHandler))
		c := dial()
		io.WriteString(c, request("Host: a", "X-Amz-Target: large"))
		start := time.Now()
		for synctest.Wait(); ; synctest.Wait() {
			s.mu.Lock()
			n := len(s.conns)
			s.mu.Unlock()
			if n == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		if d := time.Since(start); d < defaultWriteTime || d > 2*defaultWriteTime {
			t.Errorf("the connection is closed after %v", d)
		}
	})
}

// finishingHandler closes a channel when it has answered through net/http.
type finishingHandler struct {
	recordingHandler
	finished chan struct{}
}

func (h *finishingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.recordingHandler.ServeHTTP(w, r)
	close(h.finished)
}

// The same holds for replies through net/http.
func TestSlowReaderOfNetHTTP(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := &finishingHandler{finished: make(chan struct{})}
		_, dial := open(t, h)
		c := dial()
		io.WriteString(c, "POST /? HTTP/1.1\r\nHost: a\r\nX-Amz-Target: large\r\nContent-Length: 0\r\n\r\n")
		start := time.Now()
		select {
		case <-h.finished:
		case <-time.After(time.Hour):
			t.Fatal("the handler still waits for the client")
		}
		if d := time.Since(start); d < defaultWriteTime || d > 2*defaultWriteTime {
			t.Errorf("the connection is closed after %v", d)
		}
	})
}

// A request without a reply is not answered with success.
func TestNoReplyIsAnError(t *testing.T) {
	w := httptest.NewRecorder()
	x := Begin(w, httptest.NewRequest("POST", "/", nil))
	defer x.End()
	if err := x.Reply.Send(w); err != nil || w.Code != http.StatusServiceUnavailable {
		t.Errorf("the reply is %d, %v", w.Code, err)
	}
}

// An idle connection has no buffer, and still reads the next request. Deadlines
// that were set for one request do not affect a later one.
func TestIdleConnection(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		s, dial := open(t, new(recordingHandler))
		c := dial()
		for i, pause := range []time.Duration{0, 400 * time.Millisecond, 700 * time.Millisecond, 999 * time.Millisecond, 2 * time.Second, 2 * time.Minute, 0, 179 * time.Second} {
			time.Sleep(pause)
			synctest.Wait()
			for conn := range s.conns {
				if pause > bufferTime && conn.buf != nil {
					t.Errorf("the buffer is kept after %v", pause)
				}
				if pause < bufferTime/2 && conn.buf == nil {
					t.Errorf("the buffer is released after %v", pause)
				}
			}
			if reply := exchange(t, c, again); reply.StatusCode != 200 || reply.Close {
				t.Errorf("request %d, after %v: %v", i, pause, reply)
			}
		}
		// Slow requests, one after another.
		for range 3 {
			ended := trickle(c, request("Host: a", "Content-Length: 30")+strings.Repeat("b", 30), time.Second/15)
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Error(err)
			}
			<-ended
			time.Sleep(3 * time.Second)
		}
	})
}

// Idle connections need little memory: a goroutine and no buffers.
func TestIdleMemory(t *testing.T) {
	const conns = 2000
	virtualtime.Test(t, func(t *testing.T) {
		_, dial := open(t, fixedReply{[]byte("small")})
		before := memory()
		for range conns {
			exchange(t, dial(), again)
		}
		synctest.Wait()
		kept := memory() - before
		time.Sleep(2 * bufferTime)
		synctest.Wait()
		idle := memory() - before
		t.Logf("a connection needs %d bytes after its request, and %d when idle, including the client's half", kept/conns, idle/conns)
		if idle/conns > 12<<10 {
			t.Errorf("an idle connection needs %d bytes", idle/conns)
		}
		if kept-idle < conns*bufferBytes/2 {
			t.Error("the measurement does not see buffers")
		}
	})
}

func memory() int64 {
	for range 3 { // pools are emptied after two collections
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// blockingHandler answers when leave is closed or receives.
type blockingHandler struct {
	recordingHandler
	entered, leave chan struct{}
}

func newBlockingHandler() *blockingHandler {
	return &blockingHandler{entered: make(chan struct{}, 8), leave: make(chan struct{})}
}

func (h *blockingHandler) Answer(ctx context.Context, r *Request, a *Reply) {
	h.entered <- struct{}{}
	select {
	case <-h.leave:
	case <-ctx.Done():
		return
	}
	h.recordingHandler.Answer(ctx, r, a)
}

func (h *blockingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := Begin(w, r)
	defer x.End()
	h.Answer(r.Context(), &x.Request, &x.Reply)
	x.Reply.Send(w)
}

func TestShutdown(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newBlockingHandler()
		s, dial := open(t, h)
		fresh, idle := dial(), dial()
		go func() { <-h.entered; h.leave <- struct{}{} }()
		exchange(t, idle, again)
		synctest.Wait()
		replies := make(chan *http.Response, 2)
		for _, in := range []string{again + again, "PUT /a HTTP/1.1\r\nHost: a\r\n\r\n"} {
			c := dial()
			go func() { replies <- exchange(t, c, in) }()
			<-h.entered
		}

		done := make(chan error)
		go func() { done <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		for name, c := range map[string]net.Conn{"a connection that sent nothing": fresh, "an idle connection": idle, "a new connection": dial()} {
			if d := closedAfter(c); d != 0 {
				t.Errorf("%s is closed after %v", name, d)
			}
		}
		select {
		case err := <-done:
			t.Fatalf("Shutdown returns %v while two requests are in flight", err)
		default:
		}
		close(h.leave)
		for range 2 {
			if reply := <-replies; reply.StatusCode != 200 || !reply.Close {
				t.Errorf("a request in flight gets %v", reply)
			}
		}
		if err := <-done; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if len(h.seen) != 3 {
			t.Errorf("%d requests were seen, want 3: a pipelined request is left to another server", len(h.seen))
		}
	})
}

func TestShutdownGivesUp(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		h := newBlockingHandler()
		s, dial := open(t, h)
		c := dial()
		io.WriteString(c, again)
		<-h.entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		s.Close() // ends the context of the request
		if d := closedAfter(c); d != 0 {
			t.Errorf("the connection is closed after %v", d)
		}
		<-s.empty
	})
}
