package door

import (
	"sync"
	"time"
)

// connLimit bounds the connections that are open at once. Each takes a file descriptor,
// which the storage needs too.
type connLimit struct {
	max int // 0 is no limit

	mu     sync.Mutex
	open   int
	closed chan struct{} // receives after a connection was closed
}

// LimitConns bounds the connections that are open at once; 0 is no limit. When there is one
// more, an idle connection is closed, or no other is accepted until one ends. It is called
// before Serve.
func (s *Server) LimitConns(n int) {
	s.limit.max = n
}

func (l *connLimit) opened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
}

func (l *connLimit) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	select {
	case l.closed <- struct{}{}:
	default:
	}
}

func (l *connLimit) exceeded() bool {
	if l.max == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open > l.max
}

// idleCheck is how often idle connections are looked for while there are too many.
const idleCheck = 50 * time.Millisecond

// waitForConn waits while there are more connections than the limit allows. It closes idle
// ones meanwhile, but not the newest, which is about to send a request.
func (s *Server) waitForConn(newest *conn) {
	for s.limit.exceeded() && !s.closing.Load() {
		s.closeOneIdle(newest)
		select {
		case <-s.limit.closed:
		case <-time.After(idleCheck):
		case <-s.ctx.Done():
			return
		}
	}
}

// closeOneIdle closes a connection between two requests, if there is one.
func (s *Server) closeOneIdle(except *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c != except && c.closeIfIdle() {
			return
		}
	}
}

// countedConn is a connection of net/http that counts until it is closed.
type countedConn struct {
	*replayConn
	end func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.end()
	return c.replayConn.Close()
}
