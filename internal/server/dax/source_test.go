package dax

import (
	"net"
	"testing"
)

// connFrom is a connection from an address.
type connFrom struct {
	net.Conn
	from net.TCPAddr
}

func (c *connFrom) RemoteAddr() net.Addr { return &c.from }

// The source address that policies compare is an address, without its zone and as over HTTP.
func TestSourceAddress(t *testing.T) {
	n := newNodeTest(t, false)
	for _, c := range []struct {
		from net.TCPAddr
		want string
	}{
		{net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 4127}, "fe80::1"},
		{net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 4127}, "2001:db8::7"},
		{net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 4127}, "192.0.2.7"},
	} {
		here, there := net.Pipe()
		if got := newConn(n.node, &connFrom{here, c.from}).from.Remote; got != c.want {
			t.Errorf("a client at %s has the address %q, want %q", &c.from, got, c.want)
		}
		_, _ = here.Close(), there.Close()
	}
}
