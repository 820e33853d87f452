package door

import (
	"net"
	"syscall"
	"time"
)

// watchInterval is the time between two looks at the connections. A request is
// watched if it is in progress at two of them.
const watchInterval = 250 * time.Millisecond

// begin marks a request as in progress, and makes sure that it is watched.
func (c *conn) begin() {
	c.requests++
	c.current.Store(c.requests)
	if !c.s.watching.Load() && c.s.watching.CompareAndSwap(false, true) {
		go c.s.watch()
	}
}

// end marks the request as answered.
func (c *conn) end() { c.current.Store(0) }

// watch cancels the requests of clients that have disconnected. To notice that at
// once, a goroutine would have to read while a request is executed, which costs
// more than most requests; so only requests that take long are watched. It returns
// when no request is in progress.
func (s *Server) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done(): // which cancels all requests
			s.watching.Store(false)
			return
		}
		long, inProgress := s.longRequests()
		for _, c := range long {
			if hasDisconnected(c.nc) {
				c.cancel()
			}
		}
		if inProgress {
			continue
		}
		s.watching.Store(false)
		// A request that began in the meantime may have relied on this goroutine.
		if _, inProgress := s.longRequests(); !inProgress || !s.watching.CompareAndSwap(false, true) {
			return
		}
	}
}

// longRequests returns the connections whose request was in progress at the last
// call already, and whether any request is in progress. Only watch calls it.
func (s *Server) longRequests() (long []*conn, inProgress bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		current := c.current.Load()
		if current == 0 {
			continue
		}
		inProgress = true
		if c.watched == current {
			long = append(long, c)
		}
		c.watched = current
	}
	return long, inProgress
}

// hasDisconnected reports whether the client has closed its side of a connection.
// Bytes that it sent before stay unread. Like net/http, it takes a client that
// only sends no more for one that has disconnected.
func hasDisconnected(nc net.Conn) bool {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = secure.NetConn()
	}
	c, ok := nc.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	closed := false
	err = raw.Control(func(fd uintptr) { closed = closedByPeer(fd) })
	return err == nil && closed
}
