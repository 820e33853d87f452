package door

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// releasedHandler answers when its request is released or cancelled.
type releasedHandler struct {
	began   chan context.Context
	release chan struct{}
}

func (h *releasedHandler) Accepts(*Request) bool { return true }

func (h *releasedHandler) Answer(ctx context.Context, r *Request, a *Reply) {
	h.began <- ctx
	select {
	case <-ctx.Done():
		return
	case <-h.release:
	}
	a.Status, a.ContentType = 200, "text/plain"
	a.Write(append(a.Memory.Empty(), "done"...))
}

func (h *releasedHandler) ServeHTTP(http.ResponseWriter, *http.Request) {}

// A request whose client disconnects is cancelled, also if the client has sent
// more requests. The controls stay connected: they are neither cancelled nor lose
// what they have sent meanwhile.
func TestRequestOfADisconnectedClientIsCancelled(t *testing.T) {
	h := &releasedHandler{began: make(chan context.Context), release: make(chan struct{})}
	_, addr := listen(t, h)
	dial := func(requests string) (net.Conn, context.Context) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, requests); err != nil {
			t.Fatal(err)
		}
		return c, <-h.began
	}
	one := request("Host: a", "Content-Length: 2") + "{}"
	stays, stayed := dial(one)
	sends, sent := dial(one + one)
	leaves, left := dial(one)
	leavesMore, leftMore := dial(one + one)
	leaves.Close()
	leavesMore.Close()
	for _, ctx := range []context.Context{left, leftMore} {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("the request of a client that disconnected goes on")
		}
	}
	if stayed.Err() != nil || sent.Err() != nil {
		t.Fatal("the request of a client that waits is cancelled")
	}
	go func() {
		<-h.began // the second request of sends
		h.release <- struct{}{}
	}()
	h.release <- struct{}{}
	h.release <- struct{}{}
	readsReply(t, bufio.NewReader(stays))
	both := bufio.NewReader(sends)
	readsReply(t, both)
	readsReply(t, both)
}

func readsReply(t *testing.T, r *bufio.Reader) {
	t.Helper()
	reply, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(reply.Body); err != nil || string(body) != "done" {
		t.Errorf("the reply is %q, %v", body, err)
	}
}

// Nothing watches a server that has nothing to do.
func TestWatchEnds(t *testing.T) {
	s, addr := listen(t, fixedReply{[]byte("a reply")})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exchange(t, c, request("Host: a", "Content-Length: 2")+"{}")
	for s.watching.Load() {
		time.Sleep(time.Millisecond)
	}
}
