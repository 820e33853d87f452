package dax

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/auth"
	protocol "github.com/stator-db/stator/internal/protocol/dax"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/door"
)

// clientConn is the connection of a client, which sends one request after another.
type clientConn struct {
	node   *Node
	nc     net.Conn
	reader *protocol.Reader
	from   *door.Request
	agent  http.Header // of from

	catalog protocol.Catalog

	call    server.Call      // of the last request to items; its functions are decode and encode
	raw     protocol.Raw     // of call
	request protocol.Request // raw, decoded
	cut     func()           // ends a reply

	readUntil, writeUntil time.Time // the deadlines that nc has

	arrived time.Time     // when the request began to arrive that is being read or answered
	reading time.Duration // how long the rest of it may take
	inParts bool          // the rest has a deadline of its own

	auth     authentication
	arriving bool                   // a request is being read
	held     *admission.Reservation // of a request that is not small; nil without one
	size     int                    // of it

	out   []byte // a reply; its memory is used again
	reply door.Reply

	state atomic.Int32
}

// What a connection does.
const (
	busy   int32 = iota // it reads or answers a request
	idle                // it waits for a request
	closed              // it is closed, by another goroutine
)

func newConn(n *Node, nc net.Conn) *clientConn {
	c := &clientConn{node: n, nc: nc, agent: make(http.Header), catalog: nodeCatalog{Node: n}}
	c.reader = protocol.NewReader(c)
	_, secure := nc.(*tls.Conn)
	c.from = door.Received(door.AddressOf(nc.RemoteAddr().String()), nc.LocalAddr().String(), secure, c.agent)
	c.reader.Reserve = c.reserve
	c.call = server.Call{From: c.from, Cluster: n.options.Cluster, Decode: c.decode, Encode: c.encode}
	c.cut = func() { _ = c.nc.Close() }
	return c
}

// serve answers requests until the connection ends.
func (c *clientConn) serve() {
	defer c.node.removeConn(c)
	defer c.nc.Close()
	defer c.release()
	defer func() {
		if p := recover(); p != nil {
			c.node.options.Log.Error("panic in a connection of DAX", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	err := c.hello()
	for err == nil {
		err = c.next()
	}
	c.explain(err)
}

// explain logs why a connection has ended, unless the client or the node has closed it.
func (c *clientConn) explain(err error) {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		c.node.options.Log.Debug("a connection of DAX ended", "client", c.from.Remote, "error", err)
	}
}

// hello reads the first bytes of a client.
func (c *clientConn) hello() error {
	c.readUntil = time.Now().Add(helloTime)
	c.writeUntil = c.readUntil // TLS writes, too
	if err := c.nc.SetDeadline(c.readUntil); err != nil {
		return err
	}
	h, err := protocol.ReadHello(c.reader)
	if err != nil {
		return err
	}
	c.agent.Set("User-Agent", h.UserAgent)
	c.from.TLS = door.TLSOf(c.nc)
	return nil
}

// next reads and answers one request.
func (c *clientConn) next() error {
	if !c.wait() {
		return net.ErrClosed
	}
	if err := c.waitForRequest(); err != nil {
		return err
	}
	if !c.begin() {
		return net.ErrClosed
	}
	c.arrived, c.inParts = time.Now(), false
	defer c.release()
	raw, err := c.read()
	c.node.requests.Add(1)
	if err != nil {
		return c.reject(err)
	}
	if reply := c.answer(raw); len(reply) > 0 {
		return c.send(reply)
	}
	return nil
}

// reject answers a request that could not be read, if its client is to know why. The connection is out of
// step, so that it ends.
func (c *clientConn) reject(err error) error {
	if fault, ok := errors.AsType[*apierror.Error](err); ok {
		if sent := c.send(protocol.AppendError(c.out[:0], "", fault)); sent != nil {
			return sent
		}
	}
	return err
}

// waitForRequest waits for the first byte of a request. A deadline is not set for each request, which takes
// processor time: one that was set before may pass too early, and is then set again for the
// rest of the time.
func (c *clientConn) waitForRequest() error {
	var limit time.Duration
	limit, c.reading = c.patience()
	now := time.Now()
	until := now.Add(limit)
	if left := c.readUntil.Sub(now); left < limit/2 || left > limit {
		if err := c.readBefore(until); err != nil {
			return err
		}
	}
	for {
		err := c.reader.Wait()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.readUntil.Before(until) {
			return err
		}
		if err := c.readBefore(until); err != nil {
			return err
		}
	}
}

// readBefore sets the deadline of reads.
func (c *clientConn) readBefore(t time.Time) error {
	c.readUntil = t
	return c.nc.SetReadDeadline(t)
}

// Read reads from the client. The rest of a request that does not arrive at once gets a deadline before
// it is read; that is before any of its memory is reserved, and so before Cut.
func (c *clientConn) Read(b []byte) (int, error) {
	if c.arriving && !c.inParts {
		c.inParts = true
		if err := c.readBefore(c.arrived.Add(c.reading)); err != nil {
			return 0, err
		}
	}
	return c.nc.Read(b)
}

// patience returns how long a connection may be idle, and how long a request may take to arrive: less
// as long as it is not authenticated.
func (c *clientConn) patience() (idle, reading time.Duration) {
	if c.node.options.Handler.Authenticates() && c.auth.until.IsZero() {
		return readTime, helloTime
	}
	return idleTime, readTime
}

// wait notes that the connection is idle. It reports false if it is to end. If the node begins to
// close later than the check here, it finds the connection idle.
func (c *clientConn) wait() bool { return c.state.CompareAndSwap(busy, idle) && !c.node.closing.Load() }

func (c *clientConn) begin() bool { return c.state.CompareAndSwap(idle, busy) }

// closeIfIdle closes a connection that waits for a request. It reports false otherwise.
func (c *clientConn) closeIfIdle() bool {
	if !c.state.CompareAndSwap(idle, closed) {
		return false
	}
	c.close()
	return true
}

// close closes a connection, after which serve returns. It does not wait for that: TLS sends a message, for which a client
// that does not read may leave no room for seconds.
func (c *clientConn) close() { go func() { _ = c.nc.Close() }() }

// read reads a request, whose memory is reserved as it arrives.
func (c *clientConn) read() (protocol.Raw, error) {
	c.arriving = true
	raw, err := protocol.ReadRequest(c.reader)
	c.arriving = false
	if c.held != nil {
		if evicted := c.held.Arrived(); evicted != nil {
			err = evicted
		}
	}
	return raw, err
}

// reserve reserves the memory of a request that is not small, while it arrives or is decoded.
func (c *clientConn) reserve(bytes int) error {
	if bytes <= buffer.Small {
		return nil
	}
	if c.held == nil {
		bodies := c.node.options.Handler.Bodies()
		if c.arriving {
			c.held = bodies.Begin(c.node.ctx, c)
		} else {
			c.held = bodies.Reserve(c.node.ctx, c)
		}
	}
	err := c.held.Add(int64(bytes - c.size))
	c.size = bytes
	return err
}

// Cut ends the reading of a large request that arrives slowly, when others need its memory.
func (c *clientConn) Cut() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) }

