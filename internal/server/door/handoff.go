package door

import "net"

// passage is the listener through which net/http gets connections that the
// door passes on.
type handoffListener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

// Accept waits for a connection.
func (p *handoffListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close is called by net/http, once.
func (p *handoffListener) Close() error {
	close(p.done)
	return nil
}

// Addr is where the door listens.
func (p *handoffListener) Addr() net.Addr { return p.addr }

// give passes a connection on; not ok if nobody takes it any more.
func (p *handoffListener) offer(c net.Conn) bool {
	select {
	case p.conns <- c:
		return true
	case <-p.done:
		return false
	}
}

// replayConn is a connection of which some bytes were read already.
type replayConn struct {
	net.Conn
	read []byte
}

func (c *replayConn) Read(b []byte) (int, error) {
	if len(c.read) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.read)
	c.read = c.read[n:]
	return n, nil
}

// CloseWrite lets net/http say that it has answered, while the client may
// still be sending.
func (c *replayConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
