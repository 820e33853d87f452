package stator

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/dax/daxtest"
	"github.com/stator-db/stator/internal/server/door"
)

// The figures of docs/cache.md and docs/dax.md. The cluster is a mock in the same process,
// without a network and without a disk; a delay is added to each request to it.
var benchDelays = []time.Duration{0, 500 * time.Microsecond}

// BenchmarkFleetGetItem reads an item: from the cache over the port of DAX and over HTTP, and
// from the cluster over HTTP, with one connection.
func BenchmarkFleetGetItem(b *testing.B) {
	for _, delay := range benchDelays {
		f := newFleet(b)
		f.beat, f.delay = 100*time.Millisecond, delay
		for _, mode := range []CacheMode{CacheDAX, CacheCoherent} {
			c := NewCache(mode)
			c.HTTP = false // so that a request over HTTP is not cached
			s := f.open(c, nil)
			if mode == CacheDAX {
				s.createTable()
				s.put("a", 1)
			} else {
				s.valid()
			}
			b.Run(fmt.Sprintf("delay=%v/dax port, mode %s", delay, mode), func(b *testing.B) { benchDAXGet(b, s) })
			if mode == CacheDAX {
				b.Run(fmt.Sprintf("delay=%v/HTTP, not cached", delay), func(b *testing.B) { benchHTTPGet(b, s) })
			}
		}
	}
}

func benchDAXGet(b *testing.B, s *fleetServer) {
	port, err := s.db.DAX(DAXOptions{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = port.Serve(l) }()
	defer port.Close()
	conn, err := daxtest.Dial(l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for b.Loop() {
		if v, err := conn.Get("Items", "a"); err != nil || v != 1 {
			b.Fatalf("%d, %v", v, err)
		}
	}
}

func benchHTTPGet(b *testing.B, s *fleetServer) {
	starting := new(server.Starting)
	starting.Open(s.db.Handler())
	front := door.New(starting, &http.Server{Handler: starting}, slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = front.Serve(l) }()
	defer front.Close()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	body := `{"TableName":"Items","Key":{"pk":{"S":"a"}}}`
	r, _ := http.NewRequest(http.MethodPost, "http://"+l.Addr().String()+"/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	_ = signAnything(r)
	var request bytes.Buffer
	if err := r.Write(&request); err != nil {
		b.Fatal(err)
	}
	in := bufio.NewReader(nc)
	for b.Loop() {
		if _, err := nc.Write(request.Bytes()); err != nil {
			b.Fatal(err)
		}
		reply, err := http.ReadResponse(in, nil)
		if err != nil {
			b.Fatal(err)
		}
		text, err := io.ReadAll(reply.Body)
		if err != nil || !bytes.Contains(text, []byte(`"v"`)) {
			b.Fatalf("%s, %v", text, err)
		}
	}
}

// BenchmarkFleetPutItem writes items through a server without a cache, while no other server
// has a coherent one and while one has, with one and with 16 clients.
func BenchmarkFleetPutItem(b *testing.B) {
	for _, delay := range benchDelays {
		for _, cached := range []bool{false, true} {
			f := newFleet(b)
			f.beat, f.delay = 100*time.Millisecond, delay
			s := f.open(nil, nil)
			s.createTable()
			other := f.open(nil, nil)
			if cached {
				other.close()
				f.open(NewCache(CacheCoherent), nil).valid()
			}
			for _, clients := range []int{1, 16} {
				b.Run(fmt.Sprintf("delay=%v/coherent=%v/clients=%d", delay, cached, clients), func(b *testing.B) {
					var n, took atomic.Int64
					var group sync.WaitGroup
					for i := range clients {
						group.Go(func() {
							for n.Add(1) <= int64(b.N) {
								began := time.Now()
								s.put(fmt.Sprint("item", i), 1)
								took.Add(int64(time.Since(began)))
							}
						})
					}
					group.Wait()
					b.ReportMetric(float64(took.Load())/float64(b.N)/1e6, "ms/write")
				})
			}
		}
	}
}
