// Package door reads the one shape of HTTP that clients of the API send, and
// hands a connection that does anything else to net/http.
//
// The shape is POST / over HTTP/1.1 with kept connections. The door refuses
// nothing by itself: bytes that it is not sure about go to net/http as they
// came, which answers or refuses them and keeps the connection. So the door is
// never more lenient than net/http; FuzzDoor compares the two.
//
// What a request means is decided by a Handler.
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
	// Accepts tells by its head whether a request can be answered here. One
	// that cannot goes to net/http.
	Accepts(*Request) bool
	// Answer fills in the reply to a request.
	Answer(context.Context, *Request, *Reply)
}

// Server serves connections: POST / by its Handler, all else by net/http.
type Server struct {
	api   Handler
	web   *http.Server
	log   *slog.Logger
	times times

	// The context of all requests ends with Close, not when a client hangs up:
	// to notice that, something would have to read while a request is carried
	// out, which costs more than most requests. None of the API waits for
	// long, so a reply that nobody takes is the lesser waste.
	ctx    context.Context
	cancel context.CancelFunc

	date    atomic.Pointer[date]
	handoff *handoffListener

	closing   atomic.Bool
	mu        sync.Mutex
	webServed bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	empty     chan struct{} // closed when closing and the last of conns has gone
}

// New makes a server. Requests that are not for api are served by web, whose
// time-outs hold for all.
func New(api Handler, web *http.Server, log *slog.Logger) *Server {
	s := &Server{
		api: api, web: web, log: log, times: timesOf(web),
		handoff:   &handoffListener{conns: make(chan net.Conn), done: make(chan struct{})},
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		empty:     make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// times are how long things may take; zero is for ever, except for a write.
type times struct {
	head  time.Duration // from the first byte of a request to the end of its head
	whole time.Duration // to the end of its body
	idle  time.Duration // between requests
	write time.Duration // for the client to take a reply; up to twice that
}

// defaultWriteTime holds when net/http has no limit of its own, as it must not
// have if it sends streams.
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

// Serve takes connections until Shutdown or Close, and then returns
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
				go c.serve()
			} else {
				_ = nc.Close()
			}
		case s.closing.Load():
			return http.ErrServerClosed
		case isTemporary(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("a connection could not be accepted, trying again", "error", err, "after", pause)
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
			}
		default:
			return err
		}
	}
}

// isTemporary tells the lack of files or memory, which passes, from the end of
// a listener.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// Shutdown takes no more connections, closes those that are idle, and waits
// until requests under way are answered or the context ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopListening()
	s.web.SetKeepAlivesEnabled(false) // those passed on end with their request, too
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

// Close cuts all connections off.
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
		// It ends when web is shut down or closed, which closes the passage.
		go s.web.Serve(s.handoff) //nolint:errcheck // that it was closed
	}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	l.Close()
}

// addConn is nil when the server is closing.
func (s *Server) addConn(nc net.Conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return nil
	}
	c := &conn{s: s, nc: nc}
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