// Drop frees the memory of a request.
func (c *clientConn) Drop() { c.reader.Done() }

// release frees the memory of a request and its reply.
func (c *clientConn) release() {
	c.reader.Done()
	c.held.Release()
	c.held, c.size = nil, 0
	c.reply.Room.Release()
	c.reply = door.Reply{}
	c.raw, c.request = protocol.Raw{}, protocol.Request{}
	if cap(c.out) > idleBytes {
		c.out = nil
	}
}

// send sends a reply. One that is large and slow to be read is cut when others need its memory.
func (c *clientConn) send(reply []byte) error {
	c.out = reply
	pending := c.node.options.Handler.Pending().Add(len(reply), c.cut)
	defer pending.Done()
	if now := time.Now(); c.writeUntil.Sub(now) < writeTime {
		c.writeUntil = now.Add(2 * writeTime)
		if err := c.nc.SetWriteDeadline(c.writeUntil); err != nil {
			return err
		}
	}
	_, err := c.nc.Write(reply)
	return err
}

// answer answers a request. An authentication has no reply.
func (c *clientConn) answer(raw protocol.Raw) []byte {
	switch raw.Operation() {
	case protocol.AuthorizeConnection:
		c.authenticate(raw)
		return nil
	case protocol.ListEndpoints, protocol.KeySchemaOf, protocol.AttributeListNames, protocol.AttributeListIDOf:
		return c.answerOwn(raw)
	}
	return c.answerItems(raw)
}

// authenticate verifies a signature. If it is wrong, the requests after it fail.
func (c *clientConn) authenticate(raw protocol.Raw) {
	h := c.node.options.Handler
	if h.AwaitAccess(c.node.ctx) != nil {
		c.auth = authentication{} // the client authenticates again
		return
	}
	c.auth = authentication{keys: h.Keys()} // before, so that keys that are replaced meanwhile are noticed
	request, err := raw.Decode(c.catalog)
	if err == nil {
		err = c.verify(request.In.(*protocol.Authorization))
	}
	if c.auth.err = err; err != nil {
		h.ConnectionRejected(c.node.ctx, c.from, c.arrived, err)
	}
}

// verify verifies a signature, and notes who has signed, with which key, and for how long.
func (c *clientConn) verify(in *protocol.Authorization) (err error) {
	c.auth.signer, err = c.node.options.Handler.Authenticate(&auth.Connection{
		AccessKey: in.AccessKey, Signature: in.Signature, StringToSign: in.StringToSign, Token: in.SessionToken,
	})
	if err != nil {
		return err
	}
	if in.UserAgent != "" {
		c.agent.Set("User-Agent", in.UserAgent)
	}
	c.auth.until = c.node.options.Now().Add(authTime)
	if c.auth.keys != nil {
		c.auth.key = c.auth.keys.Find(c.auth.signer.AccessKey)
	}
	return nil
}

