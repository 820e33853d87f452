package dax

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/protocol/cbor"
)

// malformedStreams is how many malformed streams are sent; STATOR_DAX_STREAMS raises it.
const malformedStreams = 3_000

// Malformed streams end their connection or are answered with an error. They neither
// stop the node nor hold memory.
func TestMalformedStreams(t *testing.T) {
	streams := malformedStreams
	if text := os.Getenv("STATOR_DAX_STREAMS"); text != "" {
		var err error
		if streams, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	n := newNodeTest(t, false)
	first, last := n.sendMalformed(streams, func() {})
	if n.node.Connections() != 0 {
		t.Errorf("%d connections are left", n.node.Connections())
	}
	if err := growth(first, last, streams); err != nil {
		t.Error(err)
	}
	if text := n.log.String(); text != "" { // a panic that was recovered, or another failure
		t.Errorf("the log has\n%.2000s", text)
	}
	if last.lists > maxListBytes {
		t.Errorf("attribute lists have %d bytes", last.lists)
	}
	c := n.dial()
	if codes, message, _ := c.getItem("a"); codes != nil {
		t.Errorf("the node does not answer any more: %v %s", codes, message)
	}
}

// TestMalformedStreams would find what a stream leaves behind.
func TestGrowthIsFound(t *testing.T) {
	ended := make(chan struct{})
	defer close(ended)
	var mu sync.Mutex
	var left [][]byte
	streams := 0
	for _, c := range []struct {
		name  string
		after func()
		want  string
	}{
		{"nothing", func() {}, ""},
		{"a KB for each stream", func() { left = append(left, make([]byte, 1<<10)) }, "the heap"},
		{"a goroutine for each hundred", func() {
			if streams++; streams%100 == 0 {
				go func() { <-ended }()
			}
		}, "goroutines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, last := newNodeTest(t, false).sendMalformed(malformedStreams, func() {
				mu.Lock()
				defer mu.Unlock()
				c.after()
			})
			if err := growth(first, last, malformedStreams); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	runtime.KeepAlive(left)
}

// sendMalformed sends malformed streams, and calls a function after each, concurrently. It returns what
// the process uses after the first tenth, when all that is kept once is there, and after all.
func (n *nodeTest) sendMalformed(streams int, after func()) (first, last processUsage) {
	n.Helper()
	seed := uint64(time.Now().UnixNano())
	n.Logf("%d streams, seed %d", streams, seed)
	valid := validRequests()
	for part := range 10 {
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(10*part+worker)))
				for range streams / 40 {
					if err := n.sendStream(malformed(r, valid)); err != nil {
						n.Error(err)
						return
					}
					after()
				}
			})
		}
		wg.Wait()
		for deadline := time.Now().Add(time.Minute); n.node.Connections() > 0 && time.Now().Before(deadline); {
			runtime.Gosched()
		}
		last = n.processUsage()
		n.Logf("after %d: %s", (part+1)*(streams/10), last)
		if part == 0 {
			first = last
		}
	}
	return first, last
}

// What may be more after some streams: goroutines that are about to end, and bytes of the heap, once and
// for each stream, of which some store an item. The attribute lists, which are bounded, do not count.
const (
	moreGoroutines      = 8
	moreBytes           = 1 << 20
	moreBytesEachStream = 4
)

// growth returns an error if the process uses more after all streams than after the first tenth.
func growth(first, last processUsage, streams int) error {
	if last.goroutines > first.goroutines+moreGoroutines {
		return fmt.Errorf("%d goroutines, %d after the first tenth", last.goroutines, first.goroutines)
	}
	if grown := last.heap - first.heap - (last.lists - first.lists); grown > moreBytes+moreBytesEachStream*int64(streams) {
		return fmt.Errorf("the heap has grown by %d bytes", grown)
	}
	return nil
}

// processUsage is what the process uses.
type processUsage struct {
	heap, lists, resident int64 // bytes; resident is 0 where it is not known
	goroutines            int
}

func (u processUsage) String() string {
	return fmt.Sprintf("heap %.1f MB, of it attribute lists %.1f MB, resident %.1f MB, %d goroutines",
		float64(u.heap)/1e6, float64(u.lists)/1e6, float64(u.resident)/1e6, u.goroutines)
}

func (n *nodeTest) processUsage() processUsage {
	runtime.GC()
	runtime.GC() // what finalizers and pools have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_, lists, _ := n.node.lists.size()
	u := processUsage{heap: int64(m.HeapAlloc), lists: int64(lists), goroutines: runtime.NumGoroutine()}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			u.resident = pages * int64(os.Getpagesize())
		}
	}
	return u
}

// sendStream sends a stream over a connection of its own, and waits until the node has closed it.
func (n *nodeTest) sendStream(stream []byte) error {
	c, err := net.Dial("tcp", n.address)
	for err != nil && (errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EADDRINUSE)) { // ports of connections that have ended
		runtime.Gosched()
		c, err = net.Dial("tcp", n.address)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return err
	}
	// The node may close the connection before it has read all.
	if _, err := c.Write(stream); err == nil {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the node does not close a connection after %x: %w", stream, err)
	}
	return nil
}

func validRequests() [][]byte {
	request := func(method int64, args ...[]byte) []byte {
		return append(cbor.AppendInt(cbor.AppendInt(nil, 1), method), slices.Concat(args...)...)
	}
	return [][]byte{
		hello(),
		request(methodEndpoints),
		request(methodKeySchema, bytesOf("Orders")),
		request(methodListID, cbor.AppendText(cbor.AppendText(cbor.AppendArray(nil, 2), "a"), "b")),
		request(methodList, cbor.AppendInt(nil, 2)),
		request(methodAuthorize, authorization(accessKey, secret, "us-east-1", time.Now(), "")),
		request(methodGetItem, bytesOf("Orders"), bytesOf("a"), cbor.AppendMap(nil, 0)),
		request(methodGetItem, bytesOf("Orders"), bytesOf("a"), cbor.AppendInt(cbor.AppendInt(cbor.AppendMap(nil, 1), 3), 1)),
		request(methodPutItem, bytesOf("Orders"), bytesOf("a"), cbor.AppendBytes(nil, cbor.AppendInt(nil, 1)), cbor.AppendMap(nil, 0)),
		request(-1875390620, bytesOf("Orders"), cbor.AppendMap(nil, 0)),
	}
}

// malformed returns requests with changed, missing and added bytes.
func malformed(r *rand.Rand, valid [][]byte) []byte {
	var out []byte
	if r.IntN(10) > 0 {
		out = append(out, valid[0]...)
	}
	for range 1 + r.IntN(4) {
		out = append(out, valid[r.IntN(len(valid))]...)
	}
	for range 1 + r.IntN(6) {
		at := r.IntN(len(out))
		switch r.IntN(5) {
		case 0:
			out[at] = byte(r.Uint32())
		case 1:
			out[at] ^= 1 << r.IntN(8)
		case 2:
			out = slices.Insert(out, at, byte(r.Uint32()), byte(r.Uint32()))
		case 3: // a length that the stream does not have
			out = slices.Insert(out, at, []byte{0x5b, 0x7b, 0x9b, 0xbb}[r.IntN(4)], 0, 0, 0, 1, 0, 0, 0, 0)
		default:
			out = out[:max(1, at)]
		}
	}
	return out
}
