package torture

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Good clients are served without delay, and memory is bounded, while abusive
// clients keep connections open, send slowly or not at all, and send the
// largest bodies, compression bombs and deeply nested JSON. The abusive
// clients have a process of their own, or good clients would wait for them
// before a request is even sent.
//
// All share the processors of one machine, which in production they do not.
// So good clients are also measured while the same crowd uses another server:
// what they wait for then is the machine.
func TestGoodClientsAreServedAmongBadOnes(t *testing.T) {
	g := newRig(t)
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	other := start(t, filepath.Join(t.TempDir(), "other"), "--log=error")
	createWork(t, s.door)
	createWork(t, other.door)
	rounds, span := 1, 300*time.Millisecond
	c := crowdScript{Conns: 200, Stalled: 4, Large: 2, BombMB: 32} // twice the limit of a body
	if *long {
		rounds, span = 3, *longTime/6
		c = crowdScript{Conns: 4500, Stalled: 32, Large: 8, BombMB: 1024}
	}
	goodClients(g, s.door, span) // warms up
	var alone, elsewhere, withCrowd []time.Duration
	crowded := func(at *process) []time.Duration {
		c.Addr = at.addr
		bad := startCrowd(t, c)
		defer bad.end(g)
		return goodClients(g, s.door, span)
	}
	for range rounds {
		alone = append(alone, goodClients(g, s.door, span)...)
		elsewhere = append(elsewhere, crowded(other)...)
		withCrowd = append(withCrowd, crowded(s)...)
	}
	for _, times := range [][]time.Duration{alone, elsewhere, withCrowd} {
		slices.Sort(times)
	}
	g.countTimes("alone", alone)
	g.countTimes("with the crowd at another server", elsewhere)
	g.countTimes("with the crowd", withCrowd)
	peak := s.memory(t, "VmHWM") // peak
	g.count("MB at most", peak)
	quantile := func(times []time.Duration, percent int) time.Duration { return times[len(times)*percent/100] }
	g.goal("times the p99 alone", 2, float64(quantile(withCrowd, 99))/float64(quantile(alone, 99)), false)
	g.goal("MB", 512, float64(peak), false)
	if !s.alive() {
		t.Fatalf("the server has ended\n%s", s.log())
	}
	if worst := withCrowd[len(withCrowd)-1]; worst > 20*time.Second {
		t.Errorf("a good client waited for %v", worst)
	}
	if *long {
		for _, percent := range []int{50, 99} {
			a, b := quantile(elsewhere, percent), quantile(withCrowd, percent)
			if b > 2*a+time.Millisecond {
				t.Errorf("%d of a hundred requests of good clients take up to %v with the crowd, and %v with the crowd at another server", percent, b, a)
			}
		}
	}
	if peak > 1024 {
		t.Errorf("the server has taken %d MB", peak)
	}
	g.countTimes("after the crowd", goodClients(g, s.door, span))
	s.kill()
	other.kill()
}

// Idle connections, before their first request and after it, cost little and
// do not slow other clients.
func TestIdleConnectionsCostLittle(t *testing.T) {
	g := newRig(t)
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	createWork(t, s.door)
	conns := 100
	if *long {
		conns = 5000
	}
	before := s.memory(t, "VmRSS")
	idle := &crowd{addr: s.addr, stop: make(chan struct{})}
	if err := idle.send(conns, nil); err != nil {
		t.Fatal(err)
	}
	for range conns {
		s.connect(t)
	}
	g.countTimes("with idle connections", goodClients(g, s.door, 300*time.Millisecond))
	took := s.memory(t, "VmRSS") - before
	g.count("idle connections", 2*conns)
	g.count("MB for idle connections", took)
	if *long && took > 300 {
		t.Errorf("%d idle connections take %d MB", 2*conns, took)
	}
	idle.end()
	s.kill()
}

// countTimes counts requests and records their latencies.
func (g *rig) countTimes(when string, times []time.Duration) {
	g.count("requests "+when, len(times))
	g.count("us p50 "+when, int(times[len(times)/2].Microseconds()))
	g.count("us p99 "+when, int(times[len(times)*99/100].Microseconds()))
}

// goodClients read and write for a while. All requests must succeed; it
// returns their latencies in order.
func goodClients(g *rig, d door, span time.Duration) (times []time.Duration) {
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
					key["pad"] = text(strings.Repeat("p", 20<<10)) // does not fit in the connection's buffer
					operation, body = "PutItem", object{"TableName": "Work", "Item": key}
				}
				began := time.Now()
				if err := d.call(operation, body, nil); err != nil && !rejected(err, "ThrottlingException") {
					g.Errorf("a request of a good client: %v", err)
					return
				}
				mu.Lock()
				times = append(times, time.Since(began))
				mu.Unlock()
			}
		})
	}
	time.Sleep(span)
	close(done)
	running.Wait()
	if len(times) == 0 {
		g.Fatal("no good client was answered")
	}
	slices.Sort(times)
	return times
}

