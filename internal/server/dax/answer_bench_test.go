//go:build unix

package dax_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/protocol/cbor"
)

// BenchmarkAnswer answers requests of connections that need no system calls, one for each
// processor, so that its figures are those of the server alone. Items and requests are those of
// the benchmark of the same name in internal/server, which sends them over HTTP, without a cache.
func BenchmarkAnswer(b *testing.B) {
	l, gets := listenWithItems(b)
	b.Run("GetItem", func(b *testing.B) {
		b.ReportAllocs()
		before := cpuTime(b)
		conns := runtime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		for i := range conns {
			wg.Go(func() {
				at := i * len(gets) / conns
				l.send(b, (b.N+i)/conns, slices.Concat(gets[at:], gets[:at]))
			})
		}
		wg.Wait()
		b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	})
}

// listenWithItems returns a port, and requests for items that are in its cache.
func listenWithItems(b testing.TB) (l *requestsListener, gets [][]byte) {
	b.Helper()
	db, err := stator.Open(b.Context(), stator.Options{Cache: stator.NewCache(stator.CacheDAX)})
	if err != nil {
		b.Fatal(err)
	}
	port, err := db.DAX(stator.DAXOptions{})
	if err != nil {
		b.Fatal(err)
	}
	l = &requestsListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	go func() { _ = port.Serve(l) }()
	b.Cleanup(func() {
		_ = port.Close()
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	send := func(operation, body string) {
		b.Helper()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8000/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		r.Header.Set("X-Amz-Date", "20260101T000000Z")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=0")
		w := httptest.NewRecorder()
		if db.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatalf("%s: %s", operation, w.Body)
		}
	}
	send("CreateTable", `{"TableName": "Items", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "sk", "AttributeType": "S"}],
		"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]}`)
	for p := range 64 {
		for s := range 10 {
			partition, sort := fmt.Sprintf("p%09d", p), fmt.Sprintf("s%03d", s)
			send("PutItem", fmt.Sprintf(`{"TableName":"Items","Item":{"pk":{"S":"%s"},"sk":{"S":"%s"},"shop":{"S":"g%09d"},"placed":{"N":"%d"},"hits":{"N":"1"},"price":{"N":"19.99"},"paid":{"BOOL":true},"title":{"S":"%s"},"note":{"S":"%s"},"body":{"S":"%s"}}}`,
				partition, sort, s, 1_700_000_001+p, strings.Repeat("t", 40), strings.Repeat("n", 200), strings.Repeat("b", 708)))
			get := cbor.AppendBytes(cbor.AppendInt(cbor.AppendInt(nil, 1), 263244906), "Items")
			get = cbor.AppendBytes(get, append(cbor.AppendText(nil, partition), sort...))
			gets = append(gets, cbor.AppendNull(get))
		}
	}
	l.send(b, len(gets), gets) // so that they are cached
	return l, gets
}

// cpuTime returns the processor time of this process, which a busy machine disturbs less than
// the time of the clock.
func cpuTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// requestsListener accepts connections that have their requests in memory.
type requestsListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *requestsListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *requestsListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }
func (l *requestsListener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8111}
}

// send sends n requests over one connection, and waits for the replies, which must be items.
func (l *requestsListener) send(b testing.TB, n int, requests [][]byte) {
	b.Helper()
	c := &requestsConn{requests: requests, left: n, done: make(chan struct{})}
	l.conns <- c
	<-c.done
	if c.failed != "" {
		b.Error(c.failed)
	}
}

// requestsConn is a connection whose client sends the next of some requests when the server reads,
// until none are left.
type requestsConn struct {
	requests [][]byte
	greeted  bool
	left, at int
	failed   string
	done     chan struct{}
}

func (c *requestsConn) Read(p []byte) (int, error) {
	if !c.greeted {
		c.greeted = true
		hello := cbor.AppendText(cbor.AppendInt(cbor.AppendText(nil, "J7yne5G"), 0), "1")
		return copy(p, cbor.AppendInt(cbor.AppendMap(hello, 0), 0)), nil
	}
	if c.left == 0 || c.failed != "" {
		return 0, io.EOF
	}
	c.left--
	n := copy(p, c.requests[c.at])
	if c.at++; c.at == len(c.requests) {
		c.at = 0
	}
	return n, nil
}

func (c *requestsConn) Write(p []byte) (int, error) {
	if c.failed == "" && (len(p) < 900 || p[0] != 0x80) { // no error, and an item of a KB
		c.failed = fmt.Sprintf("%x", p)
	}
	return len(p), nil
}

func (c *requestsConn) Close() error        { close(c.done); return nil }
func (c *requestsConn) LocalAddr() net.Addr { return &net.TCPAddr{} }
func (c *requestsConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
}
func (c *requestsConn) SetDeadline(time.Time) error      { return nil }
func (c *requestsConn) SetReadDeadline(time.Time) error  { return nil }
func (c *requestsConn) SetWriteDeadline(time.Time) error { return nil }
