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
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// With four times the clients that it can serve, a server still answers as
// many requests, and rejects the others with the error that clients retry
// after a pause. There are no other answers, and no client waits forever.
//
// It can serve the requests that have a slot, and those that get one before
// the queue's deadline. Each client sends its next request when the last one
// is answered, and throttled clients back off like the SDKs.
//
// The disk is the bottleneck here; with a faster disk there are enough
// clients, in this process too, to make the processor the bottleneck.
func TestOverloadIsThrottled(t *testing.T) {
	if !*long {
		newRig(t).stallDisk()
		return
	}
	for _, c := range []struct {
		name  string
		delay time.Duration
		least float64
	}{
		{"a sync of 150 ms", 150 * time.Millisecond, 90},
		{"a sync of 50 ms", 50 * time.Millisecond, 75},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			slow := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
				switch op.Kind {
				case errorfs.OpFileSync, errorfs.OpFileSyncData:
					time.Sleep(c.delay)
				}
				return nil
			})
			h, err := open(slow, "d", pebble.Durable, quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer h.close()
			createWork(t, h.door)
			o := &overload{rig: g, few: 1024, most: 1 << 16, factor: 4, waits: true, least: c.least, ask: mixed, dial: func() door { return h.door }}
			o.run()
		})
	}
}

// The same with connections, and the processor as the bottleneck. The server
// has one processor and the clients another, since in production they are on
// other machines.
//
// A server can serve few expensive requests, so there can be four times as
// many clients. Reads that never wait do not enter the queue that throttles:
// each runs when it is read from its connection, and all of them do, late.
// The bounds are what was measured when they were set. A profile shows stacks
// that grow again, more work for the garbage collector, and everything else a
// little slower.
//
// One machine cannot send four times too many small requests, so as many
// clients connect as it can. That many connections do not fit in a
// processor's caches: a server with a constant reply also serves them much
// more slowly than few. That ratio is the ceiling for a server that computes
// its replies.
func TestCrowdIsThrottled(t *testing.T) {
	if !*long {
		t.Skip("TestOverloadIsThrottled is the short form; -torture connects many")
	}
	for _, c := range []struct {
		name   string
		ask    func(*caller) (status int, answer []byte, err error)
		factor int
		waits  bool    // in the queue, so that some are throttled
		least  float64 // percent of the rate of few clients, or of the ratio with a constant reply
		ready  bool
	}{
		{"long reads and writes", countingAndPutting, 4, true, 75, false},
		{"long reads", counting, 4, false, 75, false},
		{"small reads and writes", mixed, 0, false, 90, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ready {
				t.Run("with a constant reply", func(t *testing.T) { c.least *= cannedRatio(t) / 100 })
			}
			g := newRig(t)
			s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
			s.pin(t)
			createWork(t, s.door)
			for n := range counted {
				s.door.must(t, "PutItem", object{"TableName": "Work", "Item": object{"p": text("many"), "k": num(n), "pad": text(pad)}}, nil)
			}
			o := &overload{rig: g, few: 256, most: 18_432, factor: c.factor, waits: c.waits, least: c.least, ask: c.ask, cpu: s.cpu}
			o.dial = func() door { return s.connect(t) }
			o.run()
			g.count("MB at most", s.memory(t, "VmHWM"))
			if t.Failed() {
				t.Logf("the log of the server:\n%.4000s", s.log())
			}
			s.kill()
		})
	}
}

// cannedRatio returns the rate of a server with a constant reply for many
// clients, in percent of its rate for few.
func cannedRatio(t *testing.T) (percent float64) {
	g := newRig(t)
	s := startCanned(t, []byte(`{"Item": {"pad": {"S": "`+pad+`"}}}`))
	s.pin(t)
	o := &overload{rig: g, few: 256, most: 18_432, ask: mixed, cpu: s.cpu}
	o.dial = func() door { return s.connect(t) }
	percent = o.run()
	s.kill()
	return percent
}

// connect returns a client with a connection, on which a first request was
// answered: the first request has a shorter deadline.
func (p *process) connect(t testing.TB) door {
	t.Helper()
	d, end := p.lean(t)
	if d == nil {
		t.FailNow()
	}
	t.Cleanup(end)
	if status, answer, err := d("DynamoDB_20120810.ListTables", []byte("{}")); err != nil || status != http.StatusOK {
		t.Fatalf("the answer is %d %s (%v)", status, answer, err)
	}
	return d
}

