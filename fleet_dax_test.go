package stator

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/server/dax/daxtest"
)

// lostWrites returns the items whose value is smaller than that of the last write that was
// answered.
func lostWrites(s *fleetServer, acknowledged map[string]int64) (lost []string) {
	for pk, v := range acknowledged {
		reply, _ := s.do("GetItem", fmt.Sprintf(`{"TableName":"Items","Key":{"pk":{"S":%q}},"ConsistentRead":true}`, pk))
		if int64(valueIn(reply)) < v {
			lost = append(lost, fmt.Sprintf("%s is %s, but %d was acknowledged", pk, reply, v))
		}
	}
	return lost
}

// The leader of some clients dies without a word while they write. They go on with another
// node, and nothing that was acknowledged is lost.
func TestDAXFailover(t *testing.T) {
	for _, mode := range []CacheMode{CacheDAX, CacheCoherent} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.lease = 2 * time.Second
			const nodes, clients = 3, 6
			listeners, seeds := make([]net.Listener, nodes), make([]string, nodes)
			for i := range listeners {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				listeners[i], seeds[i] = l, l.Addr().String()
			}
			servers, ports := make([]*fleetServer, nodes), make([]*DAX, nodes)
			for i := range servers {
				servers[i] = f.open(NewCache(mode), nil)
				if i == 0 {
					servers[0].createTable()
				}
				var err error
				if ports[i], err = servers[i].db.DAX(DAXOptions{Nodes: slices.Delete(slices.Clone(seeds), i, i+1)}); err != nil {
					t.Fatal(err)
				}
				go func() { _ = ports[i].Serve(listeners[i]) }()
				t.Cleanup(func() { _ = ports[i].Close() })
			}
			var mu sync.Mutex
			acknowledged, at := make(map[string]int64), make(map[string]int)
			var written, after atomic.Int64
			killed := make(chan struct{})
			var running sync.WaitGroup
			for i := range clients {
				running.Go(func() {
					w := &daxtest.Writer{Seeds: seeds}
					defer w.Close()
					pk := fmt.Sprint("client", i)
					for v, more := int64(1), 0; more < 3; v++ {
						isKilled := false
						select {
						case <-killed:
							isKilled = true
						default:
						}
						if err := w.Put("Items", pk, v); err != nil {
							t.Errorf("a write of %s: %v", pk, err)
							return
						}
						if isKilled {
							more++
							after.Add(1)
						}
						mu.Lock()
						acknowledged[pk] = v
						at[w.At]++
						mu.Unlock()
						written.Add(1)
					}
				})
			}
			soon(t, "all clients write", func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) == clients && written.Load() > 30 })
			// kill -9: no message, and nothing that it has begun is stored from now on.
			mu.Lock()
			victim := 0
			for i := range seeds {
				if at[seeds[i]] > at[seeds[victim]] {
					victim = i
				}
			}
			mu.Unlock()
			servers[victim].cable.off.Store(true)
			_ = listeners[victim].Close()
			closed := make(chan struct{})
			go func() { _ = ports[victim].Close(); close(closed) }() // returns when its requests have failed
			close(killed)
			running.Wait()
			other := servers[(victim+1)%nodes]
			t.Logf("%d writes acknowledged, %d of them after the death of a node that has answered %d", written.Load(), after.Load(), at[seeds[victim]])
			if lost := lostWrites(other, acknowledged); len(lost) > 0 || after.Load() < clients {
				t.Errorf("lost: %s; %d writes after the death", strings.Join(lost, "; "), after.Load())
			}
			// The control: a write that is lost is noticed.
			other.do("DeleteItem", `{"TableName":"Items","Key":{"pk":{"S":"client0"}}}`)
			other.put("client1", 0)
			if lost := lostWrites(other, acknowledged); len(lost) != 2 {
				t.Errorf("of two lost writes, these are noticed: %q", lost)
			}
			servers[victim].cable.off.Store(false)
			<-closed
		})
	}
}