// crowdEnv is the environment variable that makes this program a crowd of bad
// clients.
const crowdEnv = "STATOR_TORTURE_CROWD"

// crowdScript is what the bad clients do.
type crowdScript struct {
	Addr                          string
	Conns, Stalled, Large, BombMB int
}

// badCrowd is a process of bad clients.
type badCrowd struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

// startCrowd starts the crowd and waits until all have connected.
func startCrowd(t testing.TB, script crowdScript) *badCrowd {
	t.Helper()
	text, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	c := &badCrowd{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), crowdEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdin, c.lines = stdin, bufio.NewScanner(stdout)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !c.lines.Scan() || c.lines.Text() != "all have connected" {
		t.Errorf("the bad clients wrote %q", c.lines.Text())
	}
	return c
}

// end stops the crowd and adds its counts.
func (c *badCrowd) end(g *rig) {
	g.Helper()
	c.stdin.Close()
	for c.lines.Scan() {
		var n int
		if name, ok := strings.CutPrefix(c.lines.Text(), "fault "); ok {
			g.Error(name)
		} else if _, err := fmt.Sscan(c.lines.Text(), &n); err == nil {
			_, name, _ := strings.Cut(c.lines.Text(), " ")
			g.count(name, n)
		}
	}
	if err := c.cmd.Wait(); err != nil {
		g.Errorf("the bad clients: %v", err)
	}
}

// badClients is the main function of the crowd's process. It runs until
// standard input ends.
func badClients(text string) int {
	var script crowdScript
	if err := json.Unmarshal([]byte(text), &script); err != nil {
		panic(err)
	}
	c := &crowd{addr: script.Addr, stop: make(chan struct{})}
	const most = 16 << 20
	for _, kept := range []struct {
		conns int
		what  []byte
	}{
		{script.Conns, nil},
		{script.Conns, []byte("POST / HTTP/1.1\r\nHost: ")},
		{script.Conns / 2, slices.Concat(c.head(most, ""), make([]byte, 16<<10))},
		{script.Stalled, slices.Concat(c.head(most, ""), bytes.Repeat([]byte(" "), most-1))},
	} {
		if err := c.send(kept.conns, kept.what); err != nil {
			report("fault", err)
		}
	}
	packed := bomb(script.BombMB)
	nested := []byte(`{"TableName": "Work", "Item": {"p": ` + strings.Repeat(`{"M": {"a": `, 200_000))
	flat := []byte(`{"TableName": "Work", "Item": {"p": {"L": ` + strings.Repeat("[", 200_000))
	spaces := append([]byte(`{"TableName": "Work", "Key": {"p": {"S": "a"}, "k": {"N": "1"}}}`), bytes.Repeat([]byte(" "), 15<<20)...)
	c.repeat(1, slices.Concat(c.head(len(packed), "Content-Encoding: gzip\r\n"), packed))
	c.repeat(1, slices.Concat(c.head(len(nested), ""), nested))
	c.repeat(1, slices.Concat(c.head(len(flat), ""), flat))
	c.repeat(script.Large, slices.Concat(c.head(len(spaces), ""), spaces))
	report("all have connected")
	_, _ = io.Copy(io.Discard, os.Stdin)
	c.end()
	report(c.made, "bad connections")
	report(c.answered.Load(), "bad requests answered")
	return 0
}

// crowd is many bad clients.
type crowd struct {
	addr     string
	stop     chan struct{}
	running  sync.WaitGroup
	made     int
	answered atomic.Int64
}

// head returns the head of a request with this Content-Length.
func (c *crowd) head(length int, more string) []byte {
	r, err := http.NewRequest("POST", "http://"+c.addr+"/", nil)
	if err != nil {
		panic(err)
	}
	sign(r, "DynamoDB_20120810.PutItem")
	return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s%s\r\n", c.addr, length, more, headers(r))
}

// send opens connections, sends the same on each, and keeps them open.
// Connections that the server closes are not opened again.
func (c *crowd) send(n int, what []byte) error {
	c.made += n
	for range n {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			return err
		}
		c.running.Go(func() {
			go func() { <-c.stop; conn.Close() }()
			_, _ = conn.Write(what)
			<-c.stop
		})
	}
	return nil
}

// repeat sends the same repeatedly, each time on a new connection, and reads
// the answers.
func (c *crowd) repeat(n int, what []byte) {
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
				go conn.Write(what) //nolint:errcheck // it may be rejected before its end
				answer := make([]byte, 12)
				if _, err := io.ReadFull(conn, answer); err == nil {
					c.answered.Add(1)
					if strings.HasPrefix(string(answer[9:]), "5") {
						report("fault", "a bad client got", string(answer))
					}
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

// bomb returns a small body that decompresses to a very large one.
func bomb(megabytes int) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		panic(err)
	}
	zeros := make([]byte, 1<<20)
	for range megabytes {
		w.Write(zeros)
	}
	w.Close()
	return b.Bytes()
}

// memory returns a memory measure of a process in megabytes; 0 where it is
// not available.
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
