package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/virtualtime"
)

// Bodies that arrive slowly, or not at all, do not make other bodies wait: neither
// by their Content-Length nor by what they have sent.
func TestSlowBodiesDoNotHoldMemory(t *testing.T) {
	const most = 16 << 20
	for _, c := range []struct {
		name    string
		uri     string // with a query it is for net/http
		clients int
		sent    int
		good    int // bytes of the good client's body
		within  time.Duration
	}{
		{"many clients with a large Content-Length that send little", "/", 100, 16 << 10, 1 << 20, 0},
		{"through net/http", "/?", 100, 16 << 10, 1 << 20, 0},
		{"some clients that send almost all and then stop", "/", 20, most - 1, 1 << 20, time.Second},
		{"the same through net/http", "/?", 20, most - 1, 1 << 20, time.Second},
		{"small bodies do not wait for large ones", "/", 20, most - 1, 100 << 10, 0},
		{"small bodies through net/http", "/?", 20, most - 1, 100 << 10, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtualtime.Test(t, func(t *testing.T) {
				dial := serve(t, newHandler(t))
				part := bytes.Repeat([]byte(" "), c.sent)
				for range c.clients {
					bad := dial()
					go func() {
						sendHead(bad, c.uri, listTables, most)
						_, _ = bad.Write(part) // it ends early when the server has no memory
					}()
				}
				synctest.Wait()
				began := time.Now()
				good := dial()
				body := "{}" + strings.Repeat(" ", c.good)
				go func() {
					sendHead(good, "/", listTables, len(body))
					_, _ = io.WriteString(good, body)
				}()
				if status, reply := readReply(t, good); status != 200 {
					t.Errorf("the good client gets %d %s", status, reply)
				}
				if took := time.Since(began); took > c.within || took == 0 && c.within > 0 {
					t.Errorf("the good client is answered after %v, want %v at most", took, c.within)
				}
			})
		})
	}
}

// When memory runs out, requests with large bodies are rejected, and a slow client
// with a small body is not.
func TestLargeBodiesAreEvictedFirst(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		dial := serve(t, newHandler(t))
		body := "{}" + strings.Repeat(" ", 100<<10)
		small := dial()
		sendHead(small, "/", listTables, len(body))
		io.WriteString(small, body[:50<<10])
		const most = 16 << 20
		part := bytes.Repeat([]byte(" "), most-1)
		large := make([]net.Conn, 20)
		for i := range large {
			large[i] = dial()
			go func() {
				sendHead(large[i], "/", listTables, most)
				_, _ = large[i].Write(part)
			}()
		}
		time.Sleep(2 * maxBodyWait)
		rejected := 0
		for _, c := range large {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if reply, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && reply.StatusCode == 400 {
				rejected++
			}
		}
		if rejected == 0 || rejected == len(large) {
			t.Errorf("%d of %d large bodies are rejected", rejected, len(large))
		}
		go io.WriteString(small, body[50<<10:])
		if status, reply := readReply(t, small); status != 200 {
			t.Errorf("the small body gets %d %s", status, reply)
		}
	})
}

// maxBodyWait is the longest time that a body waits for memory.
const maxBodyWait = 3 * time.Second

// A client may send a large body slowly while no other body needs the memory.
func TestSlowBodyIsReadWhileMemoryIsFree(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		c := serve(t, newHandler(t))()
		body := "{}" + strings.Repeat(" ", 4<<20)
		go func() {
			sendHead(c, "/", listTables, len(body))
			for rest := body; rest != ""; {
				n := min(len(rest), 128<<10)
				io.WriteString(c, rest[:n])
				rest = rest[n:]
				time.Sleep(time.Second)
			}
		}()
		if status, reply := readReply(t, c); status != 200 {
			t.Errorf("the reply is %d %s", status, reply)
		}
	})
}

// serve serves a handler in virtual time, and returns the function that connects
// to it.
func serve(t *testing.T, h http.Handler) (dial func() net.Conn) {
	web := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 3 * time.Minute}
	s := door.New(h.(door.Handler), web, slog.New(slog.DiscardHandler))
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	served := make(chan struct{})
	go func() { s.Serve(l); close(served) }()
	var clients []net.Conn
	t.Cleanup(func() {
		for _, c := range clients {
			c.Close()
		}
		s.Close()
		<-served
		time.Sleep(time.Second) // net/http lingers for a moment after a rejection
	})
	return func() net.Conn {
		client, server := net.Pipe()
		l.conns <- server
		clients = append(clients, client)
		return client
	}
}

// pipeListener is a listener within the process.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func sendHead(w io.Writer, uri, target string, length int) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n", uri, length)
	signed(target).Write(&b)
	b.WriteString("\r\n")
	w.Write(b.Bytes())
}

func readReply(t *testing.T, c net.Conn) (status int, body string) {
	t.Helper()
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text)
}
