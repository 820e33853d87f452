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

// With four times the clients that it can serve, a server answers as many
// requests as ever, and the others with the error after which clients wait and
// try again. Nothing else is answered, and nobody waits for ever.
//
// What it can serve are those that have their turn, and as many more as come to
// it before the patience of the server ends. All send their next request when
// the last one is answered, and those who are told to come again wait before
// as the SDKs do.
//
// The disk is what limits it here; but with a faster one there are so many
// clients, in this process too, that the processor does.
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

// The same with connections, and the processor as the limit. The server has one
// for itself and the clients another, since in life they are elsewhere.
//
// Of requests that take long a server can serve few, and there can be four
// times as many clients. Reads that wait for nothing do not come to the line in
// which some are throttled: each is carried out when it is read from its
// connection, and all of them are, late. The bounds say what held when they were
// set. A profile shows stacks that grow again, more to be looked at for garbage,
// and all else a little slower.
//
// Of small requests there cannot be four times too many on one machine, but as
// many as it can connect. So many connections are more than a processor has at
// hand: a server whose reply is ready does much less for them than for few. What is
// left of that is the ceiling of one that works for its replies.
func TestCrowdIsThrottled(t *testing.T) {
	if !*long {
		t.Skip("TestOverloadIsThrottled is the short form; -torture connects many")
	}
	for _, c := range []struct {
		name   string
		ask    func(*caller) (status int, answer []byte, err error)
		factor int
		waits  bool    // and so some are throttled
		least  float64 // of what few get, or of what is left with a reply that is ready
		ready  bool
	}{
		{"long reads and writes", countingAndPutting, 4, true, 75, false},
		{"long reads", counting, 4, false, 75, false},
		{"small reads and writes", mixed, 0, false, 90, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.ready {
				t.Run("with a reply that is ready", func(t *testing.T) { c.least *= leftOfReady(t) / 100 })
			}
			g := newRig(t)
			s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error")
			s.apart(t)
			createWork(t, s.door)
			for n := range counted {
				s.door.must(t, "PutItem", object{"TableName": "Work", "Item": object{"p": text("many"), "k": num(n), "pad": text(pad)}}, nil)
			}
			o := &overload{rig: g, few: 256, most: 18_432, factor: c.factor, waits: c.waits, least: c.least, ask: c.ask, cpu: s.cpu}
			o.dial = func() door { return s.connect(t) }
			o.run()
			g.count("MB at most", s.memory(t, "VmHWM"))
			if t.Failed() {
				t.Logf("the server has said:\n%.4000s", s.log())
			}
			s.kill()
		})
	}
}

// leftOfReady is how many percent a server with one reply for all does for many
// clients of what it does for few.
func leftOfReady(t *testing.T) (percent float64) {
	g := newRig(t)
	s := startCanned(t, []byte(`{"Item": {"pad": {"S": "`+pad+`"}}}`))
	s.apart(t)
	o := &overload{rig: g, few: 256, most: 18_432, ask: mixed, cpu: s.cpu}
	o.dial = func() door { return s.connect(t) }
	percent = o.run()
	s.kill()
	return percent
}

// connect is a client with a connection, on which a first request was answered: that
// is not waited for as long as others are.
func (p *process) connect(t testing.TB) door {
	t.Helper()
	d, end := p.lean(t)
	if d == nil {
		t.FailNow()
	}
	t.Cleanup(end)
	if status, answer, err := d("DynamoDB_20120810.ListTables", []byte("{}")); err != nil || status != http.StatusOK {
		t.Fatalf("it is answered %d %s (%v)", status, answer, err)
	}
	return d
}

const (
	// As in server/turns.go.
	underWay     = 512
	turnPatience = time.Second
	maxWait      = 10 * time.Second
)

// overload compares what few clients get done in a second with what many do.
type overload struct {
	*rig
	few, most int     // clients
	factor    int     // of what can be served; 0 for the most
	waits     bool    // for turns, so that some are throttled
	least     float64 // percent
	dial      func() door
	ask       func(*caller) (status int, answer []byte, err error)
	cpu       func() time.Duration // that the server has taken; nil if it is not known

	crowd []*caller
}

// run takes the middle of several rounds, and both in turns, since other things
// go on in a machine. It is how many percent many get of what few do.
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
	if many > o.most { // a faster machine, which still is to have too many
		many = o.most
		if many < 3*fit {
			o.Errorf("%d clients are too few, of which %d can be served", o.most, fit)
		}
	}
	o.load(many, long) // when all have come, and most have learnt to wait
	var ceilings, goods, ratios []float64
	throttled := 0
	for range rounds {
		for _, c := range o.crowd[:o.few] {
			c.pause = shortPause
		}
		before, over, after := o.load(o.few, short), o.load(many, long), o.load(o.few, short)
		// The control: clients that are not too many are not throttled.
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
	o.count("% of that in the middle of the rounds", int(percent))
	o.count("clients that can be served", fit)
	o.count("throttled", throttled)
	if again := o.load(64, short); again.throttled > 0 {
		o.Errorf("%d are throttled when the crowd has gone", again.throttled)
	}
	if percent < o.least {
		o.Errorf("many are answered %.0f %% as often as few, and should be %.0f %%", percent, o.least)
	}
	return percent
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// stallDisk holds a disk up until some are throttled. All others are answered
// when it goes on.
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
	busy      float64 // percent of a processor that the server took
}

// caller is a client that waits as the SDKs do when it is throttled.
type caller struct {
	door
	*rand.Rand
	pause time.Duration // that it waits at most the next time
	body  []byte
}

// load lets clients work for a while. Those who have been throttled go on to
// wait first. The rate is that after a quarter of the time.
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
				case err == nil && refused(&refusal{status, string(answer)}, "ThrottlingException"):
					throttled.Add(1)
					time.Sleep(min(time.Duration(c.Int64N(int64(c.pause))), span-at))
					c.pause = min(2*c.pause, longPause)
				default:
					if wrong.Add(1) == 1 { // the others are alike
						o.Errorf("it is answered %d %s (%v)", status, answer, err)
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

// counting counts items: the server has much to do, and always as much, and the
// client has not.
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

// put puts a new item. One that is there as it is would cost less, and the more
// so the longer it goes on.
func put(c *caller) (status int, answer []byte, err error) {
	c.body = append(c.body[:0], `{"TableName": "Work", "Item": {"p": {"S": "over`...)
	c.body = append(strconv.AppendInt(c.body, c.Int64N(100), 10), `"}, "k": {"N": "`...)
	c.body = append(strconv.AppendInt(c.body, c.Int64(), 10), `"}, "pad": {"S": "`...)
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
