// Package door is an HTTP/1.1 reader for the one form of request that clients of
// the API send; it hands connections that send anything else to net/http.
//
// That form is POST / with persistent connections. The door itself rejects
// nothing: it passes bytes that it does not recognize to net/http unchanged, and
// net/http answers or rejects them and keeps the connection. So the door is never
// more lenient than net/http; FuzzDoor compares the two.
//
// A Handler decides what a request means.
package door

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Handler answers requests of the API.
type Handler interface {
	// Accepts reports, by its head, whether the door may read a request. If not,
	// net/http gets the connection.
	Accepts(*Request) bool
	// Answer fills in the reply to a request.
	Answer(context.Context, *Request, *Reply)
}

// Server serves connections: its Handler answers POST /, net/http the rest.
type Server struct {
	api   Handler
	web   *http.Server
	log   *slog.Logger
	times times

	// The context of all connections ends with Close; watch ends that of a
	// connection whose client disconnects.
	ctx    context.Context
	cancel context.CancelFunc

	limit connLimit

	date    atomic.Pointer[date]
	handoff *handoffListener

	closing   atomic.Bool
	watching  atomic.Bool // watch runs
	mu        sync.Mutex
	webServed bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	empty     chan struct{} // closed when closing is set and conns is empty
}

// New returns a server. web serves the requests that are not for api; its timeouts
// apply to all requests.
func New(api Handler, web *http.Server, log *slog.Logger) *Server {
	s := &Server{
		api: api, web: web, log: log, times: timesOf(web),
		handoff:   &handoffListener{conns: make(chan net.Conn), done: make(chan struct{})},
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		empty:     make(chan struct{}),
	}
	if web.ConnContext == nil {
		web.ConnContext = markSecure
	}
	s.limit.closed = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// times are timeouts; zero is no timeout, except for a write.
type times struct {
	head  time.Duration // from the first byte of a request to the end of its head
	whole time.Duration // to the end of its body
	idle  time.Duration // between requests
	write time.Duration // for the client to read a reply; may be up to twice as long
}

// defaultWriteTime is the write timeout when web has none, as it must not if it
// sends streams.
const defaultWriteTime = time.Minute

func timesOf(web *http.Server) times {
	t := times{head: web.ReadHeaderTimeout, whole: web.ReadTimeout, idle: web.IdleTimeout, write: web.WriteTimeout}
	if t.head == 0 {
		t.head = t.whole
	}
	if t.idle == 0 {
		t.idle = t.whole
	}
	if t.write == 0 {
		t.write = defaultWriteTime
	}
	return t
}

// Serve accepts connections until Shutdown or Close, and then returns
// http.ErrServerClosed.
func (s *Server) Serve(l net.Listener) error {
	if !s.addListener(l) {
		l.Close()
		return http.ErrServerClosed
	}
	defer s.removeListener(l)
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			if c := s.addConn(nc); c != nil {
				s.limit.opened()
				go c.serve()
				s.waitForConn(c)
			} else {
				_ = nc.Close()
			}
		case s.closing.Load():
			return http.ErrServerClosed
		case isTemporary(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("accepting a connection failed, retrying", "error", err, "after", pause)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		default:
			return err
		}
	}
}

// isTemporary reports whether an error is a temporary lack of files or memory, and
// not the end of a listener.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// Shutdown stops accepting connections, closes idle ones, and waits until the
// requests in flight are answered or the context ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopListening()
	s.web.SetKeepAlivesEnabled(false) // connections of net/http end with their request, too
	s.mu.Lock()
	for c := range s.conns {
		c.closeIfIdle()
	}
	s.mu.Unlock()
	select {
	case <-s.empty:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.web.Shutdown(ctx)
}

// Close closes all connections at once.
func (s *Server) Close() error {
	s.stopListening()
	s.cancel()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.nc.Close()
	}
	s.mu.Unlock()
	return s.web.Close()
}

func (s *Server) stopListening() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing.Swap(true) && len(s.conns) == 0 {
		close(s.empty)
	}
	for l := range s.listeners {
		l.Close()
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.listeners[l] = struct{}{}
	if !s.webServed {
		s.webServed = true
		s.handoff.addr = l.Addr()
		// It returns when web is shut down or closed, which closes the listener.
		go s.web.Serve(s.handoff) //nolint:errcheck // http.ErrServerClosed
	}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	l.Close()
}

// addConn returns nil when the server is closing.
func (s *Server) addConn(nc net.Conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return nil
	}
	c := &conn{s: s, nc: nc}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	s.conns[c] = struct{}{}
	return c
}

func (s *Server) removeConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.closing.Load() && len(s.conns) == 0 {
		close(s.empty)
	}
}