const (
	// As in server/turns.go.
	underWay     = 512
	turnPatience = time.Second
	maxWait      = 10 * time.Second
)

// overload compares the request rates of few clients and of many.
type overload struct {
	*rig
	few, most int     // clients
	factor    int     // of the clients that can be served; 0 for the most
	waits     bool    // for slots, so that some are throttled
	least     float64 // percent
	dial      func() door
	ask       func(*caller) (status int, answer []byte, err error)
	cpu       func() time.Duration // used by the server; nil if it is not known

	crowd []*caller
}

// run takes the median of several alternating rounds, since the machine has
// other load. It returns the rate of many clients in percent of the rate of
// few.
func (o *overload) run() (percent float64) {
	o.Helper()
	const rounds = 3
	short, long := *longTime/5, max(*longTime*4/10, maxWait*6/5)
	first := o.load(o.few, short)
	fit := underWay + int(first.perSecond*turnPatience.Seconds())
	many := o.most
	if o.factor > 0 {
		many = o.factor * fit
	}
	if many > o.most { // a faster machine, which must be overloaded too
		many = o.most
		if many < 3*fit {
			o.Errorf("%d clients are too few: %d can be served", o.most, fit)
		}
	}
	o.load(many, long) // until all are connected, and most back off
	var ceilings, goods, ratios []float64
	throttled := 0
	for range rounds {
		for _, c := range o.crowd[:o.few] {
			c.pause = shortPause
		}
		before, over, after := o.load(o.few, short), o.load(many, long), o.load(o.few, short)
		// The control: few clients are not throttled.
		if before.throttled+after.throttled > 0 || over.throttled == 0 && o.waits {
			o.Errorf("%d requests of %d clients were throttled, and %d of %d", before.throttled+after.throttled, o.few, over.throttled, many)
		}
		throttled += over.throttled
		ceiling := (before.perSecond + after.perSecond) / 2
		ceilings, goods = append(ceilings, ceiling), append(goods, over.perSecond)
		ratios = append(ratios, 100*over.perSecond/ceiling)
		o.Logf("%.0f, %.0f and %.0f answered per second, %d throttled; of the server's processor %.0f, %.0f and %.0f %%",
			before.perSecond, over.perSecond, after.perSecond, over.throttled, before.busy, over.busy, after.busy)
	}
	o.count(fmt.Sprintf("answered per second to %d clients", o.few), int(median(ceilings)))
	o.count(fmt.Sprintf("answered per second to %d clients", many), int(median(goods)))
	percent = median(ratios)
	o.count("% of that (median of the rounds)", int(percent))
	if o.least > 0 {
		o.goal("% of the rate of few clients", 90, percent, true)
	}
	o.count("clients that can be served", fit)
	o.count("throttled", throttled)
	if again := o.load(64, short); again.throttled > 0 {
		o.Errorf("%d are throttled after the crowd has left", again.throttled)
	}
	if percent < o.least {
		o.Errorf("many clients get %.0f %% of the rate of few, want %.0f %%", percent, o.least)
	}
	return percent
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// stallDisk stalls a disk until some requests are throttled. The others are
// answered when it continues.
func (g *rig) stallDisk() {
	g.Helper()
	var stalled atomic.Bool
	fs := disktest.Inject(vfs.NewMem(), func(op errorfs.Op) error {
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
		if !stall { // the control: all get a slot at once
			clients = 512
		}
		var answered, throttled atomic.Int64
		var running sync.WaitGroup
		for n := range clients {
			running.Go(func() {
				switch err := put(n, round); {
				case err == nil:
					answered.Add(1)
				case rejected(err, "ThrottlingException"):
					throttled.Add(1)
				case stall && rejected(err, "TransactionConflictException"):
					g.count("throttled after seconds in the queue", 1) // on a slow machine
				default:
					g.Errorf("the answer is %v", err)
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
			g.Errorf("the disk stalls: %v; %d requests are answered and %d throttled", stall, answered.Load(), throttled.Load())
		}
	}
}

// loaded counts how requests were answered.
type loaded struct {
	throttled int
	perSecond float64
	busy      float64 // percent of a processor that the server used
}

// caller is a client that backs off like the SDKs when it is throttled.
type caller struct {
	door
	*rand.Rand
	pause time.Duration // the longest next backoff
	body  []byte
}

// load runs clients for a while. Clients that were throttled first finish
// their backoff. The rate excludes the first quarter of the time.
func (o *overload) load(clients int, span time.Duration) loaded {
	o.Helper()
	for len(o.crowd) < clients {
		c := &caller{Rand: rand.New(rand.NewPCG(o.seed, uint64(len(o.crowd)))), pause: shortPause}
		c.door = o.dial()
		o.crowd = append(o.crowd, c)
	}
	var late, throttled, wrong atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for _, c := range o.crowd[:clients] {
		running.Go(func() {
			for waits := c.pause > shortPause; ; waits = false {
				if waits {
					time.Sleep(min(time.Duration(c.Int64N(int64(c.pause))), span))
				}
				at := time.Since(began)
				if at >= span {
					return
				}
				status, answer, err := o.ask(c)
				at = time.Since(began)
				switch {
				case err == nil && status == http.StatusOK:
					if at > span/4 && at < span {
						late.Add(1)
					}
					c.pause = shortPause
				case err == nil && rejected(&errorReply{status, string(answer)}, "ThrottlingException"):
					throttled.Add(1)
					time.Sleep(min(time.Duration(c.Int64N(int64(c.pause))), span-at))
					c.pause = min(2*c.pause, longPause)
				default:
					if wrong.Add(1) == 1 { // report one only
						o.Errorf("the answer is %d %s (%v)", status, answer, err)
					}
					return
				}
			}
		})
	}
	var busy float64
	if o.cpu != nil {
		time.Sleep(span / 4)
		before, began := o.cpu(), time.Now()
		time.Sleep(span * 3 / 4)
		busy = 100 * float64(o.cpu()-before) / float64(time.Since(began))
	}
	running.Wait()
	return loaded{int(throttled.Load()), float64(late.Load()) / (span * 3 / 4).Seconds(), busy}
}

// mixed gets an item or puts one.
func mixed(c *caller) (status int, answer []byte, err error) {
	if c.IntN(2) == 0 {
		c.body = append(c.body[:0], `{"TableName": "Work", "Key": {"p": {"S": "over"}, "k": {"N": "`...)
		c.body = append(strconv.AppendInt(c.body, c.Int64N(1000), 10), `"}}}`...)
		return c.door("DynamoDB_20120810.GetItem", c.body)
	}
	return put(c)
}

// counted is how many items a query counts.
const counted = 3000

// counting counts items: always the same amount of work for the server, and
// little for the client.
func counting(c *caller) (status int, answer []byte, err error) {
	c.body = append(c.body[:0], `{"TableName": "Work", "Select": "COUNT", "KeyConditionExpression": "p = :p", "ExpressionAttributeValues": {":p": {"S": "many"}}}`...)
	return c.door("DynamoDB_20120810.Query", c.body)
}

func countingAndPutting(c *caller) (status int, answer []byte, err error) {
	if c.IntN(2) == 0 {
		return counting(c)
	}
	return put(c)
}

// put puts a new item. Replacing an item by the same would cost less, and
// more and more often so.
func put(c *caller) (status int, answer []byte, err error) {
	c.body = append(c.body[:0], `{"TableName": "Work", "Item": {"p": {"S": "over`...)
	c.body = append(strconv.AppendInt(c.body, c.Int64N(100), 10), `"}, "k": {"N": "`...)
	c.body = append(strconv.AppendInt(c.body, c.Int64(), 10), `"}, "pad": {"S": "`...)
	c.body = append(append(c.body, pad...), `"}}}`...)
	return c.door("DynamoDB_20120810.PutItem", c.body)
}

// The SDKs wait for a random part of this, which doubles each time.
const (
	shortPause = 50 * time.Millisecond
	longPause  = 20 * time.Second
)

// lean returns a cheap client with a connection of its own.
func (p *process) lean(t testing.TB) (d door, end func()) {
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	in := bufio.NewReaderSize(c, 1024)
	var head, buffer []byte
	d = func(target string, body []byte) (status int, answer []byte, err error) {
		_ = c.SetDeadline(time.Now().Add(time.Minute)) // longer is a hang
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
				buffer = slices.Grow(buffer[:0], length)[:length] // valid until the next request
				answer = buffer
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
