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
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store/pebble"
)

// With four times the clients that it lets in, a server answers as many
// requests as ever, and the others with the error after which clients wait and
// try again. Nothing else is answered, and nobody waits for ever.
//
// The disk is what limits it here: on one machine clients would else take part
// in the limit.
func TestOverloadIsThrottled(t *testing.T) {
	g := newRig(t)
	if !*long {
		g.stallDisk()
		return
	}
	slow := inject(vfs.NewMem(), func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData:
			time.Sleep(150 * time.Millisecond)
		}
		return nil
	})
	h, err := open(slow, "d", pebble.Durable, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	createWork(t, h.door)
	crowd := make([]*caller, many)
	for i := range crowd {
		crowd[i] = newCaller(g, i, h.door)
	}
	if ratio := overload(g, crowd, 1024); ratio < 90 {
		t.Errorf("many are answered %.0f %% as often as few", ratio)
	}
}

// The same with connections and the machine as the limit, of which the crowd
// and its connections take their part.
func TestCrowdIsThrottled(t *testing.T) {
	if !*long {
		t.Skip("TestOverloadIsThrottled is the short form; -torture connects many")
	}
	g := newRig(t)
	s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
	createWork(t, s.door)
	crowd := make([]*caller, many)
	for i := range crowd {
		d, end := s.lean(t)
		if d == nil {
			t.FailNow()
		}
		defer end()
		// The first request is not waited for as long as others are.
		if status, answer, err := d("DynamoDB_20120810.ListTables", []byte("{}")); err != nil || status != http.StatusOK {
			t.Fatalf("it is answered %d %s (%v)", status, answer, err)
		}
		crowd[i] = newCaller(g, i, d)
	}
	if ratio := overload(g, crowd, 256); ratio < 50 {
		t.Errorf("many are answered %.0f %% as often as few", ratio)
	}
	if t.Failed() {
		t.Logf("the server has said:\n%.4000s", s.log())
	}
	s.kill()
}

const (
	most = 512 + 4096 // that have their turn or wait for it (server/turns.go)
	many = 4 * most
)

// overload compares what few clients get done in a second with what all do, in
// percent. It takes the middle of several rounds, and both in turns, since
// other things go on in a machine.
func overload(g *rig, crowd []*caller, few int) float64 {
	g.Helper()
	const rounds = 5
	span := *longTime / 16
	load(g, crowd[:few], span)
	load(g, crowd, 5*span) // when all have come, and most have learnt to wait
	var ceilings, goods, ratios []float64
	throttled := 0
	for range rounds {
		for _, c := range crowd[:few] {
			c.pause = shortPause
		}
		ceiling := load(g, crowd[:few], span)
		over := load(g, crowd, 2*span)
		// The control: clients that are not too many are not throttled.
		if ceiling.throttled > 0 || over.throttled == 0 {
			g.Errorf("%d requests of %d clients were throttled, and %d of %d", ceiling.throttled, few, over.throttled, len(crowd))
		}
		throttled += over.throttled
		ceilings, goods = append(ceilings, ceiling.perSecond), append(goods, over.perSecond)
		ratios = append(ratios, 100*over.perSecond/ceiling.perSecond)
	}
	g.count(fmt.Sprintf("answered per second to %d clients", few), int(median(ceilings)))
	g.count(fmt.Sprintf("answered per second to %d clients", len(crowd)), int(median(goods)))
	g.count("% of that in the middle of the rounds", int(median(ratios)))
	g.count("throttled", throttled)
	if again := load(g, crowd[:64], span); again.throttled > 0 {
		g.Errorf("%d are throttled when the crowd has gone", again.throttled)
	}
	return median(ratios)
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

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
	put := func(n, round int) error {
		return h.call("PutItem", object{"TableName": "Work", "Item": object{"p": text("over" + strconv.Itoa(n)), "k": num(round)}}, nil)
	}
	for round, stall := range []bool{false, true} {
		stalled.Store(stall)
		clients := 700
		if !stall { // the control: all have a turn at once
			clients = 512
		}
		var answered, throttled atomic.Int64
		var running sync.WaitGroup
		for n := range clients {
			running.Go(func() {
				switch err := put(n, round); {
				case err == nil:
					answered.Add(1)
				case refused(err, "ThrottlingException"):
					throttled.Add(1)
				case stall && refused(err, "TransactionConflictException"):
					g.count("told to come again after seconds behind another", 1) // on a machine that is slow itself
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
type loaded struct {
	throttled int
	perSecond float64
}

// caller is a client that waits as the SDKs do when it is throttled.
type caller struct {
	door
	*rand.Rand
	pause time.Duration // that it waits at most the next time
	body  []byte
}

func newCaller(g *rig, n int, d door) *caller {
	return &caller{door: d, Rand: rand.New(rand.NewPCG(g.seed, uint64(n))), pause: shortPause}
}

// load lets clients read and write for a while. Those who have been throttled
// go on to wait first. The rate is that after a quarter of the time.
func load(g *rig, all []*caller, span time.Duration) loaded {
	g.Helper()
	var late, throttled, wrong atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for _, c := range all {
		running.Go(func() {
			for waits := c.pause > shortPause; ; waits = false {
				if waits {
					time.Sleep(min(time.Duration(c.Int64N(int64(c.pause))), span))
				}
				at := time.Since(began)
				if at >= span {
					return
				}
				status, answer, err := c.call()
				at = time.Since(began)
				switch {
				case err == nil && status == http.StatusOK:
					if at > span/4 && at < span {
						late.Add(1)
					}
					c.pause = shortPause
				case err == nil && refused(&refusal{status, string(answer)}, "ThrottlingException"):
					throttled.Add(1)
					time.Sleep(min(time.Duration(c.Int64N(int64(c.pause))), span-at))
					c.pause = min(2*c.pause, longPause)
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
	return loaded{int(throttled.Load()), float64(late.Load()) / (span * 3 / 4).Seconds()}
}

// call gets an item or puts one.
func (c *caller) call() (status int, answer []byte, err error) {
	if c.IntN(2) == 0 {
		c.body = append(c.body[:0], `{"TableName": "Work", "Key": {"p": {"S": "over"}, "k": {"N": "`...)
		c.body = append(strconv.AppendInt(c.body, c.Int64N(1000), 10), `"}}}`...)
		return c.door("DynamoDB_20120810.GetItem", c.body)
	}
	c.body = append(c.body[:0], `{"TableName": "Work", "Item": {"p": {"S": "over`...)
	c.body = append(strconv.AppendInt(c.body, c.Int64N(100), 10), `"}, "k": {"N": "`...)
	c.body = append(strconv.AppendInt(c.body, c.Int64N(1000), 10), `"}, "pad": {"S": "`...)
	c.body = append(append(c.body, pad...), `"}}}`...)
	return c.door("DynamoDB_20120810.PutItem", c.body)
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
	var head, room []byte
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
				room = slices.Grow(room[:0], length)[:length] // until the next request
				answer = room
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
