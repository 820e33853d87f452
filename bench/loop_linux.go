package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"syscall"
	"time"
)

// run runs one slice. One thread serves all connections: it waits for any of
// them, reads the response and sends the next request, so that an operation
// costs the client little more than a read and a write.
func (a *api) run(ctx context.Context, j job) (sample, error) {
	w, err := workloadNamed(j.Workload)
	if err != nil {
		return sample{}, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := newLoop(a, w)
	if err != nil {
		return sample{}, err
	}
	defer l.close()
	for i := range j.Connections {
		c := &loopConn{generator: a.loadGenerator(j, i), exchange: a.loadExchange()}
		l.conns = append(l.conns, c)
		if err := l.connect(ctx, i); err != nil {
			return sample{}, err
		}
	}
	l.counted = time.Now().Add(j.Warm)
	l.end = l.counted.Add(j.Slice)
	l.sample.Elapsed = j.Slice
	for _, c := range l.conns {
		l.begin(c)
	}
	l.serve(ctx)
	for _, c := range l.conns {
		l.sample.Sent, l.sample.Received = l.sample.Sent+c.sent, l.sample.Received+c.received
	}
	return l.sample, ctx.Err()
}

// A loop is an epoll loop over the connections of a slice.
type loop struct {
	api          *api
	workload     *workload
	epoll        int
	conns        []*loopConn
	busy         int // connections that wait for a response
	counted, end time.Time
	sample       sample
}

// A loopConn is one connection of a loop.
type loopConn struct {
	exchange
	socket
	stream    io.ReadWriter // the socket, or TLS on it
	generator *generator
	began     time.Time // when the request was sent
	unsent    []byte    // rest of the request
	busy      bool      // waits for its response
}

func newLoop(a *api, w *workload) (*loop, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return &loop{api: a, workload: w, epoll: epoll}, err
}

func (l *loop) close() {
	for _, c := range l.conns {
		c.Close()
	}
	_ = syscall.Close(l.epoll)
}

// connect connects a loopConn and registers it with epoll.
func (l *loop) connect(ctx context.Context, i int) error {
	c := l.conns[i]
	c.Close()
	c.in, c.used = c.in[:0], 0
	plain, err := l.api.dialLoad(ctx)
	if err != nil {
		return err
	}
	defer plain.Close()
	c.stream = &c.socket
	begun := &handedConn{Conn: plain}
	if l.api.tls {
		if c.stream, err = handshake(ctx, begun); err != nil {
			return err
		}
	}
	if err := c.take(plain.(*net.TCPConn)); err != nil {
		return err
	}
	begun.socket = &c.socket
	const edges = 1 << 31 // EPOLLET, whose constant has a sign
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLOUT | edges, Fd: int32(i)}
	return syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, c.fd, &event)
}

// begin sends the next request of a loopConn.
func (l *loop) begin(c *loopConn) {
	l.workload.compose(c.generator)
	c.compose(c.generator.operation, c.generator.body)
	c.began, c.unsent = time.Now(), c.out
	c.busy = true
	l.busy++
	l.send(c)
}

// send sends as much of a request as the socket takes. After a failed write the
// next read reports the error.
func (l *loop) send(c *loopConn) {
	n, err := c.stream.Write(c.unsent)
	if c.unsent = c.unsent[n:]; err != nil && err != errLater {
		c.unsent = nil
	}
}

// serve runs until all connections are done.
func (l *loop) serve(ctx context.Context) {
	events := make([]syscall.EpollEvent, len(l.conns))
	latest := l.end.Add(patience)
	for l.busy > 0 && ctx.Err() == nil {
		n, err := syscall.EpollWait(l.epoll, events, 100)
		if err != nil && err != syscall.EINTR {
			l.sample.fault(err)
			return
		}
		for i := range max(0, n) {
			l.ready(ctx, int(events[i].Fd))
		}
		if n <= 0 && time.Now().After(latest) {
			l.sample.fault(fmt.Errorf("%d requests were not answered within %v", l.busy, patience))
			return
		}
	}
}

// ready handles an event of a loopConn.
func (l *loop) ready(ctx context.Context, i int) {
	c := l.conns[i]
	if !c.busy {
		return
	}
	if len(c.unsent) > 0 {
		l.send(c)
	}
	r, err := c.receive(c.stream)
	if err == errLater {
		return
	}
	ended := time.Now()
	items := 0
	if err == nil {
		err = r.refusal()
	}
	if err == nil {
		items, err = c.generator.check(c.generator, r.body)
	} else {
		err = fmt.Errorf("%s: %w", c.generator.operation, err)
	}
	l.sample.note(c.began, ended, l.counted, l.end, items, err)
	c.busy = false
	l.busy--
	if c.last {
		if err := l.connect(ctx, i); err != nil {
			l.sample.fault(err)
			return
		}
	}
	if ended.Before(l.end) && !l.sample.hopeless(len(l.conns)) {
		l.begin(c)
	}
}

// A handedConn is a connection that uses a socket once it has one: TLS begins on a connection that
// blocks, and goes on with a socket.
type handedConn struct {
	net.Conn
	socket *socket
}

func (c *handedConn) Read(b []byte) (int, error) {
	if c.socket == nil {
		return c.Conn.Read(b)
	}
	return c.socket.Read(b)
}

// Write writes all of b. A write of TLS cannot be repeated, so it waits for room.
func (c *handedConn) Write(b []byte) (int, error) {
	if c.socket == nil {
		return c.Conn.Write(b)
	}
	for sent := 0; ; {
		n, err := c.socket.Write(b[sent:])
		if sent += n; sent == len(b) || err != nil && err != errLater {
			return sent, err
		}
		runtime.Gosched()
	}
}

// A socket is a non-blocking connection: a call that would block returns
// errLater.
type socket struct{ fd int }

// take duplicates a connection, so that Go's runtime does not poll it.
func (s *socket) take(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) {
		if s.fd, err = syscall.Dup(int(fd)); err == nil {
			syscall.CloseOnExec(s.fd)
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := untilDone(syscall.Read, s.fd, b)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) { return untilDone(syscall.Write, s.fd, b) }

func untilDone(do func(int, []byte) (int, error), fd int, b []byte) (int, error) {
	for {
		n, err := do(fd, b)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			err = errLater
		}
		return max(0, n), err
	}
}

// Close closes the socket if it is open.
func (s *socket) Close() {
	if s.fd > 0 {
		_ = syscall.Close(s.fd)
		s.fd = 0
	}
}
