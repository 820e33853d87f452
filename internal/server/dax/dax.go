// Package dax serves the protocol of DynamoDB Accelerator: its connections, their
// authentication and the addresses of the nodes.
//
// Package protocol/dax reads and writes the bytes. Requests to items are answered by package
// server, as those over HTTP are.
package dax

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/server"
)

// ErrClosed is returned by Serve after Shutdown or Close.
var ErrClosed = errors.New("the DAX server is closed")

// NodeOptions configure a Node.
type NodeOptions struct {
	Handler *server.Handler // answers the requests, and has the keys and policies
	Cluster string          // the ARN of the cluster, for policies

	// Advertise is the address by which clients reach this node: host:port, or a host alone for
	// the port that the client has used. Without it, clients get the address that they have
	// used.
	Advertise string
	// Others are the addresses (host:port) of the other nodes of the cluster.
	Others []string

	MaxConns int // connections that are open at once; 0 is DefaultConns
	Log      *slog.Logger
	Now      func() time.Time // it defaults to the system's clock

	// Lookup returns the addresses of a host; it defaults to net.DefaultResolver.
	Lookup func(ctx context.Context, host string) ([]net.IP, error)
}

// DefaultConns is how many connections a node accepts if nothing else is configured.
const DefaultConns = 4096

// idleBytes is how much memory for replies an idle connection keeps.
const idleBytes = 4 << 10

// The timeouts of a connection.
const (
	helloTime = 10 * time.Second // for the first bytes of a client
	idleTime  = 5 * time.Minute  // between two requests
	readTime  = time.Minute      // for the rest of a request
	writeTime = time.Minute      // for the client to read a reply; may be up to twice as long

	// authTime is how long an authentication is valid. Clients renew theirs before that.
	authTime = 5 * time.Minute
)

// Node is a server that answers clients of DAX.
type Node struct {
	options NodeOptions
	lists   *attributeLists
	names   hostNames
	session int64 // of this node as the leader

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	requests, rejected atomic.Int64 // connections beyond the limit are rejected

	closing   atomic.Bool // set with mu locked
	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*clientConn]struct{}
	empty     chan struct{} // closed when closing is set and conns is empty
}

// NewNode returns a node that serves no connections yet.
func NewNode(o NodeOptions) *Node {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxConns == 0 {
		o.MaxConns = DefaultConns
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]net.IP, error) {
			return net.DefaultResolver.LookupIP(ctx, "ip", host)
		}
	}
	n := &Node{
		options: o, session: o.Now().UnixNano(),
		listeners: make(map[net.Listener]struct{}), conns: make(map[*clientConn]struct{}), empty: make(chan struct{}),
	}
	var lists listStore
	if o.Handler != nil { // a node without it has no items
		lists = o.Handler.Service().DB
	}
	n.lists = newAttributeLists(lists, o.Now)
	n.names.lookup, n.names.now = o.Lookup, o.Now
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Serve accepts connections until Shutdown or Close, and then returns ErrClosed.
func (n *Node) Serve(l net.Listener) error {
	if !n.addListener(l) {
		_ = l.Close()
		return ErrClosed
	}
	defer n.removeListener(l)
	pause := time.Duration(0)
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			if c := n.addConn(nc); c != nil {
				go c.serve()
			} else {
				_ = nc.Close()
			}
		case n.closing.Load():
			return ErrClosed
		case isTemporary(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			n.options.Log.Warn("accepting a connection of DAX failed, retrying", "error", err, "after", pause)
			select {
			case <-time.After(pause):
			case <-n.ctx.Done():
			}
		default:
			return err
		}
	}
}

// isTemporary reports whether an error is a temporary lack of files or memory.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// Shutdown stops accepting connections, closes idle ones, and waits until the requests in
// flight are answered or the context ends.
func (n *Node) Shutdown(ctx context.Context) error {
	n.stop(func(c *clientConn) { c.closeIfIdle() })
	select {
	case <-n.empty:
		n.cancel()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes all connections at once, and waits for what they do.
func (n *Node) Close() error {
	n.cancel()
	n.stop((*clientConn).close)
	<-n.empty
	return nil
}

// stop closes the listeners, and calls end for each connection.
func (n *Node) stop(end func(*clientConn)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closing.Swap(true) && len(n.conns) == 0 {
		close(n.empty)
	}
	for l := range n.listeners {
		_ = l.Close()
	}
	for c := range n.conns {
		end(c)
	}
}

func (n *Node) addListener(l net.Listener) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing.Load() {
		return false
	}
	n.listeners[l] = struct{}{}
	return true
}

func (n *Node) removeListener(l net.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, l)
	_ = l.Close()
}

// addConn returns nil if the connection is not accepted. If there are too many, an idle one is
// closed for it.
func (n *Node) addConn(nc net.Conn) *clientConn {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing.Load() {
		return nil
	}
	if len(n.conns) >= n.options.MaxConns && !n.closeOneIdle() {
		n.rejected.Add(1)
		return nil
	}
	c := newConn(n, nc)
	n.conns[c] = struct{}{}
	return c
}

// closeOneIdle closes a connection between two requests. It reports false if there is none.
func (n *Node) closeOneIdle() bool {
	for c := range n.conns {
		if c.closeIfIdle() {
			delete(n.conns, c) // at once, so that the number is right
			return true
		}
	}
	return false
}

func (n *Node) removeConn(c *clientConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	if n.closing.Load() && len(n.conns) == 0 {
		select {
		case <-n.empty:
		default:
			close(n.empty)
		}
	}
}

// Connections is the number of connections that are open.
func (n *Node) Connections() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// Metrics returns the metrics of the node.
func (n *Node) Metrics() []metrics.Metric {
	lists, bytes, evicted := n.lists.size()
	return []metrics.Metric{
		{Name: "stator_dax_connections", Help: "Connections of DAX clients that are open.", Type: metrics.Gauge, Samples: metrics.Value(float64(n.Connections()))},
		{Name: "stator_dax_rejected_connections_total", Help: "Connections of DAX clients that were closed because too many were open.", Type: metrics.Counter, Samples: metrics.Value(float64(n.rejected.Load()))},
		{Name: "stator_dax_requests_total", Help: "Requests of DAX clients, with those that are not to items.", Type: metrics.Counter, Samples: metrics.Value(float64(n.requests.Load()))},
		{Name: "stator_dax_attribute_lists", Help: "Lists of attribute names that DAX clients refer to.", Type: metrics.Gauge, Samples: metrics.Value(float64(lists))},
		{Name: "stator_dax_attribute_list_bytes", Help: "Memory of these lists.", Type: metrics.Gauge, Samples: metrics.Value(float64(bytes))},
		{Name: "stator_dax_attribute_lists_evicted_total", Help: "Lists that were removed to make room for others. Clients did not define these.", Type: metrics.Counter, Samples: metrics.Value(float64(evicted))},
	}
}

// authentication is what a connection knows of its client.
type authentication struct {
	signer auth.Signer
	keys   *keys.Set // that it was verified with; nil without verification
	key    *keys.Key // that it was signed with; nil without verification
	until  time.Time
	err    error // of the last attempt
}
