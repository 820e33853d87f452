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
	"sync"
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

	auth     authentication
	arriving bool                   // a request is being read
	held     *admission.Reservation // of a request that is not small; nil without one
	size     int                    // of it

	out   []byte // a reply; its memory is used again
	reply door.Reply

	mu    sync.Mutex
	state connState
}

// connState says what a connection does.
type connState byte

const (
	busy   connState = iota // it reads or answers a request
	idle                    // it waits for a request
	closed                  // it is closed, by another goroutine
)

func newConn(n *Node, nc net.Conn) *clientConn {
	c := &clientConn{node: n, nc: nc, reader: protocol.NewReader(nc), agent: make(http.Header)}
	_, secure := nc.(*tls.Conn)
	remote, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	c.from = door.Received(remote, nc.LocalAddr().String(), secure, c.agent)
	c.reader.Reserve = c.reserve
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
	if err := c.nc.SetDeadline(time.Now().Add(helloTime)); err != nil {
		return err
	}
	h, err := protocol.ReadHello(c.reader)
	if err != nil {
		return err
	}
	c.agent.Set("User-Agent", h.UserAgent)
	return nil
}

// next reads and answers one request.
func (c *clientConn) next() error {
	if !c.wait() {
		return net.ErrClosed
	}
	idle, reading := c.patience()
	if err := c.nc.SetDeadline(time.Now().Add(idle)); err != nil {
		return err
	}
	if err := c.reader.Wait(); err != nil {
		return err
	}
	if !c.begin() {
		return net.ErrClosed
	}
	arrived := time.Now()
	if err := c.nc.SetReadDeadline(arrived.Add(reading)); err != nil {
		return err
	}
	defer c.release()
	raw, err := c.read()
	c.node.requests.Add(1)
	var reply []byte
	switch fault := (*apierror.Error)(nil); {
	case errors.As(err, &fault): // the connection is out of step, so that it ends after the reply
		reply = protocol.AppendError(c.out[:0], "", fault)
	case err != nil:
		return err
	default:
		reply = c.answer(raw, arrived)
	}
	if len(reply) > 0 {
		if sent := c.send(reply); sent != nil {
			return sent
		}
	}
	return err
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
func (c *clientConn) wait() bool { return c.enter(idle) && !c.node.isClosing() }

func (c *clientConn) begin() bool { return c.enter(busy) }

func (c *clientConn) enter(s connState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == closed {
		return false
	}
	c.state = s
	return true
}

// closeIfIdle closes a connection that waits for a request. It reports false otherwise.
func (c *clientConn) closeIfIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != idle {
		return false
	}
	c.state = closed
	_ = c.nc.Close()
	return true
}

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
	if cap(c.out) > idleBytes {
		c.out = nil
	}
}

// send sends a reply. One that is large and slow to be read is cut when others need its memory.
func (c *clientConn) send(reply []byte) error {
	c.out = reply
	pending := c.node.options.Handler.Pending().Add(len(reply), func() { _ = c.nc.Close() })
	defer pending.Done()
	if err := c.nc.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	_, err := c.nc.Write(reply)
	return err
}

// answer answers a request. An authentication has no reply.
func (c *clientConn) answer(raw protocol.Raw, arrived time.Time) []byte {
	switch raw.Operation() {
	case protocol.AuthorizeConnection:
		c.authenticate(raw, arrived)
		return nil
	case protocol.ListEndpoints, protocol.KeySchemaOf, protocol.AttributeListNames, protocol.AttributeListIDOf:
		return c.answerOwn(raw)
	}
	return c.answerItems(raw, arrived)
}

// authenticate verifies a signature. If it is wrong, the requests after it fail.
func (c *clientConn) authenticate(raw protocol.Raw, arrived time.Time) {
	h := c.node.options.Handler
	c.auth = authentication{keys: h.Keys()} // before, so that keys that are replaced meanwhile are noticed
	request, err := raw.Decode(nodeCatalog{Node: c.node})
	if err == nil {
		err = c.verify(request.In.(*protocol.Authorization))
	}
	if c.auth.err = err; err != nil {
		h.ConnectionRejected(c.node.ctx, c.from, arrived, err)
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
	switch {
	case !c.node.options.Handler.Authenticates():
		return nil
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
	request, err := raw.Decode(nodeCatalog{Node: c.node})
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
func (c *clientConn) answerItems(raw protocol.Raw, arrived time.Time) []byte {
	operation := raw.Operation()
	c.agent.Set("X-Amz-Target", "DAX."+operation)
	var request protocol.Request
	call := server.Call{
		Operation: operation, Bytes: raw.Size(), Arrived: arrived, From: c.from, Signer: c.auth.signer, Cluster: c.node.options.Cluster,
		Rejected: c.unauthenticated(),
		Decode: func() (in any, err error) {
			request, err = raw.Decode(nodeCatalog{Node: c.node})
			return request.In, err
		},
		Encode: func(reply any) ([]byte, error) {
			return request.AppendReply(c.out[:0], nodeCatalog{Node: c.node}, reply)
		},
	}
	fault := c.node.options.Handler.AnswerCall(c.node.ctx, &call, &c.reply)
	switch {
	case fault != nil:
		return request.AppendError(c.out[:0], nodeCatalog{Node: c.node}, string(c.reply.ID[:]), fault)
	case c.reply.Status == 0: // the node is closing
		return nil
	}
	return c.reply.Body
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
func (c nodeCatalog) AttributeNames(id int64) ([]string, error) { return c.lists.find(id) }

// AttributeList returns the id of a list of names.
func (c nodeCatalog) AttributeList(names [][]byte) (int64, error) {
	if c.defines {
		return c.lists.define(names, c.principal)
	}
	return c.lists.id(names)
}
