package torture

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store/pebble"
)

// With many times the clients that it can serve at once, a server answers as
// many requests as ever, and the others with the error after which clients
// wait and try again. Nothing else is answered, and nobody waits for ever.
func TestOverloadIsThrottled(t *testing.T) {
	g := newRig(t)
	if !*long {
		g.stallDisk()
		return
	}
	// The middle is the most that is let in. It takes part in the machine's
	// work, since the clients are on it, too: so much of it costs throughput
	// by itself.
	const few, middle, many = 256, 4500, 6000
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	createWork(t, s.door)
	connect := func() (door, func()) { return s.lean(t) }
	span := *longTime / 8
	load(g, connect, 64, span/4) // it is warm
	alone := load(g, connect, few, span)
	var ceiling, over loaded
	for range 3 { // in turns, since other things go on in a machine
		ceiling = ceiling.best(load(g, connect, middle, span))
		over = over.best(load(g, connect, many, span))
	}
	if t.Failed() {
		s.kill()
		t.Fatalf("the server has said:\n%.4000s", s.log())
	}
	g.count(fmt.Sprintf("answered per second to %d clients", few), alone.perSecond)
	g.count(fmt.Sprintf("answered per second to %d clients", middle), ceiling.perSecond)
	g.count(fmt.Sprintf("answered per second to %d clients", many), over.perSecond)
	g.count("throttled", over.throttled)
	// The control: clients that are not too many are not throttled.
	if n := alone.throttled + ceiling.throttled; n > 0 {
		t.Errorf("%d requests were throttled with %d and %d clients", n, few, middle)
	}
	if over.throttled == 0 || over.perSecond < ceiling.perSecond*9/10 {
		t.Errorf("%d were throttled, and %d answered in a second, of %d to those who are let in", over.throttled, over.perSecond, ceiling.perSecond)
	}
	if again := load(g, connect, 64, span/4); again.throttled > 0 {
		t.Errorf("%d are throttled when the crowd has gone", again.throttled)
	}
	s.kill()
}

// stallDisk holds a disk up until some are throttled. All others are answered
// when it goes on.
func (g *rig) stallDisk() {
	g.Helper()
	var stalled atomic.Bool
	fs := inject(vfs.NewMem(), func(op errorfs.Op) error {
		for stalled.Load() && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) {
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	h, err := open(fs, "d", pebble.Durable, quiet)
	if err != nil {
		g.Fatal(err)
	}
	defer h.close()
	createWork(g, h.door)
	const clients = 700
	put := func(n, round int) error {
		return h.call("PutItem", object{"TableName": "Work", "Item": object{"p": text("over" + strconv.Itoa(n)), "k": num(round)}}, nil)
	}
	for round, stall := range []bool{false, true} { // the first is the control
		stalled.Store(stall)
		var answered, throttled atomic.Int64
		var running sync.WaitGroup
		for n := range clients {
			running.Go(func() {
				switch err := put(n, round); {
				case err == nil:
					answered.Add(1)
				case refused(err, "ThrottlingException"):
					throttled.Add(1)
				default:
					g.Errorf("it is answered %v", err)
				}
			})
		}
		for range 30_000 {
			if throttled.Load() > 0 || !stall {
				break
			}
			time.Sleep(time.Millisecond)
		}
		stalled.Store(false)
		running.Wait()
		g.count(fmt.Sprintf("answered in round %d", round), int(answered.Load()))
		g.count(fmt.Sprintf("throttled in round %d", round), int(throttled.Load()))
		if (throttled.Load() > 0) != stall || answered.Load() == 0 {
			g.Errorf("the disk stalls: %v; %d are answered and %d throttled", stall, answered.Load(), throttled.Load())
		}
	}
}

// loaded is how requests were answered.
type loaded struct{ answered, throttled, perSecond int }

// best has the better rate of two, and what both have counted.
func (l loaded) best(other loaded) loaded {
	return loaded{l.answered + other.answered, l.throttled + other.throttled, max(l.perSecond, other.perSecond)}
}

// load lets clients read and write for a while. Who is throttled waits as the
// SDKs do. The rate is that of the second half, when all are there.
func load(g *rig, connect func() (door, func()), clients int, span time.Duration) loaded {
	g.Helper()
	var answered, late, throttled, wrong atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for n := range clients {
		r := rand.New(rand.NewPCG(g.seed, uint64(n)))
		running.Go(func() {
			d, end := connect()
			if d == nil {
				return
			}
			defer end()
			pause := shortPause
			for time.Since(began) < span {
				operation, body := "GetItem", fmt.Sprintf(`{"TableName": "Work", "Key": {"p": {"S": "over"}, "k": {"N": "%d"}}}`, r.IntN(1000))
				if r.IntN(2) == 0 {
					operation, body = "PutItem", fmt.Sprintf(`{"TableName": "Work", "Item": {"p": {"S": "over%d"}, "k": {"N": "%d"}, "pad": {"S": "%s"}}}`, r.IntN(100), r.IntN(1000), pad)
				}
				status, answer, err := d("DynamoDB_20120810."+operation, []byte(body))
				at := time.Since(began)
				switch {
				case err == nil && status == http.StatusOK:
					answered.Add(1)
					if at > span/2 && at < span {
						late.Add(1)
					}
					pause = shortPause
				case err == nil && refused(&refusal{status, string(answer)}, "ThrottlingException"):
					throttled.Add(1)
					time.Sleep(time.Duration(r.Int64N(int64(pause))))
					pause = min(2*pause, longPause)
				default:
					if wrong.Add(1) == 1 { // the others are alike
						g.Errorf("it is answered %d %s (%v)", status, answer, err)
					}
					return
				}
			}
		})
	}
	running.Wait()
	return loaded{int(answered.Load()), int(throttled.Load()), int(2 * float64(late.Load()) / span.Seconds())}
}

// The SDKs wait for a part of this, by chance, which doubles each time.
const (
	shortPause = 50 * time.Millisecond
	longPause  = 20 * time.Second
)

// lean is a client with a connection of its own that costs little.
func (p *process) lean(t testing.TB) (d door, end func()) {
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	in := bufio.NewReaderSize(c, 1024)
	var head []byte
	d = func(target string, body []byte) (status int, answer []byte, err error) {
		_ = c.SetDeadline(time.Now().Add(time.Minute)) // that is a hang
		head = fmt.Appendf(head[:0], "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: %s\r\nX-Amz-Date: 20260101T000000Z\r\n"+
			"Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none\r\nContent-Length: %d\r\n\r\n%s", target, len(body), body)
		if _, err = c.Write(head); err != nil {
			return 0, nil, err
		}
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return 0, nil, err
			}
			switch {
			case status == 0:
				status, err = strconv.Atoi(string(line[9:12]))
			case bytes.HasPrefix(line, []byte("Content-Length: ")):
				length, err = strconv.Atoi(string(bytes.TrimSpace(line[16:])))
			case len(line) == 2:
				answer = make([]byte, length)
				_, err = io.ReadFull(in, answer)
				return status, answer, err
			}
			if err != nil {
				return 0, nil, err
			}
		}
	}
	return d, func() { c.Close() }
}
