package torture

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// While others keep connections open, send slowly or not at all, send as much
// as they may, bombs and nests, good clients are answered, and memory has a
// bound.
func TestGoodClientsAreServedBesideBadOnes(t *testing.T) {
	g := newRig(t)
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	createWork(t, s.door)
	alone := goodClients(g, s.door, func() { time.Sleep(300 * time.Millisecond) })
	g.tell("alone", alone)

	conns, stalled, large, span := 200, 4, 2, time.Second
	if *long {
		conns, stalled, large, span = 4500, 32, 8, *longTime
	}
	bad := &crowd{t: t, addr: s.addr, stop: make(chan struct{})}
	bad.send(conns, nil)
	bad.send(conns, []byte("POST / HTTP/1.1\r\nHost: "))
	bad.send(conns/2, slices.Concat(bad.head(16<<20, ""), make([]byte, 16<<10)))
	bad.send(stalled, slices.Concat(bad.head(16<<20, ""), bytes.Repeat([]byte(" "), 16<<20-1)))
	bad.again(1, slices.Concat(bad.head(len(bomb()), "Content-Encoding: gzip\r\n"), bomb()))
	nested := []byte(`{"TableName": "Work", "Item": {"p": ` + strings.Repeat(`{"M": {"a": `, 200_000))
	bad.again(1, slices.Concat(bad.head(len(nested), ""), nested))
	flat := []byte(`{"TableName": "Work", "Item": {"p": {"L": ` + strings.Repeat("[", 200_000))
	bad.again(1, slices.Concat(bad.head(len(flat), ""), flat))
	spaces := append([]byte(`{"TableName": "Work", "Key": {"p": {"S": "a"}, "k": {"N": "1"}}}`), bytes.Repeat([]byte(" "), 15<<20)...)
	bad.again(large, slices.Concat(bad.head(len(spaces), ""), spaces))

	beside := goodClients(g, s.door, func() { time.Sleep(span) })
	g.tell("beside the others", beside)
	peak := s.memory(t, "VmHWM") // most
	g.count("MB at most", peak)
	g.count("bad connections", bad.made)
	bad.end()
	if !s.alive() {
		t.Fatalf("the server has ended\n%s", s.log())
	}
	if worst := beside[len(beside)-1]; worst > 20*time.Second {
		t.Errorf("a good client has waited for %v", worst)
	}
	if peak > 1024 {
		t.Errorf("the server has taken %d MB", peak)
	}
	g.tell("after them", goodClients(g, s.door, func() { time.Sleep(300 * time.Millisecond) }))
	s.kill()
}

// Connections that nobody uses, before their first request and after it, cost
// little and hinder nobody.
func TestIdleConnectionsCostLittle(t *testing.T) {
	g := newRig(t)
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	createWork(t, s.door)
	conns := 100
	if *long {
		conns = 5000
	}
	before := s.memory(t, "VmRSS")
	idle := &crowd{t: t, addr: s.addr, stop: make(chan struct{})}
	idle.send(conns, nil)
	for range conns {
		d, end := s.lean(t)
		if d == nil {
			t.FailNow()
		}
		defer end()
		if status, answer, err := d("DynamoDB_20120810.ListTables", []byte("{}")); err != nil || status != http.StatusOK {
			t.Fatalf("it is answered %d %s (%v)", status, answer, err)
		}
	}
	g.tell("beside them", goodClients(g, s.door, func() { time.Sleep(300 * time.Millisecond) }))
	took := s.memory(t, "VmRSS") - before
	g.count("idle connections", 2*conns)
	g.count("MB for them", took)
	if *long && took > 300 {
		t.Errorf("%d idle connections take %d MB", 2*conns, took)
	}
	idle.end()
	s.kill()
}

// tell counts how long requests took.
func (g *rig) tell(when string, times []time.Duration) {
	g.count("requests "+when, len(times))
	g.count("us p50 "+when, int(times[len(times)/2].Microseconds()))
	g.count("us p99 "+when, int(times[len(times)*99/100].Microseconds()))
}

// goodClients read and write until a function returns. All must be answered
// well; it is told how long each took, in order.
func goodClients(g *rig, d door, until func()) (times []time.Duration) {
	g.Helper()
	const clients = 4
	done := make(chan struct{})
	var mu sync.Mutex
	var running sync.WaitGroup
	for n := range clients {
		running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key := object{"p": text("good" + strconv.Itoa(n)), "k": num(i % 100)}
				operation, body := "GetItem", object{"TableName": "Work", "Key": key}
				if i%2 == 0 {
					key["pad"] = text(strings.Repeat("p", 20<<10)) // it does not fit in the door's buffer
					operation, body = "PutItem", object{"TableName": "Work", "Item": key}
				}
				began := time.Now()
				if err := d.call(operation, body, nil); err != nil && !refused(err, "ThrottlingException") {
					g.Errorf("a good client is answered %v", err)
					return
				}
				mu.Lock()
				times = append(times, time.Since(began))
				mu.Unlock()
			}
		})
	}
	until()
	close(done)
	running.Wait()
	if len(times) == 0 {
		g.Fatal("no good client was answered")
	}
	slices.Sort(times)
	return times
}

// crowd is many bad clients.
type crowd struct {
	t       testing.TB
	addr    string
	stop    chan struct{}
	running sync.WaitGroup
	made    int
}

// head is the head of a request that announces a length.
func (c *crowd) head(length int, more string) []byte {
	r, err := http.NewRequest("POST", "http://"+c.addr+"/", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	sign(r, "DynamoDB_20120810.PutItem")
	return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s%s\r\n", c.addr, length, more, headers(r))
}

// send opens connections, sends the same on each, and waits. Those that the
// server closes are not opened again.
func (c *crowd) send(n int, what []byte) {
	c.made += n
	for range n {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			c.t.Errorf("a connection: %v", err)
			return
		}
		c.running.Go(func() {
			go func() { <-c.stop; conn.Close() }()
			_, _ = conn.Write(what)
			<-c.stop
		})
	}
}

// again sends the same again and again, each on a connection of its own, and
// reads the answers.
func (c *crowd) again(n int, what []byte) {
	c.made += n
	for range n {
		c.running.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
				}
				conn, err := net.Dial("tcp", c.addr)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				go conn.Write(what) //nolint:errcheck // it may be refused before its end
				answer := make([]byte, 12)
				if _, err := io.ReadFull(conn, answer); err == nil && strings.HasPrefix(string(answer[9:]), "5") {
					c.t.Errorf("it is answered %s", answer)
				}
				conn.Close()
			}
		})
	}
}

func (c *crowd) end() {
	close(c.stop)
	c.running.Wait()
}

// bomb is a small body that would become very large.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		panic(err)
	}
	megabytes := 32 // twice what a body may have
	if *long {
		megabytes = 1024
	}
	zeros := make([]byte, 1<<20)
	for range megabytes {
		w.Write(zeros)
	}
	w.Close()
	return b.Bytes()
})

// memory is a measure of the memory of a process, in megabytes; 0 where it is
// not known.
func (p *process) memory(t testing.TB, which string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), which+":")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}
