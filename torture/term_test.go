package torture

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A server that gets SIGTERM answers the requests in flight, ends with exit
// code 0, and loses nothing.
func TestStopAnswersRequestsInFlight(t *testing.T) {
	g := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	s := start(t, data, "--log=error")
	createWork(t, s.door)
	all := crew(workers, g.Uint64())
	for range g.rounds(2) {
		var cut atomic.Int64
		work(all, s.sendOn(&cut), func() {
			time.Sleep(loadTime)
			s.cmd.Process.Signal(syscall.SIGTERM)
			<-s.ended
		})
		if s.err != nil {
			t.Errorf("the server ended with %v\n%s", s.err, s.log())
		}
		if n := cut.Load(); n > 0 {
			t.Errorf("%d answers on open connections were truncated", n)
		}
		s = start(t, data, "--log=error")
		acked, faults := settleAll(t, all, s.door)
		g.count("stops", 1)
		g.count("acknowledged", acked)
		reportFaults(t, faults)
	}
	g.count("records", checkStream(t, s.door, g.Int()))
}

// sendOn sends each request on a new connection, which was accepted before,
// so that the server must answer what it has read. It counts truncated
// answers.
func (p *process) sendOn(cut *atomic.Int64) door {
	kept := sync.Pool{}
	return func(target string, body []byte) (int, []byte, error) {
		c, _ := kept.Get().(*keptConn)
		if c == nil {
			nc, err := net.Dial("tcp", p.addr)
			if err != nil {
				return 0, nil, err
			}
			c = &keptConn{nc, bufio.NewReader(nc)}
		}
		r, err := http.NewRequest("POST", "http://"+p.addr+"/", nil)
		if err != nil {
			return 0, nil, err
		}
		sign(r, target)
		head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n", p.addr, len(body))
		if _, err := io.WriteString(c, head+headers(r)+"\r\n"+string(body)); err != nil {
			c.Close()
			return 0, nil, err
		}
		if _, err := c.in.Peek(1); err != nil {
			c.Close()
			return 0, nil, err // no answer: the connection was idle when we sent
		}
		reply, err := http.ReadResponse(c.in, nil)
		var answer []byte
		if err == nil {
			answer, err = io.ReadAll(reply.Body)
		}
		if err != nil {
			cut.Add(1)
			c.Close()
			return 0, nil, err
		}
		if reply.Close {
			c.Close()
		} else {
			kept.Put(c)
		}
		return reply.StatusCode, answer, nil
	}
}

type keptConn struct {
	net.Conn
	in *bufio.Reader
}

func headers(r *http.Request) string {
	var out string
	for name := range r.Header {
		out += name + ": " + r.Header.Get(name) + "\r\n"
	}
	return out
}
