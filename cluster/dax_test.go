//go:build linux && cluster

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/server/dax/daxtest"
)

const daxTable = "Items"

// daxFleet is servers that are the nodes of one DAX cluster, with a table Items.
type daxFleet struct {
	fleet
	nodes []string // the address for clients of DAX of each server
}

func serveDAX(t *testing.T, n int, mode string) daxFleet {
	t.Helper()
	f := daxFleet{nodes: make([]string, n)}
	for i := range f.nodes {
		f.nodes[i] = freeAddress(t)
	}
	f.fleet = serveEach(t, n, engineURL(t), func(i int) []string {
		others := slices.Delete(slices.Clone(f.nodes), i, i+1)
		return []string{"--dax", f.nodes[i], "--dax-mode", mode, "--dax-nodes", strings.Join(others, ",")}
	})
	keyed(t, f.fleet[0], daxTable, nil)
	for i := range f.nodes {
		f.awaitNode(t, i)
	}
	return f
}

// awaitNode returns when a node answers clients of DAX, and uses its cache.
func (f daxFleet) awaitNode(t *testing.T, i int) {
	t.Helper()
	await(t, "the node answers from its cache", func(context.Context) error {
		c, err := daxtest.Dial(f.nodes[i])
		if err != nil {
			return err
		}
		defer c.Close()
		before := f.fleet[i].cacheHits(t)
		for range 2 {
			if _, err := c.Get(daxTable, "nothing"); err != nil {
				return err
			}
		}
		if f.fleet[i].cacheHits(t) == before {
			return fmt.Errorf("node %d has read the table", i)
		}
		return nil
	})
}

// cacheHits returns how many items a server has answered from its cache.
func (s *server) cacheHits(t *testing.T) (n float64) {
	t.Helper()
	reply, err := client.Get(s.address() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "dax_item_cache_hits_total") {
			var v float64
			fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &v)
			n += v
		}
	}
	return n
}

func (f daxFleet) dial(t *testing.T, i int) *daxtest.Conn {
	t.Helper()
	c, err := daxtest.Dial(f.nodes[i])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A coherent cache never returns what was replaced before the read began, whichever process has
// written it. With caches of mode dax, the control, the same load finds that.
func TestCoherentCachesAreNeverStale(t *testing.T) {
	const items, readers, rounds = 6, 4, 40
	for _, mode := range []string{"coherent", "dax"} {
		t.Run(mode, func(t *testing.T) {
			f := serveDAX(t, 3, mode)
			t.Logf("a write of one client, without reads: %v", f.writeTimes(t, 30))
			var acknowledged [items]atomic.Int64
			var took [items][]time.Duration
			var missed atomic.Int64
			var stale, reads atomic.Int64
			stop := make(chan struct{})
			var reading, writing sync.WaitGroup
			for range readers {
				conns := make([]*daxtest.Conn, len(f.nodes))
				for i := range conns {
					conns[i] = f.dial(t, i)
				}
				reading.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						item := rand.N(items)
						least := acknowledged[item].Load()
						v, err := conns[rand.N(len(conns))].Get(daxTable, fmt.Sprint(item))
						if err != nil {
							t.Errorf("a read: %v", err)
							return
						}
						reads.Add(1)
						if v < least {
							stale.Add(1)
						}
					}
				})
			}
			for item := range items {
				writing.Go(func() {
					for v := range int64(rounds) {
						body := object{"TableName": daxTable, "Item": object{"id": str(fmt.Sprint(item)), "v": num(int(v + 1))}}
						began := time.Now()
						if err := f.persist(context.Background(), allTries, "PutItem", body, nil, func(error) { missed.Add(1) }); err != nil {
							t.Errorf("a write: %v", err)
							return
						}
						took[item] = append(took[item], time.Since(began))
						acknowledged[item].Store(v + 1)
						for seen := reads.Load(); reads.Load() < seen+20 && !t.Failed(); time.Sleep(time.Millisecond) {
						}
					}
				})
			}
			writing.Wait()
			close(stop)
			reading.Wait()
			hits := 0.0
			for _, s := range f.fleet {
				hits += s.cacheHits(t)
			}
			t.Logf("%d writes (%v; %d attempts failed), %d reads, %.0f of them from a cache, %d stale",
				items*rounds, quantiles(slices.Concat(took[:]...)), missed.Load(), reads.Load(), hits, stale.Load())
			if hits == 0 {
				t.Error("no read was answered from a cache")
			}
			if isStale := stale.Load() > 0; isStale != (mode == "dax") {
				t.Errorf("%d of %d reads are stale", stale.Load(), reads.Load())
			}
		})
	}
}

