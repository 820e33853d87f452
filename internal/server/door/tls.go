package door

import (
	"context"
	"crypto/tls"
	"net"
)

// TLS is what a connection with TLS has agreed on. It is zero without TLS, or if it is not known.
type TLS struct{ Version, Cipher uint16 }

// TLSOf returns what a connection has agreed on in its handshake.
func TLSOf(nc net.Conn) TLS {
	if c, ok := nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
		s := c.ConnectionState()
		return TLS{s.Version, s.CipherSuite}
	}
	return TLS{}
}

// TLSFrom returns what the connection of a request has agreed on, from the request's context.
func TLSFrom(ctx context.Context) TLS {
	t, _ := ctx.Value(secureKey{}).(TLS)
	return t
}