// unauthenticated returns the error of a client that may not send requests now.
func (c *clientConn) unauthenticated() error {
	if !c.node.options.Handler.Authenticates() {
		return nil
	}
	if err := c.node.options.Handler.AwaitAccess(c.node.ctx); err != nil {
		return err
	}
	switch {
	case c.auth.err != nil && c.auth.keys == c.node.options.Handler.Keys():
		return c.auth.err
	case c.auth.until.IsZero():
		return authenticationRequired("The connection is not authenticated.")
	case !c.node.options.Now().Before(c.auth.until), c.auth.key != nil && c.node.options.Handler.Expired(c.auth.key):
		return authenticationRequired("The authentication of the connection has expired.")
	case c.auth.keys != c.node.options.Handler.Keys():
		return authenticationRequired("The access keys were replaced.")
	}
	return nil
}

// authenticationRequired is the error after which clients authenticate again.
func authenticationRequired(message string) error {
	return &apierror.Error{Code: "MissingAuthenticationTokenException", Status: http.StatusBadRequest, Message: message}
}

// answerOwn answers a request that is not to items.
func (c *clientConn) answerOwn(raw protocol.Raw) []byte {
	reply, err := c.ownReply(raw)
	if err == nil {
		return reply
	}
	var fault *apierror.Error
	if !errors.As(err, &fault) {
		c.node.options.Log.Error("a request of DAX failed", "operation", raw.Operation(), "error", err)
		fault = &apierror.Error{Code: "InternalServerError", Status: http.StatusInternalServerError, Message: "Internal server error"}
	}
	return protocol.AppendError(c.out[:0], "", fault)
}

func (c *clientConn) ownReply(raw protocol.Raw) ([]byte, error) {
	if err := c.unauthenticated(); err != nil {
		return nil, err
	}
	if raw.Operation() != protocol.ListEndpoints {
		if err := c.node.options.Handler.PermitCluster(c.node.ctx, c.from, &c.reply, c.auth.signer, c.node.options.Cluster, ""); err != nil {
			return nil, err
		}
	}
	request, err := raw.Decode(c.catalog)
	if err != nil {
		return nil, err
	}
	var reply any
	if raw.Operation() == protocol.ListEndpoints {
		if reply, err = c.node.endpoints(c.node.ctx, c.nc.LocalAddr()); err != nil {
			return nil, err
		}
	}
	return request.AppendReply(c.out[:0], nodeCatalog{Node: c.node, defines: true, principal: c.principal()}, reply)
}

// principal returns who has authenticated the connection; "" without authentication.
func (c *clientConn) principal() string {
	if !c.node.options.Handler.Authenticates() {
		return "" // the access key is what the client likes
	}
	return cmp.Or(c.auth.signer.Principal, string(c.auth.signer.AccessKey))
}

// answerItems answers a request to items.
func (c *clientConn) answerItems(raw protocol.Raw) []byte {
	if operation := raw.Operation(); operation != c.call.Operation {
		c.call.Operation = operation
		c.agent.Set("X-Amz-Target", "DAX."+operation)
	}
	c.raw = raw
	c.call.Bytes, c.call.Arrived, c.call.Signer, c.call.Rejected = raw.Size(), c.arrived, c.auth.signer, c.unauthenticated()
	fault := c.node.options.Handler.AnswerCall(c.node.ctx, &c.call, &c.reply)
	switch {
	case fault != nil:
		return c.request.AppendError(c.out[:0], c.catalog, string(c.reply.ID[:]), fault)
	case c.reply.Status == 0: // the node is closing
		return nil
	}
	return c.reply.Body
}

// decode decodes the request that is being answered.
func (c *clientConn) decode() (in any, err error) {
	c.request, err = c.raw.Decode(c.catalog)
	return c.request.In, err
}

// encode encodes its reply.
func (c *clientConn) encode(reply any) ([]byte, error) {
	return c.request.AppendReply(c.out[:0], c.catalog, reply)
}

// nodeCatalog is what encoding and decoding need to know of the node.
type nodeCatalog struct {
	*Node
	defines   bool   // the client has asked for the id of an attribute list
	principal string // of the client, if it defines
}

// Key returns the key of a table.
func (c nodeCatalog) Key(table string) (schema.Key, error) {
	t, err := c.options.Handler.Service().DB.Table(table)
	if err != nil {
		return schema.Key{}, err
	}
	if len(t.Key.Partition) != 1 || len(t.Key.Sort) > 1 {
		return schema.Key{}, fmt.Errorf("the key of table %s has %d attributes", table, len(t.Key.All()))
	}
	return t.Key, nil
}

// AttributeNames returns the names of an attribute list.
func (c nodeCatalog) AttributeNames(id int64) ([]string, error) { return c.lists.find(c.ctx, id) }

// AttributeList returns the id of a list of names.
func (c nodeCatalog) AttributeList(names [][]byte) (int64, error) {
	if c.defines {
		return c.lists.define(c.ctx, names, c.principal)
	}
	return c.lists.id(names)
}
