package door

import "net"

// handoffListener is the listener from which net/http accepts the connections that
// the door hands over.
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

// Addr is the address that the door listens on.
func (p *handoffListener) Addr() net.Addr { return p.addr }

// offer hands a connection over. It reports false once the listener is closed.
func (p *handoffListener) offer(c net.Conn) bool {
	select {
	case p.conns <- c:
		return true
	case <-p.done:
		return false
	}
}

// replayConn is a connection whose first bytes have already been read.
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

// CloseWrite lets net/http end its side of the connection while the client may
// still be sending.
func (c *replayConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if c, ok := c.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}
