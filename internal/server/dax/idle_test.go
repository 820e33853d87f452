package dax

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/audit"
	"github.com/stator-db/stator/internal/protocol/cbor"
	"github.com/stator-db/stator/internal/virtualtime"
)

// A connection that waits for a request keeps little memory, whatever its requests and replies were.
func TestIdleConnectionsKeepLittleMemory(t *testing.T) {
	const conns, size = 100, 60_000
	n := newNodeTest(t, false)
	use := func(c *testClient) {
		_, _, list := c.call(methodListID, cbor.AppendText(cbor.AppendArray(nil, 1), "text"), 1)
		value := cbor.AppendText(slices.Clone(list), strings.Repeat("x", size))
		if codes, message, _ := c.call(methodPutItem, slices.Concat(bytesOf("Orders"), bytesOf("big"), cbor.AppendBytes(nil, value), cbor.AppendMap(nil, 0)), 1); codes != nil {
			t.Fatalf("%v %s", codes, message)
		}
		if codes, message, reply := c.getItem("big"); codes != nil || len(reply) < size {
			t.Fatalf("%v %s", codes, message)
		}
		c.in.Reset(c.Conn)
	}
	use(n.dial()) // what all connections share
	before := n.processUsage()
	for range conns {
		use(n.dial())
	}
	for deadline := time.Now().Add(time.Minute); n.node.idleConns() < conns+1 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	after := n.processUsage()
	each := (after.heap - before.heap) / conns
	t.Logf("%d bytes of each connection, its client included", each)
	if each > size/2 {
		t.Errorf("an idle connection keeps %d bytes", each)
	}
}

// A connection that is not authenticated may be idle for a minute, and take ten seconds for a request;
// one that is has five minutes and a minute.
func TestPatience(t *testing.T) {
	n := newNodeTest(t, true)
	open := newNodeTest(t, false)
	for _, c := range []struct {
		name          string
		node          *Node
		authenticated bool
		sent          []byte // after the hello
		want          time.Duration
	}{
		{"no hello", n.node, false, nil, 10 * time.Second},
		{"idle", n.node, false, hello(), time.Minute},
		{"a part of a request", n.node, false, append(hello(), 1), 10 * time.Second},
		{"authenticated, idle", n.node, true, hello(), 5 * time.Minute},
		{"authenticated, a part of a request", n.node, true, append(hello(), 1), time.Minute},
		{"without keys, idle", open.node, false, hello(), 5 * time.Minute},
		{"without keys, a part of a request", open.node, false, append(hello(), 1), time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				conn := newConn(c.node, theirs)
				if c.authenticated {
					conn.auth.until = time.Now().Add(time.Hour)
				}
				start := time.Now()
				ended := make(chan struct{})
				go func() { defer close(ended); conn.serve() }()
				if c.sent != nil {
					if _, err := ours.Write(c.sent); err != nil {
						t.Fatal(err)
					}
				}
				<-ended
				if got := time.Since(start); got != c.want {
					t.Errorf("the connection is closed after %s, want %s", got, c.want)
				}
			})
		})
	}
}

// A connection may be idle for as long after each of its requests, and a request has as long to arrive.
func TestPatienceAfterRequests(t *testing.T) {
	n := newNodeTest(t, false)
	request := cbor.AppendInt(cbor.AppendInt(nil, 1), methodEndpoints)
	for _, c := range []struct {
		name  string
		pause time.Duration // before each of the requests
		then  []byte        // after a last pause
		want  time.Duration // after the last byte
	}{
		{"requests at once", 0, nil, 5 * time.Minute},
		{"a request each second", time.Second, nil, 5 * time.Minute},
		{"a request every two minutes", 2 * time.Minute, nil, 5 * time.Minute},
		{"a request every four minutes", 4 * time.Minute, nil, 5 * time.Minute},
		{"a part of a request at once", 0, request[:1], time.Minute},
		{"a part of a request after two minutes", 2 * time.Minute, request[:1], time.Minute},
		{"a part of a request after four minutes", 4 * time.Minute, request[:1], time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer ours.Close()
				conn := newConn(n.node, addressedConn{theirs})
				ended := make(chan struct{})
				go func() { defer close(ended); conn.serve() }()
				var last time.Time
				send := func(b []byte) {
					last = time.Now()
					if _, err := ours.Write(b); err != nil {
						t.Fatal(err)
					}
				}
				send(hello())
				in := bufio.NewReader(ours)
				for range 10 {
					time.Sleep(c.pause) // in virtual time
					send(request)
					s := cbor.Stream{In: in, Limit: 1 << 10, ErrLimit: io.ErrShortBuffer}
					if err := errors.Join(s.Read(), s.Read()); err != nil {
						t.Fatal(err)
					}
				}
				if c.then != nil {
					time.Sleep(c.pause)
					send(c.then)
				}
				<-ended
				if got := time.Since(last); got != c.want {
					t.Errorf("the connection is closed after %s, want %s", got, c.want)
				}
			})
		})
	}
}

// addressedConn is a connection that has the addresses of one over TCP.
type addressedConn struct{ net.Conn }

func (addressedConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8111}
}

// Failed authentications are in the audit log, also if no request follows them.
func TestFailedAuthenticationsAreAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(audit.Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n := newNodeTest(t, true, func(o *NodeOptions) { o.Handler.Audit(log) })
	for _, args := range [][]byte{
		authorization(accessKey, "wrong", "us-east-1", time.Now(), ""),
		authorization("AKIANOBODY", secret, "us-east-1", time.Now(), ""),
		authorization(accessKey, secret, "us-east-1", time.Now(), ""),
	} {
		c := n.dial()
		c.authorize(args)
		c.call(methodEndpoints, nil, 1) // it follows the authentication, which has no reply
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if strings.Count(got, "AuthorizeConnection") != 2 {
		t.Errorf("there are not two failed authentications in\n%s", got)
	}
	for _, part := range []string{"InvalidSignatureException", "UnrecognizedClientException", "dax.amazonaws.com", "127.0.0.1"} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in\n%s", part, got)
		}
	}
}

// slowConn is a connection whose Close waits, as that of a TLS connection does for a client that does not read.
type slowConn struct {
	net.Conn
	release <-chan struct{}
}

func (c slowConn) Close() error {
	<-c.release
	return c.Conn.Close()
}

type slowListener struct {
	net.Listener
	release <-chan struct{}
}

func (l slowListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return slowConn{nc, l.release}, err
}

// A client whose connection takes long to close does not keep others from connecting.
func TestSlowCloseHoldsUpNobody(t *testing.T) {
	n := newNodeTest(t, false, func(o *NodeOptions) { o.MaxConns = 1 })
	release := make(chan struct{})
	t.Cleanup(func() { close(release) }) // before the node is closed
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = n.node.Serve(slowListener{l, release}) }()
	n.address = l.Addr().String()
	for range 3 {
		c := n.dial()
		if codes, message, _ := c.getItem("a"); codes != nil {
			t.Fatalf("%v %s", codes, message)
		}
		for deadline := time.Now().Add(time.Minute); n.node.idleConns() == 0 && time.Now().Before(deadline); {
			runtime.Gosched()
		}
	}
}