// quantiles are durations in order.
type quantiles []time.Duration

func (q quantiles) String() string {
	slices.Sort(q)
	at := func(percent int) time.Duration { return q[len(q)*percent/100].Round(10 * time.Microsecond) }
	return fmt.Sprintf("p50 %v, p90 %v, at most %v", at(50), at(90), q[len(q)-1].Round(10*time.Microsecond))
}

// writeTimes returns how long writes of one client to one server take.
func (f daxFleet) writeTimes(t *testing.T, n int) (took quantiles) {
	t.Helper()
	for i := range n {
		began := time.Now()
		f.fleet[0].must(t, "PutItem", object{"TableName": daxTable, "Item": object{"id": str("one"), "v": num(i)}}, nil)
		took = append(took, time.Since(began))
	}
	return took
}

// The caches of the nodes of a DAX cluster follow each other. The time to live is longer than
// the test waits, so that an entry that is not dropped fails it.
func TestDAXNodesFollow(t *testing.T) {
	const rounds = 60
	f := serveDAX(t, 3, "dax")
	conns := make([]*daxtest.Conn, len(f.nodes))
	for i := range conns {
		conns[i] = f.dial(t, i)
	}
	var took []time.Duration
	for v := range int64(rounds) {
		writer := int(v) % len(conns)
		if err := conns[writer].Put(daxTable, "a", v+1); err != nil {
			t.Fatal(err)
		}
		written := time.Now()
		for i, c := range conns {
			await(t, "the node follows", func(context.Context) error {
				got, err := c.Get(daxTable, "a")
				if err == nil && got != v+1 {
					err = fmt.Errorf("node %d returns %d, written was %d", i, got, v+1)
				}
				return err
			})
			if i != writer {
				took = append(took, time.Since(written))
			}
		}
	}
	slices.Sort(took)
	t.Logf("a node followed after %v (median), %v at most", took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	if median := took[len(took)/2]; median > time.Second {
		t.Errorf("nodes follow each other after %v (median), want a second", median)
	}
}

// Nodes are killed one after another while clients write to the one that they take for the leader. The
// clients go on with another node, and nothing that was acknowledged is lost.
func TestDAXFailover(t *testing.T) {
	const clients, more = 6, 20
	for _, mode := range []string{"dax", "coherent"} {
		t.Run(mode, func(t *testing.T) {
			f := serveDAX(t, 3, mode)
			var mu sync.Mutex
			acknowledged, leaders := make(map[string]int64), make(map[string]int)
			sum := func() (n int64) {
				mu.Lock()
				defer mu.Unlock()
				for v := range maps.Values(acknowledged) {
					n += v
				}
				return n
			}
			stop := make(chan struct{})
			var running sync.WaitGroup
			for i := range clients {
				key := fmt.Sprint("client", i)
				running.Go(func() {
					w := &daxtest.Writer{Seeds: f.nodes}
					defer w.Close()
					for v := int64(1); ; v++ {
						select {
						case <-stop:
							return
						default:
						}
						if err := w.Put(daxTable, key, v); err != nil {
							t.Errorf("a write of %s: %v", key, err)
							return
						}
						mu.Lock()
						acknowledged[key] = v
						leaders[w.At]++
						mu.Unlock()
					}
				})
			}
			progress := func(what string) {
				t.Helper()
				from := sum()
				await(t, what, func(context.Context) error {
					if n := sum() - from; n < clients*more && !t.Failed() {
						return fmt.Errorf("%d writes", n)
					}
					return nil
				})
			}
			for range f.nodes {
				progress("clients write")
				mu.Lock()
				victim := 0
				for i := range f.nodes {
					if leaders[f.nodes[i]] > leaders[f.nodes[victim]] {
						victim = i
					}
				}
				clear(leaders)
				mu.Unlock()
				killed := time.Now()
				f.fleet[victim].kill()
				progress("clients write after the death of their leader")
				t.Logf("%d writes after %v without node %d", clients*more, time.Since(killed).Round(time.Millisecond), victim)
				f.fleet[victim].start()
				f.awaitNode(t, victim)
			}
			close(stop)
			running.Wait()
			t.Logf("%d writes acknowledged", sum())
			if lost := f.lost(t, acknowledged); len(lost) > 0 {
				t.Errorf("lost: %s", strings.Join(lost, "; "))
			}
			// The control: a write that is lost is noticed.
			f.any().must(t, "DeleteItem", object{"TableName": daxTable, "Key": object{"id": str("client0")}}, nil)
			if lost := f.lost(t, acknowledged); len(lost) != 1 {
				t.Errorf("of one lost write, these are noticed: %q", lost)
			}
		})
	}
}

// lost returns the items that do not have the value of the last write that was answered, or a later one.
func (f daxFleet) lost(t *testing.T, acknowledged map[string]int64) (lost []string) {
	t.Helper()
	for key, v := range acknowledged {
		var reply struct{ Item image }
		f.any().must(t, "GetItem", object{"TableName": daxTable, "Key": object{"id": str(key)}, "ConsistentRead": true}, &reply)
		if got := reply.Item.number("v"); int64(got) < v {
			lost = append(lost, fmt.Sprintf("%s is %d, but %d was acknowledged", key, got, v))
		}
	}
	return lost
}

// A GetItem that a node answers from its cache has at most a fifth of the latency of one that is read from the
// cluster over HTTP.
func TestCachedReadsAreFaster(t *testing.T) {
	const blocks, each = 20, 100
	f := serveDAX(t, 1, "dax")
	s := f.fleet[0]
	s.must(t, "PutItem", object{"TableName": daxTable, "Item": object{"id": str("a"), "v": num(1), "x": str(strings.Repeat("x", 1000))}}, nil)
	c := f.dial(t, 0)
	cached := func() error {
		v, err := c.Get(daxTable, "a")
		if err == nil && v != 1 {
			err = fmt.Errorf("the item has %d", v)
		}
		return err
	}
	read := httpReader(t, s, object{"TableName": daxTable, "Key": object{"id": str("a")}})
	var took [2][]time.Duration
	for range blocks {
		for i, do := range []func() error{cached, read} {
			for range each {
				began := time.Now()
				if err := do(); err != nil {
					t.Fatal(err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	at := func(i, percent int) time.Duration { return took[i][len(took[i])*percent/100] }
	t.Logf("cached over DAX: p50 %v, p99 %v; read from the cluster over HTTP: p50 %v, p99 %v", at(0, 50), at(0, 99), at(1, 50), at(1, 99))
	if at(1, 50) < 5*at(0, 50) {
		t.Errorf("a cached read takes %v, one from the cluster %v: less than five times as long", at(0, 50), at(1, 50))
	}
}

// httpReader returns a function that sends a GetItem on a connection of its own, as cheaply as daxtest does over DAX.
func httpReader(t *testing.T, s *server, body object) func() error {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, s.address(), bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	if err := sign(r, nil); err != nil {
		t.Fatal(err)
	}
	var request bytes.Buffer
	if err := r.Write(&request); err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", r.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	in := bufio.NewReader(nc)
	return func() error {
		if _, err := nc.Write(request.Bytes()); err != nil {
			return err
		}
		reply, err := http.ReadResponse(in, r)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(reply.Body)
		if err == nil && !bytes.Contains(text, []byte(`"v"`)) {
			err = fmt.Errorf("%d %s", reply.StatusCode, text)
		}
		return err
	}
}
